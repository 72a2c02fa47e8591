"""`dragoman predict`: labels of texts or words, and words for `[MASK]`; arguments, standard input or a file."""

import json
import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.terminal import console
from dragoman.cli.terminal.lines import check_text, read, standard_input
from dragoman.cli.terminal.options import Format, Model, Place, Quiet, grouped
from dragoman.cli.terminal.screen import open_screen
from dragoman.errors import ConfigError
from dragoman.progress import silent

if TYPE_CHECKING:
    from dragoman.inference.predictor import Classified, Filled, Prediction, Tagged

log = logging.getLogger(__name__)

SPOKE = 3
"""Words that are named as those that spoke for a label."""


@grouped
def predict(
    model: Model,
    place: Place,
    text: Annotated[
        list[str] | None,
        typer.Argument(help="One text or several, each in quotes.", show_default="standard input, a text a line"),
    ] = None,
    input_file: Annotated[Path | None, typer.Option("--input", help="Predict for every line of this file.")] = None,
    best: Annotated[
        int, typer.Option(min=1, max=100, help="Labels of a text, or words for a mask, that are shown at most.")
    ] = 5,
    words: Annotated[
        bool | None,
        typer.Option(
            "--words/--no-words",
            help="Say which words spoke for a label; a text is read once more for each of its words.",
            show_default="for TEXT alone",
        ),
    ] = None,
    pretokenized: Annotated[
        bool, typer.Option("--pretokenized", help="Words stand between spaces already, as in CoNLL files.")
    ] = False,
    output_format: Format = "text",
    quiet: Quiet = False,
) -> None:
    """Label texts or their words, or fill in [MASK], each with probabilities."""
    from dragoman.inference.segments import chunks

    screen = open_screen(quiet)
    if text and input_file is not None:
        raise ConfigError("TEXT and --input were given; predict takes one of them")
    for each in text or ():
        check_text(each)
    predictor = place.load_predictor(model, screen.progress)
    screen.note(f"{predictor.task}, {predictor.device}, {predictor.precision}")
    words = bool(text) if words is None else words
    texts: Iterable[str] = text or (read(input_file) if input_file else standard_input())
    typed = not text and input_file is None and sys.stdin.isatty()
    if typed:
        screen.note("type a text and press Enter; Ctrl-D ends")
    progress = screen.progress if input_file else silent
    with progress.track("predict", unit="texts") as advance:
        for batch in ([each] for each in texts) if typed else chunks(texts, len):
            for found in predictor.predict(batch, best, words, pretokenized):
                console.write(written(found, predictor.task, output_format == "json"))
            console.flush()
            advance(len(batch))
            warn_of_blank(batch)


def warn_of_blank(texts: Sequence[str]) -> None:
    """Says how many of these texts give a model nothing to go by."""
    if blank := sum(not each.strip() for each in texts):
        log.warning("%s of %s texts are empty: what is predicted for them means nothing", blank, len(texts))


def written(found: "Prediction", task: str, as_json: bool) -> str:
    """A prediction as it is printed."""
    return json.dumps(found.facts(), ensure_ascii=False) if as_json else "\n".join(lines_of(found, task))


def lines_of(found: "Prediction", task: str) -> Iterator[str]:
    """A prediction as a person reads it."""
    show = {"classify": _of_text, "tag": _of_words, "fill": _of_masks}[task]
    return show(found)


def _of_text(found: "Classified") -> Iterator[str]:
    labels = "  ".join(f"{each.name} {each.probability:.1%}" for each in found.labels)
    spoke = sorted((word for word in found.words if word[1] > 0), key=lambda word: -word[1])[:SPOKE]
    yield labels + (f"  (for {found.label} spoke: {', '.join(word for word, _ in spoke)})" if spoke else "")


def _of_words(found: "Tagged") -> Iterator[str]:
    yield " ".join(f"{word}/{label.name}" for word, label in zip(found.words, found.labels, strict=True))


def _of_masks(found: "Filled") -> Iterator[str]:
    for number, words in enumerate(found.masks, 1):
        shown = "  ".join(f"{each.name} {each.probability:.1%}" for each in words)
        yield shown if len(found.masks) == 1 else f"[MASK] {number}: {shown}"
