"""Changes to a model before the one loop trains it."""
