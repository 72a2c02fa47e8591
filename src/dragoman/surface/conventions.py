"""Conventions of a training text: its quotes, apostrophes, dashes and spaces, the characters around its sentences, and
the usual form of its words. A model reads best what is written as its training text was.
"""

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

import pydantic

from dragoman.config import Settings, read_json_as
from dragoman.serialization import write_json
from dragoman.surface.placeholders import NUMBERS, WORDS

FILE, FORMAT = "conventions.json", 1
KNOWN = 0.001
"""A character is known if at least this share of sentences has it."""
KNOWN_AROUND = 0.02
"""A kind of mark around sentences is known if at least this share of sentences has it: if 0.1 % of the sentences have
quotes, a model translates them badly (benchmarks/forms.py)."""
LEAST_COPIED = 50
"""A kind of placeholder is learnt if at least this many pairs have something that it may stand for."""

_PAIRS = ("“”", "„“", "«»", "»«", "””", "‹›", "「」", '""')

MARKS = ".!?…。．！？｡؟।॥।"
END_MARKS = frozenset(MARKS)
"""Marks that end a sentence."""


class Conventions(Settings):
    """How the text of one language is written. Counts are of sentences, or lines, that hold the thing."""

    sentences: int = pydantic.Field(ge=0)
    characters: dict[str, int] = pydantic.Field(default={})
    """Marks, spaces and other characters that are neither letters nor digits of a script, and "..."."""
    around: dict[str, int] = pydantic.Field(default={})
    """What stands around sentences."""
    ends: dict[str, int] = pydantic.Field(default={})
    """Usual marks at the end of sentences, and "" for none."""
    capitals: int = pydantic.Field(default=0, ge=0)
    """Sentences that begin with a capital."""
    small: int = pydantic.Field(default=0, ge=0)
    """Sentences that begin with a small letter."""
    titles: int = pydantic.Field(default=0, ge=0)
    """Sentences whose words have capitals, as in a title."""
    vocabulary: str = ""
    """The most frequent words, each in the form that it has most often inside a sentence, with spaces between them."""

    @cached_property
    def words(self) -> list[str]:
        """Those of the vocabulary, the most frequent first."""
        return self.vocabulary.split()

    @cached_property
    def around_known(self) -> frozenset[str]:
        """What the text has around its sentences often enough."""
        return frozenset(kind for kind, count in self.around.items() if count >= KNOWN_AROUND * self.sentences)

    @property
    def begins_with_capitals(self) -> bool:
        """Whether most sentences begin with a capital."""
        return 2 * self.capitals > self.sentences

    @property
    def has_small_beginnings(self) -> bool:
        """Whether enough of its sentences begin with a small letter."""
        return self.small >= KNOWN_AROUND * self.sentences or not self.begins_with_capitals

    @property
    def has_titles(self) -> bool:
        """Whether enough of its sentences are written as titles."""
        return self.titles >= KNOWN_AROUND * self.sentences

    @property
    def has_sentences_without_mark(self) -> bool:
        """Whether enough of its sentences, or lines, end in a word."""
        return self.ends.get("", 0) >= KNOWN_AROUND * self.sentences

    @cached_property
    def quotes(self) -> str:
        """The pair of double quotes that it has most often; empty if it has none."""
        return self._most_frequent(_PAIRS)

    @cached_property
    def quotes_of_print(self) -> str:
        """The same of those that open and close; empty if it hardly has any."""
        pair = self._most_frequent([pair for pair in _PAIRS if pair != '""'])
        return pair if pair and self.knows(pair[0]) else ""

    def _most_frequent(self, pairs: Iterable[str]) -> str:
        count = {pair: min(self.characters.get(quote, 0) for quote in pair) for pair in pairs}
        count["””"] = max(0, count["””"] - count["“”"])  # Swedish; elsewhere it closes “
        best = max(count, key=count.__getitem__)
        return best if count[best] else ""

    def mark(self, typed: str) -> str:
        """The usual mark of an end that was typed otherwise, as `?!` or `…`, with the space that French has."""
        for marks in ("?？؟", "!！"):
            if not set(marks).isdisjoint(typed):
                usual = max(marks, key=lambda mark: self.ends.get(mark, 0))
                return f" {usual}" if "spaced mark" in self.around_known else usual
        statements = {mark: count for mark, count in self.ends.items() if mark not in set("?？؟!！…")}
        return max(statements, key=statements.__getitem__, default=".")

    def knows(self, character: str) -> bool:
        """Whether the text has a character often enough to stay."""
        return self.characters.get(character, 0) >= max(1, KNOWN * self.sentences)


class PairConventions(Settings):
    """How the sources and the targets of a training text are written: `conventions.json` of a model folder."""

    format: Literal[1] = FORMAT
    source: Conventions
    target: Conventions
    placeholders: bool = False
    """Whether training put placeholders in the place of what stands on both sides, so that the model copies them."""
    copied: dict[str, int] = pydantic.Field(default={})
    """Pairs that hold a name or code, and those that hold a number, alike on both sides."""

    @property
    def learnt_placeholders(self) -> str:
        """Those that the model has seen often enough to copy them."""
        kinds = {"words": WORDS, "numbers": NUMBERS} if self.placeholders else {}
        return "".join("".join(ones) for kind, ones in kinds.items() if self.copied.get(kind, 0) >= LEAST_COPIED)

    def save(self, folder: Path) -> None:
        """Writes `conventions.json`."""
        write_json(folder / FILE, self.model_dump(mode="json"))

    @classmethod
    def load(cls, folder: Path) -> Self | None:
        """Reads what `save` wrote; None in a folder without it."""
        return read_json_as(folder / FILE, cls, FORMAT) if (folder / FILE).is_file() else None


UNKNOWN_CONVENTIONS = PairConventions(source=Conventions(sentences=0), target=Conventions(sentences=0))
"""Those of a model whose training text is not known."""
