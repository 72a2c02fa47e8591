"""The one training loop: pre-training and fine-tuning, translation and language models, with other parts.

    for each step: the next micro-batches, loss, backward, sum over processes, clip, step, then chores.

A chore is something done every so often (log, validate, save): a pair of `Every` and a function. Loss is a sum over
target tokens divided by the token count of the whole step, so that cutting a step into micro-batches changes nothing,
and no more does sharing them out among processes.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple, Protocol, cast

import torch
from torch import Tensor, nn

from dragoman.data.batch import Batch, BatchSize
from dragoman.errors import Diverged, OutOfMemory
from dragoman.memory import is_out_of_memory
from dragoman.model import StepNoise
from dragoman.training.distributed import ALONE, World
from dragoman.training.loss import Loss, label_smoothed_loss, r_drop_loss
from dragoman.training.optimiser import MasterWeights
from dragoman.training.schedule import learning_rate
from dragoman.training.settings import TrainSettings
from dragoman.training.state import TrainState

TOO_MANY_SKIPS = 10
"""So many steps in a row with gradients that are not finite end a run."""


class BatchSource(Protocol):
    """What the loop needs to know of data."""

    def epoch(self, number: int, /) -> Sequence[Any]:
        """The batches of an epoch, in order: a pure function of its number."""
        ...

    def batch(self, indices: Any, /) -> Batch: ...

    def size_of(self, indices: Any, /) -> BatchSize:
        """What other processes need to know of a batch."""
        ...


class StepReport(NamedTuple):
    """What one step did. Losses are in nats a target token."""

    step: int
    loss: float
    plain_loss: float
    rate: float
    norm: float
    tokens: int
    seconds: float
    batches: list[Batch | BatchSize]


@dataclass(frozen=True)
class Every:
    """When a chore is due: after so many steps, or minutes since it was last done; and, if asked, at the end."""

    steps: int | None = None
    minutes: float | None = None
    at_end: bool = False


class Chore(NamedTuple):
    when: Every
    do: Callable[[TrainState, StepReport], None]


def run_steps(
    model: nn.Module,
    data: BatchSource,
    settings: TrainSettings,
    state: TrainState,
    chores: Sequence[Chore] = (),
    stop: Callable[[], bool] = lambda: False,
    world: World = ALONE,
) -> None:
    """Trains from `state.step` to `settings.steps`, or until `stop()`; `state` then holds all that going on needs.
    The processes of a `world` each do their share of every step, and stop together.

    Raises:
        Diverged: many steps in a row had gradients that were not finite.
        OutOfMemory: a batch did not fit.
    """
    assert settings.steps is not None, "a recipe is resolved to a number of steps before training"
    done = {id(chore): time.monotonic() for chore in chores}
    stream = _order(data, state)
    model.train()
    while state.step < settings.steps and not world.any("stop", stop()):
        started = time.monotonic()
        micro_batches = share_out(data, islice(stream, settings.accumulate), world)
        report = train_step(model, micro_batches, settings, state, world)
        report = report._replace(seconds=time.monotonic() - started)
        for chore in chores:
            if _is_due(chore.when, state.step, settings.steps, done[id(chore)]):
                chore.do(state, report)
                done[id(chore)] = time.monotonic()
        if state.skipped_in_a_row >= TOO_MANY_SKIPS:
            raise Diverged(
                f"{TOO_MANY_SKIPS} steps in a row had gradients that are not finite (the last was step {state.step}); "
                "lower train.learning_rate, lengthen train.warmup_steps, or use train.precision = 'float32'"
            )


def share_out(data: BatchSource, step: Iterable[Any], world: World) -> list[Batch | BatchSize]:
    """The batches of a step: this process's own, and of the others' their sizes."""
    return [data.batch(each) if world.owns(place) else data.size_of(each) for place, each in enumerate(step)]


def train_step(
    model: nn.Module,
    micro_batches: Sequence[Batch | BatchSize],
    settings: TrainSettings,
    state: TrainState,
    world: World = ALONE,
) -> StepReport:
    """Loss, gradient, and one step of the optimiser over all micro-batches together, those of other processes too."""
    state.step += 1
    assert settings.steps and settings.learning_rate is not None and settings.warmup_steps is not None, "resolved"
    rate = learning_rate(
        settings.schedule,
        state.step,
        settings.learning_rate,
        settings.warmup_steps,
        settings.steps,
        settings.continued_from or 0,
    )
    target_tokens = sum(batch.target_tokens for batch in micro_batches)
    tokens = sum(batch.tokens for batch in micro_batches)
    noise = StepNoise(settings.seed, state.step)
    losses = backward(model, state.masters, micro_batches, settings.label_smoothing, noise, settings.r_drop)
    world.sum("gradient", state.masters.gradient, losses)
    norms = state.masters.step(rate, settings.clip_norm)
    smoothed, plain, norm = torch.stack([*losses, norms]).tolist()  # the one place where a GPU is waited for
    state.tokens += tokens
    state.skipped_in_a_row = 0 if math.isfinite(norm) else state.skipped_in_a_row + 1
    state.skipped += not math.isfinite(norm)
    if settings.ema:
        state.average_in(settings.ema)
    loss, plain_loss = smoothed / target_tokens, plain / target_tokens
    return StepReport(state.step, loss, plain_loss, rate, norm, tokens, 0.0, list(micro_batches))


def backward(
    model: nn.Module,
    masters: MasterWeights,
    micro_batches: Sequence[Batch | BatchSize],
    label_smoothing: float,
    noise: StepNoise,
    r_drop: float = 0.0,
) -> Tensor:
    """Leaves the gradient of the mean smoothed loss a target token in the masters, as far as this process computes it;
    returns the sums of the smoothed and the plain loss.

    Raises:
        OutOfMemory: a batch did not fit.
    """
    target_tokens = sum(batch.target_tokens for batch in micro_batches)
    sums: list[Tensor] = []
    try:
        for batch in micro_batches:
            if isinstance(batch, Batch):
                loss = batch_loss(model, batch, label_smoothing, noise, r_drop)
                (loss.smoothed / target_tokens).backward()
                masters.collect_gradients()
                sums.append(torch.stack([loss.smoothed.detach(), loss.plain]))
            noise = replace(
                noise,
                source_first=noise.source_first + batch.source_tokens,
                target_first=noise.target_first + batch.target_tokens,
            )
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(
            f"a step of {target_tokens:,} target tokens does not fit in memory; lower batches.batch_tokens "
            "(and raise train.accumulate by as much, for the same step)"
        ) from error
    return torch.stack(sums).sum(0)


def batch_loss(model: nn.Module, batch: Batch, label_smoothing: float, noise: StepNoise, r_drop: float = 0.0) -> Loss:
    """The sums of both losses over one micro-batch; with R-Drop from two passes, whose dropout differs."""
    output = cast("Tensor", model.output)
    hidden = model(*batch.inputs, noise=noise)
    if not r_drop:
        return label_smoothed_loss(hidden, output, batch.labels, label_smoothing)
    again = model(*batch.inputs, noise=replace(noise, pass_index=noise.pass_index + 1))
    return r_drop_loss(hidden, again, output, batch.labels, label_smoothing, r_drop)


def mean_loss(model: nn.Module, batches: Sequence[Batch]) -> float:
    """Negative log-likelihood in nats a target token, without dropout or smoothing."""
    model.eval()
    output = cast("Tensor", model.output)
    with torch.inference_mode():
        losses = [float(label_smoothed_loss(model(*batch.inputs), output, batch.labels).plain) for batch in batches]
    return sum(losses) / max(1, sum(batch.labels.numel() for batch in batches))


def _order(data: BatchSource, state: TrainState) -> Iterator[Any]:
    """What to fetch, batch after batch, epoch after epoch, from where the state stands; moves its place as it goes."""
    while True:
        for indices in islice(data.epoch(state.epoch), state.batch, None):
            state.batch += 1
            yield indices
        assert state.batch, "an epoch has at least one batch"
        state.epoch, state.batch = state.epoch + 1, 0


def _is_due(when: Every, step: int, steps: int, done: float) -> bool:
    if when.at_end and step == steps:
        return True
    if when.steps is not None and step % when.steps == 0:
        return True
    return when.minutes is not None and time.monotonic() - done >= 60 * when.minutes
