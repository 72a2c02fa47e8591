"""`run.json`: what was asked of a run, and how far it is. Loads no torch."""

from contextlib import suppress
from typing import Any

from dragoman.config import Settings
from dragoman.documents import read_document, write_json
from dragoman.errors import ConfigError
from dragoman.files import LOCK, make_folders, remove
from dragoman.run_folder import RunFolder
from dragoman.runs.recipe import without_removed

FORMAT = 1
"""Of `run.json`."""
PREPARED = "prepared"
"""The status of a run of which a forecast (`--dry-run`) has prepared the text, and nothing else."""


class _RunFile(Settings, extra="allow"):
    """What `run.json` must hold; the version of Dragoman that wrote it may have added more."""

    format: int
    asked: dict[str, Any]
    threads: int
    status: str
    """prepared (by a forecast), preparing, training, stopped, diverged or finished."""
    steps: int | None = None
    """Of a finished run."""


def read_facts(run: RunFolder) -> dict[str, Any]:
    """Reads a run's `run.json`.

    Raises:
        ConfigError: it is missing, damaged or of another format.
    """
    return read_document(run.facts, _RunFile, FORMAT, error=ConfigError).model_dump(mode="json", exclude_unset=True)


def read_facts_to_go_on(run: RunFolder) -> dict[str, Any]:
    """Reads a run's `run.json` so that the run can go on.

    Raises:
        ConfigError: as in `read_facts`, with advice on what to do; or the run asks for a setting that was removed.
    """
    try:
        facts = read_facts(run)
    except ConfigError as error:
        raise ConfigError(f"{error}; take another --name for a new run") from None
    return {**facts, "asked": without_removed(facts["asked"], str(run.facts))}


def note(run: RunFolder, status: str, **more: Any) -> None:
    """Records in `run.json` how far a run is."""
    write_json(run.facts, {**read_facts(run), "status": status, **more})


def make_folder(run: RunFolder) -> None:
    """Makes the folder of a run, if there is none.

    Raises:
        ConfigError: the system refuses.
    """
    try:
        make_folders(run.path)
    except OSError as error:
        raise ConfigError(f"{run} cannot be made: {error.strerror}; take another --name or --runs") from None


def remove_unmade(run: RunFolder) -> None:
    """Removes a run's folder if it holds nothing but `run.json`, because what was asked for could not be used."""
    if {path.name for path in run.path.iterdir()} <= {run.facts.name, LOCK}:
        with suppress(OSError):  # Windows keeps a file that is locked
            remove(run.path)
