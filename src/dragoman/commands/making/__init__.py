"""The public functions that make a model folder from others."""
