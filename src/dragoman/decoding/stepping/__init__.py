"""What a search needs of a model: `stepper` and `step` say what, `model_stepper` is that of PyTorch."""
