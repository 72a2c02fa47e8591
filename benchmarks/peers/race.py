"""What every system of a race against the clock is given, and what it hands back."""

import time
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor


class Race(NamedTuple):
    """The same data, the same minutes, the same sentences to translate."""

    data: Path
    """A folder with train, dev and test, as `dragoman train` takes it."""
    source: str
    target: str
    minutes: float
    """Of training, counted from the first step; tokenizers, encoding and translating are not counted for anybody."""
    threads: int
    sentences: tuple[str, ...]
    recipe: str
    """What `dragoman train` is given; its `data.folder` is that of the data."""

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
    """Of training."""


class Clock:
    """How much of the minutes is gone, from the first question on."""

    def __init__(self, minutes: float) -> None:
        self._minutes, self._start = minutes, None

    @property
    def seconds(self) -> float:
        if self._start is None:
            self._start = time.monotonic()
        return time.monotonic() - self._start

    @property
    def share(self) -> float:
        """From 0 to 1, which is the end."""
        return min(1.0, self.seconds / (60 * self._minutes))


def shuffled(count: int, epoch: int) -> Tensor:
    """An order of `count` things, another one each epoch."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(epoch))
