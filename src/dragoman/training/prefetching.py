"""The micro-batches of every step, in order. For a GPU a thread prepares those of the next steps.

A core makes half a million tokens of varied batches a second, which is too slow for a GPU. So several processes make
them, each a whole step. They are started as commands: CUDA forbids a fork, and the processes of `multiprocessing` would
run the user's script again.
"""

import copyreg
import os
import pickle  # noqa: TID251 (only between a process and its own helpers)
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from itertools import islice, tee
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from dragoman import system
from dragoman.data.batching import BatchSize, pinned
from dragoman.data.bins import BinnedBatches
from dragoman.data.variation import VariedBatches
from dragoman.errors import Interrupted
from dragoman.training.checkpoint import TrainState
from dragoman.training.distributed import World
from dragoman.training.objective import BatchSource
from dragoman.training.settings import TrainSettings

T = TypeVar("T")
Helper = subprocess.Popen[bytes]

LOOKAHEAD = 2
"""Number of steps whose batches are prepared before they are needed."""
MOST_PROCESSES = 8
"""Most processes that make batches for one GPU."""
_COMMAND = [sys.executable, "-P", "-c", "from dragoman.training.prefetching import serve; serve()"]
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "CUDA_VISIBLE_DEVICES": ""}


class MicroBatch(NamedTuple):
    """A part of a step's batch, as one process sees it."""

    size: BatchSize
    """Every process knows it, because the loss is divided by the tokens of the whole step."""
    batch: Any | None
    """None if another process computes it."""


def prefetch(values: Generator[T]) -> Generator[T]:
    """Yield the same values, of which a thread makes `LOOKAHEAD` in advance; errors are raised at their values."""
    thread = ThreadPoolExecutor(1)
    try:
        coming = deque(thread.submit(next, values, None) for _ in range(LOOKAHEAD))
        while (value := coming.popleft().result()) is not None:
            coming.append(thread.submit(next, values, None))
            yield value
    finally:
        thread.shutdown(cancel_futures=True)
        values.close()


def prepare_steps(
    batches: BatchSource, settings: TrainSettings, state: TrainState, world: World, processes: int | None = None
) -> Generator[tuple[list[MicroBatch], int, int]]:
    """Yield the micro-batches of each step from `state` to the last, and the epoch and the batch after it.

    By default, `count_processes()` make varied or binned batches for a GPU; with 0, this thread makes them.
    """
    assert settings.steps is not None, "a recipe is resolved to a number of steps before training"
    order, for_gpu = _order(batches, state.epoch, state.batch), state.masters.flat.is_cuda
    if processes is None:
        processes = count_processes() if for_gpu and isinstance(batches, VariedBatches | BinnedBatches) else 0
    places, following = tee(list(islice(order, settings.accumulate)) for _ in range(state.step, settings.steps))
    steps = ([indices for _, _, indices in step] for step in following)
    here = (fetch(batches, step, world) for step in steps)
    with closing(fetch_in_processes(batches, steps, world, processes) if processes else here) as made:
        for micro_batches, step in zip(made, places, strict=True):
            if for_gpu:
                micro_batches = [MicroBatch(size, part and pinned(part)) for size, part in micro_batches]
            yield micro_batches, *step[-1][:2]


def count_processes() -> int:
    """Return the number of processes that make batches for a GPU: half of this process's cores, or none of two."""
    cores = system.cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return min(MOST_PROCESSES, cores // 2) if cores > 2 else 0


def fetch_in_processes(
    batches: BatchSource, steps: Iterable[list[Any]], world: World, processes: int
) -> Generator[list[MicroBatch]]:
    """Yield `fetch` of each step, in order; an error is raised at its step.

    Each process makes one step ahead. It ends with its input, so that none outlives this process, and a Ctrl-C does not
    reach it.

    Raises:
        Interrupted: a process was killed.
    """
    environment = {**os.environ, **_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    with ExitStack() as stack:
        helpers: list[Helper] = []
        for _ in range(processes):
            helper = subprocess.Popen(
                _COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
            )
            stack.callback(helper.communicate)
            stack.callback(helper.kill)  # first
            helpers.append(helper)
        for helper in helpers:
            _send(helper, (batches, world.rank, world.size))
        steps, busy = iter(steps), deque[Helper]()
        for helper, step in zip(helpers, steps, strict=False):
            _send(helper, step)
            busy.append(helper)
        while busy:
            made = _receive(helper := busy.popleft())
            if (step := next(steps, None)) is not None:
                _send(helper, step)
                busy.append(helper)
            if isinstance(made, Exception):
                raise made
            yield made


def serve() -> None:
    """Make the steps that the standard input asks for, until it ends: the other side of `fetch_in_processes`."""
    with suppress(EOFError, BrokenPipeError), os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # what a library prints must not get into the answers
        batches, rank, size = pickle.load(sys.stdin.buffer)
        world = World(rank, size)
        while True:
            step = pickle.load(sys.stdin.buffer)
            try:
                made = fetch(batches, step, world)
            except Exception as error:
                made = error
            _AnswerPickler(answers, pickle.HIGHEST_PROTOCOL).dump(made)
            answers.flush()


class _AnswerPickler(pickle.Pickler):
    """Pickles tensors as plain arrays, which the other side reads fifteen times as fast."""

    dispatch_table = copyreg.dispatch_table | {Tensor: lambda tensor: (torch.from_numpy, (tensor.numpy(),))}


def _send(helper: Helper, value: Any) -> None:
    assert helper.stdin is not None, "a helper has pipes"
    with suppress(BrokenPipeError):  # it was killed; the next answer is missing
        pickle.dump(value, helper.stdin)
        helper.stdin.flush()


def _receive(helper: Helper) -> Any:
    assert helper.stdout is not None, "a helper has pipes"
    try:
        return pickle.load(helper.stdout)
    except (EOFError, pickle.UnpicklingError) as error:
        gone = f"a process that makes batches has ended (exit code {helper.wait()})"
        raise Interrupted(f"{gone}; the same command continues from the last checkpoint") from error


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
