"""The runs that lie in a folder: how far each is, how good, how large. Only reads, and loads no model."""

import logging
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import pydantic

from dragoman.config import Settings, check, read
from dragoman.documents import read_object
from dragoman.errors import ConfigError, DataError, Error
from dragoman.evaluating.scores import read_evaluations
from dragoman.files import is_locked
from dragoman.recipe.recipe import RECIPE
from dragoman.runs.metrics import METRICS, read_metrics

FORMAT = 1
RUN, SCORES = "run.json", "scores.json"

log = logging.getLogger(__name__)


class _RunFile(Settings, extra="ignore"):
    """What `run.json` must say; the version that wrote it may have added more."""

    asked: dict[str, Any]
    threads: Annotated[int, pydantic.Field(ge=1, lt=2**31)]
    """torch takes an int of 32 bits."""
    status: Literal["preparing", "training", "stopped", "diverged", "finished"]
    steps: Annotated[int, pydantic.Field(ge=0)] = 0
    """Of a finished run."""


class _StepsOfRecipe(Settings, extra="ignore"):
    steps: Annotated[int, pydantic.Field(ge=1)] | None = None


class _RecipeFile(Settings, extra="ignore"):
    """All that a listing tells of a recipe, so that it lists runs of any version."""

    train: _StepsOfRecipe = _StepsOfRecipe()


class RunScore(NamedTuple):
    """How good a run is, in one figure."""

    metric: str
    value: float
    test: str
    """What it was measured on: the name of a test set, or `dev` for the best validation so far."""


class RunFacts(NamedTuple):
    """One run, as `dragoman runs` lists it."""

    folder: str
    state: str
    """preparing, training, stopped, diverged or finished; cut off, where a process ended without a word; damaged, where
    one of its files cannot be read.
    """
    steps: int
    """Done so far."""
    steps_wanted: int | None
    """Once they are decided."""
    score: RunScore | None
    changed: float
    """When something last happened, in seconds since 1970."""
    bytes: int


def list_runs(folder: Path | str = "runs") -> tuple[RunFacts, ...]:
    """The runs in `folder`, or the run that it is; those that changed last come first.

    Raises:
        DataError: no such folder.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder; dragoman runs takes the folder that runs lie in")
    places = [folder] if (folder / RUN).is_file() else [path.parent for path in folder.glob(f"*/{RUN}")]
    return tuple(sorted(map(_look_at, places), key=lambda run: -run.changed))


def read_run(folder: Path) -> dict[str, Any]:
    """What the `run.json` of a run says.

    Raises:
        CheckpointError: it is missing, or no JSON object.
        ConfigError: it is of another version, or damaged.
    """
    path = folder / RUN
    facts = read_object(path)
    if facts.get("format") != FORMAT or facts.get("format") is True:
        raise ConfigError(f"{path} is not of this version of Dragoman")
    needed = ["asked", "threads", "status", *(["steps"] if facts.get("status") == "finished" else [])]
    for name in needed:
        if name not in facts:
            raise ConfigError(f"{path} is damaged: {name!r} is missing")
    check(facts, f"{path} is damaged", _RunFile)
    return facts


def _look_at(run: Path) -> RunFacts:
    damage: list[Error | OSError] = []
    state, steps_wanted, score, metrics = "damaged", None, None, []
    with _noted(damage):
        state = read_run(run)["status"]
    with _noted(damage):
        steps_wanted = _steps_wanted(run / RECIPE)
    with _noted(damage):
        score = _test_score(run / SCORES)
    with _noted(damage):
        metrics = read_metrics(run)
    for error in damage:
        log.warning("%s", error)
    if damage:
        state = "damaged"
    elif state in ("preparing", "training") and not is_locked(run):
        state = "cut off"
    return RunFacts(
        folder=str(run),
        state=state,
        steps=metrics[-1]["step"] if metrics else 0,
        steps_wanted=steps_wanted,
        score=score or _dev_score(metrics),
        changed=max(
            (each.stat().st_mtime for each in (run / RUN, run / METRICS) if each.is_file()), default=run.stat().st_mtime
        ),
        bytes=sum(_sizes(run)),
    )


@contextmanager
def _noted(damage: list[Error | OSError]) -> Generator[None]:
    """What cannot be read of one run is noted, so that its other facts and the other runs are listed all the same."""
    try:
        yield
    except (Error, OSError) as error:
        damage.append(error)


def _steps_wanted(recipe: Path) -> int | None:
    try:
        text = recipe.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise ConfigError(f"{recipe} cannot be read: it is not UTF-8") from None
    return check(read(text, str(recipe)), f"{recipe} is damaged", _RecipeFile).train.steps


def _test_score(path: Path) -> RunScore | None:
    """On the set called `test`, else on the first; of a fine-tuned model, after it."""
    if not path.exists():
        return None
    found = [each for each in read_evaluations(path) if not each.system.startswith("before")]
    best = next((each for each in found if each.test.stem == "test"), next(iter(found), None))
    if best is None:
        return None
    score = best.scores.get("bleu") or next(iter(best.scores.values()))
    return RunScore(score.name, score.value, best.test.stem)


def _dev_score(metrics: list[dict[str, Any]]) -> RunScore | None:
    """Of the best validation: its chrF, by which the best model is chosen."""
    found = [line["dev_chrf"] for line in metrics if line.get("dev_chrf") is not None]
    return RunScore("chrF", max(found), "dev") if found else None


def _sizes(run: Path) -> Iterator[int]:
    for path in run.rglob("*"):
        with suppress(OSError):  # a training run removes what it has replaced
            if path.is_file() and not path.is_symlink():
                yield path.stat().st_size
