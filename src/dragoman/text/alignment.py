"""Finds rows whose two sides do not belong together: shifted by a row, or no translations of each other at all.

Each target is compared with its own source, with the sources of both neighbours, and with those of two strangers some
rows away. The evidence is length (a long sentence has a long translation) and what translations share: names, numbers,
words of both languages, question marks. It is summed up block by block. Knows nothing of files.
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np


class Misalignment(NamedTuple):
    """Rows whose targets fit the source of the row before (-1) or after (+1) better than their own, or none (0)."""

    origin: str
    """Where it begins, within a few rows."""
    first: int
    rows: int
    offset: int

    def __str__(self) -> str:
        where = {
            1: "each target fits the source of the row after it",
            -1: "each target fits the source of the row before it",
            0: "the targets fit strangers' sources as well as their own",
        }[self.offset]
        return f"{self.origin}: from about here {self.rows:,} rows look misaligned: {where}"


class _Row(NamedTuple):
    source_length: int
    target_length: int
    source_marks: set[str]
    target_marks: set[str]
    """What a translation often shares with its source: words and question marks."""
    origin: str


class AlignmentDetector:
    """Looks for stretches of rows that look misaligned, block by block. It finds stretches of a hundred rows, and often
    shorter ones.

    Texts without evidence pass, such as a list of sentences of nearly equal length.
    """

    WINDOW = 200
    """Rows that are judged together; what is usual is taken from them."""
    BLOCK = 50
    """Rows whose evidence is summed up."""
    GAP = 100
    """Two stretches with at most so many rows between them are one."""
    SMALLEST = 50
    """Texts of fewer rows are not judged."""
    STRANGERS = (17, -23)
    """How many rows away the strangers are."""
    CLEAR = 10.0
    """The sum of evidence of a block, in nats, that is no accident; in aligned text of all kinds no sum of consecutive
    rows was above 8."""

    def __init__(self) -> None:
        self._rows: list[_Row] = []
        self._judged = 0
        """How many of the rows were judged. They are kept because the next rows are compared with them."""
        self._before = 0
        """How many earlier rows are no longer kept."""
        self._found: list[Misalignment] = []

    def see(self, source: str, target: str, words: tuple[Sequence[str], Sequence[str]], origin: str) -> None:
        self._rows.append(_Row(len(source), len(target), _marks(source, words[0]), _marks(target, words[1]), origin))
        if len(self._rows) - self._judged > self.WINDOW:  # one more, to compare the last of the window with
            self._judge(len(self._rows) - 1)
            done = len(self._rows) - 1 - self.WINDOW
            del self._rows[:done]
            self._before += done
            self._judged = self.WINDOW

    def finish(self) -> list[Misalignment]:
        """All stretches found, in order."""
        if len(self._rows) >= self.SMALLEST:
            self._judge(len(self._rows))
        return self._found

    def _judge(self, end: int) -> None:
        """Judges the rows up to `end` that were not judged before."""
        window = _Window(self._rows, self.WINDOW + 1)
        rows = range(self._judged, end)
        own, after, before, one, other = (window.fit(rows, offset) for offset in (0, 1, -1, *self.STRANGERS))
        strange = np.maximum(one, other)
        usual = np.maximum(own, strange)
        evidence = {1: after - usual, -1: before - usual, 0: strange - own if window.tells else np.zeros(len(rows))}
        for first in range(0, len(rows), self.BLOCK):
            sums = {offset: each[first : first + self.BLOCK].sum() for offset, each in evidence.items()}
            slid = 1 if sums[1] > sums[-1] else -1
            offset = slid if sums[slid] > self.CLEAR else 0
            if sums[offset] > self.CLEAR:
                self._add(rows[first : first + self.BLOCK], offset)

    def _add(self, block: range, offset: int) -> None:
        """Adds a block, or extends the stretch before it if few rows lie between them. In a stretch that slid, some
        blocks show only that their sides are strangers.
        """
        first = self._before + block.start
        if self._found:
            last = self._found[-1]
            if last.offset * offset >= 0 and first - (last.first + last.rows) <= self.GAP:
                self._found[-1] = last._replace(rows=first + len(block) - last.first, offset=last.offset or offset)
                return
        self._found.append(Misalignment(self._rows[block.start].origin, first, len(block), offset))


class _Window:
    """Some hundred consecutive rows, and what is usual among the last of them."""

    MOST_SHARED = 6 * 64
    """Shared marks count for 6 nats at most, because near repetitions share many."""

    def __init__(self, rows: Sequence[_Row], usual: int) -> None:
        self._sources = [row.source_marks for row in rows]
        self._targets = [row.target_marks for row in rows]
        lengths = np.array([row[:2] for row in rows], np.float64)
        self._source, self._target = np.log1p(lengths).T
        # Variances of the logarithm of the ratio of lengths. That of translations was measured on real text (captions,
        # a novel, manuals, single sentences); it is larger in short ones. The other is of unrelated sentences.
        self._related = 0.015 + 1 / np.maximum(lengths.mean(axis=1), 5)
        source, target = self._source[-usual:], self._target[-usual:]
        self._ratio = float(target.mean() - source.mean())
        spread = float(source.var()), float(target.var())
        self._unrelated = np.maximum(sum(spread), self._related)
        self.tells = 2 * min(spread) > float(np.median(self._related[-usual:]))
        """Whether lengths differ enough for a translation to fit its source clearly better than a stranger."""
        counts = Counter(chain.from_iterable(self._sources[-usual:] + self._targets[-usual:]))
        # In 64ths, whose sums are exact, because sets have another order in each process.
        most = math.log(2 * min(usual, len(rows))) - 1
        weights = {count: max(0, round(64 * (most - math.log(count)))) for count in set(counts.values())}
        self._rarity = {mark: weights[count] for mark, count in counts.items()}

    def fit(self, rows: range, offset: int) -> np.ndarray:
        """By how many nats each row's target fits the source `offset` rows on better than any source."""
        sources = [row + offset if 0 <= row + offset < len(self._sources) else row - offset for row in rows]
        gap = (self._target[rows] - self._source[sources] - self._ratio) ** 2
        related, unrelated = self._related[rows], self._unrelated[rows]
        ratio = np.sqrt(unrelated / related) * np.exp(gap / 2 / unrelated - gap / 2 / related)
        shared = map(set.intersection, map(self._sources.__getitem__, sources), self._targets[rows.start : rows.stop])
        marks = [min(self.MOST_SHARED, sum(map(self._rarity.__getitem__, each))) if each else 0 for each in shared]
        return np.log(0.1 + 0.9 * ratio) + np.array(marks) / 64


def _marks(text: str, words: Sequence[str]) -> set[str]:
    marks = set(words)
    if "?" in text:
        marks.add("?")
    return marks
