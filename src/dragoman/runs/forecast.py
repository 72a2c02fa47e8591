"""What a run will take: parameters, steps, memory and time, measured by running a little of it."""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import torch

from dragoman import machine
from dragoman.compiled import kernels
from dragoman.errors import Error
from dragoman.files import lock
from dragoman.memory import memory_limit, peak_memory_bytes, usable_memory_bytes
from dragoman.progress import silent
from dragoman.run_folder import RunFolder
from dragoman.runs.changes import open_run
from dragoman.runs.facts import PREPARED, make_folder, note, remove_unmade
from dragoman.runs.judgement import Expectation
from dragoman.runs.lookup import What, find_for_forecast
from dragoman.runs.options import RunContext, RunOptions
from dragoman.runs.recipe import Recipe
from dragoman.runs.resolving import resolve_run
from dragoman.runs.trial import Trial
from dragoman.training.distributed import refuse_several


@dataclass(frozen=True)
class Forecast:
    """What a run will take."""

    recipe: Recipe
    """The resolved recipe."""
    parameters: int
    """Number of weights."""
    trained: str
    """How many of them train, in words."""
    tokens: int
    """Source and target tokens of an epoch."""
    epochs: float
    seconds: float
    """Time to train and validate, without preparing data and scoring."""
    peak_bytes: int | None
    """The most memory that the process will hold; on a GPU, the most of the GPU's memory."""
    where: str
    """The machine, in one line."""
    prepared: Path | None = None
    """The folder of the run whose text was prepared; None if it was begun before, or its name is taken."""


def forecast(what: What = "phrasebook", **options: Unpack[RunOptions]) -> Forecast:
    """Forecasts what `train` would take with the same arguments.

    It prepares the text in the folder of the run, and `train` goes on from there. Only if the folder holds something
    else, such as a run with other settings, it prepares the text in a temporary one. Then it measures the memory and
    time of the heaviest batches, some seconds of ordinary ones, a validation and a checkpoint.

    Raises:
        The errors of `train`, except those about continuing a run.
    """
    refuse_several("a forecast (--dry-run)")
    device, _ = machine.choose_device(options.get("device", "auto"))
    (run, asked, expectation), keeps = find_for_forecast(what, options)
    assert asked is not None, "a forecast is of settings"
    progress = options.get("progress", silent)
    if device == "cpu":
        kernels.prepare(progress)
    limit = usable_memory_bytes() if device == "cpu" else None
    with (
        memory_limit(limit),
        machine.use_threads(options.get("threads")),
        tempfile.TemporaryDirectory(prefix="dragoman-") as aside,
        _kept(run, asked, expectation, options.get("threads")) if keeps else nullcontext(),
    ):
        place = run if keeps or (run.is_run and run.recipe.is_file()) else RunFolder(Path(aside))
        context = RunContext(place, device, options.get("anyway", False), progress)
        task = resolve_run(context, asked, decide=False)
        recipe, trial = task.recipe, Trial(task)
        trial.train_heaviest()
        step, validation = trial.seconds_a_step(progress), trial.seconds_a_validation()
        trial.save(RunFolder(Path(aside)).checkpoints)
        where = f"{device}, {recipe.train.precision}, {machine.describe()}"
    steps, every = recipe.train.steps or 0, recipe.train.validate_every or 1
    return Forecast(
        recipe=recipe,
        parameters=trial.parameters,
        trained=str(trial.trained),
        tokens=trial.tokens,
        epochs=steps * recipe.train.accumulate / len(trial.order),
        seconds=steps * step + -(-steps // every) * validation,
        peak_bytes=torch.cuda.max_memory_reserved() if device == "cuda" else peak_memory_bytes(),
        where=where,
        prepared=run.path if keeps else None,
    )


@contextmanager
def _kept(
    run: RunFolder, asked: dict[str, Any], expectation: Expectation | None, threads: int | None
) -> Generator[None]:
    """Holds the folder of a run while its text is prepared there."""
    make_folder(run)
    with lock(run.path):
        open_run(run, asked, expectation and expectation._asdict(), threads)
        try:
            yield
        except Error:
            remove_unmade(run)
            raise
        note(run, PREPARED)
