"""Commands that only look: at the machine, runs, settings, and inside models."""
