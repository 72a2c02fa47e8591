"""What a run will take, before it is begun: parameters, steps, memory and time, measured by doing a little of it."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

import torch

from dragoman import kernels, machine
from dragoman.memory import keep_freed_memory, memory_limit, peak_memory_bytes, usable_memory_bytes
from dragoman.progress import silent
from dragoman.recipe.recipe import RECIPE, Recipe
from dragoman.runs.listing import RUN
from dragoman.runs.place import RunOptions, Workplace, look_up
from dragoman.runs.settle import settle
from dragoman.runs.trial import Trial
from dragoman.training.distributed import refuse_several


@dataclass(frozen=True)
class Forecast:
    recipe: Recipe
    """As it was resolved."""
    parameters: int
    tokens: int
    """Source and target tokens of an epoch."""
    epochs: float
    seconds: float
    """Of training and validating, once the data is prepared, until the test sets are scored."""
    peak_bytes: int | None
    """The most that the process will hold; of the GPU's memory, where the model is on one."""
    where: str
    """The machine, in a line."""


def forecast(
    what: Recipe | str | Path | Sequence[str | Path] = "phrasebook", **options: Unpack[RunOptions]
) -> Forecast:
    """What `train` would take with the same arguments, without a run being made.

    The data is prepared in a temporary folder, unless a run of that name was begun with the same settings; then the
    heaviest batches, some seconds of ordinary ones, a validation and a checkpoint are done, and their memory and time
    measured.

    Raises:
        The errors of `train`, but those of a run that goes on.
    """
    refuse_several("a forecast (--dry-run)")
    keep_freed_memory()
    device, _ = machine.choose_device(options.get("device", "auto"))
    torch.set_num_threads(machine.choose_threads(options.get("threads")))
    folder, asked = look_up(what, options)
    progress = options.get("progress", silent)
    if device == "cpu":
        kernels.prepare(progress)
    limit = usable_memory_bytes() if device == "cpu" else None
    with memory_limit(limit), tempfile.TemporaryDirectory(prefix="dragoman-") as aside:
        kept = folder if (folder / RUN).is_file() and (folder / RECIPE).is_file() else Path(aside)
        recipe, run_data = settle(Workplace(kept, device, options.get("anyway", False), progress), asked)
        trial = Trial(recipe, run_data, device)
        trial.train_heaviest()
        step, validation = trial.seconds_a_step(progress), trial.seconds_a_validation()
        trial.save(Path(aside) / "checkpoints")
    steps, every = recipe.train.steps or 0, recipe.train.validate_every or 1
    return Forecast(
        recipe=recipe,
        parameters=trial.parameters,
        tokens=trial.tokens,
        epochs=steps * recipe.train.accumulate / len(trial.order),
        seconds=steps * step + -(-steps // every) * validation,
        peak_bytes=torch.cuda.max_memory_reserved() if device == "cuda" else peak_memory_bytes(),
        where=f"{device}, {recipe.train.precision}, {machine.describe()}",
    )
