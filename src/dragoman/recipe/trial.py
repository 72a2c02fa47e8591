"""What training costs on this machine: measured, by a model that is thrown away."""

import time
from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor

from dragoman.progress import Progress
from dragoman.recipe.materials import Materials, training_batches
from dragoman.recipe.recipe import Recipe
from dragoman.recipe.session import OnDevice, fresh_state
from dragoman.recipe.validation import Validation
from dragoman.training.distributed import ALONE, World
from dragoman.training.loop import share_out, train_step

TRIAL_SECONDS, TRIAL_WARMUP = 12.0, 3


class Trial(NamedTuple):
    step_seconds: float
    """Of a step of mean size."""
    validation_seconds: float
    """Of one validation; 0 where there is no dev set."""


def try_out(recipe: Recipe, materials: Materials, device: str, progress: Progress, world: World = ALONE) -> Trial:
    """Trains for some seconds, all processes together, and validates once, on the first alone."""
    model, state = fresh_state(recipe, device)
    batches = OnDevice(training_batches(materials, recipe), device)
    order = batches.epoch(0)
    counts: list[tuple[int, float]] = []
    model.train()
    with progress.track("trial", unit="steps") as advance:
        begin = time.monotonic()
        while world.any(time.monotonic() - begin < TRIAL_SECONDS or len(counts) <= TRIAL_WARMUP):
            step = [order[(len(counts) + i) % len(order)] for i in range(recipe.train.accumulate)]
            taken = share_out(batches, step, world)
            started = time.monotonic()
            report = train_step(model, taken, recipe.train, state, world)
            counts.append((report.tokens, time.monotonic() - started))
            advance(1)
    timed = counts[TRIAL_WARMUP:]
    tokens_a_second = sum(tokens for tokens, _ in timed) / sum(seconds for _, seconds in timed)
    mean_tokens = recipe.train.accumulate * tokens_an_epoch(materials) / len(order)
    validation = _validation_seconds(recipe, materials, device, state.weights) if world.is_first else 0.0
    return Trial(mean_tokens / tokens_a_second, validation)


def tokens_an_epoch(materials: Materials) -> int:
    """Source and target tokens of an epoch, special symbols included."""
    corpus = materials.train
    return sum(side.tokens for side in (corpus.facts.source, corpus.facts.target) if side) + 3 * len(corpus)


def _validation_seconds(recipe: Recipe, materials: Materials, device: str, weights: Mapping[str, Tensor]) -> float:
    if materials.dev is None:
        return 0.0
    validation = Validation(recipe, materials, device)
    started = time.monotonic()
    validation.measure(weights)
    return time.monotonic() - started
