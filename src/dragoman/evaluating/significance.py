"""Is one system significantly better than another on the same test set? A test, and the answer in a sentence.

Two runs are compared by approximate randomisation, as in the `sacrebleu` command (`--paired-ar`), with the same seed;
the interval of the difference comes from the paired bootstrap (Koehn 2004).

Systems that were trained from several seeds each are compared by a test that asks whether the difference would appear
again with other seeds and other sentences. It adds two variances: that of the seeds' scores (Welch 1947), and that of
the mean difference over the test set by the paired bootstrap. What the seeds change sentence by sentence is in both, so
the test is conservative. Degrees of freedom are Satterthwaite's (1946), and count the seeds alone, because sentences
are many.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any, NamedTuple, Protocol, Self, TypeVar, Unpack

import numpy as np

from dragoman.errors import ConfigError, DataError
from dragoman.evaluating.metrics import (
    SAMPLES,
    SEED,
    Array,
    Measures,
    References,
    Score,
    Statistics,
    build_metrics,
    checked,
    interval,
    not_comparable,
    statistics,
    summary,
)

RANDOMISATION = "randomisation"
SEEDS = "seeds"
"""The names of the two tests."""
TRIALS = 10_000
LEVEL = 0.05
"""A difference is significant if its p-value is lower than this."""
MANY = 10_000.0
"""With more degrees of freedom, Student's distribution is practically normal."""


@dataclass(frozen=True)
class Comparison:
    """Two systems on one test set by one metric. `delta` is the score of the first minus that of the second."""

    metric: str
    names: tuple[str, str]
    values: tuple[float, float]
    delta: float
    low: float
    high: float
    """The ends of the 95 % interval of `delta`."""
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
        evidence = f"p {_digits(self.p_value)}, {self.samples:,} {units}"
        points = f"{abs(self.delta):.1f} {self.metric}"
        if self.better is None:
            return f"no difference between {self.names[0]} and {self.names[1]} can be shown: {points} ({evidence})"
        other = self.names[1] if self.better == self.names[0] else self.names[0]
        return f"{self.better} is better than {other} by {points} ({evidence})"


class Evaluated(Protocol):
    """An evaluation of any task, as far as comparisons need it."""

    @property
    def system(self) -> str: ...
    @property
    def test_name(self) -> str: ...
    @property
    def test_identity(self) -> object:
        """Equal for the same test set."""
        ...

    @classmethod
    def counted(cls, evaluations: Sequence[Self]) -> list[dict[str, Statistics]]:
        """What each metric counted for each system, all in the same way."""
        ...


AnEvaluation = TypeVar("AnEvaluation", bound=Evaluated)


def compare_systems(
    first: Sequence[AnEvaluation],
    second: Sequence[AnEvaluation],
    *,
    names: tuple[str, str] | None = None,
    metrics: Sequence[str] | None = None,
    samples: int = TRIALS,
) -> dict[str, Comparison]:
    """Tests, metric by metric, whether one of two systems is better on a test set: a run of each, or one for each seed.

    Takes all metrics that they have, unless some are named.

    Raises:
        DataError: they were not all evaluated on the same test set.
        ConfigError: only one of them has several seeds.
    """
    evaluations = [*first, *second]
    for other in evaluations[1:]:
        if first[0].test_identity != other.test_identity:
            raise DataError(
                f"{first[0].system} was evaluated on {first[0].test_name} and {other.system} on {other.test_name}; "
                "only systems on the same test set can be compared"
            )
    names = names or (first[0].system, second[0].system)
    counted = first[0].counted(evaluations)
    groups = counted[: len(first)], counted[len(first) :]
    return {
        metric: compare_counts([[each[metric] for each in group] for group in groups], names, samples)
        for metric in metrics or counted[0]
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
    """Compares two systems that translated the same lines, metric by metric, with `samples` trials of the test. Each
    gave one list of translations, or one for each seed.
    """
    groups: list[Any] = [[each] if isinstance(each[0], str) else each for each in (first, second)]
    rows, *_ = [checked(outputs, references) for group in groups for outputs in group]
    return {
        name: compare_counts(
            [[statistics(metric, outputs, rows) for outputs in group] for group in groups], names, samples
        )
        for name, metric in build_metrics(**measures).items()
    }


def compare_counts(groups: Sequence[Sequence[Statistics]], names: tuple[str, str], samples: int) -> Comparison:
    """Compares what one metric counted, line by line, for two systems: of one run each, or of one for each seed."""
    first, second = groups
    if len(first) == len(second) == 1:
        return _compare_runs(first[0], second[0], names, samples)
    check_seeds((len(first), len(second)), names)
    return _compare_seeds(groups, names)


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


def _compare_runs(first: Statistics, second: Statistics, names: tuple[str, str], samples: int) -> Comparison:
    one, other = (summary(counted, samples=0) for counted in (first, second))
    low, high = interval(first.resampled() - second.resampled())
    return Comparison(
        metric=one.name,
        names=names,
        values=(one.value, other.value),
        delta=one.value - other.value,
        low=low,
        high=high,
        p_value=randomisation_p_value(first, second, samples),
        test=RANDOMISATION,
        samples=samples,
        signature=first.signature(bs=SAMPLES, ar=samples, seed=SEED),
    )


def randomisation_p_value(first: Statistics, second: Statistics, trials: int) -> float:
    """Approximate randomisation: how often do systems that swap lines at random differ as much as these? Two-sided.

    A trial that differs exactly as much counts (Edgington 1969). The `sacrebleu` command does not count it, and so
    reports two systems that differ in a single line as different with p = 1 / (trials + 1).
    """
    real = _distance(first, first.total[None], second.total[None])[0]
    # Equal sums may differ in their last bits, because they were added in another order.
    as_much = exchanged_distances(first, second, trials) >= real - 1e-9
    return (int(as_much.sum()) + 1) / (trials + 1)


def exchanged_distances(first: Statistics, second: Statistics, trials: int) -> Array:
    """The distance between the two scores in each trial, in which a coin toss exchanges each line or leaves it."""
    both, surplus = first.total + second.total, first.lines - second.lines
    distances = []
    for coins in _coins(trials, len(surplus)):
        # One system has the lines of the second, and those of the first where its coin fell so; the other has the rest.
        one = second.total + coins @ surplus
        distances.append(_distance(first, one, both - one))
    return np.concatenate(distances)


def _distance(statistic: Statistics, one: Array, other: Array) -> Array:
    return np.abs(statistic.scores(one) - statistic.scores(other))


def _coins(trials: int, lines: int) -> Iterator[np.ndarray]:
    """A coin for every line of every trial, a few trials at a time to save memory.

    Blocks of 32 trials draw the same coins as one large draw, because NumPy takes 32 of them from one random word.
    """
    random = np.random.default_rng(SEED)
    for start in range(0, trials, 32):
        yield random.integers(2, size=(min(32, trials - start), lines), dtype=bool)


def _digits(p_value: float) -> str:
    return f"= {p_value:.4f}".rstrip("0").rstrip(".") if p_value >= 0.00005 else "< 0.0001"


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


def _compare_seeds(groups: Sequence[Sequence[Statistics]], names: tuple[str, str]) -> Comparison:
    scores = [np.array([counted.scores(counted.total[None])[0] for counted in group]) for group in groups]
    resampled = [np.mean([counted.resampled() for counted in group], axis=0) for group in groups]
    values = float(scores[0].mean()), float(scores[1].mean())
    delta = values[0] - values[1]
    counts = [len(group) for group in groups]
    of_seeds = [float(each.var(ddof=1)) / len(each) for each in scores]
    variance = sum(of_seeds) + float((resampled[0] - resampled[1]).var(ddof=1))
    spread = sum(part**2 / (count - 1) for part, count in zip(of_seeds, counts, strict=True))
    student = Student(min(MANY, variance**2 / spread) if spread else MANY)
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
        samples=sum(counts),
        signature=one.signature(bs=SAMPLES, seed=SEED),
    )


@dataclass(frozen=True)
class Spread:
    """The scores of several runs that differ only by their seeds, by one metric on one test set."""

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
        """As in `BLEU 38.2 ± 0.3 (38.0, 38.1, 38.5; standard deviation of 3 seeds)`."""
        each = ", ".join(f"{score.value:.1f}" for score in self.scores)
        if ways := not_comparable(self.scores):
            return f"{self.scores[0].name} {each}: not comparable, because they were counted in different ways ({ways})"
        within = "" if self.deviation is None else f" ± {self.deviation:.1f}"
        told = f"{each}; mean and standard deviation of {len(self.scores)} seeds"
        return f"{self.scores[0].name} {self.mean:.1f}{within} ({told}) {self.scores[0].signature}"
