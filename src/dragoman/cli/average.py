"""`dragoman average`: a model between two, before and after fine-tuning."""

from pathlib import Path
from typing import Annotated

import typer

import dragoman
from dragoman.cli.terminal.options import Quiet, To
from dragoman.cli.terminal.screen import open_screen


def average(
    before: Annotated[Path, typer.Argument(help="The model before fine-tuning.", show_default=False)],
    after: Annotated[Path, typer.Argument(help="The model after it.", show_default=False)],
    to: To,
    share: Annotated[
        float,
        typer.Option(
            help="Share of the model after: 0 is the one before, 1 the one after. Measure two or three with evaluate.",
            show_default=False,
        ),
    ],
    quiet: Quiet = False,
) -> None:
    """Average a model before and after fine-tuning, so that less is forgotten."""
    from dragoman.store.description import USES, read_config

    screen = open_screen(quiet)
    folder = dragoman.average(before, after, to, share)
    screen.note(f"share {share:.2f} of the model after")
    screen.note(f"{folder} {USES[read_config(folder).model.family]}")
