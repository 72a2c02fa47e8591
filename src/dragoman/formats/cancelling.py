"""Readers and writers of files that can be stopped."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_check = ContextVar[Callable[[], object]]("check", default=lambda: None)


@contextmanager
def cancellable(check: Callable[[], object]) -> Iterator[None]:
    """Make readers and writers call `check` often within the block, which stops them by raising an error."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


def check_cancelled() -> None:
    """Call the check of `cancellable`. Readers and writers do this for each piece of a file."""
    _check.get()()
