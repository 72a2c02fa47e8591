"""What every system of a race against the clock receives, and what it returns."""

import time
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor


class Race(NamedTuple):
    """The same data, the same minutes, the same sentences to translate."""

    data: Path
    """A folder with train, dev and test, as `dragoman train` reads it."""
    source: str
    target: str
    minutes: float
    """Minutes of training from the first step on, without tokenizers, encoding and translating."""
    threads: int
    sentences: tuple[str, ...]
    recipe: str
    """The recipe for `dragoman train`; its `data.folder` is `data`."""

    def lines(self, split: str) -> tuple[list[str], list[str]]:
        """Both sides of a split."""
        source, target = (
            (self.data / f"{split}.{language}").read_text(encoding="utf-8").splitlines()
            for language in (self.source, self.target)
        )
        return source, target


class Outcome(NamedTuple):
    translations: list[str]
    parameters: int
    steps: int
    tokens: int
    """Real source and target tokens trained on."""
    seconds: float
    """Seconds of training."""


class Clock:
    """How much of the minutes has passed. Starts when it is first asked."""

    def __init__(self, minutes: float) -> None:
        self._minutes, self._start = minutes, None

    @property
    def seconds(self) -> float:
        if self._start is None:
            self._start = time.monotonic()
        return time.monotonic() - self._start

    @property
    def share(self) -> float:
        """The share that has passed, 0 to 1."""
        return min(1.0, self.seconds / (60 * self._minutes))


def shuffled(count: int, epoch: int) -> Tensor:
    """A random order of `count` items, different in each epoch."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(epoch))
