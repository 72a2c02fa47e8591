"""The one training loop, for every task, for training from scratch and for fine-tuning.

    for each step: the next micro-batches, loss, backward, sum over processes, clip, step, then callbacks.

A callback is a pair: when (`Every`), and a function that logs, validates or saves. The loss is a sum over target
tokens, divided by the token count of the whole step. So neither cutting a step into micro-batches nor sharing them out
among processes changes the result.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dragoman.data.batching import BatchSize
from dragoman.errors import Diverged
from dragoman.memory import out_of_memory_as
from dragoman.model.dropout import StepKey
from dragoman.training.checkpoint import TrainState
from dragoman.training.distributed import ALONE, World
from dragoman.training.objective import BatchSource, Objective
from dragoman.training.optimiser import MasterWeights
from dragoman.training.settings import TrainSettings

TOO_MANY_SKIPS = 10
"""A run ends after this many steps in a row whose gradients are not finite."""


class MicroBatch(NamedTuple):
    """One of the batches of a step, as one process sees it."""

    size: BatchSize
    """Known to every process, because the loss is divided by the tokens of the whole step."""
    batch: Any | None
    """None if another process computes it."""


class StepReport(NamedTuple):
    """What one step did. Losses are in nats a target token."""

    step: int
    loss: float
    """The cross-entropy that training minimises, with label smoothing; what an alignment head learns is not in it."""
    plain_loss: float
    """The loss without label smoothing."""
    rate: float
    """The learning rate."""
    norm: float
    """Norm of the gradient before clipping."""
    tokens: int
    """Source and target tokens."""
    seconds: float
    batches: list[BatchSize]
    """One for each micro-batch."""


@dataclass(frozen=True)
class Every:
    """When a callback is due: every so many steps, so many minutes after it was last done, or at the end."""

    steps: int | None = None
    minutes: float | None = None
    at_end: bool = False
    """Whether it is also due at the last step."""


Callback = tuple[Every, Callable[[TrainState, StepReport], None]]
"""What the loop calls between steps, and when."""


def run_steps(
    model: nn.Module,
    objective: Objective,
    settings: TrainSettings,
    state: TrainState,
    callbacks: Sequence[Callback] = (),
    stop: Callable[[], bool] = lambda: False,
    world: World = ALONE,
) -> None:
    """Trains from `state.step` to `settings.steps`, or until `stop()`; `state` then holds all that resuming needs.
    The processes of a `world` each do their share of every step, and stop together.

    Raises:
        Diverged: many steps in a row had gradients that were not finite.
        OutOfMemory: a batch did not fit.
    """
    assert settings.steps is not None, "a recipe is resolved to a number of steps before training"
    called = [time.monotonic()] * len(callbacks)
    stream = _order(objective.batches, state)
    model.train()
    while state.step < settings.steps and not world.any(stop()):
        started = time.monotonic()
        micro_batches = fetch(objective.batches, islice(stream, settings.accumulate), world)
        report = train_step(model, objective, micro_batches, settings, state, world)
        report = report._replace(seconds=time.monotonic() - started)
        for number, (when, function) in enumerate(callbacks):
            if _is_due(when, state.step, settings.steps, called[number]):
                function(state, report)
                called[number] = time.monotonic()
        if state.skipped_in_a_row >= TOO_MANY_SKIPS:
            raise Diverged(
                f"{TOO_MANY_SKIPS} steps in a row had gradients that are not finite (the last was step {state.step}); "
                "lower train.learning_rate, lengthen train.warmup_steps, or use train.precision = 'float32'"
            )


def fetch(batches: BatchSource, step: Iterable[Any], world: World) -> list[MicroBatch]:
    """The micro-batches of a step; those that other processes compute are not fetched."""
    return [
        MicroBatch(batches.size_of(indices), batches.batch(indices) if world.owns(number) else None)
        for number, indices in enumerate(step)
    ]


def train_step(
    model: nn.Module,
    objective: Objective,
    micro_batches: Sequence[MicroBatch],
    settings: TrainSettings,
    state: TrainState,
    world: World = ALONE,
) -> StepReport:
    """One step: loss and gradient of this process's micro-batches, their sums over all processes, and one update of
    the weights.
    """
    state.step += 1
    rate = settings.rate_at(state.step)
    target_tokens = sum(size.target_tokens for size, _ in micro_batches)
    tokens = sum(size.tokens for size, _ in micro_batches)
    losses = backward(model, objective, state.masters, micro_batches, StepKey(settings.seed, state.step))
    world.sum(state.masters.gradient, losses)
    norms = state.masters.step(rate, settings.clip_norm)
    smoothed, plain, norm = torch.stack([*losses, norms]).tolist()  # the only place that waits for a GPU
    state.tokens += tokens
    state.skipped_in_a_row = 0 if math.isfinite(norm) else state.skipped_in_a_row + 1
    state.skipped += not math.isfinite(norm)
    if settings.ema:
        state.average_in(settings.ema)
    loss, plain_loss = smoothed / target_tokens, plain / target_tokens
    return StepReport(state.step, loss, plain_loss, rate, norm, tokens, 0.0, [size for size, _ in micro_batches])


def backward(
    model: nn.Module,
    objective: Objective,
    masters: MasterWeights,
    micro_batches: Sequence[MicroBatch],
    dropout_key: StepKey,
) -> Tensor:
    """Adds this process's part of the gradient to `masters`; returns its sums of the smoothed and the plain loss.

    The gradient is that of the mean smoothed loss over the target tokens of the whole step.
    """
    target_tokens = sum(size.target_tokens for size, _ in micro_batches)
    sums: list[Tensor] = []
    advice = (
        f"a step of {target_tokens:,} target tokens does not fit in memory; lower batches.batch_tokens "
        "(and raise train.accumulate by as much, for the same step)"
    )
    with out_of_memory_as(advice):
        for size, batch in micro_batches:
            if batch is not None:
                loss = objective.loss(model, batch, dropout_key)
                (loss.minimised / target_tokens).backward()
                masters.collect_gradients()
                sums.append(torch.stack([loss.smoothed.detach(), loss.plain]))
            dropout_key = dropout_key.after(size.source_tokens, size.target_tokens)
    return torch.stack(sums).sum(0)


def _order(batches: BatchSource, state: TrainState) -> Iterator[Any]:
    """The indices of each batch, epoch after epoch, from where `state` stands; advances `state` as it goes."""
    while True:
        for indices in islice(batches.epoch(state.epoch), state.batch, None):
            state.batch += 1
            yield indices
        assert state.batch, "an epoch has at least one batch"
        state.epoch, state.batch = state.epoch + 1, 0


def _is_due(when: Every, step: int, steps: int, called: float) -> bool:
    if when.at_end and step == steps:
        return True
    if when.steps is not None and step % when.steps == 0:
        return True
    return when.minutes is not None and time.monotonic() - called >= 60 * when.minutes
