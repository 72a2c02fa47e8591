"""`dragoman export`: a model folder as another toolkit reads it."""

from pathlib import Path
from typing import Annotated

import typer

import dragoman
from dragoman.cli.terminal import console
from dragoman.cli.terminal.options import Adapter, Model
from dragoman.exporting import Target


def export(
    model: Model,
    target: Annotated[Target, typer.Argument(help="The toolkit that reads the new folder.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The new folder.", show_default=False)],
    text: Annotated[
        Path | None,
        typer.Option(help="Sentences that prove the export, a line each.", show_default="64 of the run's own test set"),
    ] = None,
    adapter: Adapter = None,
) -> None:
    """Write a model for CTranslate2 or Hugging Face transformers, once it is proved to translate the same there."""
    from dragoman.text.lines import read_lines

    texts = None if text is None else list(read_lines(text))
    found = dragoman.export(model, target, out, texts, adapter)
    console.write(f"{found.folder}: {found.proof}")
    for note in found.notes:
        console.write(f"note: {note}")
