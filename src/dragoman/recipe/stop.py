"""Stopping on request: the first signal asks the loop to stop after its step, the second ends the process at once."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """True once a stop was asked for."""

    def __init__(self) -> None:
        self.requested = False

    def __call__(self) -> bool:
        return self.requested


@contextmanager
def stop_on_signals() -> Generator[Stop]:
    """Within the block SIGTERM and Ctrl-C ask to stop; a second one is as deadly as ever."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():  # signals belong to the main thread
        yield stop
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def request(_number: int, _frame: FrameType | None) -> None:
        stop.requested = True
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in before:
        signal.signal(number, request)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
