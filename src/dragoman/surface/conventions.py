"""Conventions of a training text: its quotes, apostrophes, dashes and spaces, the characters around its sentences, and
the usual form of its words. A model reads text best if it is written like its training text.
"""

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

import pydantic

from dragoman.config import Settings, read_json_as
from dragoman.serialization import read_object, write_json
from dragoman.surface.placeholders import NUMBERS, WORDS

FILE, FORMAT, SEVERAL_LANGUAGES = "conventions.json", 1, 2
KNOWN = 0.001
"""A character is known if at least this share of sentences has it."""
KNOWN_AROUND = 0.02
"""A kind of mark around sentences is known if at least this share of sentences has it: if 0.1 % of the sentences have
quotes, a model translates them badly (benchmarks/forms.py)."""
LEAST_COPIED = 50
"""A kind of placeholder is learned if at least this many pairs have something that it may replace."""

_PAIRS = ("“”", "„“", "«»", "»«", "””", "‹›", "「」", '""')

MARKS = ".!?…。．！？｡؟।॥।"
END_MARKS = frozenset(MARKS)
"""Marks that end a sentence."""


class Conventions(Settings):
    """Conventions of the text in one language. Counts are numbers of sentences, or lines, that contain the thing."""

    sentences: int = pydantic.Field(ge=0)
    characters: dict[str, int] = pydantic.Field(default={})
    """Marks, spaces and other characters that are neither letters nor digits of a script, and "..."."""
    around: dict[str, int] = pydantic.Field(default={})
    """Kinds of marks around sentences, as in `Peeled.kinds`."""
    ends: dict[str, int] = pydantic.Field(default={})
    """Usual marks at the end of sentences, and "" for none."""
    capitals: int = pydantic.Field(default=0, ge=0)
    """Sentences that begin with a capital."""
    small: int = pydantic.Field(default=0, ge=0)
    """Sentences that begin with a lower-case letter."""
    titles: int = pydantic.Field(default=0, ge=0)
    """Sentences whose words have capitals, as in a title."""
    vocabulary: str = ""
    """The most frequent words, each in the form that it has most often inside a sentence, with spaces between them."""

    @cached_property
    def words(self) -> list[str]:
        """The vocabulary as a list, most frequent words first."""
        return self.vocabulary.split()

    @cached_property
    def around_known(self) -> frozenset[str]:
        """The kinds of marks around sentences that are frequent enough to stay."""
        return frozenset(kind for kind, count in self.around.items() if count >= KNOWN_AROUND * self.sentences)

    @property
    def begins_with_capitals(self) -> bool:
        """True if most sentences begin with a capital."""
        return 2 * self.capitals > self.sentences

    @property
    def has_small_beginnings(self) -> bool:
        """True if enough sentences begin with a lower-case letter."""
        return self.small >= KNOWN_AROUND * self.sentences or not self.begins_with_capitals

    @property
    def has_titles(self) -> bool:
        """True if enough sentences are written as titles."""
        return self.titles >= KNOWN_AROUND * self.sentences

    @property
    def has_sentences_without_mark(self) -> bool:
        """True if enough sentences, or lines, end in a word."""
        return self.ends.get("", 0) >= KNOWN_AROUND * self.sentences

    @cached_property
    def quotes(self) -> str:
        """The most frequent pair of double quotes; empty if there is none."""
        return self._most_frequent(_PAIRS)

    @cached_property
    def quotes_of_print(self) -> str:
        """The most frequent pair except straight quotes; empty if such quotes are rare."""
        pair = self._most_frequent([pair for pair in _PAIRS if pair != '""'])
        return pair if pair and self.knows(pair[0]) else ""

    def _most_frequent(self, pairs: Iterable[str]) -> str:
        count = {pair: min(self.characters.get(quote, 0) for quote in pair) for pair in pairs}
        count["””"] = max(0, count["””"] - count["“”"])  # Swedish; elsewhere it closes “
        best = max(count, key=count.__getitem__)
        return best if count[best] else ""

    def mark(self, typed: str) -> str:
        """Return the usual end mark for a typed one such as `?!` or `…`, after a space if the text has it there."""
        for marks in ("?？؟", "!！"):
            if not set(marks).isdisjoint(typed):
                usual = max(marks, key=lambda mark: self.ends.get(mark, 0))
                return f" {usual}" if "spaced mark" in self.around_known else usual
        statements = {mark: count for mark, count in self.ends.items() if mark not in set("?？؟!！…")}
        return max(statements, key=statements.__getitem__, default=".")

    def knows(self, character: str) -> bool:
        """Return True if a character is frequent enough to stay."""
        return self.characters.get(character, 0) >= max(1, KNOWN * self.sentences)


class PairConventions(Settings):
    """Conventions of the sources and targets of a training text: `conventions.json` of a model folder."""

    format: Literal[1] = FORMAT
    source: Conventions
    target: Conventions
    placeholders: bool = False
    """True if training masked what both sides share, so that the model copies placeholders."""
    copied: dict[str, int] = pydantic.Field(default={})
    """Numbers of pairs whose sides share a name or code ("words"), or a number ("numbers")."""

    def of(self, source: str, target: str) -> Self:
        """Return these conventions, which are those of the only direction."""
        return self

    @property
    def learned_placeholders(self) -> str:
        """The placeholders that training has shown often enough for the model to copy them."""
        kinds = {"words": WORDS, "numbers": NUMBERS} if self.placeholders else {}
        return "".join("".join(ones) for kind, ones in kinds.items() if self.copied.get(kind, 0) >= LEAST_COPIED)

    def save(self, folder: Path) -> None:
        """Write `conventions.json`."""
        write_json(folder / FILE, self.model_dump(mode="json"))


class LanguageConventions(Settings):
    """Conventions of a training text in several languages: `conventions.json` of a model with several directions."""

    format: Literal[2] = SEVERAL_LANGUAGES
    languages: dict[str, Conventions]
    """Conventions of each language."""
    placeholders: bool = False
    """As in `PairConventions`."""
    copied: dict[str, dict[str, int]] = pydantic.Field(default={})
    """As in `PairConventions`, for each direction, as in `en-it`."""

    def of(self, source: str, target: str) -> PairConventions:
        """Return the conventions of a direction. Where no pair was seen, placeholders count as in all directions."""
        unknown, copied = Conventions(sentences=0), self.copied.get(f"{source}-{target}")
        if copied is None:
            copied = dict(sum(map(Counter, self.copied.values()), Counter()))
        return PairConventions(
            source=self.languages.get(source, unknown),
            target=self.languages.get(target, unknown),
            placeholders=self.placeholders,
            copied=copied,
        )

    def save(self, folder: Path) -> None:
        """Write `conventions.json`."""
        write_json(folder / FILE, self.model_dump(mode="json"))


def load_conventions(folder: Path) -> PairConventions | LanguageConventions | None:
    """Read the file that `save` of either wrote; return None if the folder has none."""
    if not (folder / FILE).is_file():
        return None
    if read_object(folder / FILE).get("format") == SEVERAL_LANGUAGES:
        return read_json_as(folder / FILE, LanguageConventions, SEVERAL_LANGUAGES)
    return read_json_as(folder / FILE, PairConventions, FORMAT)


UNKNOWN_CONVENTIONS = PairConventions(source=Conventions(sentences=0), target=Conventions(sentences=0))
"""Conventions of a model whose training text is unknown."""
