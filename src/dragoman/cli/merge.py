"""`dragoman merge`: an adapter and its base as one model folder."""

from pathlib import Path
from typing import Annotated

import typer

import dragoman
from dragoman.cli.terminal.options import Quiet, To
from dragoman.cli.terminal.screen import open_screen


def merge(
    adapter: Annotated[Path, typer.Argument(help="An adapter folder, or a run of adapters.", show_default=False)],
    to: To,
    base: Annotated[
        Path | None, typer.Option(help="The model that it belongs to.", show_default="where it was, or lies beside it")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Merge an adapter into a copy of its base: one whole model folder."""
    from dragoman.store.description import USES, read_config

    screen = open_screen(quiet)
    folder = dragoman.merge(adapter, to, base)
    screen.note(f"{folder} {USES[read_config(folder).model.family]}")
