"""Trials: the cost of training on this machine, measured on a model that is thrown away."""

import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
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
from dragoman.training.loop import Trainer
from dragoman.training.prefetching import fetch

TRIAL_SECONDS = 12.0
"""Time for which steps of mean size are timed."""
SEEN_BATCHES = 5_000
"""The heaviest batches are sought among this number at the beginning of an epoch."""


class Trial:
    """A few steps of a run, on its own data and with its memory; several processes take them together."""

    def __init__(self, task: Task, world: World = ALONE) -> None:
        self.task, self.recipe, self.world = task, task.recipe, world
        self.model, self.state = fresh_state(task.recipe, task.device)
        self.batches, self.order = task.batches, task.batches.epoch(0)
        self.trainer = Trainer(self.model, task.objective, self.recipe.train, self.state, world)
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
            self._step([indices] * self.recipe.train.accumulate)

    def seconds_a_step(self, progress: Progress) -> float:
        """Return the seconds of a step of mean size: a median over `TRIAL_SECONDS`, because a machine may stall."""
        accumulate = self.recipe.train.accumulate
        taken: list[float] = []  # seconds a token
        with progress.track("trial", unit="steps") as advance:
            begin = time.monotonic()
            while self.world.any(time.monotonic() - begin < TRIAL_SECONDS or not taken):
                first = len(taken) * accumulate
                tokens, seconds = self._step([self.order[(first + i) % len(self.order)] for i in range(accumulate)])
                taken.append(seconds / tokens)
                advance(1)
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

    def _step(self, indices: Sequence[Any]) -> tuple[int, float]:
        started = time.monotonic()
        report = self.trainer.step(fetch(self.batches, indices, self.world)).report()  # waits for a GPU
        return report.tokens, time.monotonic() - started


def try_out(task: Task, world: World = ALONE) -> tuple[float, float]:
    """Return the seconds that a step and a validation take, as the first of all processes measured them."""
    trial = Trial(task, world)
    trial.train_heaviest()
    step = trial.seconds_a_step(task.progress)
    return world.share(lambda: (step, trial.seconds_a_validation()))
