"""The runs that lie in a folder: how far each is, how good, how large. Only reads, and loads no model."""

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.errors import CheckpointError, DataError
from dragoman.files import is_locked, read_object
from dragoman.recipe.journal import METRICS, read_metrics

RUN, RECIPE, SCORES = "run.json", "recipe.toml", "scores.json"


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
    run.json cannot be read.
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


def _look_at(run: Path) -> RunFacts:
    try:
        state = read_object(run / RUN).get("status")
    except CheckpointError:
        state = None
    if state in ("preparing", "training") and not is_locked(run):
        state = "cut off"
    metrics = read_metrics(run)
    return RunFacts(
        folder=str(run),
        state=state if isinstance(state, str) else "damaged",
        steps=metrics[-1]["step"] if metrics else 0,
        steps_wanted=_steps_wanted(run / RECIPE),
        score=_test_score(run / SCORES) or _dev_score(metrics),
        changed=max((run / name).stat().st_mtime for name in (RUN, METRICS) if (run / name).is_file()),
        bytes=sum(_sizes(run)),
    )


def _steps_wanted(recipe: Path) -> int | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        return int(tomllib.loads(recipe.read_text(encoding="utf-8"))["train"]["steps"])
    return None


def _test_score(path: Path) -> RunScore | None:
    """On the set called `test`, else on the first; of a fine-tuned model, after it."""
    with suppress(CheckpointError, KeyError, TypeError, AttributeError, IndexError):
        found = [each for each in read_object(path)["evaluations"] if not each["system"].startswith("before")]
        best = next((each for each in found if Path(each["test"]["name"]).stem == "test"), found[0])
        scores: dict[str, Mapping[str, Any]] = best["scores"]
        score = scores.get("bleu") or next(iter(scores.values()))
        return RunScore(score["name"], score["value"], Path(best["test"]["name"]).stem)
    return None


def _dev_score(metrics: list[dict[str, Any]]) -> RunScore | None:
    """Of the best validation: its chrF, by which the best model is chosen."""
    found = [line["dev_chrf"] for line in metrics if line.get("dev_chrf") is not None]
    return RunScore("chrF", max(found), "dev") if found else None


def _sizes(run: Path) -> Iterator[int]:
    for path in run.rglob("*"):
        with suppress(OSError):  # a training run removes what it has replaced
            if path.is_file() and not path.is_symlink():
                yield path.stat().st_size
