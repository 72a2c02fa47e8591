"""The one training loop: pre-training and fine-tuning, translation and language models, with other parts.

    for each step: the next micro-batches, loss, backward, clip, step, then chores.

A chore is something done every so often (log, validate, save): a pair of `Every` and a function. Loss is a sum over
target tokens divided by the token count of the whole step, so that cutting a step into micro-batches changes nothing.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, cast

import torch
from torch import Tensor, nn

from dragoman.data.batch import Batch
from dragoman.errors import Diverged, OutOfMemory
from dragoman.model import StepNoise
from dragoman.training.loss import label_smoothed_loss
from dragoman.training.optimiser import Masters
from dragoman.training.schedule import learning_rate
from dragoman.training.settings import TrainSettings
from dragoman.training.state import TrainState

TOO_MANY_SKIPS = 10
"""So many steps in a row with gradients that are not finite end a run."""
AVERAGED_STATES = 20


class BatchSource(Protocol):
    """What the loop needs to know of data."""

    def epoch(self, number: int, /) -> Sequence[Any]:
        """The batches of an epoch, in order: a pure function of its number."""
        ...

    def batch(self, indices: Any, /) -> Batch: ...


class StepReport(NamedTuple):
    """What one step did. Losses are in nats a target token."""

    step: int
    loss: float
    plain_loss: float
    rate: float
    norm: float
    tokens: int
    seconds: float
    batches: list[Batch]


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
) -> None:
    """Trains from `state.step` to `settings.steps`, or until `stop()`; `state` then holds all that going on needs.

    Raises:
        Diverged: many steps in a row had gradients that were not finite.
        OutOfMemory: a batch did not fit.
    """
    assert settings.steps is not None, "a recipe is resolved to a number of steps before training"
    done = {id(chore): time.monotonic() for chore in chores}
    stream = _stream(data, state)
    model.train()
    while state.step < settings.steps and not stop():
        started = time.monotonic()
        micro_batches = [next(stream) for _ in range(settings.accumulate)]
        report = train_step(model, micro_batches, settings, state)
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


def train_step(
    model: nn.Module, micro_batches: Sequence[Batch], settings: TrainSettings, state: TrainState
) -> StepReport:
    """Loss, gradient, and one step of the optimiser over all micro-batches together."""
    state.step += 1
    assert settings.steps and settings.learning_rate is not None and settings.warmup_steps is not None, "resolved"
    rate = learning_rate(settings.schedule, state.step, settings.learning_rate, settings.warmup_steps, settings.steps)
    target_tokens = sum(batch.labels.numel() for batch in micro_batches)
    tokens = sum(batch.tokens for batch in micro_batches)
    noise = StepNoise(settings.seed, state.step)
    losses = backward(model, state.masters, micro_batches, settings.label_smoothing, noise)
    norms = state.masters.step(rate, settings.clip_norm)
    smoothed, plain, norm = torch.stack([*losses, norms]).tolist()  # the one place where a GPU is waited for
    state.tokens += tokens
    state.skipped_in_a_row = 0 if math.isfinite(norm) else state.skipped_in_a_row + 1
    state.skipped += not math.isfinite(norm)
    if _is_averaged(settings, state.step):
        state.average_in()
    loss, plain_loss = smoothed / target_tokens, plain / target_tokens
    return StepReport(state.step, loss, plain_loss, rate, norm, tokens, 0.0, list(micro_batches))


def backward(
    model: nn.Module,
    masters: Masters,
    micro_batches: Sequence[Batch],
    label_smoothing: float,
    noise: StepNoise,
) -> tuple[Tensor, Tensor]:
    """Leaves the gradient of the mean smoothed loss a target token in the masters; returns the sums of both losses.

    Raises:
        OutOfMemory: a batch did not fit.
    """
    target_tokens = sum(batch.labels.numel() for batch in micro_batches)
    output = cast("Tensor", model.output)
    sums: list[Tensor] = []
    try:
        for batch in micro_batches:
            hidden = model(*batch.inputs, noise=noise)
            loss = label_smoothed_loss(hidden, output, batch.labels, label_smoothing)
            (loss.smoothed / target_tokens).backward()
            masters.collect_gradients()
            sums.append(torch.stack([loss.smoothed.detach(), loss.plain]))
            noise = replace(
                noise,
                source_first=noise.source_first + batch.source_tokens,
                target_first=noise.target_first + batch.labels.numel(),
            )
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        raise OutOfMemory(
            f"a step of {target_tokens:,} target tokens does not fit in memory; lower batches.batch_tokens "
            "(and raise train.accumulate by as much, for the same step)"
        ) from error
    smoothed, plain = torch.stack(sums).sum(0).unbind()
    return smoothed, plain


def mean_loss(model: nn.Module, batches: Sequence[Batch]) -> float:
    """Negative log-likelihood in nats a target token, without dropout or smoothing."""
    model.eval()
    output = cast("Tensor", model.output)
    with torch.inference_mode():
        losses = [float(label_smoothed_loss(model(*batch.inputs), output, batch.labels).plain) for batch in batches]
    return sum(losses) / max(1, sum(batch.labels.numel() for batch in batches))


def _stream(data: BatchSource, state: TrainState) -> Iterator[Batch]:
    """Batch after batch, epoch after epoch, from where the state stands; moves the state's place as it goes."""
    while True:
        order = data.epoch(state.epoch)
        assert len(order), "an epoch has at least one batch"
        while state.batch < len(order):
            state.batch += 1
            yield data.batch(order[state.batch - 1])
        state.epoch, state.batch = state.epoch + 1, 0


def _is_due(when: Every, step: int, steps: int, done: float) -> bool:
    if when.at_end and step == steps:
        return True
    if when.steps is not None and step % when.steps == 0:
        return True
    return when.minutes is not None and time.monotonic() - done >= 60 * when.minutes


def _is_averaged(settings: TrainSettings, step: int) -> bool:
    """True at the steps whose weights the average takes in: evenly spread over the last part, the last step among
    them.
    """
    assert settings.steps is not None, "resolved"
    last_part = round(settings.average_last * settings.steps)
    spacing = max(1, math.ceil(last_part / AVERAGED_STATES))
    left = settings.steps - step
    return left < last_part and left % spacing == 0
