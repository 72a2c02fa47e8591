"""Evaluation of models: scores with signatures, significance tests, speed. Start with `evaluation`."""
