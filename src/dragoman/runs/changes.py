"""Which settings of a run may still change: those from which nothing has been made yet."""

import logging
from pathlib import Path
from typing import Any

import dragoman
from dragoman import machine
from dragoman.config import check, flatten
from dragoman.documents import write_json
from dragoman.errors import ConfigError
from dragoman.files import LOCK, remove
from dragoman.run_folder import RunFolder
from dragoman.runs.facts import FORMAT, PREPARED, note, read_facts, read_facts_to_go_on
from dragoman.runs.recipe import LIMITS, Recipe, read_recipe
from dragoman.runs.tasks import task_of
from dragoman.training.settings import HARMLESS

log = logging.getLogger(__name__)

PATHS = ("folder", "path", "dev_path", "test_path")
"""Settings of `[data]` that say where the text lies; they may change if the text is the same."""


def open_run(
    run: RunFolder, asked: dict[str, Any] | None, expectation: dict[str, Any] | None, threads: int | None
) -> dict[str, Any]:
    """The content of `run.json`, after writing what is asked now into it. So it is there before anything is made from
    it, and the same command goes on wherever it is cut off.

    Raises:
        ConfigError: the folder holds something else, or the run was begun with other settings or threads.
    """
    expected = {"expectation": expectation} if expectation else {}
    if not run.is_run:
        if strangers := sorted(path.name for path in run.path.iterdir() if path.name != LOCK):
            raise ConfigError(f"{run} is not a run, and not empty ({strangers[0]}); take another --name")
        assert asked is not None, "an earlier run has its facts"
        return _begin(run, asked, expected, threads)
    facts = read_facts_to_go_on(run)
    if facts["status"] == PREPARED:
        wanted = facts["asked"] if asked is None else asked
        _remove_other_text(run, facts["asked"], wanted)
        return _begin(run, wanted, expected, threads)
    if asked is not None:
        refuse_changes(run, facts["asked"], asked, finished=facts["status"] == "finished")
    if threads is not None and machine.choose_threads(threads) != facts["threads"]:
        raise ConfigError(f"{run} was begun with {facts['threads']} threads; go on with as many, or use --fresh")
    if asked not in (None, facts["asked"]):
        note(run, facts["status"], asked=asked, **expected)
    return read_facts_to_go_on(run)


def _begin(run: RunFolder, asked: dict[str, Any], expected: dict[str, Any], threads: int | None) -> dict[str, Any]:
    chosen = machine.choose_threads(threads)
    facts = {"format": FORMAT, "dragoman": dragoman.__version__, "threads": chosen, "asked": asked, **expected}
    write_json(run.facts, facts | {"status": "preparing"})
    return read_facts(run)


def _remove_other_text(run: RunFolder, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Removes what a forecast prepared, if it did so with other settings."""
    try:
        refuse_changes(run, before, now)
    except ConfigError:
        log.info("%s was prepared by a forecast with other settings, and is prepared again", run)
        for part in (run.data, run.tokenizer, run.corpora):
            remove(part)


def refuse_changes(run: RunFolder, before: dict[str, Any], now: dict[str, Any], finished: bool = False) -> None:
    """Refuses changes to settings from which something in the run's folder was already made.

    Raises:
        ConfigError: some have changed; the error names each with its old and new value.
    """
    changes = _changes(run, before, now)
    moved = {f"data.{name}" for name in PATHS} & changes.keys()
    if moved and "task" not in changes and _is_same_text(run, check(now, str(run), Recipe)):
        changes = {key: values for key, values in changes.items() if key not in moved}
    harmful = {
        key: values
        for key, values in changes.items()
        if key.removeprefix("train.") not in HARMLESS and _made_from(run, key).exists()
    }
    if finished and harmful and all(key.removeprefix("train.") in LIMITS for key in harmful):
        raise ConfigError(
            f"{run} is finished; to train it further, give a limit that counts from its end: dragoman train "
            f"{run} --more --minutes N (or --set train.steps=N); --fresh begins a new run"
        )
    if harmful:
        named = "; ".join(f"{key} was {_shown(was)}, is {_shown(value)}" for key, (was, value) in harmful.items())
        raise ConfigError(f"{run} was begun with other settings ({named}); use --fresh or another --name for a new run")


def _made_from(run: RunFolder, key: str) -> Path:
    """The first file or folder that is made from a setting. Once it exists, the setting is fixed."""
    group = key.partition(".")[0]
    return {"task": run.data, "data": run.data, "tokenizer": run.tokenizer, "start": run.tokenizer}.get(
        group, run.recipe
    )


def _changes(run: RunFolder, before: dict[str, Any], now: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Settings that differ, with both values. If one was not given before, its old value is the one chosen then."""
    asked, wanted = (_given(tables, str(run)) for tables in (before, now))
    chosen = read_recipe(run.recipe) if run.recipe.is_file() else Recipe()
    known = flatten(chosen.model_dump(mode="json")) | asked
    values = {key: (known.get(key), wanted.get(key)) for key in sorted(asked.keys() | wanted.keys())}
    return {key: (was, value) for key, (was, value) in values.items() if was != value}


def _given(tables: dict[str, Any], origin: str) -> dict[str, Any]:
    """The settings given in the tables, with their values as `Recipe` parses them."""
    understood = flatten(check(tables, origin, Recipe).model_dump(mode="json"))
    return {key: understood[key] for key in flatten(tables)}


def _is_same_text(run: RunFolder, recipe: Recipe) -> bool:
    return run.report.is_file() and task_of(run, recipe).is_made_from_its_text()


def _shown(value: Any) -> str:
    return "not given" if value is None else repr(value)
