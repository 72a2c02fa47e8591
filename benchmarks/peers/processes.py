"""Processes that each build something and then wait for their turn.

A toolkit's settings, crashes and memory stay its own this way, and its peak of memory is that of a fresh process.
"""

import multiprocessing
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from multiprocessing.connection import Connection
from typing import Any

from dragoman.system import WAITING


class Lost(Exception):
    """The failure of a process; the message says why."""


class Remote:
    """A process that answers messages, seen from this process."""

    def __init__(self, build: Callable[..., Any], *arguments: object, is_patient: bool = True) -> None:
        """Start a process that calls `build`, which returns facts and a function that answers a message.

        Facts and answers are anything but text, because text is an error.

        Raises:
            Lost: `build` failed.
        """
        context = multiprocessing.get_context("spawn")
        self._pipe, far = context.Pipe()
        self._process = context.Process(target=_serve, args=(far, build, arguments), daemon=True)
        with patient_threads() if is_patient else nullcontext():
            self._process.start()
        far.close()
        self.facts = self._receive()

    def ask(self, *message: object) -> Any:
        """Send a message and return the answer.

        Raises:
            Lost: the process failed.
        """
        with suppress(BrokenPipeError):  # `_receive` says why
            self._pipe.send(message)
        return self._receive()

    def leave(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join()

    def _receive(self) -> Any:
        try:
            answer = self._pipe.recv()
        except EOFError:
            self._process.join()
            raise Lost(f"its process ended with code {self._process.exitcode}") from None
        if isinstance(answer, str):
            raise Lost(answer)
        return answer


def _serve(pipe: Connection, build: Callable[..., Any], arguments: tuple[object, ...]) -> None:
    """Build, then answer messages until the pipe closes."""
    try:
        facts, answer = build(*arguments)
        pipe.send(facts)
        while True:
            pipe.send(answer(*pipe.recv()))
    except EOFError:
        return
    except Exception:
        pipe.send(traceback.format_exc(limit=-4))


@contextmanager
def patient_threads() -> Iterator[None]:
    """Let OpenMP's threads in processes that start here sleep while they wait, as the command line does."""
    before = dict(os.environ)
    os.environ.update({**WAITING, **before})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
