"""Is one system significantly better than another on the same test set? Paired tests, and the answer in a sentence.

Both tests are those of the `sacrebleu` command (`--paired-ar`, `--paired-bs`) with the same seed. The difference also
has a 95 % interval, from the paired bootstrap (Koehn 2004).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Unpack

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
    interval,
    statistics,
    summary,
)

SEEDS = "seeds"
"""The name of the test in `groups`, for systems that were trained from several seeds each."""
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
    test: str = "randomisation",
    samples: int | None = None,
    **measures: Unpack[Measures],
) -> dict[str, Comparison]:
    """Compares two lists of translations of the same lines, metric by metric.

    `test` is "randomisation" (two-sided, 10,000 trials) or "bootstrap" (1,000 samples; as Moses does it, it counts one
    tail only, and so finds differences more easily).

    Raises:
        DataError: the lists are not aligned with the references.
        ConfigError: an unknown test, metric or tokenizer.
    """
    samples = _check_test(test, samples)
    rows = checked(first, references)
    checked(second, references)
    results = {}
    for name, metric in build_metrics(**measures).items():
        pair = statistics(metric, first, rows), statistics(metric, second, rows)
        results[name] = compare_counts(pair, names=names, test=test, samples=samples)
    return results


def compare_counts(
    pair: tuple[Statistics, Statistics],
    *,
    names: tuple[str, str] = ("the first", "the second"),
    test: str = "randomisation",
    samples: int | None = None,
) -> Comparison:
    """Compares what one metric counted for two systems, line by line, as `compare_outputs` does.

    Raises:
        ConfigError: an unknown test.
    """
    samples = _check_test(test, samples)
    first, second = pair
    one, other = (summary(counted, samples=0) for counted in pair)
    low, high = interval(first.resampled() - second.resampled())
    facts = {"bs": SAMPLES, "ar": samples} if test == "randomisation" else {"bs": samples}
    return Comparison(
        metric=one.name,
        names=names,
        values=(one.value, other.value),
        delta=one.value - other.value,
        low=low,
        high=high,
        p_value=_TESTS[test](first, second, samples),
        test=test,
        samples=samples,
        signature=first.signature(**facts, seed=SEED),
    )


def _check_test(test: str, samples: int | None) -> int:
    """The samples of a paired test: those asked for, or its usual number."""
    if test not in _TESTS:
        raise ConfigError(f"{test!r} is not a paired test; choose from {', '.join(_TESTS)}")
    return samples or _DEFAULTS[test]


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


def bootstrap_p_value(first: Statistics, second: Statistics, samples: int) -> float:
    """Paired bootstrap: how often do samples exceed their mean difference by more than the real one? One-sided."""
    real = _distance(first, first.total[None], second.total[None])[0]
    differences = np.abs(first.resampled(samples) - second.resampled(samples))
    return (int((differences - differences.mean() > real).sum()) + 1) / (samples + 1)


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


_TESTS: dict[str, Callable[[Statistics, Statistics, int], float]] = {
    "randomisation": randomisation_p_value,
    "bootstrap": bootstrap_p_value,
}
_DEFAULTS = {"randomisation": 10_000, "bootstrap": SAMPLES}
_PLURALS = {"randomisation": "paired randomisations", "bootstrap": "paired bootstrap samples", SEEDS: "seeds"}
