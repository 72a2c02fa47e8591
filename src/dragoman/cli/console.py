"""What a person at the terminal sees: results on standard output; bars, notes and complaints on standard error.

There are no bars without a terminal; NO_COLOR is respected; a quiet screen leaves results, warnings and errors.
"""

import json
import logging
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dragoman import machine
from dragoman.progress import Progress, silent

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Nothing is folded where no one looks at it: a log or a pipe gets whole lines.
UNFOLDED = 10_000

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class Screen:
    """The terminal of one command. Its `progress` is what the public functions report to.

    Of several processes that do one command together, the first speaks for all.
    """

    progress: Progress

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet or machine.rank() > 0
        self._notes = error_console()
        self.progress = silent if self.quiet else self._bars()
        self._listen()

    def note(self, what: str) -> None:
        """Tells something beside the result, on standard error."""
        if not self.quiet:
            say(self._notes, what)

    def show(self, table: "Table") -> None:
        """Draws a result, on standard output."""
        from rich.console import Console

        output = Console(width=None if sys.stdout.isatty() else UNFOLDED)
        with output.capture() as drawn:
            output.print(table)
        _put("\n".join(line.rstrip(" ") for line in drawn.get().split("\n")).strip("\n"), "\n")

    def _bars(self) -> Progress:
        from dragoman.cli.bars import Bars, Lines

        return Bars(self._notes) if self._notes.is_terminal else Lines(self._notes)

    def _listen(self) -> None:
        """Shows what the rooms log: plain where it informs, named where it warns."""
        log = logging.getLogger("dragoman")
        for earlier in [each for each in log.handlers if isinstance(each, NoteHandler)]:
            log.removeHandler(earlier)
        log.addHandler(NoteHandler(self._notes))
        log.setLevel(logging.CRITICAL if machine.rank() else logging.WARNING if self.quiet else logging.INFO)


class NoteHandler(logging.Handler):
    """Prints log records above the bars."""

    def __init__(self, console: "Console") -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        serious = record.levelno >= logging.WARNING
        text = f"{record.levelname.lower()}: {record.getMessage()}" if serious else record.getMessage()
        style = "yellow" if serious else None
        say(self._console, text, style)


def error_console() -> "Console":
    from rich.console import Console

    return Console(stderr=True, width=None if sys.stderr.isatty() else UNFOLDED)


def say(console: "Console", text: str, style: str | None = None) -> None:
    """Text as it is, whoever wrote it: nothing in it is markup, none of it steers the terminal, no line is folded."""
    console.print(visible(text), style=style, markup=False, highlight=False, soft_wrap=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> "Table":
    """A table whose numbers stand right and whose words stand left; a cell is text, never markup or control."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    rows = [list(row) for row in rows]
    drawn = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(columns):
        numeric = bool(rows) and all(_is_number(row[number]) for row in rows)
        drawn.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(visible(cell)) for cell in row))
    return drawn


def _is_number(cell: str) -> bool:
    return cell[:1].isdigit() or cell[:1] in {"", "-", "–", "+"}


def write(text: str = "", end: str = "\n") -> None:
    """Writes a result to standard output; a terminal is shown the control characters in it."""
    _put(visible(text) if sys.stdout.isatty() else text, end)


def write_json(value: Any) -> None:
    write(json.dumps(value, ensure_ascii=False, indent=2))


def flush() -> None:
    sys.stdout.flush()


def complain(message: str) -> None:
    """One line on standard error, whatever the message holds."""
    say(error_console(), f"error: {_one_line(message)}", style="red")


def say_stopped(message: str) -> None:
    """The last line of a command that was asked to stop, which is no error."""
    say(error_console(), _one_line(message))


def visible(text: str) -> str:
    r"""The text with its control characters spelt out, but line breaks and tabs: it must not steer a terminal.

    >>> print(visible("red \x1b[31m"))
    red \x1b[31m
    """
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def _put(text: str, end: str) -> None:
    sys.stdout.write(text + end)


def _one_line(message: str) -> str:
    return " ".join(message.split("\n"))
