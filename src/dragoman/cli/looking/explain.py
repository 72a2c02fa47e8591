"""`dragoman explain`: everything that a model did with one text, as a page; or what each of its heads does."""

import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
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
    from dragoman.explaining.contributions.question import Reason, Why
    from dragoman.explaining.heads.rows import HeadTable
    from dragoman.explaining.record import Record

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
    instead: Annotated[
        str | None,
        typer.Option(
            metavar="WORD=OTHER",
            help="Print why the model wrote WORD rather than OTHER. WORD#2 is the second of equal words.",
            show_default=False,
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
        refuse("--heads judges a test set, and takes no", dataclasses.asdict(one))
        check_printed(form)
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
    refuse("only --heads takes", dataclasses.asdict(of_heads))
    if references:
        raise ConfigError("one text is explained at a time; put it in quotes, or give --heads to judge a test set")
    if not text:
        raise ConfigError('name a text, as in: dragoman explain MODEL "This is my house."; or give --heads')
    if one.instead is None:
        record = partial(
            dragoman.record, model, text, one.target, weights=one.weights, aligned=aligned, threads=threads
        )
        write(record, one, form, screen)
        return
    vain = dataclasses.asdict(replace(one, instead=None, target=None)) | {"aligned": aligned}
    refuse("--instead prints its answer, and takes no", vain)
    check_printed(form)
    word, other = read_choice(one.instead)
    tell(dragoman.explain_choice(model, text, word, other, one.target, threads=threads), form)


def refuse(why: str, options: Mapping[str, object]) -> None:
    """Refuses options that would do nothing."""
    if given := [f"--{name}" for name, value in options.items() if value is not None]:
        raise ConfigError(f"{why} {' or '.join(given)}")


def write(make: "Callable[[], Record]", options: OneText, form: Form | None, screen: Screen) -> None:
    """Writes a record to a file, or to the terminal if that is its form."""
    from dragoman.explaining.writing import form_of, render, write_record

    output, head = options.output, options.head
    form = form or (form_of(output) if output is not None else "html")
    if head is not None and form in ("html", "json"):
        raise ConfigError(f"--head names what a picture shows; {form} has every head")
    if options.weights is not None and form not in ("html", "json"):
        raise ConfigError(f"--weights is for html and json; {form} shows no matrices")
    path = output or Path(f"{PAGE}.{form}")
    printed = output is None and form in ("json", "terminal")
    if not printed:
        check_output(path)
    started = time.monotonic()
    record = make()
    if printed:
        console.write(render(record, form, head).decode(), end="")
        return
    write_record(path, record, form, head)
    screen.note(f"{path}: {path.stat().st_size / 1e6:.2f} MB, in {time.monotonic() - started:.1f} s")
    if record.target is not None:
        console.write(record.target)


def read_choice(text: str) -> tuple[str, str]:
    """Two words with an equals sign between them.

    >>> read_choice("Mia=Mio")
    ('Mia', 'Mio')
    """
    word, equals, other = (part.strip() for part in text.partition("="))
    if not (word and equals and other):
        raise ConfigError(f"--instead must be WORD=OTHER, as in Mia=Mio, but is {text!r}")
    return word, other


def tell(why: "Why", form: Form | None) -> None:
    """What each word that was read says to a choice, the strongest first."""
    reasons = sorted(why.reasons, key=lambda reason: -reason.contrast)
    if form == "json":
        found = [{**reason._asdict(), "contrast": reason.contrast} for reason in reasons]
        console.write_json({**why._asdict(), "reasons": found})
        return
    lead = why.log_probs[0] - why.log_probs[1]
    relation, change = ("leads", "lead shrinks by") if lead >= 0 else ("trails", "lag grows by")
    columns = ["without", "read by", change, *(f"{piece} loses" for piece in why.pieces), "gradient"]
    rows = ((each.text, each.stack, *(f"{x:+.3f}" for x in falls(each)), f"{each.gradient:.3f}") for each in reasons)
    chosen, other = (f"{piece} ({log_prob:.3f})" for piece, log_prob in zip(why.pieces, why.log_probs, strict=True))
    console.write(f"{chosen} {relation} {other} by {abs(lead):.3f} nats of log-probability\n")
    console.write_table(columns, rows)


def falls(reason: "Reason") -> tuple[float, float, float]:
    """How far the lead shrinks without a word, and what either loses."""
    return reason.contrast, reason.fall, reason.fall_of_other


def check_printed(form: Form | None) -> None:
    """Refuses the forms of a page for what is printed."""
    if form not in (None, "terminal", "json"):
        raise ConfigError(f"--format {form} is for the page of one text; this is printed as text, or as json")


def show(table: "HeadTable", screen: Screen, form: Form | None) -> None:
    """A table of heads, as text or as JSON."""
    if form == "json":
        console.write_json(table.facts())
        return
    console.write_table(table.headings, table.rows())
    for note in table.notes:
        screen.note(note)
