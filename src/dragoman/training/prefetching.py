"""The micro-batches of every step, in order. For a GPU a thread prepares those of the next steps."""

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from dragoman.data.batching import BatchSize, pinned
from dragoman.training.checkpoint import TrainState
from dragoman.training.distributed import World
from dragoman.training.objective import BatchSource
from dragoman.training.settings import TrainSettings

T = TypeVar("T")

LOOKAHEAD = 2
"""Number of steps whose batches are prepared before they are needed."""


class MicroBatch(NamedTuple):
    """A part of a step's batch, as one process sees it."""

    size: BatchSize
    """Every process knows it, because the loss is divided by the tokens of the whole step."""
    batch: Any | None
    """None if another process computes it."""


def prefetch(values: Iterator[T]) -> Generator[T]:
    """Yield the same values, of which a thread makes `LOOKAHEAD` in advance; errors are raised at their values."""
    thread = ThreadPoolExecutor(1)
    try:
        coming = deque(thread.submit(next, values, None) for _ in range(LOOKAHEAD))
        while (value := coming.popleft().result()) is not None:
            coming.append(thread.submit(next, values, None))
            yield value
    finally:
        thread.shutdown(cancel_futures=True)


def prepare_steps(
    batches: BatchSource, settings: TrainSettings, state: TrainState, world: World
) -> Generator[tuple[list[MicroBatch], int, int]]:
    """Yield the micro-batches of each step from `state` to the last, and the epoch and the batch after it."""
    assert settings.steps is not None, "a recipe is resolved to a number of steps before training"
    order, for_gpu = _order(batches, state.epoch, state.batch), state.masters.flat.is_cuda
    for _ in range(state.step, settings.steps):
        places = list(islice(order, settings.accumulate))
        micro_batches = fetch(batches, (indices for _, _, indices in places), world)
        if for_gpu:
            micro_batches = [MicroBatch(size, part and pinned(part)) for size, part in micro_batches]
        yield micro_batches, *places[-1][:2]


def fetch(batches: BatchSource, step: Iterable[Any], world: World) -> list[MicroBatch]:
    """Return the micro-batches of a step; those that other processes compute are not fetched."""
    return [
        MicroBatch(batches.size_of(indices), batches.batch(indices) if world.owns(number) else None)
        for number, indices in enumerate(step)
    ]


def _order(batches: BatchSource, epoch: int, batch: int) -> Iterator[tuple[int, int, Any]]:
    """Yield the position after each batch and the batch's indices, from this position on, epoch after epoch."""
    while True:
        for indices in islice(batches.epoch(epoch), batch, None):
            batch += 1
            yield epoch, batch, indices
        assert batch, "an epoch has at least one batch"
        epoch, batch = epoch + 1, 0
