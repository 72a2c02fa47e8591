"""What a run should be and is: recipe, choices, task, folder, trial, session, metrics. Start with `train`."""
