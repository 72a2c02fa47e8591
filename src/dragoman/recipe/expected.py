"""The scores that a recipe reached where it was run: the `[expected]` table, by which `reproduce` judges a run."""

import statistics
from typing import Annotated, Literal

import pydantic

from dragoman.config import Settings

MARGIN, DEVIATIONS = 1.0, 3.0
"""How far below the mean of the seeds a run may score: the larger of so many points and so many standard deviations."""


class Expected(Settings):
    """Test scores of several seeds, and what their training took. A recipe that was run from fewer than three seeds has
    no such table, because one score does not say what the next run should reach.
    """

    metric: Literal["bleu", "chrf", "accuracy", "macro_f1", "f1"] = "bleu"
    """Of translations, or of labels."""
    scores: tuple[Annotated[float, pydantic.Field(ge=0, le=100)], ...] = pydantic.Field(min_length=3)
    """One for each seed."""
    signature: str
    """How they were computed; scores with another signature are not comparable."""
    search: str
    """How the translations or labels were found, in words."""
    steps: int = pydantic.Field(ge=1)
    """Steps of training. The same steps give the same model on any machine; the same minutes do not."""
    minutes: float = pydantic.Field(gt=0)
    """How long these steps took there."""
    gflops: float = pydantic.Field(gt=0)
    """The rate at which that machine multiplied matrices in the run's precision; the time elsewhere is estimated from
    it."""

    @property
    def mean(self) -> float:
        return statistics.mean(self.scores)

    @property
    def margin(self) -> float:
        """How far below the mean a score may be, in points."""
        return max(MARGIN, DEVIATIONS * statistics.stdev(self.scores))

    @property
    def low(self) -> float:
        """The lowest score that reproduces the recipe."""
        return self.mean - self.margin

    @property
    def bar(self) -> str:
        """The lowest score that reproduces the recipe, and how it follows from the seeds, in words."""
        seeds, deviation = len(self.scores), statistics.stdev(self.scores)
        return (
            f"at least {self.low:.1f} is expected (the mean {self.mean:.1f} of {seeds} seeds, less the larger of "
            f"{MARGIN:.1f} and {DEVIATIONS:.0f} deviations of {deviation:.1f})"
        )
