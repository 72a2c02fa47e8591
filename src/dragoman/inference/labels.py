"""Labels from logits: calibrated probabilities, and the best labels of a sentence, for BIO labels the best valid."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.tokenizing.labels import Labels

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
    """How far the highest probability is from the share of right labels, on average (Guo et al. 2017, eq. 3).

    Examples are binned by their highest probability, in `bins` stretches of equal width, each open below.
    """
    assert len(gold), "without examples there is no error"
    confidence, likeliest = probabilities.double().max(1)
    right = (likeliest == gold).double()
    number = (confidence * bins).ceil().long().clamp(1, bins) - 1
    surplus = torch.zeros(bins, dtype=torch.float64).index_add_(0, number, confidence - right)
    return float(surplus.abs().sum() / len(gold))


IMPOSSIBLE = -1e6
"""A label of probability 0 is still allowed, so it must rank above labels that the scheme forbids."""


class Transitions(NamedTuple):
    """Which of C labels may begin a sentence, and which may follow which."""

    first: Bool[Tensor, "C"]
    following: Bool[Tensor, "C C"]
    """Whether the label of the column may follow that of the row."""

    @classmethod
    def of(cls, labels: Labels) -> "Transitions | None":
        """In BIO, I-x follows only B-x or I-x. None if the labels are not BIO: then anything may follow."""
        if not labels.bio:
            return None
        begins = [not name.startswith("I-") for name in labels.names]
        kinds = [name[2:] for name in labels.names]  # of O it is empty, and equals no other
        continues = [[bool(kind) and kind == before for kind in kinds] for before in kinds]
        return cls(torch.tensor(begins), torch.tensor(continues) | torch.tensor(begins))


def best_labels(log_probs: Float[Tensor, "W C"], transitions: Transitions | None) -> list[int]:
    """The ids of the likeliest labels of W words, in any order or in an allowed one. Logits do as log-probabilities do:
    adding a number to all labels of a word changes nothing.

    The likeliest labels of the words alone are the answer wherever they are allowed: only other sentences are searched.
    """
    best = log_probs.argmax(1)
    if transitions is None or _allowed(best, transitions):
        return best.tolist()
    return _viterbi(log_probs.double().cpu().clamp(min=IMPOSSIBLE), transitions)


def _allowed(ids: Tensor, transitions: Transitions) -> bool:
    ids = ids.cpu()
    return bool(transitions.first[ids[:1]].all() and transitions.following[ids[:-1], ids[1:]].all())


def _viterbi(log_probs: Float[Tensor, "W C"], transitions: Transitions) -> list[int]:
    """Viterbi (1967): the best way to each label of each word, from the best ways to the labels of the word before."""
    closed = torch.zeros(transitions.following.shape, dtype=torch.float64)
    closed[~transitions.following] = -torch.inf
    score = log_probs[0].masked_fill(~transitions.first, -torch.inf)
    parents: list[Tensor] = []
    for row in log_probs[1:]:
        best, parent = (score[:, None] + closed).max(0)
        score = best + row
        parents.append(parent)
    ids = [int(score.argmax())]
    for parent in reversed(parents):
        ids.append(int(parent[ids[-1]]))
    return ids[::-1]
