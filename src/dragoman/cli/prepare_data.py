"""`dragoman prepare-data`: parallel text, checked and split, into a folder."""

from pathlib import Path
from typing import Annotated, Literal

import typer

import dragoman
from dragoman.cli import console
from dragoman.cli.options import Data, Format, Quiet, Set, chosen, one_or_two


def prepare_data(
    data: Data,
    folder: Annotated[Path, typer.Option(help="The new folder.", show_default=False)],
    source_language: Annotated[str | None, typer.Option(help="As in en.", show_default="from the names")] = None,
    target_language: Annotated[str | None, typer.Option(help="As in it.", show_default="from the names")] = None,
    encoding_errors: Annotated[
        Literal["strict", "replace"], typer.Option(help="Whether text that is not UTF-8 stops or is mended.")
    ] = "strict",
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER/OF",
            help="Take in one part of the text alone, as in 3/16; when all parts are there, the same command without "
            "this joins them.",
            show_default=False,
        ),
    ] = None,
    overrides: Set = None,
    output_format: Format = "text",
    quiet: Quiet = False,
) -> None:
    """Check parallel text, split it without leaks, and report what was dropped and why."""
    from dragoman.text.intake import Shard
    from dragoman.text.prepare import DataSettings
    from dragoman.text.report import report_rows

    screen = console.Screen(quiet)
    settings = chosen(
        DataSettings,
        "data",
        overrides,
        path=one_or_two(data),
        source_language=source_language,
        target_language=target_language,
        encoding_errors=encoding_errors,
    )
    if shard is not None:
        facts = dragoman.prepare_shard(settings, folder, Shard.parse(shard), screen.progress)
        kept = sum(pairs for pairs, _ in facts.stretches)
        screen.note(
            f"shard {shard} of {facts.rows:,} rows is there, with {kept:,} pairs; without --shard all are joined"
        )
        return
    report = dragoman.prepare_data(settings, folder, screen.progress)
    if output_format == "json":
        console.write_json(report.model_dump(mode="json"))
    else:
        screen.show(console.table(["", "", "why or where"], report_rows(report)))
    screen.note(f"the data is in {folder}; train on it with: dragoman train {folder}")
