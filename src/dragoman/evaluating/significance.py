"""Significance tests: is one system better than another on the same test set?

Two runs are compared by approximate randomisation, as in the `sacrebleu` command (`--paired-ar`), with the same seed;
the interval of the difference is from the paired bootstrap (Koehn 2004).

Systems trained with several seeds each are compared by a test of whether the difference would appear again with other
seeds and other sentences. It adds two variances: that of the seeds' scores (Welch 1947), and that of the mean
difference over the test set by the paired bootstrap. Changes of single sentences between seeds are counted in both, so
the test is conservative. Degrees of freedom are Satterthwaite's (1946), from the seeds only, because there are many
sentences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any, NamedTuple, Protocol, Self, TypeVar, Unpack

import numpy as np

from dragoman.errors import ConfigError, DataError
from dragoman.evaluating.metrics import (
    SAMPLES,
    SEED,
    Array,
    LineStatistics,
    Measures,
    References,
    Score,
    build_metrics,
    checked,
    interval,
    not_comparable,
    printed,
    statistics,
    summary,
)

RANDOMISATION = "randomisation"
SEEDS = "seeds"
"""Names of the two tests."""
TRIALS = 10_000
LEVEL = 0.05
"""A difference is significant if its p-value is lower than this."""
MANY = 10_000.0
"""With more degrees of freedom, Student's distribution is practically normal."""


@dataclass(frozen=True)
class Comparison:
    """Comparison of two systems on one test set by one metric. `delta` is the first score minus the second."""

    metric: str
    names: tuple[str, str]
    values: tuple[float, float]
    delta: float
    low: float
    high: float
    """Ends of the 95 % interval of `delta`."""
    p_value: float
    test: str
    samples: int
    signature: str

    @property
    def better(self) -> str | None:
        """The name of the better system; None if no difference can be shown."""
        if self.p_value >= LEVEL or self.delta == 0:
            return None
        return self.names[0] if (self.delta > 0) != (self.metric == "TER") else self.names[1]

    def __str__(self) -> str:
        units = "seeds" if self.test == SEEDS else "paired randomisations"
        p_value = f"= {self.p_value:.4f}".rstrip("0").rstrip(".") if self.p_value >= 0.00005 else "< 0.0001"
        evidence = f"p {p_value}, {self.samples:,} {units}"
        points = f"{printed(self.metric, abs(self.delta))} {self.metric}"
        if self.better is None:
            return f"no difference between {self.names[0]} and {self.names[1]} can be shown: {points} ({evidence})"
        worse = self.names[1] if self.better == self.names[0] else self.names[0]
        return f"{self.better} is better than {worse} by {points} ({evidence})"


class Comparable(Protocol):
    """Evaluation of any task, as comparisons use it."""

    @property
    def system(self) -> str: ...
    @property
    def test_name(self) -> str: ...
    @property
    def test_identity(self) -> object:
        """A value that is equal for equal test sets."""
        ...

    @classmethod
    def line_statistics(cls, evaluations: Sequence[Self]) -> list[dict[str, LineStatistics]]:
        """Return the statistics of each metric for each system, all with the same columns."""
        ...


AnyEvaluation = TypeVar("AnyEvaluation", bound=Comparable)


def compare_systems(
    first: Sequence[AnyEvaluation],
    second: Sequence[AnyEvaluation],
    *,
    names: tuple[str, str] | None = None,
    metrics: Sequence[str] | None = None,
    samples: int = TRIALS,
) -> dict[str, Comparison]:
    """Test, metric by metric, if one of two systems is better on a test set; each has one run or one for each seed.

    All shared metrics are compared, unless some are named.

    Raises:
        DataError: they were not all evaluated on the same test set.
        ConfigError: only one of them has several seeds.
    """
    evaluations = [*first, *second]
    reference = first[0]
    for evaluation in evaluations[1:]:
        if reference.test_identity != evaluation.test_identity:
            raise DataError(
                f"{reference.system} was evaluated on {reference.test_name} and {evaluation.system} on "
                f"{evaluation.test_name}; only systems on the same test set can be compared"
            )
    names = names or (reference.system, second[0].system)
    runs = reference.line_statistics(evaluations)
    groups = runs[: len(first)], runs[len(first) :]
    return {
        metric: compare_counts([[run[metric] for run in group] for group in groups], names, samples)
        for metric in metrics or runs[0]
    }


def compare_outputs(
    first: Sequence[str] | Sequence[Sequence[str]],
    second: Sequence[str] | Sequence[Sequence[str]],
    references: References,
    *,
    names: tuple[str, str] = ("the first", "the second"),
    samples: int = TRIALS,
    **measures: Unpack[Measures],
) -> dict[str, Comparison]:
    """Compare two systems that translated the same lines, metric by metric, with `samples` trials of the test.

    Each system has one list of translations, or one for each seed.
    """
    groups: list[Any] = [[system] if isinstance(system[0], str) else system for system in (first, second)]
    rows, *_ = [checked(outputs, references) for group in groups for outputs in group]
    return {
        name: compare_counts(
            [[statistics(metric, outputs, rows) for outputs in group] for group in groups], names, samples
        )
        for name, metric in build_metrics(**measures).items()
    }


def compare_counts(groups: Sequence[Sequence[LineStatistics]], names: tuple[str, str], samples: int) -> Comparison:
    """Compare two systems by the statistics of one metric; each has one run or one for each seed."""
    counts = len(groups[0]), len(groups[1])
    if counts != (1, 1):
        check_seeds(counts, names)
        return _compare_seeds(groups, names)
    (first,), (second,) = groups
    score, second_score = (summary(statistics, samples=0) for statistics in (first, second))
    low, high = interval(first.resampled() - second.resampled())
    return Comparison(
        metric=score.name,
        names=names,
        values=(score.value, second_score.value),
        delta=score.value - second_score.value,
        low=low,
        high=high,
        p_value=randomisation_p_value(first, second, samples),
        test=RANDOMISATION,
        samples=samples,
        signature=first.signature(bs=SAMPLES, ar=samples, seed=SEED),
    )


def check_seeds(seeds: tuple[int, int], names: tuple[str, str]) -> None:
    """Check that both systems have several seeds.

    Raises:
        ConfigError: one of the systems has fewer than two seeds.
    """
    if min(seeds) < 2:
        raise ConfigError(
            f"the spread of seeds needs two runs of each system, but {names[0]} has {seeds[0]} and {names[1]} "
            f"{seeds[1]}"
        )


def randomisation_p_value(first: LineStatistics, second: LineStatistics, trials: int) -> float:
    """Return the two-sided p-value of approximate randomisation.

    It is the share of trials with randomly exchanged lines in which the systems differ at least as much. A trial that
    differs equally counts (Edgington 1969). The `sacrebleu` command does not count it, and so reports two systems
    that differ in a single line as different with p = 1 / (trials + 1).
    """
    real = _distance(first, first.total[None], second.total[None])[0]
    # Equal sums may differ in their last bits, because the order of addition differs.
    at_least = exchanged_distances(first, second, trials) >= real - 1e-9
    return (int(at_least.sum()) + 1) / (trials + 1)


def exchanged_distances(first: LineStatistics, second: LineStatistics, trials: int) -> Array:
    """Return the distance between the two scores in each trial; lines are exchanged with probability 1/2."""
    total, surplus = first.total + second.total, first.lines - second.lines
    distances, random = [], np.random.default_rng(SEED)
    # Blocks of 32 trials save memory and draw the same coins as one large draw, because NumPy takes 32 of them from one
    # random word.
    for start in range(0, trials, 32):
        coins = random.integers(2, size=(min(32, trials - start), len(surplus)), dtype=bool)
        # One system has the lines of the second, replaced by those of the first where the coin is 1.
        exchanged = second.total + coins @ surplus
        distances.append(_distance(first, exchanged, total - exchanged))
    return np.concatenate(distances)


def _distance(statistics: LineStatistics, first: Array, second: Array) -> Array:
    return np.abs(statistics.scores(first) - statistics.scores(second))


class Student(NamedTuple):
    """Student's t distribution: `freedom` degrees, at least 1."""

    freedom: float

    def two_sided(self, t: float) -> float:
        """Return the probability of a value at least as far from zero as `t`.

        >>> round(Student(4).two_sided(2.776), 3)
        0.05
        """
        angles, reached = self._angles()
        return float(1 - np.interp(math.atan(abs(t) / math.sqrt(self.freedom)), angles, reached))

    def within(self, share: float) -> float:
        """Return the distance from zero within which this `share` of all values lies.

        >>> round(Student(4).within(0.95), 3)
        2.776
        """
        angles, reached = self._angles()
        return math.sqrt(self.freedom) * math.tan(float(np.interp(share, reached, angles)))

    def _angles(self) -> tuple[Array, Array]:
        """Return angles and the cumulative distribution of their size.

        With t = sqrt(freedom) tan(angle), the density is cos(angle) ^ (freedom - 1) on a finite interval.
        """
        angles = np.linspace(0, math.pi / 2, 200_001)
        density = np.cos(angles) ** (self.freedom - 1)
        reached = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
        return angles, reached / reached[-1]


def _compare_seeds(groups: Sequence[Sequence[LineStatistics]], names: tuple[str, str]) -> Comparison:
    scores = [np.array([run.scores(run.total[None])[0] for run in group]) for group in groups]
    resampled = [np.mean([run.resampled() for run in group], axis=0) for group in groups]
    values = float(scores[0].mean()), float(scores[1].mean())
    delta = values[0] - values[1]
    counts = [len(group) for group in groups]
    seed_variances = [float(group.var(ddof=1)) / len(group) for group in scores]
    variance = sum(seed_variances) + float((resampled[0] - resampled[1]).var(ddof=1))
    denominator = sum(part**2 / (count - 1) for part, count in zip(seed_variances, counts, strict=True))
    student = Student(min(MANY, variance**2 / denominator) if denominator else MANY)
    half_width = student.within(1 - LEVEL) * math.sqrt(variance)
    run = groups[0][0]
    return Comparison(
        metric=summary(run, samples=0).name,
        names=names,
        values=values,
        delta=delta,
        low=delta - half_width,
        high=delta + half_width,
        p_value=student.two_sided(delta / math.sqrt(variance)) if variance else float(delta == 0),
        test=SEEDS,
        samples=sum(counts),
        signature=run.signature(bs=SAMPLES, seed=SEED),
    )


@dataclass(frozen=True)
class SeedScores:
    """Scores of several runs that differ only by their seeds, by one metric on one test set."""

    test: str
    scores: Sequence[Score]

    @property
    def mean(self) -> float:
        return mean(score.value for score in self.scores)

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the scores; None for a single run."""
        values = [score.value for score in self.scores]
        return stdev(values) if len(values) > 1 else None

    def __str__(self) -> str:
        """Return `BLEU 38.2 ± 0.3 (38.0, 38.1, 38.5; mean and standard deviation of 3 seeds) SIGNATURE`."""
        name = self.scores[0].name
        values = ", ".join(score.printed for score in self.scores)
        if differences := not_comparable(self.scores):
            return f"{name} {values}: not comparable, because they were counted in different ways ({differences})"
        deviation = "" if self.deviation is None else f" ± {printed(name, self.deviation)}"
        details = f"{values}; mean and standard deviation of {len(self.scores)} seeds"
        return f"{name} {printed(name, self.mean)}{deviation} ({details}) {self.scores[0].signature}"
