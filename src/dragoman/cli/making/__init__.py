"""Commands that make a model folder from others."""
