"""`dragoman explain`: everything that a model did with one text, as a page; or what each of its heads is worth."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
    from dragoman.explaining.why import Reason, Why

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


Text = Annotated[
    str | None,
    typer.Argument(
        help="The text, in quotes. With --heads: a test set as evaluate takes it.",
        show_default="with --heads, the run's own test set",
    ),
]
References = Annotated[
    list[Path] | None,
    typer.Argument(help="With --heads: references of the test sentences, a file each.", show_default=False),
]
Heads = Annotated[
    bool, typer.Option("--heads", help="Remove each attention head in turn: how much does the loss on a test set rise?")
]
Sentences = Annotated[
    int | None, typer.Option(min=1, help="With --heads: how many sentences of the test set.", show_default="200")
]
AsForm = Annotated[
    Form | None,
    typer.Option(
        "--format",
        help="A page; every number in full; a picture of where the model looked; or text on the terminal.",
        show_default="by the file's name, else html",
    ),
]
Aligned = Annotated[
    Path | None,
    typer.Option(
        help="Pairs whose words are aligned, to choose the head that aligns words: source, target and links such as "
        "0-0 1-2 on a line, with tabs between them.",
        show_default="our own of English and Italian",
    ),
]


@grouped
def explain(
    model: Model,
    one: OneText,
    text: Text = None,
    references: References = None,
    heads: Heads = False,
    sentences: Sentences = None,
    form: AsForm = None,
    aligned: Aligned = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Show what a model did with a text, on one page: from its pieces to the search, with every number."""
    look = Look(model, form, aligned, threads, open_screen(quiet))
    if heads:
        refuse("--heads judges a test set, and takes no", dataclasses.asdict(one) | {"aligned": aligned})
        look.judge(text, references or (), sentences)
        return
    refuse("only --heads takes", {"sentences": sentences})
    if references:
        raise ConfigError("one text is explained at a time; put it in quotes, or give --heads to judge a test set")
    if not text:
        raise ConfigError('name a text, as in: dragoman explain MODEL "This is my house."; or give --heads')
    if one.instead is None:
        look.write(text, one)
    else:
        look.answer(text, one.instead, one)


def refuse(why: str, options: Mapping[str, object]) -> None:
    """Refuses options that would do nothing."""
    if given := [f"--{name}" for name, value in options.items() if value is not None]:
        raise ConfigError(f"{why} {' or '.join(given)}")


@dataclass(frozen=True)
class Look:
    """One look into a model."""

    model: Path
    form: Form | None
    aligned: Path | None
    threads: int | None
    screen: Screen

    def judge(self, test: str | None, references: Sequence[Path], sentences: int | None) -> None:
        """Prints a table of all heads."""
        from dragoman.explaining.heads import SENTENCES

        self._check_printed()
        table = dragoman.judge_heads(
            self.model,
            test,
            references,
            sentences=sentences or SENTENCES,
            threads=self.threads,
            progress=self.screen.progress,
        )
        if self.form == "json":
            console.write_json(table.facts())
            return
        console.write_table(table.headings, table.rows())
        for note in table.notes:
            self.screen.note(note)

    def answer(self, text: str, instead: str, options: OneText) -> None:
        """Prints why the model wrote one word rather than another."""
        vain = dataclasses.asdict(replace(options, instead=None, target=None)) | {"aligned": self.aligned}
        refuse("--instead prints its answer, and takes no", vain)
        self._check_printed()
        word, other = read_choice(instead)
        why = dragoman.explain_choice(self.model, text, word, other, options.target, threads=self.threads)
        if self.form == "json":
            console.write_json(why.facts())
        else:
            tell(why)

    def write(self, text: str, options: OneText) -> None:
        """Writes the record of a text to a file, or to the terminal if that is its form."""
        from dragoman.explaining.writing import render, write_record

        form, path = self._output(options)
        started = time.monotonic()
        record = dragoman.record(
            self.model, text, options.target, weights=options.weights, aligned=self.aligned, threads=self.threads
        )
        if path is None:
            console.write(render(record, form, options.head).decode(), end="")
            return
        write_record(path, record, form, options.head)
        self.screen.note(f"{path}: {path.stat().st_size / 1e6:.2f} MB, in {time.monotonic() - started:.1f} s")
        if record.target is not None:
            console.write(record.target)

    def _output(self, options: OneText) -> "tuple[Form, Path | None]":
        """In which form a record is written, and to which file; none if it is printed."""
        from dragoman.explaining.writing import form_of

        if options.output is not None:
            check_output(options.output, self.aligned)
        form = self.form or (form_of(options.output) if options.output is not None else "html")
        whole = form in ("html", "json")
        if options.head is not None and whole:
            raise ConfigError(f"--head names what a picture shows; {form} has every head")
        if options.weights is not None and not whole:
            raise ConfigError(f"--weights is for html and json; {form} shows no matrices")
        if options.output is not None or form in ("json", "terminal"):
            return form, options.output
        path = Path(f"{PAGE}.{form}")
        check_output(path, self.aligned)
        return form, path

    def _check_printed(self) -> None:
        """Refuses the forms of a page for what is printed."""
        if self.form not in (None, "terminal", "json"):
            raise ConfigError(f"--format {self.form} is for the page of one text; this is printed as text, or as json")


def read_choice(text: str) -> tuple[str, str]:
    """Two words with an equals sign between them.

    >>> read_choice("Mia=Mio")
    ('Mia', 'Mio')
    """
    word, equals, other = (part.strip() for part in text.partition("="))
    if not (word and equals and other):
        raise ConfigError(f"--instead must be WORD=OTHER, as in Mia=Mio, but is {text!r}")
    return word, other


def tell(why: "Why") -> None:
    """What each word that was read says to a choice, the strongest first."""
    lead = why.log_probs[0] - why.log_probs[1]
    relation, change = ("leads", "lead shrinks by") if lead >= 0 else ("trails", "lag grows by")
    chosen, other = (f"{piece} ({log_prob:.3f})" for piece, log_prob in zip(why.pieces, why.log_probs, strict=True))
    console.write(f"{chosen} {relation} {other} by {abs(lead):.3f} nats of log-probability\n")
    columns = ["without", "read by", change, *(f"{piece} loses" for piece in why.pieces)]
    console.write_table(columns, map(reason_row, sorted(why.reasons, key=lambda reason: -reason.contrast)))


def reason_row(reason: "Reason") -> tuple[str, ...]:
    """A word, and how far the lead shrinks without it."""
    falls = (f"{fall:+.3f}" for fall in (reason.contrast, reason.fall, reason.fall_of_other))
    return reason.text, reason.stack, *falls
