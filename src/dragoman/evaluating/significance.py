"""Is one system significantly better than another on the same test set? A paired test, and the answer in a sentence.

The test is approximate randomisation, as in the `sacrebleu` command (`--paired-ar`), with the same seed. The difference
also has a 95 % interval, from the paired bootstrap (Koehn 2004).
What runs that differ only by their seeds score is a `Spread`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Unpack

import numpy as np

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
    statistics,
    summary,
)

RANDOMISATION = "randomisation"
SEEDS = "seeds"
"""The names of the tests: that of this file, and that of `groups` for systems that were trained from several seeds."""
TRIALS = 10_000
LEVEL = 0.05
"""The level of significance: a difference is shown if its p-value is lower."""


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
        evidence = f"p {_digits(self.p_value)}, {self.samples:,} {_PLURALS[self.test]}"
        points = f"{abs(self.delta):.1f} {self.metric}"
        if self.better is None:
            return f"no difference between {self.names[0]} and {self.names[1]} can be shown: {points} ({evidence})"
        other = self.names[1] if self.better == self.names[0] else self.names[0]
        return f"{self.better} is better than {other} by {points} ({evidence})"


def compare_outputs(
    first: Sequence[str],
    second: Sequence[str],
    references: References,
    *,
    names: tuple[str, str] = ("the first", "the second"),
    samples: int = TRIALS,
    **measures: Unpack[Measures],
) -> dict[str, Comparison]:
    """Compares two lists of translations of the same lines, metric by metric, in so many samples of the test.

    Raises:
        DataError: the lists are not aligned with the references.
        ConfigError: an unknown metric or tokenizer.
    """
    rows = checked(first, references)
    checked(second, references)
    results = {}
    for name, metric in build_metrics(**measures).items():
        pair = statistics(metric, first, rows), statistics(metric, second, rows)
        results[name] = compare_counts(pair, names=names, samples=samples)
    return results


def compare_counts(
    pair: tuple[Statistics, Statistics],
    *,
    names: tuple[str, str] = ("the first", "the second"),
    samples: int = TRIALS,
) -> Comparison:
    """Compares what one metric counted for two systems, line by line, as `compare_outputs` does."""
    first, second = pair
    one, other = (summary(counted, samples=0) for counted in pair)
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
    as_much = exchanged_distances(first, second, trials) >= real - 1e-9
    return (int(as_much.sum()) + 1) / (trials + 1)


def exchanged_distances(first: Statistics, second: Statistics, trials: int) -> Array:
    """The distance between the two scores in each trial, in which a coin toss exchanges each line or leaves it."""
    both, surplus = first.total + second.total, first.lines - second.lines
    return np.concatenate(
        [_distance(first, one := second.total + coins @ surplus, both - one) for coins in _coins(trials, len(surplus))]
    )


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


_PLURALS = {RANDOMISATION: "paired randomisations", SEEDS: "seeds"}


@dataclass(frozen=True)
class Spread:
    """The scores of several runs, by one metric on one test set."""

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
        within = "" if self.deviation is None else f" ± {self.deviation:.1f}"
        told = f"{each}; mean and standard deviation of {len(self.scores)} seeds"
        return f"{self.scores[0].name} {self.mean:.1f}{within} ({told}) {self.scores[0].signature}"
