"""The scores that a recipe reached where it was run: the `[expected]` table, by which `train` judges a run of it."""

import statistics
from typing import Annotated, Literal

import pydantic

from dragoman.config import Settings

POINTS, NATS, DEVIATIONS = 1.0, 0.02, 3.0
"""How far from the mean of the seeds a run may score: the larger of so many points of 100, or nats, and so many
standard deviations."""


class Expected(Settings):
    """Test scores of several seeds, after as many steps as the recipe takes. A recipe that was run from fewer than
    three seeds has no such table, because one score does not say what the next run should reach.
    """

    metric: Literal["bleu", "chrf", "accuracy", "macro_f1", "f1", "nats_per_character"] = "bleu"
    """What the scores are: points of 100, of which more are better, or nats, of which fewer are."""
    scores: tuple[Annotated[float, pydantic.Field(ge=0, le=100)], ...] = pydantic.Field(min_length=3)
    """One for each seed."""
    signature: str
    """How they were computed; scores with another signature are not comparable."""
    search: str
    """How the translations or labels were found, or the scores were made, in words."""

    @property
    def mean(self) -> float:
        return statistics.mean(self.scores)

    @property
    def key(self) -> str:
        """Under which the scores of a run hold this metric."""
        return "character" if self.metric == "nats_per_character" else self.metric

    @property
    def fewer_is_better(self) -> bool:
        return self.metric == "nats_per_character"

    @property
    def least_margin(self) -> float:
        """The smallest `margin`, in points or nats."""
        return NATS if self.fewer_is_better else POINTS

    @property
    def margin(self) -> float:
        """How much worse than the mean a score may be, in points or nats. A smaller loss goes unseen."""
        return max(self.least_margin, DEVIATIONS * statistics.stdev(self.scores))

    @property
    def worst(self) -> float:
        """The worst score that meets the expectation."""
        return self.mean + self.margin if self.fewer_is_better else self.mean - self.margin

    def is_met_by(self, value: float) -> bool:
        """Whether a score meets the expectation."""
        return value <= self.worst if self.fewer_is_better else value >= self.worst

    @property
    def bar(self) -> str:
        """The worst score that meets the expectation, how it follows from the seeds, and what it cannot see."""
        seeds, deviation = len(self.scores), statistics.stdev(self.scores)
        at_least, less, digits = ("at most", "plus", 3) if self.fewer_is_better else ("at least", "less", 1)
        return (
            f"{at_least} {self.worst:.{digits}f} is expected (the mean {self.mean:.{digits}f} of {seeds} seeds, {less} "
            f"the larger of {self.least_margin:.{digits}f} and {DEVIATIONS:.0f} deviations of {deviation:.{digits}f}, "
            f"so a loss of less than {self.margin:.{digits}f} goes unseen)"
        )
