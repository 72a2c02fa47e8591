"""Input and result of every system in a race against the clock."""

import time
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor


class Race(NamedTuple):
    """The same data, minutes and sentences for all systems."""

    data: Path
    """A folder with train, dev and test, as `dragoman train` reads it."""
    minutes: float
    """Minutes of training from the first step on, without tokenizers, encoding and translating."""
    threads: int
    sentences: tuple[str, ...]
    """Sentences to translate."""
    recipe: str
    """The recipe for `dragoman train`; its `data.folder` is `data`."""


class Outcome(NamedTuple):
    translations: list[str]
    parameters: int
    steps: int
    tokens: int
    """Real source and target tokens trained on."""
    seconds: float
    """Seconds of training."""


class Clock:
    """A clock that starts when it is first read."""

    def __init__(self, minutes: float) -> None:
        self._minutes, self._start = minutes, None

    @property
    def seconds(self) -> float:
        if self._start is None:
            self._start = time.monotonic()
        return time.monotonic() - self._start

    @property
    def share(self) -> float:
        """Return the share of the minutes that has passed, 0 to 1."""
        return min(1.0, self.seconds / (60 * self._minutes))


def shuffled(count: int, epoch: int) -> Tensor:
    """Return a random order of `count` items, different in each epoch."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(epoch))
