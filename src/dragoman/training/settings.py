"""How long, how fast and how carefully to train: the `[train]` table of a recipe."""

from typing import Annotated, Literal

import pydantic

from dragoman.config import Settings
from dragoman.training.schedule import Schedule

Share = Annotated[float, pydantic.Field(ge=0, lt=1)]


class TrainSettings(Settings):
    steps: int | None = pydantic.Field(default=None, ge=1, le=10**12)
    """Steps of the optimiser. One of steps, epochs and minutes is given; the others are turned into steps once, before
    the first.
    """
    epochs: float | None = pydantic.Field(default=None, gt=0, le=100_000)
    """Passes over the training data."""
    minutes: float | None = pydantic.Field(default=None, gt=0, le=10_000_000)
    """Minutes of training, validation included, on this machine as it is when the run begins."""
    continued_from: int | None = pydantic.Field(default=None, ge=1)
    """The step at which the run was finished, before `--more` trained it on; the rate rises and falls again over the
    steps after it. Not given: this is the run's first training.
    """
    seed: int = pydantic.Field(default=1, ge=0, lt=2**32)
    """Of weights, order and dropout."""
    precision: Literal["auto", "float32", "bf16"] = "auto"
    """What the model computes in; auto takes bf16 where the processor has instructions for it. Master weights are
    float32."""
    optimiser: Literal["adamw", "adam", "muon"] = "adamw"
    """muon makes the updates of the matrices between embeddings and output orthogonal; all else is moved by adamw.
    adam differs from adamw in its weight decay alone.
    """
    learning_rate: float | None = pydantic.Field(default=None, gt=0)
    """The highest rate. Not given: derived from optimiser and width; with noam, the paper's."""
    schedule: Schedule = "linear"
    """How the rate falls after the warm-up: noam (the paper), linear or cosine to zero, constant, or wsd, which stays
    and falls at the end."""
    warmup_steps: int | None = pydantic.Field(default=None, ge=0)
    """Steps of rising rate. Not given: a tenth of all, at most 4,000."""
    betas: tuple[Share, Share] = (0.9, 0.98)
    """How much of the running means of the gradient and of its square each step keeps."""
    epsilon: float = pydantic.Field(default=1e-9, gt=0)
    """Added to the root of the mean square gradient before dividing by it."""
    weight_decay: float = pydantic.Field(default=0.01, ge=0)
    """On matrices and embeddings only. adamw and muon shrink the weights themselves, by this times the rate
    (decoupled). adam adds this times the weight to the gradient and scales both alike (coupled, L2); 0 is the paper's
    Adam.
    """
    label_smoothing: float = pydantic.Field(default=0.1, ge=0, lt=1)
    """Share of the probability that the loss spreads over all tokens; 0 is off."""
    r_drop: float = pydantic.Field(default=0.0, ge=0)
    """How strongly two passes over a batch, with different dropout, are drawn together (R-Drop, whose paper takes 5 for
    translation); 0 is off. A step costs twice.
    """
    clip_norm: float = pydantic.Field(default=1.0, gt=0)
    """Highest common norm of all gradients together."""
    accumulate: int = pydantic.Field(default=1, ge=1, le=100_000)
    """Batches a step: the same step as one large batch, in less memory. Several processes share them out."""
    ema: float = pydantic.Field(default=0.0, ge=0, le=1)
    """Validate and hand on a moving average of the weights that remembers about this share of the steps so far; 0 is
    off."""
    validate_every: int | None = pydantic.Field(default=None, ge=1)
    """Steps between validations. Not given: ten in a run."""
    patience: int | None = pydantic.Field(default=None, ge=1)
    """Stop after this many validations without a better score. Not given: never."""
    save_minutes: float = pydantic.Field(default=5.0, gt=0)
    """Minutes between checkpoints; one more is made at the end and on request. Changes nothing in the result."""
    save_every: int | None = pydantic.Field(default=None, ge=1)
    """Steps between checkpoints, besides the minutes."""
    keep_checkpoints: int = pydantic.Field(default=2, ge=2)
    """How many of the newest checkpoints are kept."""

    @pydantic.model_validator(mode="after")
    def _one_limit(self) -> "TrainSettings":
        given = [name for name in ("steps", "epochs", "minutes") if getattr(self, name) is not None]
        if len(given) > 1:
            told = " and ".join(f"train.{name}" for name in given)
            raise ValueError(f"give one of train.steps, train.epochs and train.minutes, not {told}")
        return self

    @pydantic.model_validator(mode="after")
    def _new_steps_after_the_old(self) -> "TrainSettings":
        if self.continued_from is not None and (self.steps is None or self.steps <= self.continued_from):
            raise ValueError(
                f"steps counts from the beginning of the run, so it must be above continued_from "
                f"({self.continued_from:,}), but is {self.steps}"
            )
        return self


HARMLESS = frozenset({"save_minutes", "save_every", "keep_checkpoints"})
"""Settings of `[train]` that a resumed run may change."""
