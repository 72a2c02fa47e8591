"""Output of commands: results on standard output, the rest on standard error. No text controls the terminal."""

import json
import logging
import re
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from dragoman import system
from dragoman.progress import Progress, silent

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")

WIDE = 10_000
"""Width of a table that is written to a file or a pipe, so that no cell is folded."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, and those that change the direction of writing, separate lines, or are half characters."""
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufefc]")

log = logging.getLogger(__name__)


def visible(text: str) -> str:
    r"""Spell out control characters, except line breaks and tabs, so that the text cannot control a terminal, nor
    change the direction of the text around it.

    >>> print(visible("red \x1b[31m"))
    red \x1b[31m
    """
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], text)


def isolated(text: str) -> str:
    """Return visible text. If it runs from right to left, isolates keep it from reordering the text around it."""
    return f"\u2068{visible(text)}\u2069" if _RIGHT_TO_LEFT.search(text) else visible(text)


# Results


def write(text: str = "", end: str = "\n") -> None:
    """Write a result to standard output. Its control characters are spelt out, because names in it may be foreign."""
    sys.stdout.write(visible(text) + end)


def write_text(text: str, end: str = "\n") -> None:
    """Write text that a model wrote or read: unchanged, except on a terminal."""
    sys.stdout.write((visible(text) if sys.stdout.isatty() else text) + end)


def write_result(output_format: str, facts: Any, show: Callable[[], object]) -> None:
    """Write a result: its facts as JSON, or for people by `show`."""
    if output_format == "json":
        write(as_json(facts, indent=2))
    else:
        show()


def as_json(value: Any, indent: int | None = None) -> str:
    """Return JSON with escaped control characters: its value is the same, and a terminal does not act on them."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def write_pieces(pieces: Generator[str, None, T]) -> T:
    """Write a text piece by piece, as it is made, and return the generator's result."""
    while True:
        try:
            piece = next(pieces)
        except StopIteration as end:
            write()
            return end.value
        write_text(piece, end="")
        sys.stdout.flush()


def write_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write a table: numbers on the right, words on the left."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(columns):
        starts = [row[number][:1] for row in rows]
        numeric = bool(rows) and all(start.isdigit() or start in {"", "-", "–", "+"} for start in starts)
        table.add_column(Text(visible(name)), justify="right" if numeric else "left", overflow="fold")
    shown = isolated if sys.stdout.isatty() else visible
    for row in rows:
        table.add_row(*(Text(shown(cell)) for cell in row))
    output = Console(width=None if sys.stdout.isatty() else WIDE)
    with output.capture() as drawn:
        output.print(table)
    lines = "\n".join(line.rstrip(" ") for line in drawn.get().split("\n")).strip("\n")
    sys.stdout.write(lines + "\n")


# Standard error


def note(text: str, is_warning: bool = False) -> None:
    """Show a note, which is not part of the result; a quiet command shows it only if it is a warning."""
    log.log(logging.WARNING if is_warning else logging.INFO, "%s", text)


def is_verbose() -> bool:
    """Return True if details are shown."""
    return log.isEnabledFor(logging.DEBUG)


def complain(message: str) -> None:
    """Show an error as one line, whatever the message holds."""
    say_last(f"error: {message}", "red")


def say_last(message: str, style: str | None = None) -> None:
    """Show the last line of a command, also of a quiet one."""
    from rich.console import Console

    say(Console(stderr=True), " ".join(message.split("\n")), style)


def say(console: "Console", text: str, style: str | None = None) -> None:
    """Show text unchanged: nothing in it is markup or controls the terminal, and no line is folded."""
    console.print(visible(text), style=style, markup=False, highlight=False, soft_wrap=True)


def open_screen(quiet: bool = False, verbose: bool = False) -> Progress:
    """Show log records on standard error from now on; return the progress for public functions.

    `quiet` shows only warnings, `verbose` also details. If several processes run one command together, only the first
    shows anything.
    """
    logger = logging.getLogger("dragoman")
    for earlier in [handler for handler in logger.handlers if isinstance(handler, ScreenHandler)]:
        logger.removeHandler(earlier)
    logger.addHandler(screen := ScreenHandler())
    shown = logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO
    logger.setLevel(logging.CRITICAL if system.rank() else shown)
    if quiet or system.rank():
        return silent
    from dragoman.cli.bars import Bars  # rich's progress takes time to load

    return Bars(screen.console)


class ScreenHandler(logging.Handler):
    """A handler that shows log records above the bars: information unchanged, warnings with their level."""

    @cached_property
    def console(self) -> "Console":
        """Standard error. Rich is loaded for the first record, and a quiet command rarely has one."""
        from rich.console import Console

        return Console(stderr=True)

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno < logging.WARNING:
            say(self.console, record.getMessage())
        else:
            say(self.console, f"{record.levelname.lower()}: {record.getMessage()}", "yellow")
