"""`dragoman fine-tune`: goes on training a finished model on other text."""

from pathlib import Path
from typing import Annotated

import typer

import dragoman
from dragoman.cli import console
from dragoman.cli.evaluate import show
from dragoman.cli.options import (
    Anyway,
    Data,
    Device,
    Fresh,
    Minutes,
    Model,
    Name,
    Quiet,
    Runs,
    Set,
    Threads,
    one_or_two,
    with_minutes,
)


def fine_tune(
    model: Model,
    data: Data,
    mix_rate: Annotated[
        float, typer.Option(min=0.0, max=0.99, help="Share of the model's old data in the text it sees.")
    ] = 0.0,
    mix_data: Annotated[
        Path | None, typer.Option(help="The old data, as prepared.", show_default="that of the model's run")
    ] = None,
    minutes: Minutes = None,
    overrides: Set = None,
    name: Name = None,
    runs: Runs = Path("runs"),
    fresh: Fresh = False,
    anyway: Anyway = False,
    device: Device = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Train a finished model on new text; score it on the old and the new test set, before and after."""
    screen = console.Screen(quiet)
    result = dragoman.fine_tune(
        model,
        one_or_two(data),
        mix_rate=mix_rate,
        mix_data=mix_data,
        overrides=with_minutes(overrides, minutes),
        name=name,
        runs=runs,
        fresh=fresh,
        anyway=anyway,
        device=device,
        threads=threads,
        progress=screen.progress,
    )
    if result.before or result.after:
        show(screen, [*result.before, *result.after], [])
    screen.note(f'translate with it: dragoman translate {result.folder} "..."')
