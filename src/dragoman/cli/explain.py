"""Commands that look inside a model: `explain` and `embeddings`."""

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import dragoman
from dragoman.cli.console import as_json, note, open_screen, write, write_result, write_table, write_text
from dragoman.cli.options import Format, Model, Quiet, SourceLanguage, TargetLanguage, Threads
from dragoman.errors import ConfigError
from dragoman.explaining import RecordFormat
from dragoman.files import check_output

if TYPE_CHECKING:
    from dragoman.explaining.embeddings import EmbeddingAnswer, EmbeddingSpace
    from dragoman.explaining.why import Why

log = logging.getLogger(__name__)


def explain(
    model: Model,
    target: Annotated[
        str | None, typer.Option(help="Explain this translation of the text.", show_default="the model's own")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write.", show_default="explanation.html")
    ] = None,
    weights: Annotated[
        str | None, typer.Option(metavar="LAYER", help="Record the matrices of this layer too, as in encoder.0.")
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(
            help="The head that pictures show, as in decoder.0.cross_attention.3.", show_default="the alignment"
        ),
    ] = None,
    instead: Annotated[
        str | None,
        typer.Option(
            metavar="WORD=OTHER",
            help="Print why the model wrote WORD rather than OTHER. WORD#2 is the second of equal words.",
            show_default=False,
        ),
    ] = None,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="The text, in quotes.", show_default=False)
    ] = None,
    form: Annotated[
        RecordFormat | None,
        typer.Option(
            "--format",
            help="A page; every number in full; a picture of where the model looked; or text on the terminal.",
            show_default="by the file's name, else html",
        ),
    ] = None,
    aligned: Annotated[
        Path | None,
        typer.Option(
            help="Pairs whose words are aligned, to measure the alignment on: source, target and links such as 0-0 1-2 "
            "on a line, with tabs between them.",
            show_default="our own of English and Italian",
        ),
    ] = None,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Show what a model did with a text, on one page: from its pieces to the search, with every number."""
    open_screen(quiet)
    text = read_text(texts or [])
    reading = {"source_language": source_language, "target_language": target_language, "threads": threads}
    if instead is not None:
        of_page = {"output": output, "weights": weights, "head": head, "aligned": aligned}
        print_choice(model, text, instead, target, form, of_page, reading)
        return
    form, output = choose_form(form, output)
    check_form(form, weights, head)
    recording = {"target": target, "weights": weights, "aligned": aligned, **reading}
    if output is None:
        print_record(model, text, form, head, recording)
    else:
        check_output(output, aligned)
        write_page(output, model, text, form, head, recording)


def read_text(texts: Sequence[str]) -> str:
    """Return the one text to explain."""
    if len(texts) > 1:
        raise ConfigError("one text is explained at a time; put it in quotes")
    if not any(texts):
        raise ConfigError('name a text, as in: dragoman explain MODEL "This is my house."')
    return texts[0]


# The page of a text


def choose_form(form: RecordFormat | None, output: Path | None) -> tuple[RecordFormat, Path | None]:
    """Return the form of a page, and its file; None if it is printed."""
    from dragoman.explaining.writing import format_of

    form = form or (format_of(output) if output is not None else "html")
    return form, output or (None if form in ("json", "terminal") else Path(f"explanation.{form}"))


def check_form(form: RecordFormat, weights: str | None, head: str | None) -> None:
    """Refuse options for parts that this form of a page does not show."""
    whole = form in ("html", "json")
    if head is not None and whole:
        raise ConfigError(f"--head names what a picture shows; {form} has every head")
    if weights is not None and not whole:
        raise ConfigError(f"--weights is for html and json; {form} shows no matrices")


def print_record(model: Path, text: str, form: RecordFormat, head: str | None, recording: Mapping[str, Any]) -> None:
    """Print a record as text or JSON."""
    from dragoman.explaining.writing import render

    record = dragoman.record(model, text, **recording)
    write(as_json(record.facts()) if form == "json" else render(record, form, head).decode().removesuffix("\n"))


def write_page(
    output: Path, model: Path, text: str, form: RecordFormat, head: str | None, recording: Mapping[str, Any]
) -> None:
    """Write a record into a file, and print the translation."""
    started = time.monotonic()
    record = dragoman.record(model, text, **recording)
    dragoman.write_record(output, record, form, head)
    note(f"{output}: {output.stat().st_size / 1e6:.2f} MB, in {time.monotonic() - started:.1f} s")
    if record.target is not None:
        write_text(record.target)


# The choice of a word


def print_choice(
    model: Path,
    text: str,
    instead: str,
    target: str | None,
    form: RecordFormat | None,
    of_page: Mapping[str, object],
    reading: Mapping[str, Any],
) -> None:
    """Print why the model wrote one word instead of another. Options `of_page` would have no effect."""
    if useless := [f"--{name}" for name, value in of_page.items() if value is not None]:
        raise ConfigError(f"--instead prints its answer, and takes no {' or '.join(useless)}")
    if form not in (None, "terminal", "json"):
        raise ConfigError(f"--format {form} is for the page of one text; this is printed as text, or as json")
    why = dragoman.explain_choice(model, text, *read_choice(instead), target, **reading)
    write_result(form or "terminal", why.facts(), lambda: show_choice(why))


def read_choice(text: str) -> tuple[str, str]:
    """Read two words with an equals sign between them.

    >>> read_choice("Mia=Mio")
    ('Mia', 'Mio')
    """
    word, equals, alternative = (part.strip() for part in text.partition("="))
    if not (word and equals and alternative):
        raise ConfigError(f"--instead must be WORD=OTHER, as in Mia=Mio, but is {text!r}")
    return word, alternative


def show_choice(why: "Why") -> None:
    """Write how much each word that the model had read contributed to a choice, the strongest first."""
    lead = why.log_probs[0] - why.log_probs[1]
    relation, change = ("leads", "lead shrinks by") if lead >= 0 else ("trails", "lag grows by")
    chosen, rival = (f"{piece} ({log_prob:.3f})" for piece, log_prob in zip(why.pieces, why.log_probs, strict=True))
    write(f"{chosen} {relation} {rival} by {abs(lead):.3f} nats of log-probability\n")
    columns = ["without", "read by", change, *(f"{piece} loses" for piece in why.pieces)]
    rows = [
        (
            reason.text,
            reason.stack,
            *(f"{drop:+.3f}" for drop in (reason.contrast, reason.drop, reason.drop_of_alternative)),
        )
        for reason in sorted(why.reasons, key=lambda reason: -reason.contrast)
    ]
    write_table(columns, rows)


# Word vectors


def embeddings(
    model: Model,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="WORD - WORD + WORD",
            help="A word: lists its nearest entries of the vocabulary. Or words with - and + between them, each a "
            "separate argument: king - man + woman asks what is to woman as king is to man. A piece of a word is "
            "named as it is shown, ▁hou; inside words, ##ing.",
        ),
    ],
    count: Annotated[int, typer.Option(min=1, help="How many neighbours to list.")] = 10,
    side: Annotated[
        Literal["source", "target"] | None,
        typer.Option(help="The table to look in, if the model has one for each side.", show_default="source"),
    ] = None,
    output_format: Format = "text",
    quiet: Quiet = False,
) -> None:
    """Look into a model's word vectors: the neighbours of a word, and analogies.

    Similarity is the cosine between two vectors: 1 is the same direction, and random words have almost 0.
    """
    open_screen(quiet)
    from dragoman.explaining.embeddings import answer, read_question

    question = read_question(words)
    space = dragoman.load_embeddings(model, side)
    entries, width = space.table.shape
    note(f"table: {space.title}; {entries:,} entries of {width:,} numbers")
    result = answer(space, question, count)
    facts = {"table": space.title, **result.facts(), "chance": space.chance._asdict()}
    write_result(output_format, facts, lambda: show_answer(space, result))


def show_answer(space: "EmbeddingSpace", answer: "EmbeddingAnswer") -> None:
    """Write the neighbours, and notes that help to judge them."""
    write_table(["entry", "similarity"], [(near.entry, f"{near.similarity:.2f}") for near in answer.neighbours])
    if unused := space.unused_pieces(answer.terms):
        log.warning("hardly used in training, so their vectors mean nothing: %s", " ".join(unused))
    for term in answer.terms:
        if len(term.pieces) > 1:
            pieces = " ".join(term.pieces)
            note(f"{term.text!r} is {len(term.pieces)} pieces, {pieces}; the mean of their vectors represents it")
    if answer.alone:
        alone = ", ".join(f"{near.entry} {near.similarity:.2f}" for near in answer.alone)
        note(f"nearest to {answer.question.words[0]} alone, without the other words: {alone}")
    mean, most = space.chance
    note(f"two random entries have {mean:.2f} on average, and 95 % of such pairs less than {most:.2f}")
