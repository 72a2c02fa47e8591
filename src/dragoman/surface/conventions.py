"""How a text is written, learnt from training text: its quotes, apostrophes, dashes and spaces, what it has around its
sentences, and the usual form of its words. A model reads best what is written as its training text was.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Literal, Self

import pydantic

from dragoman.config import Settings, read_json_as
from dragoman.serialization import write_json
from dragoman.surface.around import END_MARKS, QUOTES, partners, peel
from dragoman.surface.letters import Truecaser, is_title, usual_forms, words_in
from dragoman.surface.placeholders import NUMBERS, WORDS
from dragoman.surface.protected import Names, alike

FILE, FORMAT = "conventions.json", 1
KNOWN = 0.001
"""A character is known if at least this share of sentences has it."""
KNOWN_AROUND = 0.02
"""What stands around a sentence is known if at least this share of sentences has it. Quotes around 0.1 % are too few to
translate them well (benchmarks/forms.py)."""
MOST_WORDS, MOST_CHARACTERS = 30_000, 300
"""Most words and characters that are kept."""
LEAST_COPIED = 50
"""A kind of placeholder is learnt if at least this many pairs have something that it may stand for."""
FREQUENT = 20
"""A name is known if at least this many sentences have it, or if several have it and it is translated."""

_PAIRS = ("“”", "„“", "«»", "»«", "””", "‹›", "「」", '""')
_APOSTROPHES, _DASHES, _USUAL_DASHES = "'’ʼ‘´`′‛＇", "‐‑‒−–—―", "-–—"
_COMPATIBLE = "<wide> <narrow> <compat> <font> <noBreak> <initial> <medial> <final> <isolated>".split()
_JOINERS = "\u200c\u200d"  # they change how Persian and Indian words are written
_SPACES = re.compile(r"\s\s+")


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

    @classmethod
    def learn(cls, sentences: Iterable[str], left_out: Collection[str] = ()) -> Self:
        """The conventions of these sentences, but for some words."""
        kept = list(sentences)
        characters, around, ends = Counter[str](), Counter[str](), Counter[str]()
        for sentence in kept:
            characters.update(character for character in set(sentence) if not _is_plain(character))
            characters["..."] += "..." in sentence
            around.update(peel(sentence).kinds)
            last = sentence.rstrip()[-1:]
            ends[last if last in END_MARKS else ""] += 1
        return cls(
            sentences=len(kept),
            characters=dict(characters.most_common(MOST_CHARACTERS)),
            around=dict(around),
            ends=dict(ends.most_common()),
            capitals=sum(sentence[:1].isupper() for sentence in kept),
            small=sum(sentence[:1].islower() for sentence in kept),
            titles=sum(map(is_title, kept)),
            vocabulary=" ".join(islice((word for word in usual_forms(kept) if word not in left_out), MOST_WORDS)),
        )

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

    def normalised(self, text: str) -> str:
        """The text in the characters that the training text has.

        >>> Conventions.learn(["It's “his”."]).normalised("It’s  «ﬁne».")
        "It's “fine”."
        """
        return self.rewritten(text)[0]

    def rewritten(self, text: str) -> tuple[str, str]:
        """The same, and the quotes, apostrophes, dashes and ellipses that were replaced, as they come."""
        styles, quotes = "", ""
        if odd := set(text) - self._unchanged:
            replaced = {one: usual for one in sorted(odd) if (usual := self._usual(one)) != one}
            quotes = "".join(one for one in dict.fromkeys(text) if one in QUOTES) if odd.intersection(QUOTES) else ""
            styles = "".join(one for one in replaced if one in _APOSTROPHES + _DASHES + "…")
            self._unchanged.update(odd - replaced.keys() - set(quotes))
            text = "".join(replaced.get(one, one) for one in text)
        text = unicodedata.normalize("NFC", text)
        if quotes and self.quotes and any(one not in self.quotes and not self.knows(one) for one in quotes):
            text, styles = requoted(text, self.quotes), styles + quotes
        if "..." in text and not self.knows("...") and self.knows("…"):
            text = text.replace("...", "…")
        return _SPACES.sub(" ", text), styles

    @cached_property
    def _unchanged(self) -> set[str]:
        """Characters that are known to stay as they are."""
        return {" "}

    def _usual(self, character: str) -> str:
        """What stands for a character: itself, if the text has it or knows nothing better."""
        if not self.sentences:
            return plain_character(character, with_looks=False)
        if self.knows(character) or character in QUOTES:
            return character
        for others, usual in ((_APOSTROPHES, _APOSTROPHES), (_DASHES, _USUAL_DASHES)):
            if character in others:
                return max(usual, key=lambda other: (self.characters.get(other, 0), other == character))
        return plain_character(character)


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

    @classmethod
    def learn(cls, pairs: Iterable[tuple[str, str]]) -> Self:
        """Those of sentence pairs."""
        kept = list(pairs)
        rare = [rare_names(kept), rare_names((target, source) for source, target in kept)]
        return cls(
            source=Conventions.learn((source for source, _ in kept), rare[0]),
            target=Conventions.learn((target for _, target in kept), rare[1]),
        )

    def counted(self, pairs: Iterable[tuple[str, str]], language: str) -> Self:
        """The same with the number of these pairs, from this language, that hold something alike on both sides."""
        names, count = Names(Truecaser(self.source.words, language), language), Counter[str]()
        for source, target in pairs:
            count.update({"numbers" if one.kind == "number" else "words" for one, _ in alike(source, target, names)})
        return self.model_copy(update={"copied": dict(count)})

    def save(self, folder: Path) -> None:
        """Writes `conventions.json`."""
        write_json(folder / FILE, self.model_dump(mode="json"))

    @classmethod
    def load(cls, folder: Path) -> Self | None:
        """Reads what `save` wrote; None in a folder without it."""
        return read_json_as(folder / FILE, cls, FORMAT) if (folder / FILE).is_file() else None


UNKNOWN_CONVENTIONS = PairConventions(source=Conventions(sentences=0), target=Conventions(sentences=0))
"""Those of a model whose training text is not known."""


def plain_character(character: str, with_looks: bool = True) -> str:
    """A space for white space of any kind, nothing for what is invisible; and `with_looks`, the usual character for a
    ligature, a full-width form and others that look alike.

    >>> [plain_character(character) for character in ("\u00a0", "\u00ad", "ﬁ", "Ａ", "²")]
    [' ', '', 'fi', 'A', '²']
    """
    category = unicodedata.category(character)
    if category in ("Zs", "Zl", "Zp") or character in "\t\n\r\v\f\u200b":
        return " "
    if with_looks and unicodedata.decomposition(character).partition(" ")[0] in _COMPATIBLE:
        usual = unicodedata.normalize("NFKC", character)
        return character if usual.startswith(" ") else usual
    return "" if category in ("Cf", "Cc") and character not in _JOINERS else character


def requoted(text: str, quotes: Sequence[str], typed: str = QUOTES) -> str:
    """The text with this pair for all of its double quotes, or for others that were typed.

    >>> requoted('He said "yes" („ja“, « oui »).', "“”")
    'He said “yes” (“ja”, “ oui ”).'
    """
    partner = partners(text)

    def quote(match: re.Match[str]) -> str:
        other = partner.get(match.start(), -1)
        return match[0] if other == match.start() else quotes[other < match.start()]

    return re.sub(f"[{typed}]", quote, text)


def rare_names(pairs: Iterable[tuple[str, str]]) -> set[str]:
    """Words with a capital that stand in few sentences of the one side, and usually as they are in those of the other.
    A model has not learnt to write them.

    >>> rare_names([("Rome or Lodi.", "Roma o Lodi."), ("Rome too.", "Anche Roma.")])
    {'Lodi'}
    """
    count, copied = Counter[str](), Counter[str]()
    for one, other in pairs:
        words = {word for word in words_in(one) if word != word.lower()}
        count.update(words)
        copied.update(words.intersection(words_in(other)))
    return {word for word, times in count.items() if times < FREQUENT and (times < 2 or 2 * copied[word] > times)}


def _is_plain(character: str) -> bool:
    return character == " " or (character.isalnum() and plain_character(character) == character)
