"""The limit of training as a number of steps, and what follows from it: warm-up, learning rate, validations."""

from typing import Literal, NamedTuple

from dragoman.runs.choices import Choice, Choices, Facts
from dragoman.runs.recipe import LIMITS, OF_LABELS, Recipe
from dragoman.training.schedule import noam_peak

DEFAULT_MINUTES = 30.0
FINE_TUNE_EPOCHS = 6.0
LABELLED_EPOCHS = {False: 20.0, True: 10.0}
"""Passes over labelled text, of which there is little: from fresh weights, and from another model's encoder."""
SHARE_OF_STEPS, SHARE_OF_VALIDATION = 0.97, 0.2
"""Of the minutes asked for: training and validation together, and validation at most; the rest is for saving."""
VALIDATIONS = 10
WARMUP_SHARE, LONGEST_WARMUP = 0.1, 4_000
BEST_RATES, AT_WIDTH = {"adam": 2e-3, "adamw": 2e-3, "muon": 5.6e-3}, 256
"""Best rates measured, at widths from 128 to 256. For other widths they go by the root of the width, unmeasured."""
FINE_TUNE_RATE, NEW_HEAD_RATE, CLASSIFY_RATE = 0.25, 0.65, 0.5
"""Shares of the rate that training from nothing takes: a finished model should only move a little, and more where it
gets a new head for labels; a classifier without a start learns too few texts by heart at a higher rate.
"""
LORA_RATE = 1.0
"""The same for adapters. With a quarter of it, rank 16 gained 2.2 chrF in three epochs, not 9.0 (3,140 pairs, width
192, one seed).
"""


class Limit(NamedTuple):
    """When training ends, as it was asked for."""

    name: Literal["steps", "epochs", "minutes"]
    amount: float
    reason: str


class Length(NamedTuple):
    """When training ends, in steps."""

    steps: int
    reason: str
    validations: int | None = None
    """How many fit in the minutes asked for; None where minutes do not decide."""
    validation_seconds: float = 0.0


def limit_of(recipe: Recipe) -> Limit:
    """Which of steps, epochs and minutes was asked for. The default is half an hour, or some epochs of little text."""
    for name in LIMITS:
        if (amount := getattr(recipe.train, name)) is not None:
            return Limit(name, amount, "as asked for")
    if recipe.task in OF_LABELS:
        return Limit("epochs", LABELLED_EPOCHS[recipe.start is not None], "the default")
    if recipe.start is not None:
        return Limit("epochs", FINE_TUNE_EPOCHS, "the default")
    return Limit("minutes", DEFAULT_MINUTES, "the default")


def count_steps(recipe: Recipe, facts: Facts) -> Choices:
    """Steps instead of epochs and minutes. If a finished run is trained on, they count from its beginning."""
    length = _length(recipe, facts)
    if length is None:
        return
    done, steps, reason = facts.continued_from, length.steps, length.reason
    yield Choice("train.epochs", None, replaces=True)
    yield Choice("train.minutes", None, replaces=True)
    if length.validations:
        every = -(-steps // length.validations)
        seconds = f"{length.validation_seconds:.0f} s"
        yield Choice("train.validate_every", every, f"{length.validations} validations of {seconds}")
    if done is None:
        yield Choice("train.steps", steps, reason, replaces=True)
    else:
        yield Choice("train.steps", done + steps, f"{steps:,} new ones: {reason}", replaces=True)
        yield Choice("train.continued_from", done, "the run was finished there, and is trained on")


def warm_up(recipe: Recipe, facts: Facts) -> Choices:
    if steps := _new_steps(recipe, facts):
        whose = "all" if facts.continued_from is None else "the new"
        warmup = max(1, min(LONGEST_WARMUP, round(WARMUP_SHARE * steps)))
        yield Choice("train.warmup_steps", warmup, f"a tenth of {whose} steps, at most {LONGEST_WARMUP:,}")


def choose_rate(recipe: Recipe, _facts: Facts) -> Choices:
    train, width = recipe.train, recipe.model.d_model
    if train.warmup_steps is None:
        return
    if train.schedule == "noam":
        yield Choice("train.learning_rate", noam_peak(width, train.warmup_steps), "the paper's peak")
        return
    rate = BEST_RATES[train.optimiser] * (AT_WIDTH / width) ** 0.5
    if recipe.task == "classify" and recipe.start is None:
        rate *= CLASSIFY_RATE
    if recipe.start is not None:
        whole = NEW_HEAD_RATE if recipe.task in OF_LABELS else FINE_TUNE_RATE
        rate *= whole if recipe.lora is None else LORA_RATE
    whose = "adapters at " if recipe.lora else ""
    yield Choice("train.learning_rate", float(f"{rate:.2g}"), f"for {whose}width {width}")


def space_validations(recipe: Recipe, facts: Facts) -> Choices:
    if steps := _new_steps(recipe, facts):
        yield Choice("train.validate_every", -(-steps // VALIDATIONS), f"{VALIDATIONS} validations")


CHOICES = (count_steps, warm_up, choose_rate, space_validations)
"""In this order, because one may go by what another chose."""


def _new_steps(recipe: Recipe, facts: Facts) -> int | None:
    return recipe.train.steps and recipe.train.steps - (facts.continued_from or 0)


def _length(recipe: Recipe, facts: Facts) -> Length | None:
    """The limit in steps; None as long as what it needs is not known."""
    limit = limit_of(recipe)
    if limit.name == "steps":
        return Length(int(limit.amount), limit.reason)
    if limit.name == "epochs" and facts.batches is not None:
        steps = max(1, facts.batches // recipe.train.accumulate)
        return Length(steps, f"{limit.amount:,.10g} epochs, {limit.reason}")
    if limit.name == "minutes" and facts.seconds is not None:
        return _length_in(limit, *facts.seconds, recipe.train.validate_every)
    return None


def _length_in(limit: Limit, step: float, validation: float, every: int | None) -> Length:
    """The steps that fit in so many minutes, if a step and a validation take so many seconds."""
    reason = f"{limit.amount:,.10g} minutes, {limit.reason}, at {step:.3f} s a step in a trial"
    seconds = 60 * limit.amount * SHARE_OF_STEPS
    if every:
        return Length(max(1, round(seconds / (step + validation / every))), reason)
    share = int(SHARE_OF_VALIDATION * 60 * limit.amount / validation) if validation else 0
    count = max(1, min(VALIDATIONS, share)) if validation else 0
    return Length(max(1, round((seconds - count * validation) / step)), reason, count, validation)
