"""`dragoman convert`: models of Marian."""

from pathlib import Path
from typing import Annotated

import typer

import dragoman
from dragoman.cli.terminal import console


def convert(
    folder: Annotated[
        Path, typer.Argument(help="A Marian folder of transformers, as OPUS-MT has it.", show_default=False)
    ],
    to: Annotated[Path, typer.Option(help="The new folder.", show_default=False)],
    languages: Annotated[
        tuple[str, str] | None,
        typer.Option(help="Source and target of a Marian model whose folder does not say them.", show_default=False),
    ] = None,
) -> None:
    """Convert a Marian model of transformers into a model folder."""
    found = dragoman.convert(folder, to, languages)
    console.write(f"{found.folder} is {found.what}")
    for note in found.notes:
        console.write(f"note: {note}")
