"""Status of runs: `run.json`, and the list of runs with state, score and size. Loads no torch."""

import logging
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pydantic

from dragoman.config import Settings, check, read_json_as
from dragoman.errors import ConfigError, DataError, Error
from dragoman.evaluating.scores import read_evaluations
from dragoman.files import LOCK, is_locked, make_folders, remove
from dragoman.run_folder import RunFolder
from dragoman.runs.metrics_log import read_metrics
from dragoman.runs.recipe import read_tables
from dragoman.serialization import write_json

log = logging.getLogger(__name__)

FORMAT = 1
"""Format number of `run.json`."""
DEFAULT_COUNTING = "tok:13a"
"""BLEU's default tokenization, as in signatures; a score with another one is listed as such."""
PREPARED = "prepared"
"""Status of a run of which a forecast (`--dry-run`) has prepared the text, and nothing else."""


class _RunFile(Settings, extra="allow"):
    """Required content of `run.json`; the version of Dragoman that wrote it may have added more."""

    format: int
    asked: dict[str, Any]
    threads: int
    status: str
    """prepared (by a forecast), preparing, training, stopped, diverged or finished."""
    steps: int | None = None
    """Number of steps of a finished run."""


def read_facts(run: RunFolder) -> dict[str, Any]:
    """Read a run's `run.json`."""
    return read_json_as(run.facts, _RunFile, FORMAT, error=ConfigError).model_dump(mode="json", exclude_unset=True)


def read_facts_to_go_on(run: RunFolder) -> dict[str, Any]:
    """Read a run's `run.json` so that the run can continue."""
    try:
        return read_facts(run)
    except ConfigError as error:
        raise ConfigError(f"{error}; take another --name for a new run") from None


def record_status(run: RunFolder, status: str, **more: Any) -> None:
    """Record the status of a run in `run.json`."""
    write_json(run.facts, {**read_facts(run), "status": status, **more})


def make_folder(run: RunFolder) -> None:
    """Make the folder of a run, if there is none."""
    try:
        make_folders(run.path)
    except OSError as error:
        raise ConfigError(f"{run} cannot be made: {error.strerror}; take another --name or --runs") from None


def remove_unmade(run: RunFolder) -> None:
    """Remove a run's folder if it holds nothing but `run.json`, because what was asked for could not be used."""
    if {path.name for path in run.path.iterdir()} <= {run.facts.name, LOCK}:
        with suppress(OSError):  # the error of the run matters more
            remove(run.path)


class _StepsOfRecipe(Settings, extra="ignore"):
    steps: Annotated[int, pydantic.Field(ge=1)] | None = None


class _RecipeFile(Settings, extra="ignore"):
    """The only part of a recipe that a listing needs, so that it can list runs of any version."""

    train: _StepsOfRecipe = _StepsOfRecipe()


class RunScore(NamedTuple):
    """The score of a run, in one figure."""

    metric: str
    value: float
    test: str
    """Name of the test set, or `dev` for the best validation so far."""


class RunFacts(NamedTuple):
    """One run, as `dragoman runs` lists it."""

    folder: str
    state: str
    """preparing, training, stopped, diverged, finished, cut off (killed), or damaged (a file cannot be read)."""
    steps: int
    """Number of steps done so far."""
    steps_wanted: int | None
    """Number of all steps, once it is decided."""
    score: RunScore | None
    changed: float
    """Time of the last change of its files, in seconds since 1970."""
    bytes: int
    """Size of all its files."""


def list_runs(folder: Path | str = "runs") -> tuple[RunFacts, ...]:
    """List the runs in `folder`, or the run that `folder` is; the run that changed last comes first.

    Raises:
        DataError: there is no such folder.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; dragoman runs takes the folder that holds the runs")
    run = RunFolder(folder)
    runs = [run] if run.is_run else [run for path in folder.iterdir() if (run := RunFolder(path)).facts.exists()]
    return tuple(sorted(map(_look_at, runs), key=lambda run: -run.changed))


def _look_at(run: RunFolder) -> RunFacts:
    damage: list[Error | OSError] = []
    state, steps_wanted, score, metrics = "damaged", None, None, []
    with _collect_damage(damage):
        state = read_facts(run)["status"]
    with _collect_damage(damage):
        tables = read_tables(run.recipe) if run.recipe.exists() else {}
        steps_wanted = check(tables, f"{run.recipe} is damaged", _RecipeFile).train.steps
    with _collect_damage(damage):
        score = _test_score(run.scores)
    with _collect_damage(damage):
        metrics = read_metrics(run)
    for error in damage:
        log.warning("%s", error)
    if damage:
        state = "damaged"
    elif state in ("preparing", "training") and not is_locked(run.path):
        state = "cut off"
    return RunFacts(
        folder=str(run),
        state=state,
        steps=metrics[-1]["step"] if metrics else 0,
        steps_wanted=steps_wanted,
        score=score or _dev_score(metrics),
        changed=max(
            (path.stat().st_mtime for path in (run.facts, run.metrics) if path.is_file()),
            default=run.path.stat().st_mtime,
        ),
        bytes=sum(_sizes(run.path)),
    )


@contextmanager
def _collect_damage(damage: list[Error | OSError]) -> Generator[None]:
    """Collect an error in `damage`, so that the run's other facts and the other runs are still listed."""
    try:
        yield
    except (Error, OSError) as error:
        damage.append(error)


def _test_score(path: Path) -> RunScore | None:
    """Return the score on the set called `test`, else on the first set; for a fine-tuned model, the later score."""
    if not path.exists():
        return None
    evaluations = [scored for scored in read_evaluations(path) if not scored.system.startswith("before")]
    best = next((scored for scored in evaluations if scored.test.stem == "test"), next(iter(evaluations), None))
    if best is None:
        return None
    score = best.scores.get("bleu") or next(iter(best.scores.values()))
    counted = next((field for field in score.signature.split("|") if field.startswith("tok:")), DEFAULT_COUNTING)
    name = score.name if counted == DEFAULT_COUNTING else f"{score.name} ({counted})"
    return RunScore(name, score.value, best.test.stem)


def _dev_score(metrics: list[dict[str, Any]]) -> RunScore | None:
    """Return the score of the best validation, by the metric with which the run's task chooses its best model."""
    for name, metric, best in (("chrF", "dev_chrf", max), ("nats a character", "dev_nats_per_character", min)):
        if values := [line[metric] for line in metrics if line.get(metric) is not None]:
            return RunScore(name, best(values), "dev")
    return None


def _sizes(run: Path) -> Iterator[int]:
    for path in run.rglob("*"):
        with suppress(OSError):  # a training run removes what it has replaced
            if path.is_file() and not path.is_symlink():
                yield path.stat().st_size
