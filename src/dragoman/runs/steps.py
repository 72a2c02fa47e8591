"""The limit of training as a number of steps, and what follows from it: warm-up, learning rate, validations."""

from collections.abc import Collection
from typing import Literal, NamedTuple

from dragoman.runs.choices import RecipeDraft
from dragoman.runs.recipe import LABELLING_TASKS, LIMITS, Recipe
from dragoman.training.settings import noam_peak

DEFAULT = "the default"
DEFAULT_MINUTES = 30.0
FINE_TUNE_EPOCHS, FINE_TUNE_STEPS, MOST_EPOCHS = 6.0, 300, 40
"""Default passes over the text, the steps that they should make, and the most passes: a text that is too small for that
many steps gets more passes, up to the last number.
"""
LABELLED_EPOCHS = {False: 20.0, True: 10.0}
"""Passes over labelled text, of which there is little: from fresh weights, and from another model's encoder."""
SHARE_OF_STEPS, SHARE_OF_VALIDATION = 0.97, 0.2
"""Shares of the requested minutes: training and validation together, and validation at most; the rest is for saving."""
VALIDATIONS = 10
WARMUP_SHARE, LONGEST_WARMUP = 0.1, 4_000
BEST_RATES, AT_WIDTH = {"adam": 2e-3, "adamw": 2e-3, "muon": 5.6e-3}, 256
"""Best rates measured, at widths from 128 to 256. Other widths use the root of the width, unmeasured."""
FINE_TUNE_RATE, NEW_HEAD_RATE, CLASSIFY_RATE = 0.25, 0.65, 0.5
"""Shares of the rate that training from scratch uses: a finished model should only move a little, and more if it gets a
new head for labels; a classifier without a start overfits its few texts at a higher rate.
"""
LORA_RATE = 1.0
"""The same share for adapters; a quarter of it gained 2.2 chrF, not 9.0 (rank 16, 3,140 pairs, one seed)."""
GPU_TIMES, MOST_GPU_TOKENS, GPU_FEWER_STEPS = 8, 16_384, 2
"""A GPU takes this many times the tokens a step, at most the second number on each side, and of a built-in recipe this
many times fewer steps. From 10,000 pairs, a quarter of the steps learned almost as much; 1.5 times the rate, no more.
"""


class Limit(NamedTuple):
    """End of training, as it was asked for."""

    name: Literal["steps", "epochs", "minutes"]
    amount: float
    reason: str


def limit_of(recipe: Recipe) -> Limit:
    """Return the limit of training: steps, epochs or minutes; by default half an hour, or epochs of little text."""
    for name in LIMITS:
        if (amount := getattr(recipe.train, name)) is not None:
            return Limit(name, amount, "as asked for")
    if recipe.task in LABELLING_TASKS:
        return Limit("epochs", LABELLED_EPOCHS[recipe.start is not None], DEFAULT)
    if recipe.start is not None:
        return Limit("epochs", FINE_TUNE_EPOCHS, DEFAULT)
    return Limit("minutes", DEFAULT_MINUTES, DEFAULT)


def enlarge_steps(draft: RecipeDraft, builtin: Collection[str]) -> None:
    """Let a GPU take larger steps, unless the user set their size. Fewer of them replace steps that are `builtin`.

    Epochs stay as they are, because they would have too few steps; a step of several batches is large already.
    """
    size, train, limit = draft.recipe.batches.batch_tokens, draft.recipe.train, limit_of(draft.recipe)
    is_asked = draft.asked.get("batches", {}).get("batch_tokens") and "batches.batch_tokens" not in builtin
    times = min(GPU_TIMES, MOST_GPU_TOKENS // size)
    if times < 2 or is_asked or limit.name == "epochs" or train.accumulate > 1:
        return
    reason = f"a GPU takes {times} times the tokens a step"
    draft.set("batches.batch_tokens", times * size, reason)
    if limit.name == "steps" and "train.steps" in builtin:
        draft.set("train.steps", -(-int(limit.amount) // GPU_FEWER_STEPS), reason)


def choose_length(
    draft: RecipeDraft,
    batches: int | None = None,
    seconds: tuple[float, float] | None = None,
    continued_from: int | None = None,
) -> None:
    """Choose the number of steps, and the settings that depend on it.

    A limit in epochs needs the number of `batches` in them, one in minutes the `seconds` that a step and a validation
    take. The steps of a finished run that is trained further count from its last one, `continued_from`.
    """
    limit, train = limit_of(draft.recipe), draft.recipe.train
    if limit.name == "steps":
        steps, reason = int(limit.amount), draft.reasons.get("train.steps", limit.reason)
    elif limit.name == "epochs":
        assert batches is not None, "epochs become steps by the batches in them"
        steps, epochs, reason = max(1, batches // train.accumulate), limit.amount, limit.reason
        if epochs == FINE_TUNE_EPOCHS and reason == DEFAULT and steps < FINE_TUNE_STEPS:
            epochs = min(MOST_EPOCHS, round(epochs * FINE_TUNE_STEPS / steps))
            steps, reason = round(steps * epochs / limit.amount), f"{DEFAULT} for so little text"
        reason = f"{epochs:,.10g} epochs, {reason}"
    else:
        assert seconds is not None, "minutes become steps by a trial"
        step, validation = seconds
        steps, validations = steps_in(limit.amount, step, validation, train.validate_every)
        unit = "minute" if limit.amount == 1 else "minutes"
        reason = f"{limit.amount:,.10g} {unit}, {limit.reason}, at {step:.3f} s a step in a trial"
        if validations:
            words = f"{validations} validations of {validation:.0f} s"
            draft.choose("train.validate_every", -(-steps // validations), words)
    draft.set("train.epochs", None)
    draft.set("train.minutes", None)
    if continued_from is None:
        draft.set("train.steps", steps, reason)
    else:
        draft.set("train.steps", continued_from + steps, f"{steps:,} new ones: {reason}")
        draft.set("train.continued_from", continued_from, "the run was finished there, and is trained on")
    warmup = max(1, min(LONGEST_WARMUP, round(WARMUP_SHARE * steps)))
    whose = "all" if continued_from is None else "the new"
    draft.choose("train.warmup_steps", warmup, f"a tenth of {whose} steps, at most {LONGEST_WARMUP:,}")
    choose_rate(draft)
    draft.choose("train.validate_every", -(-steps // VALIDATIONS), f"{VALIDATIONS} validations")


def steps_in(minutes: float, step: float, validation: float, validate_every: int | None) -> tuple[int, int]:
    """Return the numbers of steps and validations that fit in these minutes, if a step and a validation take this many
    seconds, 0 if there is no validation. No validations are counted if their distance is given.
    """
    seconds = 60 * minutes * SHARE_OF_STEPS
    if validate_every:
        return max(1, round(seconds / (step + validation / validate_every))), 0
    share = int(SHARE_OF_VALIDATION * 60 * minutes / validation) if validation else 0
    count = max(1, min(VALIDATIONS, share)) if validation else 0
    return max(1, round((seconds - count * validation) / step)), count


def choose_rate(draft: RecipeDraft) -> None:
    """Choose the highest learning rate by optimiser and width."""
    recipe = draft.recipe
    train, width = recipe.train, recipe.model.d_model
    if train.schedule == "noam":
        assert train.warmup_steps is not None, "chosen before"
        draft.choose("train.learning_rate", noam_peak(width, train.warmup_steps), "the paper's peak")
        return
    rate = BEST_RATES[train.optimiser] * (AT_WIDTH / width) ** 0.5
    if recipe.task == "classify" and recipe.start is None:
        rate *= CLASSIFY_RATE
    if recipe.start is not None:
        whole = NEW_HEAD_RATE if recipe.task in LABELLING_TASKS else FINE_TUNE_RATE
        rate *= whole if recipe.lora is None else LORA_RATE
    whose = "adapters at " if recipe.lora else ""
    draft.choose("train.learning_rate", float(f"{rate:.2g}"), f"for {whose}width {width}")
