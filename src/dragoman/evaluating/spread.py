"""How much the scores of runs differ if only their seeds differ."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.evaluating.metrics import Score


@dataclass(frozen=True)
class Spread:
    """The scores of several runs, by one metric on one test set."""

    test: str
    scores: Sequence[Score]

    @property
    def mean(self) -> float:
        return statistics.mean(score.value for score in self.scores)

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the scores; None for a single run."""
        values = [score.value for score in self.scores]
        return statistics.stdev(values) if len(values) > 1 else None

    def __str__(self) -> str:
        """As in `BLEU 38.2 ± 0.3 (38.0, 38.1, 38.5; standard deviation of 3 seeds)`."""
        each = ", ".join(f"{score.value:.1f}" for score in self.scores)
        within = "" if self.deviation is None else f" ± {self.deviation:.1f}"
        told = f"{each}; mean and standard deviation of {len(self.scores)} seeds"
        return f"{self.scores[0].name} {self.mean:.1f}{within} ({told}) {self.scores[0].signature}"
