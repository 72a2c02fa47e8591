"""The screen of one command: its bars and notes, on standard error.

There are no bars without a terminal; a quiet screen leaves results, warnings and errors.
"""

import logging
from typing import TYPE_CHECKING

from dragoman import system
from dragoman.cli.terminal import console
from dragoman.progress import Progress, silent

if TYPE_CHECKING:
    from rich.console import Console


def open_screen(quiet: bool = False) -> "Screen":
    """A screen that from now on also shows what the rooms log."""
    screen = Screen(quiet)
    screen.listen()
    return screen


class Screen:
    """Where one command shows bars and notes. The public functions report to its `progress`.

    If several processes run one command together, only the first one shows anything.
    """

    progress: Progress

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet or system.rank() > 0
        self._notes = console.error_console()
        self.progress = silent if self.quiet else self._bars()

    def note(self, what: str) -> None:
        """Prints a note, which is not part of the result, on standard error."""
        if not self.quiet:
            console.say(self._notes, what)

    def _bars(self) -> Progress:
        from dragoman.cli.terminal.bars import Bars, Lines

        return Bars(self._notes) if self._notes.is_terminal else Lines(self._notes)

    def listen(self) -> None:
        """Shows what the rooms log: information as it is, warnings with their name."""
        log = logging.getLogger("dragoman")
        for earlier in [each for each in log.handlers if isinstance(each, NoteHandler)]:
            log.removeHandler(earlier)
        log.addHandler(NoteHandler(self._notes))
        log.setLevel(logging.CRITICAL if system.rank() else logging.WARNING if self.quiet else logging.INFO)


class NoteHandler(logging.Handler):
    """Prints log records above the bars."""

    def __init__(self, notes: "Console") -> None:
        super().__init__()
        self._notes = notes

    def emit(self, record: logging.LogRecord) -> None:
        serious = record.levelno >= logging.WARNING
        text = f"{record.levelname.lower()}: {record.getMessage()}" if serious else record.getMessage()
        style = "yellow" if serious else None
        console.say(self._notes, text, style)
