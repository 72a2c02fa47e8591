"""Command `filter`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import dragoman
from dragoman.cli.console import note, write, write_result, write_table
from dragoman.cli.options import DATA_SUFFIXES, Device, Format, Precision, Quiet, Set, Threads, keywords, one_or_two

if TYPE_CHECKING:
    from dragoman.evaluating.filtering import FilterReport

LONGEST = 60
"""Characters of a side that are shown."""


def filter_(
    model: Annotated[Path, typer.Argument(help="A model that translates the sources.", show_default=False)],
    reverse: Annotated[
        Path,
        typer.Argument(help="A model that translates the targets, or the same one of several languages."),
    ],
    data: Annotated[
        list[str],
        typer.Argument(help=f"Pairs: a file ({DATA_SUFFIXES}, also .gz), two aligned files, or a pattern in quotes."),
    ],
    folder: Annotated[Path, typer.Option(help="Folder for the pairs that are kept, the others, and a report.")],
    keep: Annotated[float | None, typer.Option(help="Share of the judged pairs to keep.", show_default="0.9")] = None,
    at_least: Annotated[
        float | None, typer.Option(help="Keep the pairs that the models agree on at least so much, from 0 to 1.")
    ] = None,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    overrides: Set = None,
    fresh: Annotated[bool, typer.Option(help="Judge all pairs again.")] = False,
    output_format: Format = "text",
    quiet: Quiet = False,
) -> None:
    """Drop noisy pairs: by rules, by language, and by two models, one for each direction."""
    result = dragoman.filter_pairs(data=one_or_two(data), **keywords(locals(), "data", "output_format"))
    write_result(output_format, result.model_dump(mode="json", exclude={"asked"}), lambda: show(result))
    note(
        f"{folder / 'dropped.jsonl'} holds the dropped pairs; another threshold takes seconds: add --keep or --at-least"
    )
    note(f"train on the others: dragoman train {folder / 'kept.jsonl'}")


def show(report: "FilterReport") -> None:
    """Write the counts of reasons, and the pairs that the models agree on least."""
    rows = [(reason, f"{tally.pairs:,}", tally.first) for reason, tally in report.dropped.items()]
    write_table(["", "pairs", "first"], [("read", f"{report.rows:,}", ""), ("kept", f"{report.kept:,}", ""), *rows])
    write(f"agreement: median {report.tenths[4]:.2g}, least of a kept pair {report.least:.2g}; the worst pairs:")
    worst = [(f"{one.agreement:.1g}", one.source[:LONGEST], one.target[:LONGEST], one.origin) for one in report.worst]
    write_table(["agreement", "source", "target", "place"], worst)
