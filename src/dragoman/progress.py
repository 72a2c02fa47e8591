"""Progress of long-running work, reported to a `Progress` that the caller passes. Only `dragoman.Bars` draws.

with progress.track("encode", total=1_000_000, unit="pairs") as advance:
    advance(1_000, rate="210,000/s")
"""

import os
import sys
from contextlib import AbstractContextManager, nullcontext, suppress
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


def ignore(count: int = 1, **facts: str) -> None:
    """Show nothing of an advance."""


class Silent:
    """Progress that shows nothing."""

    def track(self, label: str, total: int | None = None, unit: str = "") -> AbstractContextManager[Advance]:
        return nullcontext(ignore)


silent: Progress = Silent()


def as_progress(progress: Progress | bool) -> Progress:
    """Return bars for True if they can be seen, silent progress otherwise, and any other progress unchanged."""
    if isinstance(progress, bool):
        return _bars() if progress and _may_be_seen() else silent
    return progress


def _may_be_seen() -> bool:
    """Return False, without loading rich, if there is neither a terminal nor a notebook, or TTY_COMPATIBLE is 0."""
    if os.environ.get("TTY_COMPATIBLE") == "0":
        return False
    with suppress(AttributeError, ValueError):  # no standard error, a closed one, or one that can only write
        if sys.stderr.isatty():
            return True
    return "IPython" in sys.modules or not os.environ.keys().isdisjoint({"FORCE_COLOR", "TTY_COMPATIBLE"})


@cache
def _bars() -> Progress:
    return dragoman.Bars()
