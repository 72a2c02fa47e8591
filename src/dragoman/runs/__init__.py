"""What a run is: its facts, data, trial, session and metrics. Start with `session`."""
