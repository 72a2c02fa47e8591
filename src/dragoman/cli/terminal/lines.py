"""Text in and out, line by line: the arguments, files and standard input of a command, and where its lines go."""

import io
import os
import select
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from dragoman.cli.terminal import console
from dragoman.errors import ConfigError, DataError
from dragoman.text.lines import LONGEST_LINE_BYTES

if TYPE_CHECKING:
    from dragoman.inference.segments import Arriving

PATIENCE_SECONDS = 0.005
"""Within it a quick writer fills a pipe again; a sender who waits for an answer loses no more."""


def check_text(text: str) -> None:
    """Refuses a TEXT that is not Unicode, or that is the path of a file."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise DataError("TEXT is not valid UTF-8; give it in UTF-8, or as a file with --input")
    if os.path.isfile(text) and (Path(text).suffix or Path(text).name != text):
        raise ConfigError(
            f"TEXT {text} is the name of a file; give --input {text} for the lines in it, "
            "or pipe the name itself through standard input"
        )


def read(path: Path) -> Iterator[str]:
    """The lines of a file. It is opened at once, so that a missing one is refused now; an empty file has no lines."""
    from dragoman.text.lines import open_bytes, read_lines

    if path.is_file() and path.stat().st_size == 0:
        return iter(())
    open_bytes(path).close()
    return read_lines(path)


def standard_input() -> "Arriving[str]":
    """The lines of standard input, by the same rules as those of a file."""
    from dragoman.inference.segments import Arriving
    from dragoman.text.lines import lines_of

    raw = getattr(sys.stdin.buffer, "raw", None)
    if raw is None:  # a program has put a text in its place
        return Arriving(lines_of(sys.stdin.buffer, "standard input"), lambda: True)
    incoming = Incoming(raw)
    return Arriving(lines_of(cast("IO[bytes]", incoming), "standard input"), incoming.has_come)


class Incoming:
    """An open file or pipe, by lines, that tells whether the next one has come."""

    def __init__(self, raw: io.RawIOBase) -> None:
        """`raw` has no buffer. The console of Windows gives UTF-8 only through it, not by its number."""
        self._raw, self._ended = raw, False
        self._held: deque[bytes] = deque()
        """Lines, the last of which may have no end yet."""

    def readline(self, size: int, /) -> bytes:
        """The next line with its end, or the first bytes of a longer one; nothing at the end."""
        while not self._holds_line(size):
            self._take(None)
        line = self._held.popleft() if self._held else b""
        if len(line) > size:
            self._held.appendleft(line[size:])
        return line[:size]

    def has_come(self) -> bool:
        """Whether the next line, or the end, is there."""
        while not self._holds_line(LONGEST_LINE_BYTES):
            if not self._take(PATIENCE_SECONDS):
                return False
        return True

    def _holds_line(self, size: int) -> bool:
        held = self._held
        return len(held) > 1 or self._ended or (bool(held) and (held[0].endswith(b"\n") or len(held[0]) >= size))

    def _take(self, seconds: float | None) -> bool:
        """Takes what comes within so many seconds, and says whether anything did."""
        if os.name != "nt" and not select.select([self._raw], [], [], seconds)[0]:  # Windows selects no pipes
            return False
        if (block := self._raw.read(1 << 16)) is None:  # another reader of the same pipe was quicker
            return False
        self._ended = not block
        if self._held and not self._held[-1].endswith(b"\n"):
            block = self._held.pop() + block
        self._held.extend(io.BytesIO(block).readlines())
        return True


CANNOT_GO_ON = "; only translate with --input FILE goes on where it was stopped"


@contextmanager
def writer(output: Path | None) -> Iterator[Callable[[str], object]]:
    """A function that writes text to a new file, which appears when it is complete, or at once to standard output.

    A signal to stop leaves no part of the file.
    """
    from dragoman.files import new_file
    from dragoman.runs.signals import interrupted_by_signals

    def say(text: str) -> None:
        console.write(text, end="")
        console.flush()

    if output is None:
        yield say
        return
    with interrupted_by_signals(f"{output} was not written{CANNOT_GO_ON}"), new_file(output) as file:
        yield lambda text: file.write(text.encode())
