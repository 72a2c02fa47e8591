"""Is one system better than another if each was trained from several seeds? A test of the difference.

It asks whether the difference would appear again with other seeds and other sentences. It adds two variances: that of
the seeds' scores (Welch 1947), and that of the mean difference over the test set by the paired bootstrap (Koehn 2004).
What the seeds change sentence by sentence is in both, so the test is conservative. Degrees of freedom are
Satterthwaite's (1946), and count the seeds alone, because sentences are many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Unpack

import numpy as np

from dragoman.errors import ConfigError
from dragoman.evaluating.metrics import (
    SAMPLES,
    SEED,
    Array,
    Measures,
    References,
    Statistics,
    build_metrics,
    checked,
    statistics,
    summary,
)
from dragoman.evaluating.significance import LEVEL, SEEDS, Comparison

MANY = 10_000.0
"""With more degrees of freedom, Student's distribution is practically normal."""


class Student(NamedTuple):
    """Student's t distribution: `freedom` degrees, at least 1."""

    freedom: float

    def two_sided(self, t: float) -> float:
        """The probability of a value at least as far from zero as `t`.

        >>> round(Student(4).two_sided(2.776), 3)
        0.05
        """
        angles, reached = self._angles()
        return float(1 - np.interp(math.atan(abs(t) / math.sqrt(self.freedom)), angles, reached))

    def within(self, share: float) -> float:
        """The distance from zero within which this `share` of all values lies.

        >>> round(Student(4).within(0.95), 3)
        2.776
        """
        angles, reached = self._angles()
        return math.sqrt(self.freedom) * math.tan(float(np.interp(share, reached, angles)))

    def _angles(self) -> tuple[Array, Array]:
        """With t = sqrt(freedom) tan(angle) the density is cos(angle) ^ (freedom - 1), on a finite stretch."""
        angles = np.linspace(0, math.pi / 2, 200_001)
        density = np.cos(angles) ** (self.freedom - 1)
        reached = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
        return angles, reached / reached[-1]


def compare_groups(
    first: Sequence[Sequence[str]],
    second: Sequence[Sequence[str]],
    references: References,
    *,
    names: tuple[str, str] = ("the first", "the second"),
    **measures: Unpack[Measures],
) -> dict[str, Comparison]:
    """Compares the translations of two systems, a list of lines for each seed, metric by metric.

    Raises:
        DataError: a list is not aligned with the references.
        ConfigError: one of the systems has fewer than two seeds; an unknown metric or tokenizer.
    """
    check_seeds((len(first), len(second)), names)
    rows, *_ = [checked(outputs, references) for outputs in (*first, *second)]
    return {
        name: compare_group_counts(
            [[statistics(metric, outputs, rows) for outputs in group] for group in (first, second)], names
        )
        for name, metric in build_metrics(**measures).items()
    }


def check_seeds(seeds: tuple[int, int], names: tuple[str, str]) -> None:
    """Checks that both systems have a spread of seeds.

    Raises:
        ConfigError: one of the systems has fewer than two seeds.
    """
    if min(seeds) < 2:
        raise ConfigError(
            f"the spread of seeds takes two runs of each system, but {names[0]} has {seeds[0]} and {names[1]} "
            f"{seeds[1]}"
        )


def compare_group_counts(groups: Sequence[Sequence[Statistics]], names: tuple[str, str]) -> Comparison:
    """Compares what one metric counted for two systems, line by line, for each of at least two seeds."""
    scores = [np.array([counted.scores(counted.total[None])[0] for counted in group]) for group in groups]
    resampled = [np.mean([counted.resampled() for counted in group], axis=0) for group in groups]
    values = float(scores[0].mean()), float(scores[1].mean())
    delta = values[0] - values[1]
    of_seeds = [float(each.var(ddof=1)) / len(each) for each in scores]
    variance = sum(of_seeds) + float((resampled[0] - resampled[1]).var(ddof=1))
    student = Student(_freedom(variance, of_seeds, [len(each) for each in scores]))
    reach = student.within(1 - LEVEL) * math.sqrt(variance)
    one = groups[0][0]
    return Comparison(
        metric=summary(one, samples=0).name,
        names=names,
        values=values,
        delta=delta,
        low=delta - reach,
        high=delta + reach,
        p_value=student.two_sided(delta / math.sqrt(variance)) if variance else float(delta == 0),
        test=SEEDS,
        samples=sum(map(len, scores)),
        signature=one.signature(bs=SAMPLES, seed=SEED),
    )


def _freedom(variance: float, of_seeds: Sequence[float], counts: Sequence[int]) -> float:
    spread = sum(part**2 / (count - 1) for part, count in zip(of_seeds, counts, strict=True))
    return min(MANY, variance**2 / spread) if spread else MANY
