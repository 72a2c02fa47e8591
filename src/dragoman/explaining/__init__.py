"""Seeing inside a model: what happened in one translation, and what a model has learned. Start with `recording`."""
