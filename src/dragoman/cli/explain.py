"""Commands that look inside a model: `explain` and `embeddings`."""

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import dragoman
from dragoman.cli.console import as_json, note, write, write_result, write_table, write_text
from dragoman.cli.options import Format, Model, Quiet, TargetLanguage, Threads
from dragoman.cli.screen import open_screen
from dragoman.errors import ConfigError
from dragoman.files import check_output

if TYPE_CHECKING:
    from dragoman.explaining.embeddings import Answer, EmbeddingSpace
    from dragoman.explaining.heads import HeadTable
    from dragoman.explaining.why import Why

Form = Literal["html", "json", "png", "svg", "pdf", "terminal"]

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
        bool,
        typer.Option(
            "--heads", help="Remove each attention head in turn, and show how much the loss on a test set rises."
        ),
    ] = False,
    sentences: Annotated[
        int | None, typer.Option(min=1, help="With --heads: how many sentences of the test set.", show_default="200")
    ] = None,
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
            help="Pairs whose words are aligned, to measure the alignment on: source, target and links such as 0-0 1-2 "
            "on a line, with tabs between them.",
            show_default="our own of English and Italian",
        ),
    ] = None,
    target_language: TargetLanguage = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Show what a model did with a text, on one page: from its pieces to the search, with every number."""
    progress = open_screen(quiet)
    of_page = {"output": output, "weights": weights, "head": head, "aligned": aligned}
    if heads:
        refuse(
            "--heads judges a test set, and takes no",
            {"target": target, "instead": instead, "target-language": target_language, **of_page},
        )
        check_printed(form)
        count = {} if sentences is None else {"sentences": sentences}
        table = dragoman.judge_heads(model, text, references or (), threads=threads, progress=progress, **count)
        write_result(form or "terminal", table.facts(), lambda: show_heads(table))
        return
    refuse("only --heads takes", {"sentences": sentences})
    if references:
        raise ConfigError("one text is explained at a time; put it in quotes, or give --heads to judge a test set")
    if not text:
        raise ConfigError('name a text, as in: dragoman explain MODEL "This is my house."; or give --heads')
    if instead is not None:
        refuse("--instead prints its answer, and takes no", of_page)
        check_printed(form)
        word, other = read_choice(instead)
        why = dragoman.explain_choice(
            model, text, word, other, target, target_language=target_language, threads=threads
        )
        write_result(form or "terminal", why.facts(), lambda: show_choice(why))
        return
    from dragoman.explaining.writing import form_of, render

    form = form or (form_of(output) if output is not None else "html")
    check_form(form, weights, head)
    output = output or (None if form in ("json", "terminal") else Path(f"explanation.{form}"))
    if output is not None:
        check_output(output, aligned)
    started = time.monotonic()
    record = dragoman.record(
        model, text, target, weights=weights, aligned=aligned, target_language=target_language, threads=threads
    )
    if output is None:
        write(as_json(record.facts()) if form == "json" else render(record, form, head).decode().removesuffix("\n"))
        return
    dragoman.write_record(output, record, form, head)
    note(f"{output}: {output.stat().st_size / 1e6:.2f} MB, in {time.monotonic() - started:.1f} s")
    if record.target is not None:
        write_text(record.target)


def refuse(why: str, options: Mapping[str, object]) -> None:
    """Refuses options that would do nothing."""
    if given := [f"--{name}" for name, value in options.items() if value is not None]:
        raise ConfigError(f"{why} {' or '.join(given)}")


def check_printed(form: Form | None) -> None:
    """Refuses the forms of a page for what is printed."""
    if form not in (None, "terminal", "json"):
        raise ConfigError(f"--format {form} is for the page of one text; this is printed as text, or as json")


def show_heads(table: "HeadTable") -> None:
    write_table(table.headings, table.rows())
    for each in table.notes:
        note(each)


def read_choice(text: str) -> tuple[str, str]:
    """Two words with an equals sign between them.

    >>> read_choice("Mia=Mio")
    ('Mia', 'Mio')
    """
    word, equals, other = (part.strip() for part in text.partition("="))
    if not (word and equals and other):
        raise ConfigError(f"--instead must be WORD=OTHER, as in Mia=Mio, but is {text!r}")
    return word, other


def show_choice(why: "Why") -> None:
    """What each word that was read contributes to a choice, the strongest first."""
    lead = why.log_probs[0] - why.log_probs[1]
    relation, change = ("leads", "lead shrinks by") if lead >= 0 else ("trails", "lag grows by")
    chosen, other = (f"{piece} ({log_prob:.3f})" for piece, log_prob in zip(why.pieces, why.log_probs, strict=True))
    write(f"{chosen} {relation} {other} by {abs(lead):.3f} nats of log-probability\n")
    columns = ["without", "read by", change, *(f"{piece} loses" for piece in why.pieces)]
    rows = [
        (reason.text, reason.stack, *(f"{fall:+.3f}" for fall in (reason.contrast, reason.fall, reason.fall_of_other)))
        for reason in sorted(why.reasons, key=lambda reason: -reason.contrast)
    ]
    write_table(columns, rows)


def check_form(form: Form, weights: str | None, head: str | None) -> None:
    """Refuses what this form of a page does not show."""
    whole = form in ("html", "json")
    if head is not None and whole:
        raise ConfigError(f"--head names what a picture shows; {form} has every head")
    if weights is not None and not whole:
        raise ConfigError(f"--weights is for html and json; {form} shows no matrices")


def embeddings(
    model: Model,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="WORD - WORD + WORD",
            help="A word: lists its nearest entries of the vocabulary. Or words with - and + between them, each an "
            "argument of its own: king - man + woman asks what is to woman as king is to man. A piece of a word is "
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

    Similarity is the cosine between two vectors: 1 is the same direction, and words at random have almost 0.
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


def show_answer(space: "EmbeddingSpace", answer: "Answer") -> None:
    """Writes the neighbours, and notes what helps to judge them."""
    write_table(["entry", "similarity"], [(each.entry, f"{each.similarity:.2f}") for each in answer.neighbours])
    if unused := space.unused_pieces(answer.terms):
        log.warning("hardly used in training, so their vectors mean nothing: %s", " ".join(unused))
    for term in answer.terms:
        if len(term.pieces) > 1:
            pieces = " ".join(term.pieces)
            note(f"{term.text!r} is {len(term.pieces)} pieces, {pieces}; the mean of their vectors stands for it")
    if answer.alone:
        alone = ", ".join(f"{each.entry} {each.similarity:.2f}" for each in answer.alone)
        note(f"nearest to {answer.question.words[0]} alone, without the other words: {alone}")
    mean, most = space.chance
    note(f"two entries at random have {mean:.2f} on average, and 95 % of such pairs less than {most:.2f}")
