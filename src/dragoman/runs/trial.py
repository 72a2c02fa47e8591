"""What training costs on this machine: measured, by a model that is thrown away."""

import time
from itertools import islice
from pathlib import Path

from dragoman.data.batching import Indices
from dragoman.errors import OutOfMemory
from dragoman.memory import gpu_memory_share, memory_limit, usable_memory_bytes
from dragoman.progress import Progress
from dragoman.recipe.recipe import Recipe
from dragoman.runs.data import RunData, training_batches
from dragoman.runs.session import OnDevice, fresh_state
from dragoman.runs.validation import Validation
from dragoman.training.checkpoint import save_checkpoint
from dragoman.training.distributed import ALONE, World
from dragoman.training.loop import share_out, train_step

TRIAL_SECONDS = 12.0
SEEN_BATCHES = 5_000
"""Of an epoch: among so many the heaviest are looked for."""
SHARE_OF_MEMORY = 0.8
"""Of what the process may hold: how much of it the heaviest steps may take where batches are fitted to memory."""


class Trial:
    """A few steps of a run, on its own data, with all that it holds in memory; several processes take them together."""

    def __init__(self, recipe: Recipe, run_data: RunData, device: str, world: World = ALONE) -> None:
        self.recipe, self.run_data, self.world = recipe, run_data, world
        self.model, self.state = fresh_state(recipe, device)
        validates = run_data.dev is not None and world.is_first
        self.validation = Validation(recipe, run_data, device) if validates else None
        batches = training_batches(run_data, recipe)
        self.tokens = batches.tokens
        """Of an epoch."""
        self.batches, self.order = OnDevice(batches, device), batches.epoch(0)
        self.model.train()

    @property
    def parameters(self) -> int:
        return sum(weight.numel() for weight in self.state.masters.weights.values())

    def train_heaviest(self) -> None:
        """Steps on the batches that take most memory: the one of most tokens, and the one that attention pads most.

        Raises:
            OutOfMemory: one did not fit.
        """
        source, target = self.run_data.train.source, self.run_data.train.target
        assert source is not None, "a run learns from pairs"

        def tokens(pairs: Indices) -> int:
            return int(source.lengths(pairs).sum() + target.lengths(pairs).sum())

        def padded(pairs: Indices) -> int:
            return len(pairs) * int(max(source.lengths(pairs).max(), target.lengths(pairs).max())) ** 2

        seen: list[Indices] = list(islice(self.order, SEEN_BATCHES))
        for weight in (tokens, padded):
            self._step([max(seen, key=weight)] * self.recipe.train.accumulate)

    def seconds_a_step(self, progress: Progress) -> float:
        """Of a step of mean size, over some seconds."""
        accumulate = self.recipe.train.accumulate
        counts: list[tuple[int, float]] = []
        with progress.track("trial", unit="steps") as advance:
            begin = time.monotonic()
            while self.world.any("trial goes on", time.monotonic() - begin < TRIAL_SECONDS or not counts):
                first = len(counts) * accumulate
                counts.append(self._step([self.order[(first + i) % len(self.order)] for i in range(accumulate)]))
                advance(1)
        tokens_a_second = sum(tokens for tokens, _ in counts) / sum(seconds for _, seconds in counts)
        return accumulate * self.tokens / len(self.order) / tokens_a_second

    def seconds_a_validation(self) -> float:
        """0 where there is no dev set, or another process validates."""
        if self.validation is None:
            return 0.0
        started = time.monotonic()
        self.validation.measure(self.state.weights)
        return time.monotonic() - started

    def save(self, folder: Path) -> None:
        """Writes a checkpoint, as a run does."""
        tokenizers, languages = self.run_data.tokenizers, self.run_data.languages
        save_checkpoint(folder, self.state, self.model, tokenizers, languages, {}, {})

    def _step(self, step: list[Indices]) -> tuple[int, float]:
        """Tokens and seconds of a step."""
        batches = share_out(self.batches, step, self.world)
        started = time.monotonic()
        report = train_step(self.model, batches, self.recipe.train, self.state, self.world)
        return report.tokens, time.monotonic() - started


def try_out(
    recipe: Recipe, run_data: RunData, device: str, progress: Progress, world: World = ALONE
) -> tuple[float, float]:
    """Seconds of a step and of a validation."""
    trial = Trial(recipe, run_data, device, world)
    trial.train_heaviest()
    return trial.seconds_a_step(progress), trial.seconds_a_validation()


def fits(recipe: Recipe, run_data: RunData, device: str) -> bool:
    """Whether the heaviest steps of a run leave some of the memory free, for what comes and goes."""
    limit = usable_memory_bytes() if device == "cpu" else None
    try:
        with memory_limit(limit and int(SHARE_OF_MEMORY * limit)), gpu_memory_share(SHARE_OF_MEMORY, device):
            Trial(recipe, run_data, device).train_heaviest()
    except OutOfMemory:
        return False
    return True
