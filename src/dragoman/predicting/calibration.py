"""Probabilities that mean what they say: a temperature chosen on held-out text, and how far they are off."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

LOWEST, HIGHEST = 0.05, 20.0
"""Bounds of the temperature."""
HALVINGS = 60
"""Each halves the interval that holds the best temperature; 60 leave nothing of it in float64."""


def fit_temperature(logits: Float[Tensor, "N C"], gold: Int[Tensor, "N"]) -> float:
    """The temperature T for which softmax(logits / T) makes the gold labels likeliest (Guo et al. 2017, section 4.2).

    The negative log-likelihood is convex in 1 / T, so its slope is bisected. If every label is right there is no best
    temperature, because any lower one is likelier still; the answer is then 1.
    """
    logits = logits.double().cpu()
    of_gold = logits.gather(1, gold.cpu()[:, None])[:, 0]
    if bool((of_gold >= logits.amax(1)).all()):
        return 1.0
    low, high = 1 / HIGHEST, 1 / LOWEST
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5
        slope = ((logits * middle).softmax(1) * logits).sum(1).mean() - of_gold.mean()
        low, high = (low, middle) if slope > 0 else (middle, high)
    return 1 / (low * high) ** 0.5


def expected_calibration_error(probabilities: Float[Tensor, "N C"], gold: Int[Tensor, "N"], bins: int = 15) -> float:
    """How far the highest probability is from the share of right labels, on average (Guo et al. 2017, eq. 3).

    Examples are binned by their highest probability, in `bins` stretches of equal width, each open below.
    """
    assert len(gold), "without examples there is no error"
    confidence, found = probabilities.double().max(1)
    right = (found == gold).double()
    number = (confidence * bins).ceil().long().clamp(1, bins) - 1
    surplus = torch.zeros(bins, dtype=torch.float64).index_add_(0, number, confidence - right)
    return float(surplus.abs().sum() / len(gold))
