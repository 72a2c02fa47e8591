"""Forecast of a run: parameters, steps, memory and time, measured by running a little of it."""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dragoman import system
from dragoman.brief import brief
from dragoman.compiled import kernels
from dragoman.errors import ConfigError, Error
from dragoman.files import lock
from dragoman.memory import keep_freed_memory, memory_limit, peak_memory_bytes, usable_memory_bytes
from dragoman.run_folder import RunFolder
from dragoman.runs.lookup import RunOptions, RunRequest, What, identify_run
from dragoman.runs.opening import open_run, refuse_changes
from dragoman.runs.recipe import Recipe
from dragoman.runs.resolving import resolve_run
from dragoman.runs.status import PREPARED, make_folder, read_facts_to_go_on, record_status, remove_unmade
from dragoman.runs.trial import Trial
from dragoman.training.distributed import refuse_several
from dragoman.training.freezing import count_trained


@dataclass(frozen=True)
class Forecast:
    """The cost of a run."""

    __repr__ = brief

    recipe: Recipe
    """The resolved recipe."""
    parameters: int
    """Number of weights."""
    trained: str
    """Number of weights that train, in words."""
    tokens: int
    """Number of source and target tokens of an epoch."""
    epochs: float
    seconds: float
    """Time to train and validate, without preparing data and scoring."""
    peak_bytes: int | None
    """Most memory that the process will hold; on a GPU, most of the GPU's memory."""
    where: str
    """Description of the machine, in one line."""
    prepared: Path | None = None
    """Folder of the run whose text was prepared; None if it was begun before."""


def forecast(what: What = "phrasebook", **arguments: Any) -> Forecast:
    """Forecast the cost of `train` with the same `arguments`.

    It prepares the text in the folder of the run, and `train` continues from there. Then it measures the memory and
    time of the heaviest batches, some seconds of ordinary ones, a validation and a checkpoint.

    Raises:
        The errors of `train`.
    """
    options = RunOptions.from_keywords(**arguments)
    refuse_several("a forecast (--dry-run)")
    device, _ = system.choose_device(options.device)
    options = replace(options, device=device)
    if options.more:
        raise ConfigError("--dry-run estimates a run from its beginning; leave --more out")
    request = identify_run(what, options)
    run, asked = request.run, request.asked
    begun = run.is_run and run.recipe.is_file()
    before = read_facts_to_go_on(run)["asked"] if run.is_run else {}
    if begun and asked is not None:
        refuse_changes(run, before, asked)
    if device == "cpu":
        keep_freed_memory()
        kernels.prepare(options.progress)
    with (
        memory_limit(usable_memory_bytes() if device == "cpu" else None),
        system.use_threads(options.threads),
        tempfile.TemporaryDirectory(prefix="dragoman-") as aside,
        nullcontext() if begun else _prepare_text(request, options.threads),
    ):
        task = resolve_run(run, before if asked is None else asked, options, builtin=request.builtin, decide=False)
        recipe, trial = task.recipe, Trial(task)
        trial.train_heaviest()
        step, validation = trial.seconds_a_step(options.progress), trial.seconds_a_validation()
        trial.save(RunFolder(aside).checkpoints)
        where = f"{device}, {recipe.train.precision}, {system.describe()}"
    steps, every = recipe.train.steps or 0, recipe.train.validate_every or 1
    return Forecast(
        recipe=recipe,
        parameters=trial.parameters,
        trained=str(count_trained(trial.model)),
        tokens=trial.batches.tokens,
        epochs=steps * recipe.train.accumulate / len(trial.order),
        seconds=steps * step + -(-steps // every) * validation,
        peak_bytes=peak_memory_bytes(device),
        where=where,
        prepared=None if begun else run.path,
    )


@contextmanager
def _prepare_text(request: RunRequest, threads: int | None) -> Generator[None]:
    """Hold the folder of a run while its text is prepared there."""
    run = request.run
    make_folder(run)
    with lock(run.path):
        open_run(request, threads)
        try:
            yield
        except Error:
            remove_unmade(run)
            raise
        record_status(run, PREPARED)
