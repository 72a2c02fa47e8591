"""`dragoman explain`: everything that a model did with one text, as a page to look at."""

import time
from pathlib import Path
from typing import Annotated, Literal

import typer

import dragoman
from dragoman.cli.terminal import console
from dragoman.cli.terminal.options import Model, Quiet, Threads
from dragoman.cli.terminal.screen import open_screen
from dragoman.files import check_output

PAGE = "explanation"
"""The name of a file that was given none."""


def explain(
    model: Model,
    text: Annotated[str, typer.Argument(help="The text, in quotes.", show_default=False)],
    target: Annotated[
        str | None, typer.Option(help="Explain this translation of the text.", show_default="the model's own")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write.", show_default=f"{PAGE}.html")
    ] = None,
    form: Annotated[
        Literal["html", "json", "png", "svg", "pdf", "terminal"] | None,
        typer.Option(
            "--format",
            help="A page; every number in full; a picture of where the model looked; or text on the terminal.",
            show_default="by the file's name, else html",
        ),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(metavar="LAYER", help="Show the matrices of this layer too, as in encoder.0.")
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(
            help="The head that pictures show, as in decoder.0.cross_attention.3.", show_default="the alignment"
        ),
    ] = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Show what a model did with a text: one page, from its pieces to the search, with every number."""
    from dragoman.explaining.writing import form_of, render, write_record

    screen = open_screen(quiet)
    form = form or (form_of(output) if output is not None else "html")
    to_terminal = output is None and form in ("json", "terminal")
    path = output or Path(f"{PAGE}.{form}")
    if not to_terminal:
        check_output(path)
    started = time.monotonic()
    record = dragoman.record(model, text, target, weights=weights, threads=threads)
    if to_terminal:
        console.write(render(record, form, head).decode(), end="")
        return
    write_record(path, record, form, head)
    screen.note(f"{path}: {path.stat().st_size / 1e6:.1f} MB, in {time.monotonic() - started:.1f} s")
    if record.target is not None:
        console.write(record.target)
