"""The one training loop, for every task, for training from scratch and for fine-tuning.

    for each step: the next micro-batches, loss, backward, sum over processes, clip, step, then callbacks.

A callback is a pair: when (`Every`), and a function that validates or saves. The loss is a sum over target tokens,
divided by the token count of the whole step. So neither cutting a step into micro-batches nor sharing them out among
processes changes the result.

A processor does one thing after another. A GPU never waits for the host: a thread prepares the batches of the next
steps, and the loss of a step is read after the next one has been queued. Nothing else in a step reads from the device.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from dragoman.data.batching import BatchSize, pinned
from dragoman.errors import Diverged
from dragoman.memory import out_of_memory_as
from dragoman.model.dropout import StepKey
from dragoman.training.checkpoint import TrainState
from dragoman.training.distributed import ALONE, World
from dragoman.training.objective import BatchSource, Objective
from dragoman.training.optimiser import MasterWeights
from dragoman.training.settings import TrainSettings

T = TypeVar("T")

TOO_MANY_SKIPS = 10
"""A run ends after this many steps in a row whose gradients are not finite."""
AHEAD = 2
"""Steps whose batches are prepared before they are needed."""


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
    batches: list[BatchSize]
    """One for each micro-batch."""
    seconds: float = 0.0
    """Since the step before was read, or since the last callback."""

    @property
    def is_skipped(self) -> bool:
        """Whether the gradient was not finite, so that nothing moved."""
        return not math.isfinite(self.norm)


class QueuedStep(NamedTuple):
    """A step that a GPU may still be computing."""

    step: int
    rate: float
    batches: list[BatchSize]
    read: Callable[[], list[float]]
    """Waits for the sums of the smoothed and the plain loss, and the norm."""

    def report(self) -> StepReport:
        """What the step did; waits until it is done."""
        smoothed, plain, norm = self.read()
        target_tokens = sum(size.target_tokens for size in self.batches)
        tokens = sum(size.tokens for size in self.batches)
        losses = smoothed / target_tokens, plain / target_tokens
        return StepReport(self.step, *losses, self.rate, norm, tokens, self.batches)


@dataclass(frozen=True)
class Every:
    """When a callback is due: every so many steps, so many minutes after it was last done, or at the end."""

    steps: int | None = None
    minutes: float | None = None
    at_end: bool = False
    """Whether it is also due at the last step."""


Callback = tuple[Every, Callable[[TrainState], None]]
"""What the loop calls between steps, and when."""


def run_steps(
    model: nn.Module,
    objective: Objective,
    settings: TrainSettings,
    state: TrainState,
    callbacks: Sequence[Callback] = (),
    stop: Callable[[], bool] = lambda: False,
    world: World = ALONE,
    log: Callable[[StepReport], None] = lambda _: None,
) -> None:
    """Trains from `state.step` to `settings.steps`, or until `stop()`; `state` then holds all that resuming needs.
    The processes of a `world` each do their share of every step, and stop together.

    `log` gets every step, in order and before a callback of the same step. On a GPU it otherwise gets a step once the
    next one has been queued.

    Raises:
        Diverged: many steps in a row had gradients that were not finite. A GPU may have taken one step more.
        OutOfMemory: a batch did not fit.
    """
    assert settings.steps is not None, "a recipe is resolved to a number of steps before training"
    called = [time.monotonic()] * len(callbacks)
    queued: deque[QueuedStep] = deque()
    read, runs_ahead = time.monotonic(), is_asynchronous(state.masters.flat.device)

    def tell(but: int = 0) -> None:
        """Counts and logs the steps that are queued, but not the latest ones."""
        nonlocal read
        while len(queued) > but:
            report, began, read = queued.popleft().report(), read, time.monotonic()
            state.count(report.is_skipped)
            log(report._replace(seconds=read - began))
            if state.skipped_in_a_row >= TOO_MANY_SKIPS:
                raise Diverged(
                    f"{TOO_MANY_SKIPS} steps in a row had gradients that are not finite (the last was step "
                    f"{report.step}); lower train.learning_rate, lengthen train.warmup_steps, or use "
                    "train.precision = 'float32'"
                )

    model.train()
    prepared = prepare_steps(objective.batches, settings, state, world)
    with closing(ahead(prepared) if runs_ahead else prepared) as steps:
        while state.step < settings.steps and not world.any(stop()):
            micro_batches, state.epoch, state.batch = next(steps)
            queued.append(train_step(model, objective, micro_batches, settings, state, world))
            tell(but=int(runs_ahead))
            for number, (when, function) in enumerate(callbacks):
                if _is_due(when, state.step, settings.steps, called[number]):
                    tell()
                    function(state)
                    called[number] = read = time.monotonic()
    tell()


def is_asynchronous(device: torch.device) -> bool:
    """Whether the device computes while the host goes on."""
    return device.type != "cpu"


def ahead(values: Iterator[T]) -> Generator[T]:
    """The same values, but a thread makes the next `AHEAD` before they are asked for. An error is raised in place of
    the value that could not be made.
    """
    thread = ThreadPoolExecutor(1)
    try:
        coming = deque(thread.submit(next, values, None) for _ in range(AHEAD))
        while (value := coming.popleft().result()) is not None:
            coming.append(thread.submit(next, values, None))
            yield value
    finally:
        thread.shutdown(cancel_futures=True)


def prepare_steps(
    batches: BatchSource, settings: TrainSettings, state: TrainState, world: World
) -> Generator[tuple[list[MicroBatch], int, int]]:
    """What each step from `state` to the last computes, and the epoch and the batch after it."""
    assert settings.steps is not None, "a recipe is resolved to a number of steps before training"
    order, for_gpu = _order(batches, state.epoch, state.batch), state.masters.flat.is_cuda
    for _ in range(state.step, settings.steps):
        places = list(islice(order, settings.accumulate))
        micro_batches = fetch(batches, (indices for _, _, indices in places), world)
        if for_gpu:
            micro_batches = [MicroBatch(size, part and pinned(part)) for size, part in micro_batches]
        yield micro_batches, *places[-1][:2]


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
) -> QueuedStep:
    """One step: loss and gradient of this process's micro-batches, their sums over all processes, and one update of
    the weights. On a GPU this queues the work and does not wait for it.
    """
    state.step += 1
    rate = settings.rate_at(state.step)
    losses = backward(model, objective, state.masters, micro_batches, StepKey(settings.seed, state.step))
    world.sum(state.masters.gradient, losses)
    norm = state.masters.step(rate, settings.clip_norm)
    state.tokens += sum(size.tokens for size, _ in micro_batches)
    if settings.ema:
        state.average_in(settings.ema)
    figures = read_later(torch.stack([*losses, norm]))
    return QueuedStep(state.step, rate, [size for size, _ in micro_batches], figures)


def read_later(figures: Tensor) -> Callable[[], list[float]]:
    """Reads these numbers when called, without waiting for what a GPU is given after them."""
    if not figures.is_cuda:
        return figures.tolist
    on_host, copied = figures.to("cpu", non_blocking=True), torch.cuda.Event()
    copied.record()

    def read() -> list[float]:
        copied.synchronize()
        return on_host.tolist()

    return read


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


def _order(batches: BatchSource, epoch: int, batch: int) -> Iterator[tuple[int, int, Any]]:
    """The indices of each batch from this position on, epoch after epoch, each after the position that follows it."""
    while True:
        for indices in islice(batches.epoch(epoch), batch, None):
            batch += 1
            yield epoch, batch, indices
        assert batch, "an epoch has at least one batch"
        epoch, batch = epoch + 1, 0


def _is_due(when: Every, step: int, steps: int, called: float) -> bool:
    if when.at_end and step == steps:
        return True
    if when.steps is not None and step % when.steps == 0:
        return True
    return when.minutes is not None and time.monotonic() - called >= 60 * when.minutes
