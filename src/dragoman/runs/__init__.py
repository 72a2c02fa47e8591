"""Runs: recipe, choices with reasons, one class a task, session, trial. Start with `train`."""
