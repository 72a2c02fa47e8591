"""The standard streams of the command, also where one of them is closed, its reader has gone away or its disk is full.

Standard error carries notes and bars: what it cannot take is dropped, and the work goes on. Standard output carries
results: where it cannot take them the command ends, quietly if nobody reads any longer, else with an error.
"""

import errno
import io
import os
import select
import sys
from typing import Any, NoReturn, TextIO

from dragoman.errors import DiskFull


def prepare_streams() -> None:
    """Makes the streams of this process UTF-8 with `\\n` line ends on every system, and safe to write to."""
    _reopen_closed()
    out, err = _raw(sys.stdout, 1), _raw(sys.stderr, 2)
    # Bytes of a result that are no text pass through; a note shows them.
    sys.stdout = _text(Results(out), "surrogateescape", line_buffering=out.isatty())
    sys.stderr = _text(Notes(err), "backslashreplace", line_buffering=True)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 (open as long as the process)


class _Stream(io.RawIOBase):
    """Bytes on their way out of the process, through a stream that may fail."""

    def __init__(self, raw: io.RawIOBase) -> None:
        self._raw = raw

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._raw.isatty()

    def fileno(self) -> int:
        return self._raw.fileno()


class Notes(_Stream):
    """Drops what cannot be written."""

    def write(self, data: Any, /) -> int:
        try:
            written = self._raw.write(data)
        except OSError:
            written = None
        return len(data) if written is None else written


class Results(_Stream):
    """Ends the command where something cannot be written, and says so once: what follows is dropped."""

    _failed = False

    def write(self, data: Any, /) -> int:
        if self._failed:
            return len(data)
        try:
            while (written := self._raw.write(data)) is None:  # a pipe that does not block, and is full
                select.select([], [self._raw], [])
            return written
        except OSError as error:
            self._failed = True
            _give_up(error)


def _give_up(error: OSError) -> NoReturn:
    if isinstance(error, BrokenPipeError):
        raise SystemExit(0) from None
    reason = "it is closed" if error.errno == errno.EBADF else error.strerror
    raise DiskFull(f"standard output cannot be written: {reason}") from error


def _reopen_closed() -> None:
    """Fills the places of streams that are closed, or the next file to be opened would get one's number, and with it
    what is meant for the stream.
    """
    # Input is empty, notes are dropped, and a result cannot be written to what is open for reading alone.
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, mode), True)  # the lowest number that is free


def _raw(stream: TextIO | None, number: int) -> Any:
    """What lies under a stream's buffer; Python has no stream where it found the descriptor closed."""
    if stream is None:
        return io.FileIO(number, "w", closefd=False)
    return getattr(stream.buffer, "raw", stream.buffer)


def _text(raw: io.RawIOBase, errors: str, line_buffering: bool) -> TextIO:
    buffer = io.BufferedWriter(raw)
    return io.TextIOWrapper(buffer, "utf-8", errors, newline="\n", line_buffering=line_buffering)
