"""What a recipe's model scored where it was run: the `[expected]` table, to which `reproduce` holds another run."""

from typing import Literal

import pydantic

from dragoman.config import Settings


class Expected(Settings):
    """One score on the test set of the recipe, and what it took. A recipe that was not run has no such table."""

    metric: Literal["bleu", "chrf"] = "bleu"
    score: float = pydantic.Field(ge=0, le=100)
    low: float = pydantic.Field(ge=0, le=100)
    """A run whose score is below has not reproduced it: the lower end of the 95 % interval."""
    high: float = pydantic.Field(ge=0, le=100)
    """The upper end, for people to read."""
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

    @pydantic.model_validator(mode="after")
    def _in_order(self) -> "Expected":
        if not self.low <= self.score <= self.high:
            raise ValueError(f"score must lie between low and high, but {self.low} <= {self.score} <= {self.high}")
        return self
