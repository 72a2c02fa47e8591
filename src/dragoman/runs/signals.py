"""Stopping on request: the first signal asks the loop to stop after its step, the second ends the process at once.

The session then saves a checkpoint and raises `Interrupted`, so that the same command continues. SIGTERM, Ctrl-C
(SIGINT) and a terminal that closes (SIGHUP) are such requests. A signal that is ignored when work begins stays ignored:
`nohup` ignores SIGHUP, and shells start background jobs with Ctrl-C ignored.
"""

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

from dragoman.errors import Interrupted

_AFTER_THE_FIRST = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
    signal.SIGHUP: signal.SIG_IGN,  # the system and the shell each send one when a terminal closes
}
"""The signals that ask to stop, and the handler of a second one."""


@contextmanager
def stop_on_signals() -> Generator[threading.Event]:
    """Yield an event that the first signal sets."""
    stop = threading.Event()
    with _first_signal(stop.set):
        yield stop


@contextmanager
def interrupted_by_signals(advice: str = "") -> Generator[None]:
    """Raise `Interrupted` at the first signal in the block, wherever the work is, with this advice."""

    def interrupt() -> None:
        raise Interrupted(f"stopped; {advice}" if advice else "stopped")

    with _first_signal(interrupt):
        yield


@contextmanager
def _first_signal(act: Callable[[], None]) -> Generator[None]:
    """Call `act` at the first signal in the block; later ones are handled as `_AFTER_THE_FIRST` says."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread can handle signals
        yield
        return
    before = {number: signal.getsignal(number) for number in _AFTER_THE_FIRST}
    before = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}

    def handle(_number: int, _frame: FrameType | None) -> None:
        for number in before:
            signal.signal(number, _AFTER_THE_FIRST[number])
        act()

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
