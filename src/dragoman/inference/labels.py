"""Labels from logits: calibrated probabilities, and the most likely labels of a sentence that are valid in BIO."""

from typing import NamedTuple

import torch
from torch import Tensor

from dragoman.shapes import Bool, Float, Int
from dragoman.tokenizing.labels import Labels

LOWEST, HIGHEST = 0.05, 20.0
"""Bounds of the temperature."""
HALVINGS = 60
"""Number of bisection steps; 60 reach the precision of float64."""


def fit_temperature(logits: Float[Tensor, "N C"], gold: Int[Tensor, "N"]) -> float:
    """Find the temperature T for which the gold labels are most likely by softmax(logits / T) (Guo et al. 2017, section
    4.2).

    The negative log-likelihood is convex in 1 / T, so its slope is bisected. If all predictions are right, the best T
    would be 0; then return 1.
    """
    logits = logits.double().cpu()
    gold_logits = logits.gather(1, gold.cpu()[:, None])[:, 0]
    if bool((gold_logits >= logits.amax(1)).all()):
        return 1.0
    low, high = 1 / HIGHEST, 1 / LOWEST
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5
        slope = ((logits * middle).softmax(1) * logits).sum(1).mean() - gold_logits.mean()
        low, high = (low, middle) if slope > 0 else (middle, high)
    return 1 / (low * high) ** 0.5


def expected_calibration_error(probabilities: Float[Tensor, "N C"], gold: Int[Tensor, "N"], bins: int = 15) -> float:
    """Compute the mean gap between confidence and accuracy over `bins` equal intervals (Guo et al. 2017, eq. 3)."""
    assert len(gold), "without examples there is no error"
    confidence, predicted = probabilities.double().max(1)
    right = (predicted == gold).double()
    number = (confidence * bins).ceil().long().clamp(1, bins) - 1
    surplus = torch.zeros(bins, dtype=torch.float64).index_add_(0, number, confidence - right)
    return float(surplus.abs().sum() / len(gold))


IMPOSSIBLE = -1e6
"""Minimum log-probability of an allowed label, so that it ranks above forbidden ones even if its probability is 0."""


class Transitions(NamedTuple):
    """The valid sequences of C labels."""

    first: Bool[Tensor, "C"]
    """True if a sentence may begin with the label."""
    following: Bool[Tensor, "C C"]
    """True if the label of the column may follow the label of the row."""

    @classmethod
    def of(cls, labels: Labels) -> "Transitions | None":
        """Return the sequences that BIO allows: I-x follows only B-x or I-x. None if the labels are not BIO."""
        if not labels.bio:
            return None
        begins = [not name.startswith("I-") for name in labels.names]
        kinds = [name[2:] for name in labels.names]  # empty for O
        continues = [[bool(kind) and kind == before for kind in kinds] for before in kinds]
        return cls(torch.tensor(begins), torch.tensor(continues) | torch.tensor(begins))


def best_labels(log_probs: Float[Tensor, "W C"], transitions: Transitions | None) -> list[int]:
    """Return the ids of W words' most likely labels from log-probabilities or logits, valid by `transitions` if any."""
    best = log_probs.argmax(1)
    if transitions is None or _allowed(best, transitions):
        return best.tolist()
    return _viterbi(log_probs.double().cpu().clamp(min=IMPOSSIBLE), transitions)


def _allowed(ids: Tensor, transitions: Transitions) -> bool:
    ids = ids.cpu()
    return bool(transitions.first[ids[:1]].all() and transitions.following[ids[:-1], ids[1:]].all())


def _viterbi(log_probs: Float[Tensor, "W C"], transitions: Transitions) -> list[int]:
    """Find the best valid sequence by the algorithm of Viterbi (1967)."""
    penalty = torch.zeros(transitions.following.shape, dtype=torch.float64)
    penalty[~transitions.following] = -torch.inf
    score = log_probs[0].masked_fill(~transitions.first, -torch.inf)
    parents: list[Tensor] = []
    for row in log_probs[1:]:
        best, parent = (score[:, None] + penalty).max(0)
        score = best + row
        parents.append(parent)
    ids = [int(score.argmax())]
    for parent in reversed(parents):
        ids.append(int(parent[ids[-1]]))
    return ids[::-1]
