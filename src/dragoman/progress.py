"""Progress of long-running work, reported to a `Progress` that the caller passes. Only `dragoman.Bars` draws.

with progress.track("encode", total=1_000_000, unit="pairs") as advance:
    advance(1_000, rate="210,000/s")
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Protocol, runtime_checkable

import dragoman


@runtime_checkable
class Advance(Protocol):
    """A callback that long-running work calls as it advances."""

    def __call__(self, count: int = 1, **facts: str) -> None:
        """Report that `count` more units are done; `facts` are shown next to the bar until they change."""
        ...


@runtime_checkable
class Progress(Protocol):
    """A receiver of progress reports."""

    def track(self, label: str, total: int | None = None, unit: str = "") -> AbstractContextManager[Advance]:
        """Track work from entry to exit of the context; `total` is its number of units, or None if unknown."""
        ...


class Silent:
    """Progress that shows nothing."""

    @contextmanager
    def track(self, label: str, total: int | None = None, unit: str = "") -> Iterator[Advance]:
        def advance(count: int = 1, **facts: str) -> None:
            pass

        yield advance


silent: Progress = Silent()


def as_progress(progress: Progress | bool) -> Progress:
    """Return bars for True, silent progress for False, and any other progress unchanged."""
    if isinstance(progress, bool):
        return _bars() if progress else silent
    return progress


@cache
def _bars() -> Progress:
    return dragoman.Bars()
