"""Text in and out, line by line: the arguments, files and standard input of a command, and where its lines go."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.cli.terminal import console
from dragoman.errors import ConfigError, DataError
from dragoman.files import same_file


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
    from dragoman.text.reading.lines import open_bytes, read_lines

    if path.is_file() and path.stat().st_size == 0:
        return iter(())
    open_bytes(path).close()
    return read_lines(path)


def check_printing(*inputs: Path | str) -> None:
    """Refuses to print to one of the files that are read, as `>> FILE` asks: it would grow as it is read."""
    for path in inputs:
        if same_file(path, 1):
            raise DataError(f"{path} is also standard output, and would grow as it is read; print to another file")


def standard_input() -> Iterator[str]:
    """The lines of standard input, by the same rules as those of a file."""
    from dragoman.text.reading.lines import lines_of

    return lines_of(sys.stdin.buffer, "standard input")


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
