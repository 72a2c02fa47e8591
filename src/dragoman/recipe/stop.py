"""Stopping on request: the first signal asks the loop to stop after its step, the second ends the process at once."""

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

from dragoman.errors import Interrupted


class Stop:
    """True once a stop was asked for."""

    def __init__(self) -> None:
        self.requested = False

    def __call__(self) -> bool:
        return self.requested


@contextmanager
def stop_on_signals() -> Generator[Stop]:
    """Within the block the first SIGTERM or Ctrl-C asks to stop."""
    stop = Stop()

    def request() -> None:
        stop.requested = True

    with _first_signal(request):
        yield stop


@contextmanager
def interrupted_by_signals(advice: str) -> Generator[None]:
    """Within the block the first SIGTERM or Ctrl-C raises `Interrupted`, wherever it finds the work."""

    def interrupt() -> None:
        raise Interrupted(f"stopped; {advice}")

    with _first_signal(interrupt):
        yield


@contextmanager
def _first_signal(act: Callable[[], None]) -> Generator[None]:
    """Acts on the first signal of the block; a second one is as deadly as ever."""
    if threading.current_thread() is not threading.main_thread():  # signals belong to the main thread
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    deadly = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}

    def handle(_number: int, _frame: FrameType | None) -> None:
        for number, handler in deadly.items():
            signal.signal(number, handler)
        act()

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
