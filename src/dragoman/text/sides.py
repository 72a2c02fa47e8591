"""Finds rows with the wrong language on a side, by the words of the text itself: no list, no model, no download.

`learn_sides` counts the words of both sides. A word that is nearly always on one side is evidence for its language. A
row whose words speak for the opposite sides was exchanged; one whose sides speak for the same holds one language twice.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

EXCHANGED = "rows whose sides look exchanged"
ONE_LANGUAGE = "rows that look like one language on both sides"

LEARN_ROWS = 10_000
"""The number of rows, from the first of the training text, whose words are counted."""
_ROUNDS = 5
_LONGEST = 12
"""The number of words of a side, from the first, that are looked at."""
_SEEN = 5
"""How often a word must occur to count as evidence."""
_CLEAR = 6.0
"""By how many nats one side must be more probable for a text, over all its words."""

Words = Sequence[str]


def words_of(text: str) -> list[str]:
    """The words of a text in lower case, most without punctuation; in Chinese, Japanese and Korean, its characters.

    >>> words_of("Come in, Tom!"), words_of("你好")
    (['come', 'in', 'tom'], ['你', '好'])
    """
    words = text.lower().replace(".", " ").replace(",", " ").replace("?", " ").replace("!", " ").split()
    if text.isascii() or not words or max(text) < "\u2e80":
        return words
    return [part for word in words for part in (word if max(word) >= "\u2e80" else [word])]


class Sides:
    """The evidence of each word, in nats: above zero for the source, below zero for the target."""

    def __init__(self, telling: dict[str, float]) -> None:
        self._telling = telling

    def verdict(self, source: Words, target: Words) -> str | None:
        """What looks wrong with the languages of a row, or None.

        >>> Sides({"the": 3.0, "dog": 3.0, "il": -3.0, "cane": -3.0}).verdict(["il", "cane"], ["the", "dog"])
        'rows whose sides look exchanged'
        """
        one, other = self._side(source), self._side(target)
        if one < 0 < other:
            return EXCHANGED
        return ONE_LANGUAGE if one * other > 0 else None

    def _side(self, words: Words) -> int:
        """1 if the words are clearly of the source's language, -1 if of the target's, 0 if neither."""
        total = self.lean(words)
        return 0 if abs(total) < _CLEAR else 1 if total > 0 else -1

    def lean(self, words: Words) -> float:
        """By how many nats the words are more probable on the source side."""
        return sum(filter(None, map(self._telling.get, words[:_LONGEST])))


def learn_sides(pairs: Iterable[tuple[Words, Words]]) -> Sides:
    """Counts words on both sides in a few rounds; each round exchanges the rows that looked exchanged before.

    If many rows are exchanged, each word is weak evidence at first, and stronger evidence in each round.
    """
    rows = _held(islice(pairs, LEARN_ROWS))
    telling: dict[str, float] = {}
    for _ in range(_ROUNDS):
        sides = Sides(telling)
        counts = Counter[str](), Counter[str]()
        for source, target in rows:
            exchanged = sides.lean(source) - sides.lean(target) < -1
            counts[exchanged].update(source)
            counts[not exchanged].update(target)
        telling = _told(*counts)
    return Sides({word: value for word, value in telling.items() if abs(value) > 1})


def _held(pairs: Iterable[tuple[Words, Words]]) -> list[tuple[Words, Words]]:
    """The beginnings of all rows; equal words share memory."""
    once: dict[str, str] = {}
    return [
        (
            [once.setdefault(word, word) for word in source[:_LONGEST]],
            [once.setdefault(word, word) for word in target[:_LONGEST]],
        )
        for source, target in pairs
    ]


def _told(source: Counter[str], target: Counter[str]) -> dict[str, float]:
    """By how many nats each word is more probable on the source side."""
    balance = math.log((target.total() + 1) / (source.total() + 1))
    return {
        word: max(-3.0, min(3.0, math.log((source[word] + 0.5) / (target[word] + 0.5)) + balance))
        for word in source.keys() | target.keys()
        if source[word] + target[word] >= _SEEN
    }
