"""How long-running work reports its progress: to a `Progress` that is handed in. Only `dragoman.Bars` draws.

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
    """What a piece of work calls as it goes on."""

    def __call__(self, count: int = 1, **facts: str) -> None:
        """Reports that `count` more units are done; `facts` are shown beside the bar until they change."""
        ...


@runtime_checkable
class Progress(Protocol):
    """Where work reports how far it is."""

    def track(self, label: str, total: int | None = None, unit: str = "") -> AbstractContextManager[Advance]:
        """Follows a piece of work from entry to exit; `total` is its number of units, or None where it is unknown."""
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
    """What a public function reports to: bars, unless they are switched off with False; or what it was given."""
    if isinstance(progress, bool):
        return _bars() if progress else silent
    return progress


@cache
def _bars() -> Progress:
    return dragoman.Bars()
