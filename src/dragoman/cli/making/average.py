"""`dragoman average`: a model between two, before and after fine-tuning."""

from pathlib import Path
from typing import Annotated

import typer

import dragoman
from dragoman.cli.terminal import console
from dragoman.cli.terminal.options import Place, Quiet, To, grouped
from dragoman.cli.terminal.screen import open_screen


@grouped
def average(
    before: Annotated[Path, typer.Argument(help="The model before fine-tuning.", show_default=False)],
    after: Annotated[Path, typer.Argument(help="The model after it.", show_default=False)],
    to: To,
    place: Place,
    share: Annotated[
        float | None,
        typer.Option(
            help="Share of the model after: 0 is the one before, 1 the one after.",
            show_default="the tenth with the largest sum of chrF on the dev sets of both runs",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Average a model before and after fine-tuning, so that less is forgotten."""
    from dragoman.store import USES, read_config

    screen = open_screen(quiet)
    found = dragoman.average(before, after, to, share, progress=screen.progress, **place.options())
    if found.points:
        rows = [(f"{each.share:.1f}", f"{each.new:.1f}", f"{each.old:.1f}") for each in found.points]
        console.write_table(["share", "new dev chrF", "old dev chrF"], rows)
    screen.note(f"share {found.share:.2f} of the model after")
    screen.note(f"{found.folder} {USES[read_config(found.folder).model.family]}")
