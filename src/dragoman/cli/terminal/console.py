"""Text on the terminal: results on standard output, errors on standard error. No text can control the terminal.

NO_COLOR is respected.
"""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# A log or a pipe gets whole lines.
UNFOLDED = 10_000

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def error_console() -> "Console":
    from rich.console import Console

    return Console(stderr=True, width=None if sys.stderr.isatty() else UNFOLDED)


def say(console: "Console", text: str, style: str | None = None) -> None:
    """Prints text as it is: nothing in it is markup or controls the terminal, and no line is folded."""
    console.print(visible(text), style=style, markup=False, highlight=False, soft_wrap=True)


def write_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints a table on standard output: numbers on the right, words on the left. A cell is never markup or control."""
    from rich.console import Console

    output = Console(width=None if sys.stdout.isatty() else UNFOLDED)
    with output.capture() as drawn:
        output.print(_table(columns, [list(row) for row in rows]))
    _put("\n".join(line.rstrip(" ") for line in drawn.get().split("\n")).strip("\n"), "\n")


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(columns):
        numeric = bool(rows) and all(_is_number(row[number]) for row in rows)
        drawn.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(visible(cell)) for cell in row))
    return drawn


def _is_number(cell: str) -> bool:
    return cell[:1].isdigit() or cell[:1] in {"", "-", "–", "+"}


def write(text: str = "", end: str = "\n") -> None:
    """Writes a result to standard output. On a terminal its control characters are spelt out."""
    _put(visible(text) if sys.stdout.isatty() else text, end)


def write_json(value: Any) -> None:
    write(json.dumps(value, ensure_ascii=False, indent=2))


def flush() -> None:
    sys.stdout.flush()


def complain(message: str) -> None:
    """Prints an error as one line on standard error, whatever the message holds."""
    say(error_console(), f"error: {_one_line(message)}", style="red")


def say_stopped(message: str) -> None:
    """Prints the last line of a command that was asked to stop, which is no error."""
    say(error_console(), _one_line(message))


def visible(text: str) -> str:
    r"""The text with control characters spelt out, except line breaks and tabs: it cannot control a terminal.

    >>> print(visible("red \x1b[31m"))
    red \x1b[31m
    """
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def _put(text: str, end: str) -> None:
    sys.stdout.write(text + end)


def _one_line(message: str) -> str:
    return " ".join(message.split("\n"))
