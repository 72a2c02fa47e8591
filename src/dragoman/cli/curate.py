"""Commands that choose or make pairs with models: `filter`, `back-translate`, `distil`."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import dragoman
from dragoman.cli.console import note, write, write_result, write_table
from dragoman.cli.options import (
    DATA_SUFFIXES,
    SEARCH,
    BeamSize,
    Device,
    Format,
    NBest,
    Precision,
    Quiet,
    Set,
    Setting,
    SourceLanguage,
    TargetLanguage,
    Threads,
    keywords,
    one_or_two,
    refuse_beam_of_samples,
)
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.curating.judgements import CurationReport

LONGEST = 60
"""Characters of a side that are shown."""
PairsFolder = Annotated[Path, typer.Option("--folder", help="Folder for the pairs, those dropped, and a report.")]
AtLeast = Annotated[
    float | None, typer.Option("--at-least", help="Keep the pairs whose quality is at least this, from 0 to 1.")
]
OF_MODELS = ("beam_size", "n_best", "references", "ensemble", "keep", "at_least")
OF_MODELS += ("device", "precision", "threads", "overrides")
OF_SERVICES = ("api", "model", "prompt", "concurrency", "most", "price", "dry_run")
"""Options of `distil` that only one kind of teacher has."""
UNSET = (("device", "auto"), ("precision", "auto"))
JudgeAgain = Annotated[bool, typer.Option("--fresh", help="Judge all again; answers of a service are kept.")]


def filter(
    model: Annotated[Path, typer.Argument(help="A model that translates the sources.", show_default=False)],
    reverse: Annotated[
        Path, typer.Argument(help="A model that translates the targets, or the same one of several languages.")
    ],
    data: Annotated[
        list[str],
        typer.Argument(help=f"Pairs: a file ({DATA_SUFFIXES}, also .gz), two aligned files, or a pattern in quotes."),
    ],
    folder: PairsFolder,
    keep: Annotated[float | None, typer.Option(help="Share of the judged pairs to keep.", show_default="0.9")] = None,
    at_least: AtLeast = None,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    overrides: Set = None,
    fresh: JudgeAgain = False,
    output_format: Format = "text",
    quiet: Quiet = False,
) -> None:
    """Drop noisy pairs: by rules, by language, and by two models, one for each direction."""
    result = dragoman.filter_pairs(data=one_or_two(data), **keywords(locals(), "data", "output_format"))
    show_pairs(result, folder, output_format)
    note(f"train on them: dragoman train {folder / 'kept.jsonl'}")


def back_translate(
    model: Annotated[Path, typer.Argument(help="A model that reads the language of the text.", show_default=False)],
    text: Annotated[Path, typer.Argument(help="Text in one language, a sentence a line (also .gz).")],
    folder: PairsFolder,
    beam_size: BeamSize = None,
    temperature: Annotated[Any, Setting(SEARCH, "temperature", "a search")] = None,
    keep: Annotated[float | None, typer.Option(help="Share of the pairs to keep.", show_default="all")] = None,
    at_least: AtLeast = None,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    overrides: Set = None,
    fresh: JudgeAgain = False,
    output_format: Format = "text",
    quiet: Quiet = False,
) -> None:
    """Make pairs from text in the target language: a model of the other direction writes their sources."""
    refuse_beam_of_samples(beam_size, [*(overrides or ()), *(["temperature"] if temperature else [])])
    result = dragoman.back_translate(**keywords(locals(), "output_format"))
    show_pairs(result, folder, output_format)
    note(f"train on them too: dragoman train TEXT --synthetic {folder / 'kept.jsonl'}")


def distil(
    teacher: Annotated[
        str, typer.Argument(help="A model, or the address of a service (https://…).", show_default=False)
    ],
    text: Annotated[Path, typer.Argument(help="Text to translate, a sentence a line (also .gz).")],
    folder: PairsFolder,
    beam_size: BeamSize = None,
    n_best: NBest = None,
    references: Annotated[
        Path | None, typer.Option(help="References, a line each: the most similar of the N best translations is taken.")
    ] = None,
    ensemble: Annotated[list[Path] | None, typer.Option(help="Another model that teaches with it; repeatable.")] = None,
    keep: Annotated[float | None, typer.Option(help="Share of the pairs to keep.", show_default="all")] = None,
    at_least: AtLeast = None,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    api: Annotated[
        Literal["libretranslate", "deepl", "chat"] | None,
        typer.Option(help="What the service understands.", show_default="by its address"),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Name of a chat model.")] = None,
    prompt: Annotated[
        Path | None, typer.Option(help="File with the prompt of a chat model: style, glossary, examples.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=64, help="Requests at the same time.", show_default="4")
    ] = None,
    most: Annotated[
        int | None, typer.Option(min=1, help="The most characters or tokens to pay for, in all.", show_default="any")
    ] = None,
    price: Annotated[
        float | None, typer.Option(min=0, help="Price of a million of them, to estimate the cost.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only estimate what a service would cost.")] = False,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    overrides: Set = None,
    fresh: JudgeAgain = False,
    output_format: Format = "text",
    quiet: Quiet = False,
) -> None:
    """Make text for a smaller model: a teacher translates sentences. It is a model, an ensemble or a service."""
    chosen = keywords(locals(), "output_format").items()
    options = {name: value for name, value in chosen if value is not False and (name, value) not in UNSET}
    is_service = re.match("https?://", teacher) is not None
    for name in OF_MODELS if is_service else OF_SERVICES:
        if name in options:
            whose = "models" if is_service else "services, whose addresses begin with https://"
            raise ConfigError(f"--{name.replace('_', '-')} is for {whose}")
    if not is_service:
        result = dragoman.distil(**options)
    else:
        if source_language is None or target_language is None:
            raise ConfigError("a service needs --source-language and --target-language")
        result = dragoman.distil_service(**options)
    if result is None:
        return
    show_pairs(result, folder, output_format)
    note(f"train a smaller model on them: dragoman train {folder / 'kept.jsonl'} --set model.size=tiny")


def show_pairs(report: "CurationReport", folder: Path, output_format: Format) -> None:
    """Write the counts of reasons, and the worst pairs."""
    write_result(output_format, report.model_dump(mode="json"), lambda: show(report))
    note(f"the pairs are in {folder / 'kept.jsonl'}, the dropped ones in {folder / 'dropped.jsonl'}")
    if report.tenths:
        note("another threshold takes seconds: --keep or --at-least")


def show(report: "CurationReport") -> None:
    """Write the counts of reasons, and the worst pairs."""
    rows = [(reason, f"{tally.pairs:,}", tally.first) for reason, tally in report.dropped.items()]
    write_table(["", "pairs", "first"], [("read", f"{report.rows:,}", ""), ("kept", f"{report.kept:,}", ""), *rows])
    if not report.tenths:
        return
    write(f"quality: median {report.tenths[4]:.2g}, least of a kept pair {report.least:.2g}; the worst pairs:")
    worst = [
        (f"{pair.quality:.1g}", pair.source[:LONGEST], pair.target[:LONGEST], pair.origin) for pair in report.worst
    ]
    write_table(["quality", "source", "target", "place"], worst)
