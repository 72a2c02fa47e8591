"""`dragoman prepare-data`: parallel text, checked and split, into a folder."""

from pathlib import Path
from typing import Annotated, Literal

import typer

import dragoman
from dragoman.cli.terminal import console
from dragoman.cli.terminal.options import Data, Format, Quiet, Set, one_or_two
from dragoman.cli.terminal.screen import open_screen


def prepare_data(
    data: Data,
    folder: Annotated[Path, typer.Option(help="The new folder.", show_default=False)],
    source_language: Annotated[
        str | None, typer.Option(help="Language code, as in en.", show_default="from the names")
    ] = None,
    target_language: Annotated[
        str | None, typer.Option(help="Language code, as in it.", show_default="from the names")
    ] = None,
    encoding_errors: Annotated[
        Literal["strict", "replace"],
        typer.Option(help="Whether text that is not UTF-8 is an error (strict) or repaired (replace)."),
    ] = "strict",
    overrides: Set = None,
    output_format: Format = "text",
    quiet: Quiet = False,
) -> None:
    """Check parallel text, split it without leaks, and report what was dropped and why."""
    from dragoman.config import choose
    from dragoman.text.report import report_rows
    from dragoman.text.settings import DataSettings

    screen = open_screen(quiet)
    path, languages = one_or_two(data), {"source_language": source_language, "target_language": target_language}
    given = {"path": path, **languages, "encoding_errors": encoding_errors}
    settings = choose(DataSettings, "data", overrides or (), **given)
    report = dragoman.prepare_data(settings, folder, screen.progress)
    if output_format == "json":
        console.write_json(report.model_dump(mode="json"))
    else:
        console.write_table(["", "", "why or where"], report_rows(report))
    screen.note(f"the data is in {folder}; train on it with: dragoman train {folder}")
