"""Text to labels, and masked words to words: what a model with an encoder alone predicts. Start with `predictor`."""
