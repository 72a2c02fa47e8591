"""What a run is: its folder, data, trial, session, validation and metrics. Start with `session`."""
