"""`dragoman train`: from a recipe or plain data to a scored model; the same command goes on with what was cut off."""

from typing import Annotated

import typer

import dragoman
from dragoman.cli import console
from dragoman.cli.evaluate import show
from dragoman.cli.options import Quiet, Run, spread


@spread
def train(
    run: Run,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            help="A recipe (.toml, or the name of one that comes along), parallel text (one file, two aligned files, "
            "a folder, hub:NAME:CONFIG), or a run to go on with.",
            show_default="phrasebook",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Train a model, or go on with a run that was cut off, and score it on its test sets."""
    from dragoman.recipe.curves import told_curves

    screen = console.Screen(quiet)
    result = dragoman.train(what or "phrasebook", **run.options(screen.progress))
    for line in told_curves(result.folder):
        screen.note(line)
    if result.evaluations:
        show(screen, result.evaluations)
    screen.note(f'translate with it: dragoman translate {result.folder} "..."')
