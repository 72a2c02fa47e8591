"""What a recipe's model scored where it was run: the `[expected]` table, to which `reproduce` holds another run."""

import statistics
from typing import Annotated, Literal

import pydantic

from dragoman.config import Settings

MARGIN, DEVIATIONS = 1.0, 3.0
"""How far below the mean of the seeds a run may score: so many points, or deviations of the seeds if these are more."""


class Expected(Settings):
    """Scores of several seeds on the test set of the recipe, and what they took. A recipe that was not run from at
    least three seeds has no such table: what a single run scored does not say what the next one should.
    """

    metric: Literal["bleu", "chrf"] = "bleu"
    scores: tuple[Annotated[float, pydantic.Field(ge=0, le=100)], ...] = pydantic.Field(min_length=3)
    """One a seed."""
    signature: str
    """sacreBLEU's; scores under another one are not comparable."""
    search: str
    """How the translations were found, in words."""
    steps: int = pydantic.Field(ge=1)
    """Steps of training. Minutes by the clock mean other steps on another machine; steps mean the same model."""
    minutes: float = pydantic.Field(gt=0)
    """How long these took there."""
    gflops: float = pydantic.Field(gt=0)
    """What that machine multiplied matrices at, in the run's precision: how long it takes elsewhere goes by this."""

    @property
    def mean(self) -> float:
        return statistics.mean(self.scores)

    @property
    def margin(self) -> float:
        """How far below the mean is still as expected."""
        return max(MARGIN, DEVIATIONS * statistics.stdev(self.scores))

    @property
    def low(self) -> float:
        """A run that scores less has not reproduced the recipe."""
        return self.mean - self.margin

    @property
    def bar(self) -> str:
        """The lowest score that counts as reproduced, and how it follows from the seeds, in words."""
        seeds, deviation = len(self.scores), statistics.stdev(self.scores)
        return (
            f"at least {self.low:.1f} is expected (the mean {self.mean:.1f} of {seeds} seeds, less the larger of "
            f"{MARGIN:.1f} and {DEVIATIONS:.0f} deviations of {deviation:.1f})"
        )
