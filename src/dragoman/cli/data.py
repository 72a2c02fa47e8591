"""Commands that prepare text: `prepare-data` and `train-tokenizer`."""

from typing import Annotated, Literal

import typer

import dragoman
from dragoman.cli.console import note, open_screen, write_json, write_table
from dragoman.cli.options import Data, Folder, Format, Quiet, Set, one_or_two


def prepare_data(
    data: Data,
    folder: Folder,
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

    progress = open_screen(quiet)
    settings = choose(
        DataSettings,
        "data",
        overrides or (),
        path=one_or_two(data),
        source_language=source_language,
        target_language=target_language,
        encoding_errors=encoding_errors,
    )
    report = dragoman.prepare_data(settings, folder, progress)
    if output_format == "json":
        write_json(report.model_dump(mode="json"))
    else:
        write_table(["", "", "why or where"], report_rows(report))
    note(f"the data is in {folder}; train on it with: dragoman train {folder}")


def train_tokenizer(
    data: Data,
    folder: Folder,
    kind: Annotated[
        Literal["bpe", "unigram", "byte_bpe", "character", "word", "spacy"],
        typer.Option(help="How text is cut into tokens."),
    ] = "bpe",
    vocabulary_size: Annotated[
        int | None, typer.Option(help="Maximum number of tokens in a vocabulary.", show_default="8,000; words: all")
    ] = None,
    overrides: Set = None,
    quiet: Quiet = False,
) -> None:
    """Learn a vocabulary from parallel text, or from the training side of prepared data, and save it."""
    from dragoman.config import choose
    from dragoman.text.settings import ReadingSettings, reading_overrides
    from dragoman.tokenizing.training import TokenizerSettings

    progress = open_screen(quiet)
    of_text, others = reading_overrides(overrides or ())
    settings = choose(TokenizerSettings, "tokenizer", others, kind=kind, vocabulary_size=vocabulary_size)
    reading = choose(ReadingSettings, "data", of_text)
    result = dragoman.train_tokenizer(one_or_two(data), folder, settings, reading, progress)
    sides = ["both"] if result.tokenizers.joint else ["source", "target"]
    rows = [
        (side, f"{tokenizer.size:,}", " ".join(tokenizer.tokens(tokenizer.encode(example))))
        for side, tokenizer, example in zip(sides, result.tokenizers, result.example, strict=False)
    ]
    write_table(["side", "tokens", "the first sentence in tokens"], rows)
    note(f"the tokenizer is in {folder}")
