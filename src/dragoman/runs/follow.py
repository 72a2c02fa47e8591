"""What the processes of a run do that are not its first: they wait for what it makes, and train with it."""

from pathlib import Path
from typing import Any

import torch

from dragoman.config import check
from dragoman.errors import Interrupted
from dragoman.progress import silent
from dragoman.recipe.recipe import Recipe
from dragoman.runs.data import DATA, RunData, gather, training_batches
from dragoman.runs.session import OnDevice, fresh_state, is_over, pick_up
from dragoman.runs.signals import stop_on_signals
from dragoman.runs.trial import try_out
from dragoman.text.report import read_report
from dragoman.training import Chore, Every, TrainState, run_steps
from dragoman.training.distributed import World
from dragoman.training.loop import StepReport


def tell(world: World, recipe: Recipe, trial: bool) -> None:
    """Tells those that `follow` what to train, now that all it needs is made."""
    world.share("recipe", lambda: {"recipe": recipe.model_dump(mode="json", exclude_none=True), "trial": trial})


def follow(world: World, device: str) -> tuple[Path, int]:
    """Trains beside the first process, and returns the run's folder and how many steps it has."""
    facts: dict[str, Any] = world.share("run", dict)
    folder = Path(facts["folder"])
    if facts["finished"]:
        return folder, facts["steps"]
    torch.set_num_threads(facts["threads"])
    told: dict[str, Any] = world.share("recipe", dict)
    while told["trial"]:
        recipe, run_data = _found(folder, told["recipe"])
        try_out(recipe, run_data, device, silent, world)
        told = world.share("recipe", dict)
    recipe, run_data = _found(folder, told["recipe"])
    return folder, _train(folder, recipe, run_data, device, world)


def _found(folder: Path, tables: dict[str, Any]) -> tuple[Recipe, RunData]:
    """The recipe that the first process settled on, and what it has prepared."""
    recipe = check(tables, "recipe", Recipe)
    return recipe, gather(folder, recipe, read_report(folder / DATA), silent)


def _train(folder: Path, recipe: Recipe, run_data: RunData, device: str, world: World) -> int:
    checkpoint = world.share("checkpoint", lambda: None)
    model, state = fresh_state(recipe, device, resumed=checkpoint is not None)
    if checkpoint is not None:
        pick_up(Path(checkpoint), state, recipe.train)

    def hear(state: TrainState, _report: StepReport) -> None:
        state.validations_since_best = world.share("validations since best", int)

    batches = OnDevice(training_batches(run_data, recipe), device)
    chores = [Chore(Every(steps=recipe.train.validate_every, at_end=True), hear)]
    with stop_on_signals() as stop:

        def is_enough() -> bool:
            return stop() or is_over(state, recipe.train)

        run_steps(model, batches, recipe.train, state, chores, is_enough, world)
    if not is_over(state, recipe.train):
        raise Interrupted(f"stopped at step {state.step:,}")
    return state.step
