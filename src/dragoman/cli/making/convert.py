"""`dragoman convert`: models of Marian, in and out."""

from pathlib import Path
from typing import Annotated

import typer

import dragoman
from dragoman.cli.terminal import console


def convert(
    folder: Annotated[
        Path, typer.Argument(help="A Marian folder of transformers, as OPUS-MT has it; or a model or run of Dragoman.")
    ],
    to: Annotated[Path, typer.Option(help="The new folder.", show_default=False)],
    languages: Annotated[
        tuple[str, str] | None,
        typer.Option(help="Source and target of a Marian model whose folder does not say them.", show_default=False),
    ] = None,
) -> None:
    """Convert a Marian model of transformers into a model folder, or a model folder into one of transformers."""
    found = dragoman.convert(folder, to, languages)
    console.write(f"{found.folder} is {found.what}")
    for note in found.notes:
        console.write(f"note: {note}")
