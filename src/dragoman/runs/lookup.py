"""The request for a run: its recipe or data, the requested settings, and its folder. Nothing is written."""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.config import as_overrides, check, flatten, nearest_setting, override, read
from dragoman.errors import ConfigError, DataError
from dragoman.files import CONFIG, free_name, nearest
from dragoman.formats.addresses import HUB, Address, is_pattern, is_prefix
from dragoman.formats.registry import DATA_SUFFIXES
from dragoman.progress import Progress, as_progress, silent
from dragoman.run_folder import RunFolder
from dragoman.runs.recipe import LIMITS, SHARED_DATA_SETTINGS, Recipe, read_tables
from dragoman.runs.status import read_facts_to_go_on
from dragoman.text.guess import guess_task
from dragoman.text.inputs import list_texts
from dragoman.text.settings import DataSettings

log = logging.getLogger(__name__)

What = Recipe | str | Path | Sequence[str | Path]
"""A recipe, a recipe file, the name of one in the library, data, or a run folder."""


@dataclass(frozen=True)
class RunOptions:
    """The options of `train` and of the functions that call it, from the command line to the session."""

    overrides: Sequence[str] = ()
    """Settings, as `dotted.key=value`."""
    name: str | None = None
    """Name of the run; by default, that of its recipe or data."""
    runs: Path | str = "runs"
    """Folder that holds the runs."""
    fresh: bool = False
    """True to begin a run under a new name, if there is one of this name."""
    more: bool = False
    """True to train a finished run further."""
    anyway: bool = False
    """True to continue although the machine or the data have changed."""
    device: str = "auto"
    threads: int | None = None
    progress: Progress = silent

    @classmethod
    def from_keywords(cls, *, progress: Progress | bool = True, **keywords: Any) -> "RunOptions":
        """Build options from the keywords of a public function. Some of them are settings, as on the command line."""
        known = [field.name for field in fields(cls)] + list(SETTINGS)
        for name in keywords.keys() - set(known):
            raise ConfigError(f"unknown keyword {name}; {_nearest_keyword(name, known)}")
        settings = {key: keywords.pop(name, None) for name, key in SETTINGS.items()}
        overrides = as_overrides(settings, keywords.pop("overrides", ()))
        return cls(overrides, progress=as_progress(progress), **keywords)


SETTINGS = {"task": "task", "minutes": "train.minutes", "freeze": "tuning.freeze", "lora": "tuning.lora.rank"} | {
    "synthetic": "synthetic.path",
    "directions": "data.directions",
    "both_directions": "data.both_directions",
}
"""Settings that are keywords of `train`, `fine_tune` and the functions that call them."""
ASKABLE = (*LIMITS, "learning_rate")
"""Settings of `[train]` that may be given with `--more`. The limit counts from the step at which the run finished."""
COMMAND_LINE = "the command line"
"""Origin of tables, for messages."""


class RecipeSource(NamedTuple):
    """The tables of a recipe, their origin for messages, and a name for the run."""

    tables: dict[str, Any]
    origin: str
    name: str
    builtin: frozenset[str] = frozenset()
    """Settings of a recipe that ships with the package, without those of the user."""


def find_recipe(what: What, overrides: Sequence[str] = ()) -> RecipeSource:
    """Return the recipe that `what` is or names: a `Recipe`, a recipe file, the name of one in the library, or data (a
    file, two aligned files, a folder, `hub:…`), whose task is guessed from its form. `overrides` are
    `dotted.key=value`.
    """
    what = only_one(what)
    if isinstance(what, Recipe):
        source = RecipeSource(what.model_dump(mode="json", exclude_unset=True, exclude_none=True), "the recipe", "run")
    else:
        source = _read(what)
    tables = apply_overrides(overrides, source.tables)
    if source.builtin and (task := check(tables, COMMAND_LINE, Recipe).task) != _task_of(source):
        log.info("%s is made for another task; of its settings only the places of its text are taken", source.origin)
        places = {key: value for key, value in source.tables["data"].items() if key in SHARED_DATA_SETTINGS}
        source = RecipeSource({"data": places}, source.origin, f"{source.name}-{task}")
        tables = apply_overrides(overrides, source.tables)
    try:
        recipe = check(tables, COMMAND_LINE if overrides else source.origin, Recipe)
    except ConfigError:
        check(source.tables, source.origin, Recipe)  # a mistake in the recipe itself has its own message
        raise
    if "task" in tables:
        tables["task"] = recipe.task
    elif source.origin == COMMAND_LINE and (guess := guess_task(recipe.data)) is not None:
        tables["task"], reason = guess
        log.info("task = %s (%s); --task chooses another", tables["task"], reason)
    return source._replace(tables=tables, builtin=source.builtin - flatten(override({}, overrides)).keys())


def _task_of(source: RecipeSource) -> str:
    return check(source.tables, source.origin, Recipe).task


def apply_overrides(overrides: Sequence[str], tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables with the overrides applied. A limit of training among them removes the recipe's own."""
    keys = {text.partition("=")[0].strip() for text in overrides}
    train: dict[str, Any] | int | None = tables.get("train")  # not checked yet
    if isinstance(train, dict) and keys & {f"train.{name}" for name in LIMITS}:
        tables = {**tables, "train": {key: value for key, value in train.items() if key not in LIMITS}}
    return override(tables, overrides)


def library() -> list[str]:
    """Return the names of the recipes that ship with the package."""
    return sorted(file.name.removesuffix(".toml") for file in _library().iterdir() if file.name.endswith(".toml"))


def name_of(data: Address) -> str:
    """Return a run's name by its data: `hub:a/books:en-it` gives `books`, and `parts-*.tsv` gives `parts`."""
    first = Path(data if isinstance(data, str) else data[0])
    name = re.split("[:@#]", first.name.removeprefix("hub:"))[0].partition(".")[0]
    return re.split(r"[*?[]", name)[0].rstrip("-_") or "run"


def _read(what: str | Path | Sequence[str | Path]) -> RecipeSource:
    if not isinstance(what, str | Path):
        paths = [str(path) for path in what]
        if alone := [path for path in what if Path(path).suffix == ".toml" or run_named(path)]:
            raise ConfigError(f"{alone[0]} is no text; a recipe or a run is given alone")
        names = dict.fromkeys(map(name_of, list_texts(DataSettings(), tuple(paths))))
        return RecipeSource({"data": {"path": paths}}, COMMAND_LINE, "+".join(islice(names, 3)))
    path = Path(what)
    if path.suffix == ".toml":
        return RecipeSource(read_tables(path), str(path), path.stem)
    if (path / CONFIG).is_file():
        raise ConfigError(f"{what} is a model; train it on other text with: dragoman fine-tune {what} DATA")
    if str(what) in library():
        if path.exists():
            log.warning("%s means the built-in recipe; for the file of that name here, give ./%s", what, what)
        text, origin = (_library() / f"{what}.toml").read_text(encoding="utf-8"), f"recipe {what}"
        tables = read(text, origin)
        return RecipeSource(tables, origin, str(what), frozenset(flatten(tables)))
    if (run := RunFolder(path)).metrics.is_file() and not run.is_run:
        raise ConfigError(f"{what} was a run, but its run.json is missing; train {run.recipe} for a new one")
    if not (path.exists() or str(what).startswith(HUB) or is_prefix(path) or is_pattern(str(what))):
        raise DataError(
            f"{what} does not exist{nearest(path, prefixes=True)}: train takes a recipe (.toml), data "
            f"({DATA_SUFFIXES}, two files, a folder), an earlier run, or one of the recipes {', '.join(library())}"
        )
    return RecipeSource({"data": {"path": str(what)}}, COMMAND_LINE, name_of(str(what)))


def _library() -> Traversable:
    return resources.files("dragoman.runs") / "library"


def only_one(what: What) -> What:
    """Return the only element of a list of one, as the command line gives it; anything else unchanged."""
    return what[0] if isinstance(what, list | tuple) and len(what) == 1 else what


def run_named(what: What) -> RunFolder | None:
    """Return the run whose folder `what` is; None if it is something else."""
    if not isinstance(what, str | Path):
        return None
    run = RunFolder(what)
    return run if run.is_run else None


class RunRequest(NamedTuple):
    """The run that is meant, and the settings that are requested."""

    run: RunFolder
    asked: dict[str, Any] | None
    """Tables of requested settings; None if an existing run continues unchanged."""
    more: dict[str, Any] | None = None
    """Settings of `[train]` for new steps; None if none are added."""
    builtin: frozenset[str] = frozenset()
    """Settings of a built-in recipe."""


def identify_run(what: What, options: RunOptions) -> RunRequest:
    """Return the run that is meant, whether or not it exists yet, and the settings that are requested."""
    check_name(options.name)
    what = only_one(what)
    overrides, more = split_overrides(what, options) if options.more else (options.overrides, None)
    if run := run_named(what):
        before = read_facts_to_go_on(run)
        asked = apply_overrides(overrides, before["asked"])
        check(asked, str(run.recipe), Recipe)
        if options.fresh:
            path = run.path.with_name(options.name) if options.name else run.path
            return RunRequest(RunFolder(free_name(path)), asked)
        if options.name is not None:
            raise ConfigError(f"{what} is a run and has its name; --name goes with a recipe, data, or --fresh")
        return RunRequest(run, asked if overrides else None, more)
    source = find_recipe(what, overrides)
    folder = Path(options.runs) / (options.name or default_name(source, options.runs))
    run = RunFolder(free_name(folder) if options.fresh else folder)
    return RunRequest(run, source.tables, builtin=source.builtin)


def default_name(source: RecipeSource, runs: Path | str, seed: str = "") -> str:
    """Return the default name of a run: that of its recipe or data, with its task if a run of another task has that
    name. A group of seeds shares the name; `seed` is the rest of the first one's.
    """
    run, task = RunFolder(Path(runs) / f"{source.name}{seed}"), _task_of(source)
    try:
        is_other = run.is_run and check(read_facts_to_go_on(run)["asked"], str(run.facts), Recipe).task != task
    except ConfigError:
        return source.name  # opening the damaged run reports it
    return f"{source.name}-{task}" if is_other else source.name


def split_overrides(what: What, options: RunOptions) -> tuple[list[str], dict[str, Any]]:
    """Split overrides into those of the run itself, and the settings of `[train]` for its new steps."""
    if run_named(what) is None:
        raise ConfigError(
            "--more trains a finished run further; name its folder, as in: dragoman train runs/NAME --more"
        )
    if options.fresh or options.name is not None:
        raise ConfigError(
            f"--more trains {what} further, {'--fresh begins' if options.fresh else '--name names'} a new run; "
            "give one of the two"
        )
    askable = {f"train.{key}" for key in ASKABLE}
    new = [text for text in options.overrides if flatten(override({}, [text])).keys() <= askable]
    asked = override({}, new)
    check(asked, "the command line", Recipe)
    return [text for text in options.overrides if text not in new], asked.get("train", {})


def _nearest_keyword(name: str, known: Sequence[str]) -> str:
    if near := get_close_matches(name, known, n=1):
        return f"did you mean {near[0]}?"
    setting = nearest_setting(name, Recipe)
    if not setting.endswith("?"):
        return f"known are {', '.join(known)}"
    return f"{setting} Settings without a keyword go into overrides, as in overrides=['train.steps=1000']"


def command_for(run: RunFolder, threads: int | None) -> str:
    """Return the command that continues a run, with this number of threads, if it was asked for."""
    return f"dragoman train {run}" + (f" --threads {threads}" if threads else "")


def check_name(name: str | None) -> None:
    """Refuse a name that is a path."""
    if name is not None and (Path(name).name != name or name in ("", ".", "..")):
        raise ConfigError(
            f"--name takes a plain name, without folders, but was given {name!r}; --runs names the folder"
        )
