"""`dragoman embeddings`: what the embedding table of a model has learned about words."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dragoman.cli.terminal import console
from dragoman.cli.terminal.options import Format, Model, Quiet
from dragoman.cli.terminal.screen import Screen, open_screen
from dragoman.errors import ConfigError, DataError
from dragoman.files import check_output

if TYPE_CHECKING:
    from dragoman.explaining.embeddings.directions import Direction, Estimate, Hits
    from dragoman.explaining.embeddings.question import Answer, Question
    from dragoman.explaining.embeddings.space import EmbeddingSpace, Neighbour


def embeddings(
    model: Model,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORD - WORD + WORD",
            help="A word: lists its nearest entries of the vocabulary. Or words with - and + between them, each an "
            "argument of its own: king - man + woman asks what is to woman as king is to man. A piece of a word is "
            "named as it is shown, ▁hou; inside words, ##ing.",
            show_default=False,
        ),
    ] = None,
    side: Annotated[
        Literal["source", "target"] | None,
        typer.Option(help="The table to look in, if the model has one for each side.", show_default="source"),
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="How many neighbours to list.", show_default="10")] = None,
    directions: Annotated[
        bool,
        typer.Option(
            "--directions",
            help="Is the plural a direction of the space, and is gender? Measured on English and Italian words, beside "
            "what chance and plain similarity give.",
        ),
    ] = False,
    pairs: Annotated[
        Path | None,
        typer.Option(
            help="Measure the direction of the pairs in this file instead: two words a line, a tab between them.",
            show_default=False,
        ),
    ] = None,
    map_file: Annotated[
        Path | None,
        typer.Option(
            "--map",
            help="Write a map of the most frequent words to this HTML file, for a browser. It needs no network.",
            show_default=False,
        ),
    ] = None,
    output_format: Format = "text",
    quiet: Quiet = False,
) -> None:
    """Look into a model's word vectors: the neighbours of a word, analogies, directions, a map.

    Similarity is the cosine between two vectors: 1 is the same direction, and words at random have almost 0.
    """
    check_wish(words, directions or pairs is not None, map_file)
    if count is not None and not words:
        raise ConfigError("only the neighbours of a WORD take --count")
    look = Look(model, side, open_screen(quiet), output_format == "json")
    if words:
        from dragoman.explaining.embeddings.question import read_question

        look.tell(read_question(words), count or 10)
    elif map_file is not None:
        check_output(map_file)
        look.draw(map_file)
    else:
        look.measure(pairs)


def check_wish(words: Sequence[str] | None, directions: bool, map_file: Path | None) -> None:
    """Refuses two wishes, or none, before a model is loaded."""
    wishes = {"WORD": bool(words), "--directions or --pairs": directions, "--map": map_file is not None}
    named = [name for name, given in wishes.items() if given]
    if len(named) > 1:
        raise ConfigError(f"{' and '.join(named)} were given; embeddings does one of them at a time")
    if not named:
        raise ConfigError("name a word, as in: dragoman embeddings MODEL house; or give --directions or --map FILE")


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
        for note in notes(found, space):
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


def notes(found: "Answer", space: "EmbeddingSpace") -> list[str]:
    """What must be known to judge an answer."""
    of_pieces = [
        f"{term.text!r} is {len(term.pieces)} pieces, {' '.join(term.pieces)}; the mean of their vectors stands for it"
        for term in found.terms
        if len(term.pieces) > 1
    ]
    named = {id_: piece for term in found.terms for id_, piece in zip(term.ids, term.pieces, strict=True)}
    unused = [piece for id_, piece in named.items() if id_ in space.unused]
    untold = [f"hardly used in training, so their vectors mean nothing: {' '.join(unused)}"] if unused else []
    alone = ", ".join(" ".join(neighbour_row(each)) for each in found.alone)
    of_first = [f"nearest to {found.question.words[0]} alone, without the other words: {alone}"] if alone else []
    return [*of_pieces, *untold, *of_first]


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
