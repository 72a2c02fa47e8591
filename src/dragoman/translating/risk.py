"""Minimum Bayes risk: of all that a model draws, what is most like everything it draws (Eikema and Aziz 2020).

Likeness is the sentence chrF of sacreBLEU (Popović 2015: characters without spaces, n-grams up to 6, beta 2), counted
for all pairs of texts at once.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from dragoman.decoding.hypothesis import Hypothesis

_LONGEST_NGRAM = 6
_BETA = 2.0


class Rated(NamedTuple):
    """A hypothesis and what it is chosen by; more is better."""

    value: float
    hypothesis: Hypothesis


def least_risk(samples: Sequence[Hypothesis], text: Callable[[Sequence[int]], str]) -> list[Rated]:
    """One sample of each different text with its mean chrF against all samples, the best first.

    Of samples with the same text the likeliest stands for them; of texts with the same value the likeliest comes first.
    """
    texts = [text(each.tokens) for each in samples]
    times = Counter(texts)
    likeliest = dict(sorted(zip(texts, samples, strict=True), key=lambda pair: pair[1].total))
    values = chrf(list(times)) @ np.array([*times.values()]) / len(samples)
    rated = [Rated(value, likeliest[text]) for text, value in zip(times, values.tolist(), strict=True)]
    return sorted(rated, key=lambda each: (-each.value, -each.hypothesis.total))


def chrf(texts: Sequence[str]) -> Float[np.ndarray, "N N"]:
    """The chrF of each text (row), 0 to 100, with each text (column) as its reference."""
    bare = ["".join(text.split()) for text in texts]
    precision, recall, orders = (np.zeros((len(bare), len(bare))) for _ in range(3))
    for n in range(1, _LONGEST_NGRAM + 1):
        shared = _shared_ngrams(bare, n)
        count = shared.diagonal()
        both = (count[:, None] > 0) & (count > 0)  # an order that one text is too short for counts for neither
        precision += np.divide(shared, count[:, None], where=both, out=np.zeros_like(shared))
        recall += np.divide(shared, count, where=both, out=np.zeros_like(shared))
        orders += both
    precision, recall = (each / np.maximum(orders, 1) for each in (precision, recall))
    weighed = _BETA**2 * precision + recall
    return 100 * (1 + _BETA**2) * precision * recall / np.where(weighed > 0, weighed, 1)


def _shared_ngrams(texts: Sequence[str], n: int) -> Float[np.ndarray, "N N"]:
    """How many n-grams each two texts share; each with itself, how many it has.

    The first "e" of a text, its second and so on are things of their own, which a text has or has not. So the sum over
    n-grams of the smaller count is a product of matrices of ones and zeros.
    """
    column: dict[tuple[str, int], int] = {}
    columns: list[list[int]] = []
    for text in texts:
        seen: Counter[str] = Counter()
        columns.append([])
        for first in range(len(text) - n + 1):
            ngram = text[first : first + n]
            seen[ngram] += 1
            columns[-1].append(column.setdefault((ngram, seen[ngram]), len(column)))
    has = np.zeros((len(texts), len(column)), np.float32)
    for row, own in zip(has, columns, strict=True):
        row[own] = 1
    return (has @ has.T).astype(np.float64)
