"""Pairs of words that differ in one thing: from the phrasebook's lexicon, English and Italian, or from a file."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Self

from dragoman.errors import DataError
from dragoman.text.phrasebook.lexemes import Adjective, Form, Noun, Number
from dragoman.text.phrasebook.lexicon import lexicon
from dragoman.text.reading.lines import read_lines

Pair = tuple[str, str]


class PairList(NamedTuple):
    """Pairs that all differ in the same thing."""

    name: str
    pairs: tuple[Pair, ...]
    given: int
    """How many pairs there were before `distinct` left some out."""

    @classmethod
    def of(cls, name: str, given: Iterable[tuple[str | None, str | None]]) -> Self:
        """Of these pairs, those that are `distinct`; one without a word is no pair."""
        whole = [(first, second) for first, second in given if first and second]
        return cls(name, distinct(whole), len(whole))


def known_pairs() -> list[PairList]:
    """Pairs of single words from the lexicon of the phrasebook: numbers in English and Italian, genders in Italian."""
    nouns = [lexeme for lexeme in lexicon() if isinstance(lexeme, Noun)]
    adjectives = [lexeme for lexeme in lexicon() if isinstance(lexeme, Adjective)]
    people = ((_text(noun.italian, "s"), _text(noun.feminine, "s")) for noun in nouns)
    italian = (forms for noun in nouns for forms in (noun.italian, noun.feminine))
    return [
        PairList.of("English singular → plural", ((noun.singular, noun.plural) for noun in nouns)),
        PairList.of("Italian singular → plural", ((_text(forms, "s"), _text(forms, "p")) for forms in italian)),
        PairList.of("Italian masculine → feminine", [*people, *(adjective.forms[:2] for adjective in adjectives)]),
    ]


def read_pairs(path: Path) -> PairList:
    """Pairs from a file: two words a line, separated by a tab. The file's name without its ending names them.

    Raises:
        DataError: the file cannot be read, or a line is no pair.
    """
    pairs = []
    for number, line in enumerate(read_lines(path), 1):
        words = [word.strip() for word in line.split("\t")]
        if len(words) != 2 or not all(words):
            raise DataError(f"{path}:{number} is {line[:60]!r}, but a line of pairs is two words with a tab between")
        pairs.append((words[0], words[1]))
    return PairList.of(path.stem, pairs)


def distinct(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    """The pairs of two different single words. A word that an earlier pair has makes a pair that is not independent of
    that one, and is left out.

    >>> distinct([("cat", "cats"), ("sheep", "sheep"), ("tom", "cats"), ("roast beef", "roasts")])
    (('cat', 'cats'),)
    """
    used: set[str] = set()
    kept = []
    for first, second in pairs:
        if first == second or " " in first + second or {first, second} & used:
            continue
        used |= {first, second}
        kept.append((first, second))
    return tuple(kept)


def _text(forms: dict[Number, Form] | None, number: Number) -> str | None:
    """The written form of a noun in this number; None if it does not exist."""
    form = forms.get(number) if forms else None
    return form and form.text
