"""What a run will take: parameters, steps, memory and time, measured by running a little of it."""

import logging
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from dragoman import system
from dragoman.brief import brief
from dragoman.compiled import kernels
from dragoman.errors import ConfigError, Error
from dragoman.files import free_name, lock
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

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Forecast:
    """What a run will take."""

    __repr__ = brief

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


def forecast(what: What = "phrasebook", **arguments: Any) -> Forecast:
    """Forecasts what `train` would take with the same `arguments`.

    It prepares the text in the folder of the run, and `train` goes on from there. Only if the folder holds something
    else, such as a run with other settings, it prepares the text in a temporary one. Then it measures the memory and
    time of the heaviest batches, some seconds of ordinary ones, a validation and a checkpoint.

    Raises:
        The errors of `train`, except those about continuing a run.
    """
    options = RunOptions.of(**arguments)
    refuse_several("a forecast (--dry-run)")
    device, _ = system.choose_device(options.device)
    options = replace(options, device=device)
    request, keeps = identify_for_forecast(what, options)
    run, asked = request.run, request.asked
    assert asked is not None, "a forecast is of settings"
    if device == "cpu":
        keep_freed_memory()
        kernels.prepare(options.progress)
    with (
        memory_limit(usable_memory_bytes() if device == "cpu" else None),
        system.use_threads(options.threads),
        tempfile.TemporaryDirectory(prefix="dragoman-") as aside,
        _kept(request, options.threads) if keeps else nullcontext(),
    ):
        place = run if keeps or (run.is_run and run.recipe.is_file()) else RunFolder(aside)
        task = resolve_run(place, asked, options, decide=False)
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
        peak_bytes=torch.cuda.max_memory_reserved() if device == "cuda" else peak_memory_bytes(),
        where=where,
        prepared=run.path if keeps else None,
    )


def identify_for_forecast(what: What, options: RunOptions) -> tuple[RunRequest, bool]:
    """The run that `train` would begin or continue with these options, with the settings that it would use; and whether
    `train` would go on from the text that the forecast prepares in the folder of this run.

    If a run of that name was begun with other settings, the forecast is for a new run of another name.
    """
    if options.more:
        raise ConfigError("--dry-run estimates a run from its beginning; leave --more out")
    request = identify_run(what, options)
    run, asked = request.run, request.asked
    if asked is None:
        facts = read_facts_to_go_on(run)
        return request._replace(asked=facts["asked"]), facts["status"] == PREPARED
    if run.is_run:
        try:
            facts = read_facts_to_go_on(run)
            if facts["status"] == PREPARED:
                return request, True
            refuse_changes(run, facts["asked"], asked)
        except ConfigError:
            log.info("%s was begun with other settings; this is what a new run would take", run)
            return RunRequest(RunFolder(free_name(run.path)), asked), False
    return request, not run.path.exists()


@contextmanager
def _kept(request: RunRequest, threads: int | None) -> Generator[None]:
    """Holds the folder of a run while its text is prepared there."""
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
