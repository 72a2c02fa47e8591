"""From the scores of labels to labels: calibrated probabilities, and the best sequence that is valid."""
