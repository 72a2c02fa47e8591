<<<<<<< HEAD
"""Text to labels, and masked words to words: what a model with an encoder alone predicts. Start with `predictor`."""
=======
"""From the scores of labels to labels: calibrated probabilities, and the best sequence that is valid."""
>>>>>>> scoring
