"""The standard streams of the command, even if one is closed, its reader has gone away or its disk is full.

Standard error carries notes and bars; if it cannot be written, they are dropped and the work goes on. Standard output
carries results; if it cannot be written, the command ends: silently if the reader has gone away, else with an error.
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
    # Results pass bytes that are no text; notes spell them out.
    sys.stdout = _text(Results(out), "surrogateescape", line_buffering=out.isatty())
    sys.stderr = _text(Notes(err), "backslashreplace", line_buffering=True)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 (open as long as the process)


class _Stream(io.RawIOBase):
    """An output stream that may fail."""

    def __init__(self, raw: io.RawIOBase) -> None:
        self._raw = raw

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._raw.isatty()

    def fileno(self) -> int:
        return self._raw.fileno()


class Notes(_Stream):
    """Drops what the stream cannot take."""

    def write(self, data: Any, /) -> int:
        try:
            written = self._raw.write(data)
        except OSError:
            written = None
        return len(data) if written is None else written


class Results(_Stream):
    """Ends the command at the first failure, with one error; everything after it is dropped."""

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
    """Opens streams that are closed. Otherwise the next file to be opened would get the number of the stream, and the
    stream's output.
    """
    # Input is then empty, notes are dropped, and writing a result fails because the stream is open for reading only.
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, mode), True)  # the lowest number that is free


def _raw(stream: TextIO | None, number: int) -> Any:
    """The raw stream under a buffer. Python has no stream if the descriptor was closed at start."""
    if stream is None:
        return io.FileIO(number, "w", closefd=False)
    return getattr(stream.buffer, "raw", stream.buffer)


def _text(raw: io.RawIOBase, errors: str, line_buffering: bool) -> TextIO:
    buffer = io.BufferedWriter(raw)
    return io.TextIOWrapper(buffer, "utf-8", errors, newline="\n", line_buffering=line_buffering)
