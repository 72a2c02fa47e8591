"""`Trainer`: the one training loop, for every task, for training from scratch and for fine-tuning.

    for each step: the next micro-batches, loss, backward, sum over processes, clip, step, then callbacks.

A callback is a pair: a schedule (`Every`), and a function that validates or saves. The loss is a sum over target
tokens, divided by the token count of the whole step. So the result does not change if a step is cut into micro-batches,
or if several processes share them.

A processor does one thing after another. A GPU never waits for the host: a thread prepares the batches of the next
steps, and the loss of a step is read after the next one has been queued. Nothing else in a step reads from the device.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dragoman.data.batching import BatchSize
from dragoman.data.bins import BinnedBatch
from dragoman.errors import Diverged
from dragoman.memory import out_of_memory_as
from dragoman.model.dropout import StepKey
from dragoman.training.checkpoint import TrainState
from dragoman.training.distributed import ALONE, World
from dragoman.training.objective import BatchSource, Objective, add_gradient
from dragoman.training.optimiser import MasterWeights
from dragoman.training.prefetching import MicroBatch, prefetch, prepare_steps
from dragoman.training.recorded import RecordedStep, packed_in_bins
from dragoman.training.settings import TrainSettings

TOO_MANY_SKIPS = 10
"""Number of steps in a row with gradients that are not finite after which a run ends."""


class StepReport(NamedTuple):
    """Figures of one step. Losses are in nats a target token."""

    step: int
    loss: float
    """Cross-entropy with label smoothing, which training minimises; without the loss of an alignment head."""
    plain_loss: float
    """Cross-entropy without label smoothing."""
    rate: float
    """Learning rate."""
    norm: float
    """Norm of the gradient before clipping."""
    tokens: int
    """Source and target tokens."""
    batches: list[BatchSize]
    """Sizes of the micro-batches."""
    seconds: float = 0.0
    """Time since the step before was read, or since the last callback."""

    @property
    def is_skipped(self) -> bool:
        """Return True if the gradient was not finite, so that nothing moved."""
        return not math.isfinite(self.norm)


class QueuedStep(NamedTuple):
    """A step that a GPU may still be computing."""

    step: int
    rate: float
    batches: list[BatchSize]
    read: Callable[[], list[float]]
    """A function that waits for the sums of the smoothed and the plain loss, and the norm."""

    def report(self) -> StepReport:
        """Wait until the step is done, and return its figures."""
        smoothed, plain, norm = self.read()
        target_tokens = sum(size.target_tokens for size in self.batches)
        tokens = sum(size.tokens for size in self.batches)
        losses = smoothed / target_tokens, plain / target_tokens
        return StepReport(self.step, *losses, self.rate, norm, tokens, self.batches)


@dataclass(frozen=True)
class Every:
    """A schedule of a callback: every n steps, n minutes after its last call, or at the last step."""

    steps: int | None = None
    minutes: float | None = None
    at_end: bool = False

    def is_due(self, step: int, steps: int, called: float) -> bool:
        """Return True if the callback is due after this step of `steps`; `called` is the time of its last call."""
        if self.at_end and step == steps:
            return True
        if self.steps is not None and step % self.steps == 0:
            return True
        return self.minutes is not None and time.monotonic() - called >= 60 * self.minutes


Callback = tuple[Every, Callable[[TrainState], None]]
"""A function that the loop calls between steps, and its schedule."""


class Trainer:
    """The training loop of one model. `state` is all that resuming needs.

    The processes of a `world` each do their share of every step, and stop together. `log` gets every step, in order and
    before a callback of the same step. On a GPU it otherwise gets a step once the next one has been queued.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        settings: TrainSettings,
        state: TrainState,
        world: World = ALONE,
        log: Callable[[StepReport], None] = lambda _: None,
        records: bool | None = None,
    ) -> None:
        """Create a trainer, which `records` its steps and replays them; None: on a CUDA device."""
        self.model, self.objective, self.settings = model, objective, settings
        self.state, self.world, self.log = state, world, log
        records = state.masters.flat.is_cuda if records is None else records
        self._recorded = RecordedStep(model, objective, state.masters, settings.clip_norm) if records else None
        self._queued: deque[QueuedStep] = deque()
        self._read = time.monotonic()
        """When a step was last read, or a callback returned."""

    def run(self, callbacks: Sequence[Callback] = (), stop: Callable[[], bool] = lambda: False) -> None:
        """Train from `state.step` to `settings.steps`, or until `stop()`.

        Raises:
            Diverged: many steps in a row had gradients that were not finite. A GPU may have taken one step more.
            OutOfMemory: a batch did not fit.
        """
        state, steps = self.state, self.settings.steps
        assert steps is not None, "a recipe is resolved to a number of steps before training"
        called = [time.monotonic()] * len(callbacks)
        self._read, is_late = time.monotonic(), is_asynchronous(state.masters.flat.device)
        prepared = prepare_steps(self.batches, self.settings, state, self.world)
        self.model.train()
        with closing(prefetch(prepared) if is_late else prepared) as batches:
            while state.step < steps and not self.world.any(stop()):
                micro_batches, state.epoch, state.batch = next(batches)
                self._queued.append(self.step(micro_batches))
                self.report(waiting=int(is_late))
                for number, (every, function) in enumerate(callbacks):
                    if every.is_due(state.step, steps, called[number]):
                        self.report()
                        function(state)
                        called[number] = self._read = time.monotonic()
        self.report()

    @cached_property
    def batches(self) -> BatchSource:
        """The batches of the objective, packed in bins if steps are recorded."""
        batches = self.objective.batches
        return batches if self._recorded is None else packed_in_bins(batches, self.model)

    def step(self, micro_batches: Sequence[MicroBatch]) -> QueuedStep:
        """Compute this process's gradient, sum it over all, and update the weights once; a GPU only queues the work."""
        state, settings = self.state, self.settings
        state.step += 1
        rate = settings.rate_at(state.step)
        dropout_key = StepKey(settings.seed, state.step)
        recorded = self._recorded
        losses = backward(self.model, self.objective, state.masters, micro_batches, dropout_key, recorded)
        self.world.sum(state.masters.gradient, losses)
        norm = state.masters.step(rate, settings.clip_norm) if recorded is None else recorded.update(rate)
        state.tokens += sum(size.tokens for size, _ in micro_batches)
        if settings.ema:
            state.average_in(settings.ema)
        figures = read_later(torch.stack([*losses, norm]))
        return QueuedStep(state.step, rate, [size for size, _ in micro_batches], figures)

    def report(self, waiting: int = 0) -> None:
        """Count and log the queued steps, except the `waiting` latest ones."""
        while len(self._queued) > waiting:
            report, began, self._read = self._queued.popleft().report(), self._read, time.monotonic()
            self.state.count(report.is_skipped)
            self.log(report._replace(seconds=self._read - began))
            if self.state.skipped_in_a_row >= TOO_MANY_SKIPS:
                raise Diverged(
                    f"{TOO_MANY_SKIPS} steps in a row had gradients that are not finite (the last was step "
                    f"{report.step}); lower train.learning_rate, lengthen train.warmup_steps, or use "
                    "train.precision = 'float32'"
                )


def is_asynchronous(device: torch.device) -> bool:
    """Return True if the device computes while the host goes on."""
    return device.type != "cpu"


def read_later(figures: Tensor) -> Callable[[], list[float]]:
    """Return a function that reads these numbers without waiting for later work of a GPU."""
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
    recorded: RecordedStep | None = None,
) -> Tensor:
    """Add this process's part of the gradient of the step's mean loss to `masters`; return its sums of both losses."""
    target_tokens = sum(size.target_tokens for size, _ in micro_batches)
    sums: list[Tensor] = []
    advice = (
        f"a step of {target_tokens:,} target tokens does not fit in memory; lower batches.batch_tokens "
        "(and raise train.accumulate by as much, for the same step)"
    )
    with out_of_memory_as(advice):
        for size, batch in micro_batches:
            if isinstance(batch, BinnedBatch) and recorded is not None:
                sums.append(recorded.add_gradient(batch, target_tokens, dropout_key))
            elif batch is not None:
                sums.append(add_gradient(model, objective, masters, batch, target_tokens, dropout_key))
            dropout_key = dropout_key.after(size.source_tokens, size.target_tokens)
    return torch.stack(sums).sum(0)
