"""The languages of both sides of parallel text, learned from its first rows, and rows that have other ones."""

from collections import Counter
from itertools import islice
from sys import intern
from typing import NamedTuple

from dragoman.text.alignment import (
    CLEAR,
    EXCHANGED,
    LEARN_ROWS,
    LONGEST,
    WordEvidence,
    Words,
    learn_evidence,
    words_of,
)
from dragoman.text.checks import OTHER_LANGUAGE, CheckSettings, fault, repair
from dragoman.text.detection import ColumnLanguage, Direction, Guess, best_guess, find_direction, lean
from dragoman.text.readers import Reading

CLEARLY = 3.0
"""Nats by which both sides of a row must be likelier in each other's language, as py3langid says."""
ENOUGH = 50
"""Characters of a text that are enough to guess its language."""


class SideLanguages(NamedTuple):
    """The words that are typical of each side, and the languages of both."""

    words: WordEvidence
    columns: tuple[ColumnLanguage, ColumnLanguage]
    direction: Direction | None

    def verdict(self, source: str, target: str, source_words: Words, target_words: Words) -> str | None:
        """Return what looks wrong with the languages of a row, or None."""
        verdict = self.words.verdict(source_words, target_words)
        is_unclear = self.words.lean(source_words) - self.words.lean(target_words) < CLEAR
        if verdict is None and self.direction and is_unclear:
            leans = lean(source, self.direction), lean(target, self.direction)
            verdict = EXCHANGED if leans[0] < 0 < leans[1] and leans[1] - leans[0] > CLEARLY else None
        if verdict == EXCHANGED:
            return verdict
        sources, targets = self.columns
        is_other = sources.lacks(source, source_words) or targets.lacks(target, target_words)
        return OTHER_LANGUAGE if is_other else verdict


def learn_side_languages(reading: Reading, checks: CheckSettings) -> SideLanguages:
    """Learn from the first usable rows."""
    rows: list[tuple[Words, Words]] = []
    guesses: list[tuple[Guess, Guess]] = []
    known: dict[tuple[Guess, Guess], tuple[Guess, Guess]] = {}
    repaired = ([repair(side, Counter()) for side in (pair.source, pair.target)] for pair in reading)
    for source, target in islice((sides for sides in repaired if not fault(sides[0], sides[1], checks)), LEARN_ROWS):
        source_words, target_words = (tuple(map(intern, words_of(side)[:LONGEST])) for side in (source, target))
        guess = best_guess(source[:ENOUGH]), best_guess(target[:ENOUGH])
        rows.append((source_words, target_words))
        guesses.append(known.setdefault(guess, guess))  # equal ones share memory, as interned words do
    direction, exchanged = find_direction(reading.languages, guesses)
    columns = ColumnLanguage(reading.languages[0]), ColumnLanguage(reading.languages[1])
    for words, sides, is_exchanged in zip(rows, guesses, exchanged, strict=True):
        for column, guess, text in zip(columns, sides, words, strict=True) if not is_exchanged else ():
            column.learn(guess, text)
    return SideLanguages(learn_evidence(rows, exchanged), columns, direction)
