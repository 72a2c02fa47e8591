"""`dragoman embeddings`: what the embedding table of a model has learned about words."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dragoman.cli.terminal import console
from dragoman.cli.terminal.options import Format, Model, Quiet, grouped
from dragoman.cli.terminal.screen import Screen, open_screen
from dragoman.errors import ConfigError, DataError
from dragoman.files import check_output

if TYPE_CHECKING:
    from dragoman.explaining.embeddings.directions import Direction, Estimate, Hits
    from dragoman.explaining.embeddings.question import Answer, Question
    from dragoman.explaining.embeddings.space import EmbeddingSpace, Neighbour


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
    directions: Annotated[
        bool,
        typer.Option(
            "--directions",
            help="Is the plural a direction of the space, and is gender? Measured on English and Italian words, beside "
            "what chance and plain similarity give.",
        ),
    ] = False
    pairs: Annotated[
        Path | None,
        typer.Option(
            help="Measure the direction of the pairs in this file instead: two words a line, a tab between them.",
            show_default=False,
        ),
    ] = None
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
        wishes = {
            "WORD": bool(self.words),
            "--directions or --pairs": self.directions or self.pairs is not None,
            "--map": self.map_file is not None,
        }
        named = [name for name, given in wishes.items() if given]
        if len(named) > 1:
            raise ConfigError(f"{' and '.join(named)} were given; embeddings does one of them at a time")
        if not named:
            raise ConfigError("name a word, as in: dragoman embeddings MODEL house; or give --directions or --map FILE")
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
    """Look into a model's word vectors: the neighbours of a word, analogies, directions, a map.

    Similarity is the cosine between two vectors: 1 is the same direction, and words at random have almost 0.
    """
    wish.check()
    look = Look(model, side, open_screen(quiet), output_format == "json")
    if wish.words:
        from dragoman.explaining.embeddings.question import read_question

        look.tell(read_question(wish.words), wish.count or 10)
    elif wish.map_file is not None:
        check_output(wish.map_file)
        look.draw(wish.map_file)
    else:
        look.measure(wish.pairs)


@dataclass(frozen=True)
class Look:
    """One look into the table of a model."""

    model: Path
    side: Literal["source", "target"] | None
    screen: Screen
    as_json: bool

    def space(self) -> "EmbeddingSpace":
        """The table, after saying which one it is."""
        from dragoman.explaining.embeddings.space import load_embeddings

        space = load_embeddings(self.model, self.side)
        rows, width = space.table.shape
        self.screen.note(f"table: {space.title}; {rows:,} entries of {width:,} numbers")
        return space

    def tell(self, question: "Question", count: int) -> None:
        """Answers a question."""
        from dragoman.explaining.embeddings.question import answer

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
        from dragoman.explaining.embeddings.map import draw_map, write_map

        drawn = draw_map(self.space(), self.model.resolve().name)
        write_map(drawn, path)
        if self.as_json:
            facts = {"map": str(path), "table": drawn.table, "words": len(drawn.words), "explained": drawn.explained}
            console.write_json(facts)
            return
        shares = " and ".join(f"{100 * share:.1f} %" for share in drawn.explained)
        console.write(f"{path}: {len(drawn.words):,} words; its two axes hold {shares} of the variance")

    def measure(self, pairs: Path | None) -> None:
        """Measures directions: that of one file, or those of the known pairs that the vocabulary holds."""
        from dragoman.explaining.embeddings.directions import measure_direction
        from dragoman.explaining.embeddings.pairs import read_pairs

        given = read_pairs(pairs) if pairs else None
        space = self.space()
        found = [measure_direction(space, given)] if given else self.known_directions(space)
        if self.as_json:
            console.write_json({"table": space.title, "directions": [each.facts() for each in found]})
        else:
            show(found)

    def known_directions(self, space: "EmbeddingSpace") -> "list[Direction]":
        """Those of the phrasebook's pairs, less what this vocabulary has too few words for."""
        from dragoman.explaining.embeddings.directions import measure_direction
        from dragoman.explaining.embeddings.pairs import known_pairs

        found: list[Direction] = []
        for listed in known_pairs():
            try:
                found.append(measure_direction(space, listed))
            except DataError as error:
                self.screen.note(f"left out: {error}")
        if not found:
            raise DataError(
                f"no direction can be measured in this table ({space.title}): the pairs at hand are English and "
                "Italian; take the other --side, or give pairs of your own with --pairs FILE"
            )
        return found


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


def show(found: "Sequence[Direction]") -> None:
    """Two tables, each under the question that it answers, and how much each direction helps."""
    console.write(
        "Do pairs agree? The cosine between the differences of two pairs, such as cat → cats and dog → dogs:\n"
    )
    columns = ["direction", "pairs", "of", "cosine", "95 %", "wrong pairs", "95 %"]
    console.write_table(columns, map(agreement_row, found))
    console.write("\nDoes the mean difference of the other pairs lead from the first word of a pair to its second?\n")
    columns = ["direction", "looked up", "right word first", "95 %", "among the first 5"]
    console.write_table(columns, [row for each in found for row in hit_rows(each)])
    console.write()
    for each in found:
        mean, low, high = (f"{100 * share:.0f}" for share in each.gain)
        console.write(
            f"{each.name}: the direction adds {mean} points to the first word alone (95 %: {low} to {high}); "
            f"each word was sought among {each.candidates:,}"
        )


def agreement_row(direction: "Direction") -> tuple[str, ...]:
    counts = f"{direction.pairs:,}", f"{direction.given:,}"
    return direction.name, *counts, *estimate(direction.agreement), *estimate(direction.shuffled)


def hit_rows(direction: "Direction") -> list[tuple[str, ...]]:
    ways = {
        "first word + direction": direction.added,
        "first word alone": direction.alone,
        "first word + random direction": direction.random,
    }
    return [(direction.name, way, *hit_cells(hits)) for way, hits in ways.items()]


def hit_cells(hits: "Hits") -> tuple[str, str, str]:
    return percent(hits.first), f"{percent(hits.low)} to {percent(hits.high)}", percent(hits.top_5)


def estimate(figure: "Estimate") -> tuple[str, str]:
    return f"{figure.mean:.3f}", f"{figure.low:.3f} to {figure.high:.3f}"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"
