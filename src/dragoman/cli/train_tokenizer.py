"""`dragoman train-tokenizer`: learns the vocabulary of both sides of parallel text."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import dragoman
from dragoman.cli.terminal import console
from dragoman.cli.terminal.options import Data, Quiet, Set, one_or_two
from dragoman.cli.terminal.screen import open_screen

if TYPE_CHECKING:
    from dragoman.tokenizing.train_tokenizer import TokenizerResult


def train_tokenizer(
    data: Data,
    folder: Annotated[Path, typer.Option(help="The new folder.", show_default=False)],
    kind: Annotated[
        Literal["bpe", "unigram", "byte_bpe", "character", "word", "spacy"],
        typer.Option(help="How text is cut into tokens."),
    ] = "bpe",
    vocabulary_size: Annotated[
        int | None, typer.Option(help="The most tokens that a vocabulary may have.", show_default="8,000; words: all")
    ] = None,
    overrides: Set = None,
    quiet: Quiet = False,
) -> None:
    """Learn a vocabulary from parallel text, or from the training side of prepared data, and save it."""
    from dragoman.config import choose
    from dragoman.text.settings import ReadingSettings, reading_overrides
    from dragoman.tokenizing.training import TokenizerSettings

    screen = open_screen(quiet)
    of_text, others = reading_overrides(overrides or ())
    settings = choose(TokenizerSettings, "tokenizer", others, kind=kind, vocabulary_size=vocabulary_size)
    reading = choose(ReadingSettings, "data", of_text)
    found = dragoman.train_tokenizer(one_or_two(data), folder, settings, reading, screen.progress)
    console.write_table(["side", "tokens", "the first sentence in tokens"], rows(found))
    screen.note(f"the tokenizer is in {folder}")


def rows(found: "TokenizerResult") -> Iterator[tuple[str, str, str]]:
    """Each vocabulary with its size and an example; one that serves both sides shows the source."""
    sides = ["both"] if found.tokenizers.joint else ["source", "target"]
    for side, tokenizer, example in zip(sides, found.tokenizers, found.example, strict=False):
        yield side, f"{tokenizer.size:,}", " ".join(tokenizer.tokens(tokenizer.encode(example)))
