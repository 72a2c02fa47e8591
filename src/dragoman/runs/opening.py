"""Opening of a run: it begins, continues, or gets more steps (`--more`).

Settings may change as long as nothing has been made from them; other changes are refused.
"""

import logging
from pathlib import Path
from typing import Any, NamedTuple

import dragoman
from dragoman import system
from dragoman.config import check, flatten
from dragoman.errors import CheckpointError, ConfigError
from dragoman.files import LOCK, remove, remove_partial
from dragoman.run_folder import RunFolder
from dragoman.runs.lookup import RunRequest
from dragoman.runs.recipe import LIMITS, Recipe, read_recipe
from dragoman.runs.status import FORMAT, PREPARED, read_facts, read_facts_to_go_on, record_status
from dragoman.serialization import write_json
from dragoman.text.prepare import is_made_from
from dragoman.training.checkpoint import newest_checkpoint, read_checkpoint_facts
from dragoman.training.settings import CHANGEABLE_ON_RESUME

log = logging.getLogger(__name__)

PATHS = ("folder", "path", "dev_path", "test_path")
"""Settings of `[data]` that name the place of the text; they may change if the text is the same."""


class NewSteps(NamedTuple):
    """New steps of a finished or a stopped run (`--more`).

    One atomic write of `recipe.toml` begins the new steps: it sets `train.continued_from` and `train.steps`. A run that
    is killed after that resumes like any other.
    """

    continued_from: int
    """Step at which the run finished or stopped."""
    train: dict[str, Any]
    """Settings of `[train]` for the new steps: a limit, a learning rate, both or neither."""


class OpenRun(NamedTuple):
    """A run that begins or continues."""

    asked: dict[str, Any]
    """Tables of requested settings."""
    threads: int
    finished_at: int | None
    """Last step, if all steps are done and scored, and none are added."""
    new_steps: NewSteps | None


def open_run(request: RunRequest, threads: int | None) -> OpenRun:
    """Record the requested settings in `run.json` first, so that the same command continues when interrupted."""
    run = request.run
    for part in (run.path, run.checkpoints, run.corpora):
        remove_partial(part)
    facts = _open(request, threads)
    new_steps = None if request.more is None else _new_steps(run, facts, request.more)
    is_over = new_steps is None and _is_finished(run, facts)
    return OpenRun(facts["asked"], facts["threads"], facts["steps"] if is_over else None, new_steps)


def _open(request: RunRequest, threads: int | None) -> dict[str, Any]:
    run, asked = request.run, request.asked
    if not run.is_run:
        if foreign_files := sorted(path.name for path in run.path.iterdir() if path.name != LOCK):
            raise ConfigError(f"{run} is not a run, and not empty ({foreign_files[0]}); take another --name")
        assert asked is not None, "an earlier run has its facts"
        return _begin(request, asked, threads)
    facts = read_facts_to_go_on(run)
    if facts["status"] == PREPARED:
        wanted = facts["asked"] if asked is None else asked
        try:
            refuse_changes(run, facts["asked"], wanted)
        except ConfigError:
            log.info("%s was prepared by a forecast with other settings, and is prepared again", run)
            for part in (run.data, run.synthetic, run.tokenizer, run.corpora):
                remove(part)
        return _begin(request, wanted, threads)
    if asked is not None:
        refuse_changes(run, facts["asked"], asked, finished=facts["status"] == "finished")
    if threads is not None and system.choose_threads(threads) != facts["threads"]:
        raise ConfigError(
            f"{run} was begun with {facts['threads']} threads; continue with the same number, or use --fresh"
        )
    if asked not in (None, facts["asked"]):
        record_status(run, facts["status"], asked=asked)
    return read_facts_to_go_on(run)


def _begin(request: RunRequest, asked: dict[str, Any], threads: int | None) -> dict[str, Any]:
    facts = {"format": FORMAT, "dragoman": dragoman.__version__, "threads": system.choose_threads(threads)}
    facts |= {"asked": asked, "status": "preparing"}
    write_json(request.run.facts, facts)
    return read_facts(request.run)


def refuse_changes(run: RunFolder, before: dict[str, Any], now: dict[str, Any], finished: bool = False) -> None:
    """Refuse changes to settings from which something in the run's folder was already made."""
    changes = _changes(run, before, now)
    moved = {f"data.{name}" for name in PATHS} & changes.keys()
    if moved and "task" not in changes and run.report.is_file():
        recipe = check(now, str(run), Recipe)
        if is_made_from(run.data, recipe.data, recipe.task):
            changes = {key: values for key, values in changes.items() if key not in moved}
    harmful = {
        key: values
        for key, values in changes.items()
        if key.removeprefix("train.") not in CHANGEABLE_ON_RESUME and _made_from(run, key).exists()
    }
    named = "; ".join(f"{key} was {_shown(was)}, is {_shown(value)}" for key, (was, value) in harmful.items())
    if harmful and all(key.removeprefix("train.") in LIMITS for key in harmful):
        state = "is finished" if finished else f"was begun with other settings ({named})"
        raise ConfigError(
            f"{run} {state}; to train it further, give a limit that counts from its last step: dragoman train "
            f"{run} --more --minutes N (or --set train.steps=N); use --fresh for a new run"
        )
    if harmful:
        raise ConfigError(f"{run} was begun with other settings ({named}); use --fresh or another --name for a new run")


def _made_from(run: RunFolder, key: str) -> Path:
    """Return the first file or folder that is made from a setting. Once it exists, the setting is fixed."""
    group = key.partition(".")[0]
    return {
        "task": run.data,
        "data": run.data,
        "synthetic": run.data,
        "tokenizer": run.tokenizer,
        "start": run.tokenizer,
    }.get(group, run.recipe)


def _changes(run: RunFolder, before: dict[str, Any], now: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return settings that differ, with both values. The old value of one that was not given is the one chosen then."""
    asked, wanted = (_given(tables, str(run)) for tables in (before, now))
    chosen = read_recipe(run.recipe) if run.recipe.is_file() else Recipe()
    known = flatten(chosen.model_dump(mode="json")) | asked
    values = {key: (known.get(key), wanted.get(key)) for key in sorted(asked.keys() | wanted.keys())}
    return {key: (was, value) for key, (was, value) in values.items() if was != value}


def _given(tables: dict[str, Any], origin: str) -> dict[str, Any]:
    """Return the settings given in the tables, with their values as `Recipe` parses them."""
    understood = flatten(check(tables, origin, Recipe).model_dump(mode="json"))
    return {key: understood[key] for key in flatten(tables)}


def _shown(value: Any) -> str:
    return "not given" if value is None else repr(value)


# Steps that are added to a finished run


def _is_finished(run: RunFolder, facts: dict[str, Any]) -> bool:
    """Return True if all steps of a run are done and scored.

    If the process was killed after `recipe.toml` got new steps, `run.json` still says that the run is finished.
    """
    if facts["status"] != "finished":
        return False
    return not (run.recipe.is_file() and read_recipe(run.recipe).train.continued_from == facts["steps"])


def _new_steps(run: RunFolder, facts: dict[str, Any], train: dict[str, Any]) -> NewSteps | None:
    """Return the new steps of a finished run, or of one that was stopped, from its newest checkpoint; None if the new
    steps of an earlier `--more` are not all done, because these come first.
    """
    if _is_finished(run, facts):
        _check_last_state(run, facts["steps"])
        return NewSteps(facts["steps"], train)
    recipe = read_recipe(run.recipe).train if run.recipe.is_file() else None
    if recipe is None or recipe.continued_from is None:
        if facts["status"] == "diverged":
            raise ConfigError(
                f"{run} has diverged, and cannot be trained further; begin another one with --fresh and a lower "
                "train.learning_rate"
            )
        newest = newest_checkpoint(run.checkpoints)
        if recipe is None or newest is None:
            raise ConfigError(
                f"{run} has no checkpoint yet from which --more could continue; begin with: dragoman train {run}"
            )
        step = read_checkpoint_facts(newest).step
        log.info("%s stopped at step %s of %s; its new steps begin there", run, f"{step:,}", f"{recipe.steps:,}")
        return NewSteps(step, train)
    assert recipe.steps is not None, "settings are checked"
    active = {"steps": recipe.steps - recipe.continued_from, "learning_rate": recipe.learning_rate}
    if changes := [key for key in active if train.get(key) not in (None, active[key])]:
        key = changes[0]
        raise ConfigError(
            f"{run} is already being trained further, with train.{key} = {active[key]}, not {train[key]}; "
            f"finish that first: dragoman train {run}"
        )
    log.info(
        "%s is already being trained further, to step %s; that continues, and no steps are added",
        run,
        f"{recipe.steps:,}",
    )
    return None


def _check_last_state(run: RunFolder, step: int) -> None:
    newest = newest_checkpoint(run.checkpoints)
    if newest is None or read_checkpoint_facts(newest).step != step:
        raise CheckpointError(
            f"{run.checkpoints} has no undamaged checkpoint of step {step:,}, where the run finished, so it "
            f"cannot be trained further; dragoman fine-tune {run} DATA starts from the weights of its best model"
        )
