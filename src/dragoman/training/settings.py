"""Settings of training: `[batches]`, `[variation]`, `[train]` and `[tuning]`; the rate is a function of the step."""

import math
from typing import Annotated, Literal

import pydantic

from dragoman.config import Settings
from dragoman.model.config import LoraSettings, Name

Schedule = Literal["noam", "linear", "cosine", "constant", "wsd"]
"""Shape of the learning rate after the warm-up (see `learning_rate`)."""

DECAY_SHARE = 0.2
"""Share of the steps after the warm-up in which the rate of `wsd` falls."""
ENDLESS = frozenset({"noam", "constant"})
"""Schedules whose rate does not depend on the number of steps."""
Optimiser = Literal["adamw", "adam", "muon"]
"""AdamW (Loshchilov and Hutter 2019), Adam (Kingma and Ba 2015), or Muon for projections and AdamW for the rest.
`optimiser.py` makes them; `runs/steps.py` knows the best rate of each.
"""
Decay = Annotated[float, pydantic.Field(ge=0, lt=1)]


class BatchSettings(Settings):
    """Settings of the batches of sentence pairs."""

    batch_tokens: int = pydantic.Field(default=4_096, ge=1, le=10**9)
    """Most tokens in a batch on each side, special symbols included; a longer sentence is a separate batch."""
    sentence_tokens: int = pydantic.Field(default=256, ge=1, le=1_000_000)
    """Longest sentence in tokens, on either side; pairs with a longer one are left out, counted and reported."""


class VariationSettings(Settings):
    """Settings of the variation of sentence pairs from epoch to epoch, as shares of all pairs."""

    joined: float | None = pydantic.Field(default=None, ge=0, le=1)
    """Pairs that share a row with others, so that a model learns to translate several sentences at once. Not given:
    none."""
    joined_tokens: int | None = pydantic.Field(default=None, ge=1, le=1_000_000)
    """Longest row of several pairs in tokens, on either side. Not given: as batches.sentence_tokens."""
    rough: float | None = pydantic.Field(default=None, ge=0, le=1)
    """Pairs without their last mark, or with a typing error in the source; half of them each. Not given: none."""
    protected: float | None = pydantic.Field(default=None, ge=0, le=1)
    """Pairs in which placeholders replace names, numbers, addresses and the like that are equal on both sides, so that
    a model learns to copy placeholders. Not given: none.
    """


class TrainSettings(Settings):
    """Settings of training: its length, speed and stability."""

    steps: int | None = pydantic.Field(default=None, ge=1, le=10**12)
    """Steps of the optimiser. Give one of steps, epochs and minutes; epochs or minutes become a number of steps once,
    before training begins.
    """
    epochs: float | None = pydantic.Field(default=None, gt=0, le=100_000)
    """Passes over the training data."""
    minutes: float | None = pydantic.Field(default=None, gt=0, le=10_000_000)
    """Minutes of training, validation included, at the speed of this machine when the run begins."""
    continued_from: int | None = pydantic.Field(default=None, ge=1)
    """The step at which the run finished before `--more` trained it further; the learning rate rises and falls again
    over the steps after it. Not given: this is the run's first training.
    """
    seed: int = pydantic.Field(default=1, ge=0, lt=2**32)
    """Seed of the initial weights, the order of the data, and dropout."""
    precision: Literal["auto", "float32", "bf16"] = "auto"
    """The numbers that the model computes with; auto takes bf16 if the processor or GPU has instructions for it. Master
    weights are float32."""
    optimiser: Optimiser = "adamw"
    """muon makes the updates of the matrices between embeddings and output orthogonal; adamw moves the other weights.
    adam differs from adamw only in its weight decay.
    """
    learning_rate: float | None = pydantic.Field(default=None, gt=0)
    """The highest learning rate. Not given: derived from optimiser and width; with noam, the paper's."""
    schedule: Schedule = "linear"
    """Shape of the rate after the warm-up: noam (the paper), linear or cosine to zero, constant, or wsd, which stays
    high and falls at the end.
    """
    warmup_steps: int | None = pydantic.Field(default=None, ge=0)
    """Steps in which the rate rises. Not given: a tenth of all, at most 4,000."""
    betas: tuple[Decay, Decay] = (0.9, 0.98)
    """Share that each step keeps of the running mean of the gradient, and of that of its square."""
    epsilon: float = pydantic.Field(default=1e-9, gt=0)
    """Added to the root of the mean square gradient before dividing by it."""
    weight_decay: float = pydantic.Field(default=0.01, ge=0)
    """For matrices and embeddings only. adamw and muon shrink the weights themselves, by this times the learning rate
    (decoupled). adam adds this times the weight to the gradient (coupled, L2); 0 is the paper's Adam.
    """
    alignment_weight: float | None = pydantic.Field(default=None, ge=0, le=100)
    """Weight of the loss by which model.alignment_head learns the links that an aligner finds in the training text
    (Garg et al. 2019); 0 turns it off. Not given: by the amount of text; off if the run starts from a model.
    """
    label_smoothing: float = pydantic.Field(default=0.1, ge=0, lt=1)
    """Share of the probability that the target distribution spreads over all tokens; 0 turns it off."""
    clip_norm: float = pydantic.Field(default=1.0, gt=0)
    """Highest norm of all gradients together; a longer gradient is scaled down to it."""
    accumulate: int = pydantic.Field(default=1, ge=1, le=100_000)
    """Batches in a step. The step equals one on a single large batch, but takes less memory. Several processes share
    the batches out.
    """
    gradient_checkpointing: bool = False
    """Keep only the input of each layer for the backward pass, which computes the layer again: a third more time, a
    fraction of the memory, and the same result."""
    ema: float = pydantic.Field(default=0.0, ge=0, le=1)
    """Validate and save a moving average of the weights that remembers about this share of the steps so far; 0 turns it
    off."""
    validate_every: int | None = pydantic.Field(default=None, ge=1)
    """Steps between validations. Not given: ten in a run."""
    patience: int | None = pydantic.Field(default=None, ge=1)
    """Stop after this many validations without a better score. Not given: never."""
    save_minutes: float = pydantic.Field(default=5.0, gt=0)
    """Minutes between checkpoints; one more is written at the end and when the run is stopped. The result does not
    depend on it.
    """
    save_every: int | None = pydantic.Field(default=None, ge=1)
    """Steps between checkpoints, in addition to the minutes."""
    keep_checkpoints: int = pydantic.Field(default=2, ge=2)
    """Number of the newest checkpoints that are kept."""

    @pydantic.model_validator(mode="after")
    def _one_limit(self) -> "TrainSettings":
        limits = [name for name in ("steps", "epochs", "minutes") if getattr(self, name) is not None]
        if len(limits) > 1:
            named = " and ".join(f"train.{name}" for name in limits)
            raise ValueError(f"give one of train.steps, train.epochs and train.minutes, not {named}")
        return self

    @pydantic.model_validator(mode="after")
    def _new_steps_after_the_old(self) -> "TrainSettings":
        if self.continued_from is not None and (self.steps is None or self.steps <= self.continued_from):
            raise ValueError(
                f"steps counts from the beginning of the run, so it must be above continued_from "
                f"({self.continued_from:,}), but is {self.steps}"
            )
        return self

    def rate_at(self, step: int) -> float:
        """Return the learning rate of a step."""
        assert self.steps and self.learning_rate is not None and self.warmup_steps is not None, (
            "resolved before training"
        )
        rise_and_fall = self.warmup_steps, self.steps, self.continued_from or 0
        return learning_rate(self.schedule, step, self.learning_rate, *rise_and_fall)


CHANGEABLE_ON_RESUME = frozenset({"save_minutes", "save_every", "keep_checkpoints", "gradient_checkpointing"})
"""Settings of `[train]` that a resumed run may change."""


class TuningSettings(Settings):
    """Settings of fine-tuning: the parts of a finished model that train; without this table, all of it."""

    freeze: tuple[Name, ...] = ()
    """Weights that stay as they are: encoder, decoder, embeddings, output, norms, attention, self_attention,
    cross_attention, feed_forward; one layer, encoder.0; parts joined by dots, decoder.cross_attention; shell patterns
    over the names of weights, 'encoder.blocks.[01].*'; or "all but cross_attention, norms".
    """
    lora: LoraSettings | None = None

    @pydantic.model_validator(mode="after")
    def _one_way(self) -> "TuningSettings":
        if self.freeze and self.lora is not None:
            raise ValueError("tuning.lora freezes everything but its adapters; leave tuning.freeze out")
        return self


def learning_rate(
    schedule: Schedule, step: int, peak: float, warmup_steps: int, steps: int, continued_from: int = 0
) -> float:
    """Return the learning rate at `step` (the first is 1): a linear rise to `peak` over `warmup_steps`, then

        `noam`      peak * sqrt(warmup_steps / step)      (Vaswani et al. 2017, eq. 3, whose peak is `noam_peak`)
        `linear`    down to zero at the last of `steps`
        `cosine`    half a cosine down to zero (Loshchilov and Hutter 2017)
        `constant`  peak
        `wsd`       warm-up, stable, decay: peak, then down to zero over the last fifth (Hu et al. 2024)

    If a run that finished at step `continued_from` is trained further, the rate rises and falls again over the new
    steps. The rate of `noam` and `constant` has no end, so it goes on as if the run had not finished.

    >>> [round(learning_rate("linear", step, 1.0, 2, 6), 2) for step in (1, 2, 4, 6)]
    [0.5, 1.0, 0.5, 0.0]
    """
    if schedule not in ENDLESS:
        step, steps = step - continued_from, steps - continued_from
    if step <= warmup_steps:
        return peak * step / warmup_steps
    done = (step - warmup_steps) / max(1, steps - warmup_steps)
    match schedule:
        case "noam":
            return peak * math.sqrt(max(1, warmup_steps) / step)
        case "linear":
            return peak * max(0.0, 1 - done)
        case "cosine":
            return peak * (1 + math.cos(math.pi * min(1.0, done))) / 2
        case "constant":
            return peak
        case "wsd":
            return peak * min(1.0, max(0.0, 1 - done) / DECAY_SHARE)


def noam_peak(d_model: int, warmup_steps: int) -> float:
    """Return the paper's highest rate: d_model^-0.5 * warmup_steps^-0.5 (eq. 3 at step = warmup_steps)."""
    return (d_model * max(1, warmup_steps)) ** -0.5
