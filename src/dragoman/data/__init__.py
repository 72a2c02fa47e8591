"""Ids on disk, and ids in batches. Start with `corpus`, then `batching`."""
