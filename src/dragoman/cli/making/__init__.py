"""The commands that make a model folder from others."""
