"""Statistics of the cells of a column, which show if it holds texts, labels, numbers or codes."""

import re
from collections import Counter
from collections.abc import Sequence
from statistics import mean
from typing import NamedTuple

from dragoman.languages import SPACELESS_CHARACTER

LEAST_ROWS = 20
"""Fewer rows say nothing about what they are."""
MOST_LABELS = 0.1
"""The largest number of labels, as a share of the rows, where it is guessed that they are labels."""
MOST_SINGLE = 0.02
"""The largest share of rows with a value of their own, where values are labels. In running text, more lines begin with
a word that no other line begins with."""
FEW_ROWS = 20
"""This many rows may have a label of their own in any case, because small sets have rare labels."""
LONG_WORDS = 3.0
"""A column with more words a cell, on average, holds texts; one with fewer may hold labels."""


class Statistics(NamedTuple):
    """Counts and averages of some cells of a column."""

    counts: Counter[str]
    """The number of rows with each value, without empty cells."""
    words: float
    """In a cell, on average."""
    characters: float

    @property
    def rows(self) -> int:
        return self.counts.total()

    @property
    def distinct(self) -> int:
        return len(self.counts)

    @property
    def is_numeric(self) -> bool:
        """True if every cell holds digits and no letters, as numbers, dates and times do."""
        return all(any(map(str.isdigit, cell)) and not any(map(str.isalpha, cell)) for cell in self.counts)

    @property
    def are_numbers(self) -> bool:
        """True if there are at least three cells, all numeric."""
        return self.rows > 2 and self.is_numeric

    @property
    def are_no_texts(self) -> bool:
        """True if there are no cells, or they hold numbers, dates, ids, addresses, or few different values."""
        names = sum(" " not in cell and re.search(r"[\d/_]", cell) is not None for cell in self.counts)
        few = self.rows > 2 and self.distinct <= max(1, MOST_LABELS * self.rows)
        return self.is_numeric or few or names >= 0.9 * self.distinct

    @property
    def may_be_labels(self) -> bool:
        """True if there are few different values, and short ones."""
        return self.distinct <= max(2, self.rows // 2) and self.words <= LONG_WORDS

    @property
    def are_phrases(self) -> bool:
        """True if most values are different and hold several words, as texts, translations and titles do."""
        return self.words > 1 and 2 * self.distinct > self.rows and not self.is_numeric

    @property
    def are_texts(self) -> bool:
        """True if the values are phrases, and long."""
        return self.words > LONG_WORDS and self.are_phrases

    def may_join(self, text: "Statistics") -> bool:
        """Return True if these are texts to learn from too: of words, not of dates, and mostly different ones."""
        visible = "".join("".join(self.counts).split())
        letters = sum(map(str.isalpha, visible))
        return (
            2 * self.words > min(text.words, 2 * LONG_WORDS)
            and self.distinct > MOST_LABELS * self.rows
            and self.words > 1
            and 2 * letters > len(visible)
        )


def measure(rows: Sequence[Sequence[str]], at: int) -> Statistics:
    """Return the statistics of the column at a position."""
    cells = [text for row in rows if at < len(row) and (text := row[at].strip())] or [""]
    return Statistics(Counter(filter(None, cells)), mean(map(count_words, cells)), mean(map(len, cells)))


def count_words(text: str) -> float:
    """Return the number of words of a text. In scripts without spaces, two characters count as one.

    >>> count_words("I like it."), count_words("我喜欢寿司")
    (3.0, 2.5)
    """
    spaced, characters = SPACELESS_CHARACTER.subn(" ", text)
    return len(spaced.split()) + characters / 2


def few_single(counts: Counter[str], in_any_case: int = FEW_ROWS) -> bool:
    """Return True if few rows have a value of their own, as is usual for labels.

    >>> few_single(Counter(spam=5_000, rare=1)), few_single(Counter(f"label {row}" for row in range(100)))
    (True, False)
    """
    single = sum(count == 1 for count in counts.values())
    return single <= max(in_any_case, MOST_SINGLE * counts.total())
