"""What the processes of a run do that are not its first: they wait for what it makes, and train with it."""

from pathlib import Path
from typing import Any

import torch

from dragoman.errors import Interrupted
from dragoman.progress import silent
from dragoman.recipe.recipe import Recipe
from dragoman.runs.data import RunData, training_batches
from dragoman.runs.facts import resolve_run
from dragoman.runs.more import More
from dragoman.runs.place import Workplace
from dragoman.runs.session import OnDevice, fresh_state, is_over, pick_up
from dragoman.runs.signals import stop_on_signals
from dragoman.training import Chore, Every, TrainState, run_steps
from dragoman.training.distributed import World
from dragoman.training.loop import StepReport


def follow(world: World, device: str) -> tuple[Path, int]:
    """Trains beside the first process, and returns the run's folder and how many steps it has."""
    facts: dict[str, Any] = world.share("run", dict)
    folder = Path(facts["folder"])
    if facts["finished"]:
        return folder, facts["steps"]
    torch.set_num_threads(facts["threads"])
    more = facts["more"] and More(*facts["more"])
    recipe, run_data = resolve_run(Workplace(folder, device, False, silent, world), facts["asked"], more)
    return folder, _train(folder, recipe, run_data, device, world)


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
