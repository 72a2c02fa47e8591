"""Where a run lies, what it was asked for, and what of that may be asked differently when it goes on."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import dragoman
from dragoman import machine
from dragoman.config import check, flatten
from dragoman.errors import ConfigError
from dragoman.files import free_name, make_folders, remove, write_json
from dragoman.progress import Progress
from dragoman.recipe.recipe import LIMITS, RECIPE, Recipe, read_recipe
from dragoman.recipe.source import apply, find_recipe
from dragoman.runs.data import DATA, TOKENIZER
from dragoman.runs.listing import FORMAT, RUN, read_run
from dragoman.text.inputs import is_made_from
from dragoman.text.report import REPORT, read_report
from dragoman.training.distributed import ALONE, World
from dragoman.training.settings import HARMLESS

PATHS = ("folder", "path", "dev_path", "test_path")
"""Settings of `[data]` that say where text lies; the same text may lie elsewhere."""

log = logging.getLogger(__name__)

_MADE_FROM = {"data": DATA, "tokenizer": TOKENIZER, "start": TOKENIZER}
"""What settles each group of settings; the others are settled by the recipe."""


class RunOptions(TypedDict, total=False):
    """The options of `train`; functions that call it hand them on."""

    overrides: Sequence[str]
    name: str | None
    runs: Path | str
    fresh: bool
    more: bool
    anyway: bool
    device: str
    threads: int | None
    progress: Progress


class Workplace(NamedTuple):
    """Where a run is made, on which device, and to whom it reports."""

    folder: Path
    device: str
    anyway: bool
    """Whether it goes on although something under it has changed."""
    progress: Progress
    world: World = ALONE
    """The processes that make it together."""


def find_place(
    what: Recipe | str | Path | Sequence[str | Path],
    overrides: Sequence[str],
    name: str | None,
    runs: Path,
    fresh: bool,
) -> tuple[Path, dict[str, Any] | None]:
    """The run's folder, and the tables asked for; None where an earlier run is named and goes on as it was."""
    check_name(name)
    if isinstance(what, list | tuple) and len(what) == 1:
        what = what[0]
    if isinstance(what, str | Path) and (Path(what) / RUN).is_file():
        before = _facts(Path(what))
        if not fresh:
            if name is not None:
                raise ConfigError(f"{what} is a run with a name; --name goes with a recipe, data, or --fresh")
            return Path(what), apply(overrides, before["asked"]) if overrides else None
        asked = apply(overrides, before["asked"])
        check(asked, str(Path(what) / RECIPE), Recipe)
        return free_name(Path(what).with_name(name) if name else Path(what)), asked
    source = find_recipe(what, overrides)
    folder = runs / (name or source.name)
    return free_name(folder) if fresh else folder, source.tables


def check_name(name: str | None) -> None:
    if name is not None and (Path(name).name != name or name in ("", ".", "..")):
        raise ConfigError(
            f"--name takes a plain name, without folders, but was given {name!r}; --runs names the folder"
        )


def look_up(what: Recipe | str | Path | Sequence[str | Path], options: RunOptions) -> tuple[Path, dict[str, Any]]:
    """The folder that `train` would work in with these options, and the tables it would go by; nothing is written.

    Where a run of that name cannot go on by them, they are looked up as for a new one.
    """
    if options.get("more"):
        raise ConfigError("--dry-run estimates a run from its beginning; leave --more out")
    folder, asked = find_place(
        what,
        options.get("overrides", ()),
        options.get("name"),
        Path(options.get("runs", "runs")),
        options.get("fresh", False),
    )
    if asked is None:
        return folder, _facts(folder)["asked"]
    if (folder / RUN).is_file():
        try:
            _refuse_changes(folder, _facts(folder)["asked"], asked)
        except ConfigError:
            log.info("%s was begun with other settings; this is what a new run would take", folder)
            return free_name(folder), asked
    return folder, asked


def make_folder(folder: Path) -> None:
    try:
        make_folders(folder)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be made: {error.strerror}; take another --name or --runs") from None


def open_run(folder: Path, asked: dict[str, Any] | None, threads: int | None) -> dict[str, Any]:
    """What `run.json` says, after a look at what is asked now; written, if the run is new."""
    if not (folder / RUN).is_file():
        strangers = sorted(path.name for path in folder.iterdir() if path.name != ".lock")
        if strangers:
            raise ConfigError(f"{folder} is no run, and not empty ({strangers[0]}); take another --name")
        assert asked is not None, "an earlier run has its facts"
        facts = {
            "format": FORMAT,
            "dragoman": dragoman.__version__,
            "threads": machine.choose_threads(threads),
            "asked": asked,
        }
        note(folder, facts, "preparing")
        return facts
    facts = _facts(folder)
    if asked is not None:
        _refuse_changes(folder, facts["asked"], asked, finished=facts["status"] == "finished")
        facts["asked"] = asked
    if threads not in (None, facts["threads"]):
        raise ConfigError(f"{folder} was begun with {facts['threads']} threads; go on with as many, or use --fresh")
    return facts


def remove_unmade(folder: Path) -> None:
    """Removes a run of which nothing was made: what was given could not be used."""
    if {path.name for path in folder.iterdir()} <= {RUN, ".lock"}:
        with suppress(OSError):  # Windows keeps a file that is locked
            remove(folder)


def note(folder: Path, facts: dict[str, Any], status: str, **more: Any) -> None:
    """Writes down how far a run is."""
    facts.update(status=status, **more)
    write_json(folder / RUN, facts)


def _facts(folder: Path) -> dict[str, Any]:
    try:
        return read_run(folder)
    except ConfigError as error:
        raise ConfigError(f"{error}; take another --name for a new run") from None


def _refuse_changes(folder: Path, before: dict[str, Any], now: dict[str, Any], finished: bool = False) -> None:
    """Refuses other settings than those that something of the run was made from already."""
    changes = _changes(folder, before, now)
    moved = {f"data.{name}" for name in PATHS} & changes.keys()
    if moved and _is_same_text(folder / DATA, check(now, str(folder), Recipe)):
        changes = {key: values for key, values in changes.items() if key not in moved}
    harmful = {
        key: values
        for key, values in changes.items()
        if key.removeprefix("train.") not in HARMLESS
        and (folder / _MADE_FROM.get(key.partition(".")[0], RECIPE)).exists()
    }
    if finished and harmful and all(key.removeprefix("train.") in LIMITS for key in harmful):
        raise ConfigError(
            f"{folder} is finished; to train it on, by a limit that counts from where it ended: dragoman train "
            f"{folder} --more --minutes N (or --set train.steps=N); --fresh begins a new run"
        )
    if harmful:
        told = "; ".join(f"{key} was {_told(was)}, is {_told(value)}" for key, (was, value) in harmful.items())
        raise ConfigError(
            f"{folder} was begun with other settings ({told}); use --fresh or another --name for a new run"
        )


def _changes(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Settings whose values are others than before. What was not given before has the value that was chosen then."""
    asked, wanted = (_given(tables, str(folder)) for tables in (before, now))
    path = folder / RECIPE
    chosen = read_recipe(path) if path.is_file() else Recipe()
    known = flatten(chosen.model_dump(mode="json")) | asked
    values = {key: (known.get(key), wanted.get(key)) for key in sorted(asked.keys() | wanted.keys())}
    return {key: (was, value) for key, (was, value) in values.items() if was != value}


def _given(tables: dict[str, Any], origin: str) -> dict[str, Any]:
    """The settings that stand in the tables, as they are understood."""
    understood = flatten(check(tables, origin, Recipe).model_dump(mode="json"))
    return {key: understood[key] for key in flatten(tables)}


def _is_same_text(data: Path, recipe: Recipe) -> bool:
    return (data / REPORT).is_file() and is_made_from(read_report(data), recipe.data)


def _told(value: Any) -> str:
    return "not given" if value is None else repr(value)
