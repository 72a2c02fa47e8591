"""Encoded corpora on disk, and batches of ids. Start with `corpus`, then `batching`."""
