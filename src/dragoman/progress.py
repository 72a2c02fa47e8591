"""How long work tells how far it is. Rooms report to a `Progress` that is handed in; only the command line draws.

with progress.track("encode", total=1_000_000, unit="pairs") as advance:
    advance(1_000, rate="210,000/s")
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, runtime_checkable


@runtime_checkable
class Advance(Protocol):
    def __call__(self, count: int = 1, **facts: str) -> None:
        """`count` more units are done; `facts` are shown beside the bar until they change."""
        ...


@runtime_checkable
class Progress(Protocol):
    def track(self, label: str, total: int | None = None, unit: str = "") -> AbstractContextManager[Advance]:
        """A piece of work of `total` units (unknown: None), from entry to exit."""
        ...


class Silent:
    """Progress that shows nothing: the default everywhere."""

    @contextmanager
    def track(self, label: str, total: int | None = None, unit: str = "") -> Iterator[Advance]:
        def advance(count: int = 1, **facts: str) -> None:
            pass

        yield advance


silent: Progress = Silent()
