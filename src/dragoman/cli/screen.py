"""The screen of a command: log records and progress bars on standard error. There are bars only on a terminal."""

import logging
from typing import TYPE_CHECKING

from dragoman import system
from dragoman.cli.console import say
from dragoman.progress import Progress, silent

if TYPE_CHECKING:
    from rich.console import Console


def open_screen(quiet: bool = False, verbose: bool = False) -> Progress:
    """Show log records on standard error from now on; return the progress for public functions.

    `quiet` shows only warnings, `verbose` also details. If several processes run one command together, only the first
    shows anything.
    """
    from rich.console import Console

    console = Console(stderr=True)
    logger = logging.getLogger("dragoman")
    for earlier in [handler for handler in logger.handlers if isinstance(handler, ScreenHandler)]:
        logger.removeHandler(earlier)
    logger.addHandler(ScreenHandler(console))
    shown = logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO
    logger.setLevel(logging.CRITICAL if system.rank() else shown)
    if quiet or system.rank():
        return silent
    from dragoman.cli.bars import Bars  # rich's progress takes time to load

    return Bars(console)


class ScreenHandler(logging.Handler):
    """A handler that shows log records above the bars: information unchanged, warnings with their level."""

    def __init__(self, console: "Console") -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno < logging.WARNING:
            say(self._console, record.getMessage())
        else:
            say(self._console, f"{record.levelname.lower()}: {record.getMessage()}", "yellow")
