"""How far two ways to rank the same words agree: Kendall's tau, and its mean over many rankings."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from dragoman.evaluating.metrics import SAMPLES, SEED, interval

Numbers = NDArray[np.float64]


class Mean(NamedTuple):
    """A mean over `count` numbers, and its 95 % interval (bootstrap)."""

    mean: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float] | Numbers) -> "Mean":
        """The mean of numbers, of which there must be one."""
        numbers = np.asarray(values, dtype=np.float64)
        drawn = np.random.default_rng(SEED).choice(numbers, (SAMPLES, len(numbers))).mean(1)
        return cls(float(numbers.mean()), *interval(drawn), len(numbers))


def kendall(first: Sequence[float] | Numbers, second: Sequence[float] | Numbers) -> float | None:
    """Kendall's tau-b: pairs in the same order minus pairs in opposite order, as a share of the pairs without ties.

    1 is the same ranking, -1 the opposite one. None if all numbers of a ranking are equal.

    >>> kendall([1, 2, 3], [10, 30, 20])
    0.3333333333333333
    """
    a, b = (np.sign(np.subtract.outer(x, x)) for x in (np.asarray(first), np.asarray(second)))
    untied = float((a * a).sum()), float((b * b).sum())
    return float((a * b).sum() / np.sqrt(untied[0] * untied[1])) if all(untied) else None


def agreement(first: Float[Tensor, "T W"], second: Float[Tensor, "T W"]) -> list[float]:
    """Kendall's tau between two rankings of W words, for each of T output words in which both rank them."""
    rows = zip(first.double().cpu().numpy(), second.double().cpu().numpy(), strict=True)
    return [tau for each in rows if (tau := kendall(*each)) is not None]
