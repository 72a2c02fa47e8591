"""Whether a run may resume from a checkpoint: data, tokenizer, settings and machine must be those that made it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dragoman.config import flatten
from dragoman.documents import differences
from dragoman.errors import CheckpointError
from dragoman.recipe.recipe import Recipe, without_removed
from dragoman.training import TrainSettings
from dragoman.training.checkpoint import read_checkpoint_facts
from dragoman.training.settings import HARMLESS

RENEWED = {f"train.{name}" for name in ("steps", "continued_from", "learning_rate", "warmup_steps", "validate_every")}
"""Settings that may change when a finished run is trained further."""


def refuse_other_checkpoint(
    checkpoint: Path, identity: Mapping[str, Any], envelope: Mapping[str, Any], settings: TrainSettings, anyway: bool
) -> None:
    """Refuses a checkpoint of other data or settings, or, unless `anyway`, of another machine.

    Raises:
        CheckpointError: something differs; the error names it.
    """
    facts = read_checkpoint_facts(checkpoint)
    then, now = without_removed(facts.identity, str(checkpoint)), identity
    if facts.step < (settings.continued_from or 0):
        raise CheckpointError(
            f"{checkpoint} is older than step {settings.continued_from:,}, from which --more trains the run, and "
            "the checkpoint of that step is damaged or missing; put it back, or use --fresh to start again"
        )
    begins_more = facts.step == settings.continued_from
    if begins_more:
        then, now = ({key: each[key] for key in each.keys() - RENEWED} for each in (then, now))
    if changes := differences(then, now):
        raise CheckpointError(
            f"{checkpoint} belongs to other data, another tokenizer or other settings ({changes}); "
            "put back what was changed, or use --fresh to start again"
        )
    if (changes := differences(facts.envelope, envelope)) and not anyway and not begins_more:
        raise CheckpointError(
            f"{checkpoint} was made on another machine or by another version, and going on here would not end in the "
            f"same weights ({changes}); use --anyway to go on nevertheless, or --fresh to start again"
        )


def decisive_settings(recipe: Recipe) -> dict[str, Any]:
    """The settings that decide the weights once data and tokenizer are made; a resumed run must have the same."""
    groups = recipe.model_dump(mode="json", include={"model", "batches", "train", "tuning"})
    groups["train"] = {name: value for name, value in groups["train"].items() if name not in HARMLESS}
    return flatten(groups)
