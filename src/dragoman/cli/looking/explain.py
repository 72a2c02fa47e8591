"""`dragoman explain`: everything that a model did with one text, as a page; or what each of its heads does."""

import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import dragoman
from dragoman.cli.terminal import console
from dragoman.cli.terminal.options import Model, Quiet, Threads, grouped
from dragoman.cli.terminal.screen import Screen, open_screen
from dragoman.errors import ConfigError
from dragoman.files import check_output

if TYPE_CHECKING:
    from dragoman.explaining.heads.table import HeadTable

Form = Literal["html", "json", "png", "svg", "pdf", "terminal"]

PAGE = "explanation"
"""The name of a file that was given none."""


@dataclass(frozen=True)
class OneText:
    """The options that concern one text."""

    target: Annotated[
        str | None, typer.Option(help="Explain this translation of the text.", show_default="the model's own")
    ] = None
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write.", show_default=f"{PAGE}.html")
    ] = None
    weights: Annotated[
        str | None, typer.Option(metavar="LAYER", help="Record the matrices of this layer too, as in encoder.0.")
    ] = None
    head: Annotated[
        str | None,
        typer.Option(
            help="The head that pictures show, as in decoder.0.cross_attention.3.", show_default="the alignment"
        ),
    ] = None


@dataclass(frozen=True)
class AllHeads:
    """The options that concern a table of heads."""

    trees: Annotated[
        Path | None,
        typer.Option(help="With --heads: trees of the source language (CoNLL-U), to judge who finds a verb's subject."),
    ] = None
    sentences: Annotated[
        int | None, typer.Option(min=1, help="With --heads: how many sentences of the test set.", show_default="200")
    ] = None


@grouped
def explain(
    model: Model,
    one: OneText,
    of_heads: AllHeads,
    text: Annotated[
        str | None,
        typer.Argument(
            help="The text, in quotes. With --heads: a test set as evaluate takes it.",
            show_default="with --heads, the run's own test set",
        ),
    ] = None,
    references: Annotated[
        list[Path] | None,
        typer.Argument(help="With --heads: references of the test sentences, a file each.", show_default=False),
    ] = None,
    heads: Annotated[
        bool, typer.Option("--heads", help="Judge every head on a test set: what it looks at, and what it is worth.")
    ] = False,
    form: Annotated[
        Form | None,
        typer.Option(
            "--format",
            help="A page; every number in full; a picture of where the model looked; or text on the terminal.",
            show_default="by the file's name, else html",
        ),
    ] = None,
    aligned: Annotated[
        Path | None,
        typer.Option(
            help="Pairs whose words are aligned, to choose the head that aligns words: source, target and links such "
            "as 0-0 1-2 on a line, with tabs between them.",
            show_default="our own of English and Italian",
        ),
    ] = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Show what a model did with a text, on one page: from its pieces to the search, with every number."""
    screen = open_screen(quiet)
    if heads:
        refuse("a table of heads is not of one text, and takes no", one)
        found = dragoman.judge_heads(
            model,
            text,
            references or (),
            trees=of_heads.trees,
            aligned=aligned,
            threads=threads,
            progress=screen.progress,
            **({"sentences": of_heads.sentences} if of_heads.sentences else {}),
        )
        show(found, screen, form)
        return
    refuse("only a table of heads, which --heads asks for, takes", of_heads)
    if references:
        raise ConfigError("one text is explained at a time; put it in quotes, or give --heads to judge a test set")
    if not text:
        raise ConfigError('name a text, as in: dragoman explain MODEL "This is my house."; or give --heads')
    write(Wish(model, text, one, aligned, threads), form, screen)


def refuse(why: str, options: OneText | AllHeads) -> None:
    """Refuses options that would do nothing."""
    if given := [f"--{name}" for name, value in dataclasses.asdict(options).items() if value is not None]:
        raise ConfigError(f"{why} {' or '.join(given)}")


@dataclass(frozen=True)
class Wish:
    """What shall be explained."""

    model: Path
    text: str
    options: OneText
    aligned: Path | None
    threads: int | None


def write(wish: Wish, form: Form | None, screen: Screen) -> None:
    """Writes the record of a text to a file, or to the terminal if that is its form."""
    from dragoman.explaining.writing import form_of, render, write_record

    output, head = wish.options.output, wish.options.head
    form = form or (form_of(output) if output is not None else "html")
    path = output or Path(f"{PAGE}.{form}")
    printed = output is None and form in ("json", "terminal")
    if not printed:
        check_output(path)
    started = time.monotonic()
    record = dragoman.record(
        wish.model,
        wish.text,
        wish.options.target,
        weights=wish.options.weights,
        aligned=wish.aligned,
        threads=wish.threads,
    )
    if printed:
        console.write(render(record, form, head).decode(), end="")
        return
    write_record(path, record, form, head)
    screen.note(f"{path}: {path.stat().st_size / 1e6:.1f} MB, in {time.monotonic() - started:.1f} s")
    if record.target is not None:
        console.write(record.target)


def show(table: "HeadTable", screen: Screen, form: Form | None) -> None:
    """A table of heads, as text or as JSON."""
    if form not in (None, "terminal", "json"):
        raise ConfigError(f"a table of heads is printed as text or with --format json, not as {form}")
    if form == "json":
        console.write_json(table.facts())
        return
    console.write_table(table.headings, table.rows())
    screen.note(f"{table.sentences:,} sentences, {table.tokens:,} tokens; BLEU is of greedy translations")
