"""`dragoman embeddings`: what the embedding table of a model has learned about words."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dragoman.cli.terminal import console
from dragoman.cli.terminal.options import Format, Model, Quiet, grouped
from dragoman.cli.terminal.screen import Screen, open_screen
from dragoman.errors import ConfigError
from dragoman.files import check_output

if TYPE_CHECKING:
    from dragoman.explaining.embeddings import Answer, EmbeddingSpace, Neighbour, Question


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Wish:
    """What a user wants to know of word vectors: one thing at a time."""

    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORD - WORD + WORD",
            help="A word: lists its nearest entries of the vocabulary. Or words with - and + between them, each an "
            "argument of its own: king - man + woman asks what is to woman as king is to man. A piece of a word is "
            "named as it is shown, ▁hou; inside words, ##ing.",
            show_default=False,
        ),
    ] = None
    count: Annotated[int | None, typer.Option(min=1, help="How many neighbours to list.", show_default="10")] = None
    map_file: Annotated[
        Path | None,
        typer.Option(
            "--map",
            help="Write a map of the most frequent words to this HTML file, for a browser. It needs no network.",
            show_default=False,
        ),
    ] = None

    def check(self) -> None:
        """Refuses two wishes, or none, before a model is loaded."""
        if self.words and self.map_file is not None:
            raise ConfigError("WORD and --map were given; embeddings does one of them at a time")
        if not self.words and self.map_file is None:
            raise ConfigError("name a word, as in: dragoman embeddings MODEL house; or give --map FILE")
        if self.count is not None and not self.words:
            raise ConfigError("only the neighbours of a WORD take --count")


Side = Annotated[
    Literal["source", "target"] | None,
    typer.Option(help="The table to look in, if the model has one for each side.", show_default="source"),
]


@grouped
def embeddings(
    model: Model, wish: Wish, side: Side = None, output_format: Format = "text", quiet: Quiet = False
) -> None:
    """Look into a model's word vectors: the neighbours of a word, analogies, a map.

    Similarity is the cosine between two vectors: 1 is the same direction, and words at random have almost 0.
    """
    wish.check()
    look = Look(model, side, open_screen(quiet), output_format == "json")
    if wish.map_file is not None:
        check_output(wish.map_file)
        look.draw(wish.map_file)
    else:
        from dragoman.explaining.embeddings import read_question

        look.tell(read_question(wish.words or ()), wish.count or 10)


@dataclass(frozen=True)
class Look:
    """One look into the table of a model."""

    model: Path
    side: Literal["source", "target"] | None
    screen: Screen
    as_json: bool

    def space(self) -> "EmbeddingSpace":
        """The table, after saying which one it is."""
        from dragoman.explaining.embeddings import load_embeddings

        space = load_embeddings(self.model, self.side)
        rows, width = space.table.shape
        self.screen.note(f"table: {space.title}; {rows:,} entries of {width:,} numbers")
        return space

    def tell(self, question: "Question", count: int) -> None:
        """Answers a question."""
        from dragoman.explaining.embeddings import answer

        space = self.space()
        found = answer(space, question, count)
        if self.as_json:
            console.write_json({"table": space.title, **found.facts(), "chance": space.chance._asdict()})
            return
        console.write_table(["entry", "similarity"], map(neighbour_row, found.neighbours))
        if unused := space.unused_pieces(found.terms):
            log.warning("hardly used in training, so their vectors mean nothing: %s", " ".join(unused))
        for note in notes(found):
            self.screen.note(note)
        mean, most = space.chance
        self.screen.note(
            f"two entries at random have {mean:.2f} on average, and 95 % of such pairs less than {most:.2f}"
        )

    def draw(self, path: Path) -> None:
        """Writes the map."""
        from dragoman.explaining.embeddings import draw_map, write_map

        drawn = draw_map(self.space(), self.model.resolve().name)
        write_map(drawn, path)
        if self.as_json:
            facts = {"map": str(path), "table": drawn.table, "words": len(drawn.words), "explained": drawn.explained}
            console.write_json(facts)
            return
        shares = " and ".join(f"{100 * share:.1f} %" for share in drawn.explained)
        console.write(f"{path}: {len(drawn.words):,} words; its two axes hold {shares} of the variance")


def neighbour_row(neighbour: "Neighbour") -> tuple[str, str]:
    return neighbour.entry, f"{neighbour.similarity:.2f}"


def notes(found: "Answer") -> list[str]:
    """What helps to judge an answer."""
    of_pieces = [
        f"{term.text!r} is {len(term.pieces)} pieces, {' '.join(term.pieces)}; the mean of their vectors stands for it"
        for term in found.terms
        if len(term.pieces) > 1
    ]
    alone = ", ".join(" ".join(neighbour_row(each)) for each in found.alone)
    of_first = [f"nearest to {found.question.words[0]} alone, without the other words: {alone}"] if alone else []
    return [*of_pieces, *of_first]
