"""Which run a request means: its folder, and the settings asked for. Nothing is written."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.config import check
from dragoman.errors import ConfigError
from dragoman.files import free_name
from dragoman.recipe.recipe import Recipe
from dragoman.recipe.source import apply, find_recipe
from dragoman.run_folder import RunFolder
from dragoman.runs.changes import refuse_changes
from dragoman.runs.facts import PREPARED, read_facts_to_go_on
from dragoman.runs.judgement import Expectation
from dragoman.runs.options import RunOptions

What = Recipe | str | Path | Sequence[str | Path]
"""A recipe, a recipe file, the name of one in the library, data, or a run folder."""

log = logging.getLogger(__name__)


def only_one(what: What) -> What:
    """The only element of a list of one, which the command line gives; anything else unchanged."""
    return what[0] if isinstance(what, list | tuple) and len(what) == 1 else what


def run_named(what: What) -> RunFolder | None:
    """The run whose folder `what` is; None if it is something else."""
    if not isinstance(what, str | Path):
        return None
    run = RunFolder(Path(what))
    return run if run.is_run else None


class Found(NamedTuple):
    """The run that a request means."""

    run: RunFolder
    asked: dict[str, Any] | None
    """The tables of settings asked for; None if an existing run goes on as it was."""
    expectation: Expectation | None = None
    """The scores that its recipe expects."""


def find_run(what: What, overrides: Sequence[str], name: str | None, runs: Path, fresh: bool) -> Found:
    """The run's folder, and the settings asked for.

    Raises:
        ConfigError: the name is a path, or is given to a run that has one; a setting is wrong.
    """
    check_name(name)
    what = only_one(what)
    if run := run_named(what):
        before = read_facts_to_go_on(run)
        asked = apply(overrides, before["asked"])
        check(asked, str(run.recipe), Recipe)
        kept = before.get("expectation")
        expectation = kept and Expectation(**kept).but(before["asked"], asked)
        if not fresh:
            if name is not None:
                raise ConfigError(f"{what} is a run and has its name; --name goes with a recipe, data, or --fresh")
            return Found(run, asked if overrides else None, expectation)
        return Found(RunFolder(free_name(run.path.with_name(name) if name else run.path)), asked, expectation)
    source = find_recipe(what, overrides)
    folder = runs / (name or source.name)
    expectation = source.expected and Expectation(source.expected.model_dump(mode="json"), source.changed)
    return Found(RunFolder(free_name(folder) if fresh else folder), source.tables, expectation)


def find_for_forecast(what: What, options: RunOptions) -> tuple[Found, bool]:
    """The run that `train` would begin or continue with these options, and the settings that it would use; then whether
    `train` would go on from text that is prepared in its folder now.

    If a run of that name was begun with other settings, the forecast is for a new run of another name.

    Raises:
        ConfigError: the options cannot be used for a new run or this one.
    """
    if options.get("more"):
        raise ConfigError("--dry-run estimates a run from its beginning; leave --more out")
    run, asked, expectation = find_run(
        what,
        options.get("overrides", ()),
        options.get("name"),
        Path(options.get("runs", "runs")),
        options.get("fresh", False),
    )
    if asked is None:
        facts = read_facts_to_go_on(run)
        return Found(run, facts["asked"], expectation), facts["status"] == PREPARED
    if run.is_run:
        try:
            facts = read_facts_to_go_on(run)
            if facts["status"] == PREPARED:
                return Found(run, asked, expectation), True
            refuse_changes(run, facts["asked"], asked)
        except ConfigError:
            log.info("%s was begun with other settings; this is what a new run would take", run)
            return Found(RunFolder(free_name(run.path)), asked), False
    return Found(run, asked, expectation), not run.path.exists()


def check_name(name: str | None) -> None:
    """Refuses a name that is a path.

    Raises:
        ConfigError: the name is a path.
    """
    if name is not None and (Path(name).name != name or name in ("", ".", "..")):
        raise ConfigError(
            f"--name takes a plain name, without folders, but was given {name!r}; --runs names the folder"
        )
