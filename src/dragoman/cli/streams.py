"""The streams of a command: standard input, output and error, and the lines that it reads and writes.

They work even if a stream is closed, its reader is gone or its disk is full. Standard error carries notes and bars; if
it cannot be written, they are dropped and work continues. Standard output carries results; if it cannot be written, the
command ends: silently if the reader is gone, else with an error.
"""

import errno
import io
import os
import select
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

from dragoman.cli import console
from dragoman.errors import ConfigError, DataError, DiskFull
from dragoman.formats.lines import LONGEST_LINE_BYTES

if TYPE_CHECKING:
    from dragoman.inference.documents import Arriving

PATIENCE_SECONDS = 0.005
"""Maximum wait for another line before the lines so far are translated. A program that writes quickly fills a pipe
again in this time; a program that waits for an answer loses no more than this.
"""


# Lines in


def check_text(text: str) -> None:
    """Refuse a TEXT that is not Unicode, or that is the path of a file."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise DataError("TEXT is not valid UTF-8; give it in UTF-8, or as a file with --input")
    if os.path.isfile(text) and (Path(text).suffix or Path(text).name != text):
        raise ConfigError(
            f"TEXT {text} is the name of a file; give --input {text} for the lines in it, "
            "or pipe the name itself through standard input"
        )


def read(path: Path) -> Iterator[str]:
    """Return the lines of a file, which is opened immediately, so that a missing file is refused now."""
    from dragoman.formats.lines import open_text, read_lines

    if path.is_file() and path.stat().st_size == 0:
        return iter(())  # an empty file has no lines
    open_text(path).close()
    return read_lines(path)


def standard_input(typed: str = "type a text and press Enter; Ctrl-D ends") -> "Arriving[str]":
    """Return the lines of standard input, split like those of a file. `typed` is the instruction on a terminal."""
    from dragoman.formats.lines import lines_of
    from dragoman.inference.documents import Arriving

    if sys.stdin.isatty():
        console.note(typed)
    raw = getattr(sys.stdin.buffer, "raw", None)
    if raw is None:  # replaced by a stream in memory
        return Arriving(lines_of(sys.stdin.buffer, "standard input"), lambda: True)
    incoming = Incoming(raw)
    return Arriving(lines_of(cast("IO[bytes]", incoming), "standard input"), incoming.has_come)


class Incoming:
    """Lines of an open file or pipe, which reports whether the next line has arrived."""

    def __init__(self, raw: io.RawIOBase) -> None:
        """Read from a stream without a buffer. Windows' console gives UTF-8 only through it, not by its number."""
        self._raw, self._ended = raw, False
        self._held: deque[bytes] = deque()
        """Lines that have arrived; the last may be incomplete."""

    def readline(self, size: int, /) -> bytes:
        """Return the next line with its end, or the first `size` bytes of a longer line; nothing at the end."""
        while not self._holds_line(size):
            self._take(None)
        line = self._held.popleft() if self._held else b""
        if len(line) > size:
            self._held.appendleft(line[size:])
        return line[:size]

    def has_come(self) -> bool:
        """Return True if the next line, or the end, has arrived."""
        while not self._holds_line(LONGEST_LINE_BYTES):
            if not self._take(PATIENCE_SECONDS):
                return False
        return True

    def _holds_line(self, size: int) -> bool:
        held = self._held
        return len(held) > 1 or self._ended or (bool(held) and (held[0].endswith(b"\n") or len(held[0]) >= size))

    def _take(self, seconds: float | None) -> bool:
        """Read what arrives within this time. Returns False if nothing did."""
        if os.name != "nt" and not select.select([self._raw], [], [], seconds)[0]:  # Windows selects no pipes
            return False
        if (block := self._raw.read(1 << 16)) is None:  # another reader of the pipe was faster
            return False
        self._ended = not block
        if self._held and not self._held[-1].endswith(b"\n"):
            block = self._held.pop() + block
        self._held.extend(io.BytesIO(block).readlines())
        return True


# Lines out


@contextmanager
def writer(output: Path | None) -> Iterator[Callable[[str], object]]:
    """Yield a function that writes text to a new file, which appears once it is complete, or to standard output."""
    from dragoman.files import new_file
    from dragoman.runs.signals import interrupted_by_signals

    def write(text: str) -> None:
        console.write_text(text, end="")
        sys.stdout.flush()

    if output is None:
        yield write
        return
    advice = f"{output} was not written; only translate with --input FILE resumes where it was stopped"
    with interrupted_by_signals(advice), new_file(output) as file:
        yield lambda text: file.write(text.encode())


# The standard streams of the process


def prepare_streams() -> None:
    """Make the streams of this process UTF-8 with `\\n` line ends on every system, and safe to write to."""
    _reopen_closed()
    out, err = _raw(sys.stdout, 1), _raw(sys.stderr, 2)
    # Results contain bytes that are not text unchanged; notes spell them out.
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
    """An output stream that drops what cannot be written."""

    def write(self, data: Any, /) -> int:
        try:
            written = self._raw.write(data)
        except OSError:
            written = None
        return len(data) if written is None else written


class Results(_Stream):
    """An output stream that ends the command at the first failure, with one error; everything later is dropped."""

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
            if isinstance(error, BrokenPipeError):
                raise SystemExit(0) from None
            reason = "it is closed" if error.errno == errno.EBADF else error.strerror
            raise DiskFull(f"standard output cannot be written: {reason}") from error


def _reopen_closed() -> None:
    """Open streams that are closed. Otherwise the next file would get the number of the stream, and its output."""
    # Input is then empty, notes are dropped, and writing a result fails because the stream is open for reading only.
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, mode), True)  # gets the lowest free number


def _raw(stream: TextIO | None, number: int) -> Any:
    """Return the raw stream under a buffer. Python has no stream if the descriptor was closed at start."""
    if stream is None:
        return io.FileIO(number, "w", closefd=False)
    return getattr(stream.buffer, "raw", stream.buffer)


def _text(raw: io.RawIOBase, errors: str, line_buffering: bool) -> TextIO:
    buffer = io.BufferedWriter(raw)
    return io.TextIOWrapper(buffer, "utf-8", errors, newline="\n", line_buffering=line_buffering)
