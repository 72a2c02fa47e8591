"""`dragoman reproduce`: does a recipe reach its expected score on this machine?"""

from typing import Annotated

import typer

import dragoman
from dragoman.cli.terminal import console
from dragoman.cli.terminal.options import Quiet, Run, grouped
from dragoman.cli.terminal.screen import open_screen
from dragoman.errors import GateFailed


@grouped
def reproduce(
    recipe: Annotated[
        str, typer.Argument(help="A recipe with an \\[expected] score: a file, or the name of a built-in one.")
    ],
    run: Run,
    quiet: Quiet = False,
) -> None:
    """Train a recipe for as many steps as its expected score took, and say whether the score is reached."""
    screen = open_screen(quiet)
    dragoman.keep_freed_memory()
    found = dragoman.reproduce(recipe, **run.options(screen.progress))
    if not found.met:
        raise GateFailed(f"{recipe}: {found}")
    console.write(f"{recipe}: {found}")
