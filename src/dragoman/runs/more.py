"""Training a finished run further (`--more`): what may be asked, and whether the run is ready for it.

One atomic write of `recipe.toml` begins the new steps: it sets `train.continued_from` to the step at which the run
finished, and `train.steps` to the new end. A run that is killed after that resumes like any other.
"""

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from dragoman.config import check, flatten, override
from dragoman.errors import CheckpointError, ConfigError
from dragoman.run_folder import RunFolder
from dragoman.runs.lookup import What, only_one, run_named
from dragoman.runs.recipe import LIMITS, Recipe, read_recipe
from dragoman.training.checkpoint import newest_checkpoint, read_checkpoint_facts

ASKABLE = (*LIMITS, "learning_rate")
"""Settings of `[train]` that may be given with `--more`. The limit counts from the step at which the run finished."""

log = logging.getLogger(__name__)


class More(NamedTuple):
    """What was asked for with `--more`."""

    continued_from: int
    """The step at which the run finished."""
    train: dict[str, Any]
    """Settings of `[train]` for the new steps: a limit, a learning rate, both or neither."""


def split_overrides(
    what: What, overrides: Sequence[str], name: str | None, fresh: bool
) -> tuple[list[str], dict[str, Any]]:
    """Splits overrides into those of the run itself, and the settings of `[train]` for its new steps.

    Raises:
        ConfigError: `what` is not a run, or the options also ask for a new run.
    """
    what = only_one(what)
    if run_named(what) is None:
        raise ConfigError(
            "--more trains a finished run further; name its folder, as in: dragoman train runs/NAME --more"
        )
    if fresh or name is not None:
        raise ConfigError(
            f"--more trains {what} further, {'--fresh begins' if fresh else '--name names'} a new run; "
            "give one of the two"
        )
    askable = {f"train.{key}" for key in ASKABLE}
    new = [text for text in overrides if flatten(override({}, [text])).keys() <= askable]
    asked = override({}, new)
    check(asked, "the command line", Recipe)
    return [text for text in overrides if text not in new], asked.get("train", {})


def is_finished(run: RunFolder, facts: dict[str, Any]) -> bool:
    """Whether all steps of a run are done and scored.

    If the process was killed after `recipe.toml` got new steps, `run.json` still says that the run is finished.
    """
    if facts["status"] != "finished":
        return False
    return not _goes_on_from(run, facts["steps"])


def ready_for_more(run: RunFolder, facts: dict[str, Any], train: dict[str, Any]) -> More | None:
    """What to add to a finished run; None if the new steps of an earlier `--more` are not all done, and go on first.

    Raises:
        ConfigError: the run is not finished, or an earlier `--more` that is not done asked for something else.
        CheckpointError: the run's last checkpoint is lost.
    """
    if is_finished(run, facts):
        _check_last_state(run, facts["steps"])
        return More(facts["steps"], train)
    recipe = read_recipe(run.recipe).train if run.recipe.is_file() else None
    if recipe is None or recipe.continued_from is None:
        how = "has diverged" if facts["status"] == "diverged" else "is not finished"
        raise ConfigError(
            f"{run} {how}, and --more goes on from a finished run; "
            + (
                "begin another one with --fresh and a lower train.learning_rate"
                if facts["status"] == "diverged"
                else f"finish it first: dragoman train {run}"
            )
        )
    assert recipe.steps is not None, "settings are checked"
    found = {"steps": recipe.steps - recipe.continued_from, "learning_rate": recipe.learning_rate}
    if changes := [key for key in found if train.get(key) not in (None, found[key])]:
        key = changes[0]
        raise ConfigError(
            f"{run} is already being trained further, with train.{key} = {found[key]}, not {train[key]}; "
            f"finish that first: dragoman train {run}"
        )
    log.info(
        "%s is already being trained further, to step %s; that goes on, and no steps are added",
        run,
        f"{recipe.steps:,}",
    )
    return None


def _goes_on_from(run: RunFolder, step: int) -> bool:
    return run.recipe.is_file() and read_recipe(run.recipe).train.continued_from == step


def _check_last_state(run: RunFolder, step: int) -> None:
    newest = newest_checkpoint(run.checkpoints)
    if newest is None or read_checkpoint_facts(newest).step != step:
        raise CheckpointError(
            f"{run.checkpoints} has no undamaged checkpoint of step {step:,}, where the run finished, so it "
            f"cannot be trained further; dragoman fine-tune {run} DATA starts from the weights of its best model"
        )
