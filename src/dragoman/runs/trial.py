"""Trials: the cost of training on this machine, measured on a model that is thrown away."""

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import count, cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

from dragoman.data.batching import BatchSize
from dragoman.errors import DecodeError
from dragoman.model.adapters import merged
from dragoman.progress import Progress
from dragoman.runs.starting import fresh_state
from dragoman.runs.task import Task
from dragoman.training.checkpoint import save_checkpoint
from dragoman.training.distributed import ALONE, World
from dragoman.training.loop import Trainer, is_asynchronous
from dragoman.training.prefetching import fetch

TRIAL_SECONDS = 12.0
"""Time for which steps of mean size are timed."""
STRETCH = 10
"""Steps that a GPU takes before it is waited for. The first stretch is not timed: kernels are prepared and recorded."""
SEEN_BATCHES = 5_000
"""The heaviest batches are sought among this number at the beginning of an epoch."""


class Trial:
    """A few steps of a run, on its own data and with its memory; several processes take them together."""

    def __init__(self, task: Task, world: World = ALONE) -> None:
        self.task, self.recipe, self.world = task, task.recipe, world
        self.model, self.state = fresh_state(task.recipe, task.device, tokenizers=task.corpora.tokenizers)
        self.batches, self.order = task.batches, task.batches.epoch(0)
        self.trainer = Trainer(self.model, task.objective, self.recipe.train, self.state, world)
        self.at_once = STRETCH if is_asynchronous(self.state.masters.flat.device) else 1
        self.model.train()

    @property
    def parameters(self) -> int:
        """The number of weights."""
        return sum(weight.numel() for weight in self.state.masters.weights.values())

    def train_heaviest(self) -> None:
        """Take steps on the two heaviest batches: the one with the most tokens, and the one that is padded most."""

        def padded(size: BatchSize) -> int:
            return len(size.pairs) * size.longest**2

        seen = [(indices, self.batches.size_of(indices)) for indices in islice(self.order, SEEN_BATCHES)]
        for weight in (lambda size: size.tokens, padded):
            indices, _ = max(seen, key=lambda item: weight(item[1]))
            self._take([[indices] * self.recipe.train.accumulate])

    def seconds_a_step(self, progress: Progress) -> float:
        """Return the seconds of a step of mean size: a median over `TRIAL_SECONDS`, because a machine may stall."""
        accumulate, endless = self.recipe.train.accumulate, cycle(range(len(self.order)))
        steps = ([self.order[next(endless)] for _ in range(accumulate)] for _ in count())
        if self.at_once > 1:
            self._take(islice(steps, self.at_once))
        taken: list[float] = []  # seconds a token
        with progress.track("trial", unit="steps") as advance:
            begin = time.monotonic()
            while self.world.any(time.monotonic() - begin < TRIAL_SECONDS or not taken):
                tokens, seconds = self._take(islice(steps, self.at_once))
                taken.append(seconds / tokens)
                advance(self.at_once)
        return accumulate * self.batches.tokens / len(self.order) * median(taken)

    def seconds_a_validation(self) -> float:
        """Return the seconds that a validation takes; 0 if there is no dev set."""
        started = time.monotonic()
        with suppress(DecodeError):  # the few steps of a trial may diverge; the time is the same
            if self.task.validate(merged(self.model, self.state.weights)) is None:
                return 0.0
        return time.monotonic() - started

    def save(self, folder: Path) -> None:
        """Write a checkpoint, as a run does."""
        files = self.task.files(self.parameters, 0, 0, None)
        save_checkpoint(folder, self.state, self.model, files, {}, {})

    def _take(self, steps: Iterable[Sequence[Any]]) -> tuple[int, float]:
        """Take steps, and return their tokens and seconds, without the time to make the batches for a GPU."""
        prepared = (fetch(self.trainer.batches, indices, self.world) for indices in steps)
        if self.at_once > 1:
            prepared = [*prepared]
        started = time.monotonic()
        queued = [self.trainer.step(micro_batches) for micro_batches in prepared]
        tokens = sum(step.report().tokens for step in queued)  # waits for a GPU
        return tokens, time.monotonic() - started


def try_out(task: Task, world: World = ALONE) -> tuple[float, float]:
    """Return the seconds that a step and a validation take, as the first of all processes measured them."""
    trial = Trial(task, world)
    trial.train_heaviest()
    step = trial.seconds_a_step(task.progress)
    return world.share(lambda: (step, trial.seconds_a_validation()))
