"""Finds rows whose sides do not belong together, by the text itself: no list, no model, no download.

`AlignmentDetector` finds rows that are shifted, or no translations of each other at all. Each target is compared with
its own source, with the sources of both neighbours, and with two unrelated sources some rows away. The evidence is
length (a long sentence has a long translation) and what translations share: names, numbers, words of both languages,
question marks. It is summed up row by row (CUSUM, Page 1954), which finds a stretch wherever it begins, even near the
end of a file.

`learn_evidence` counts the words of both sides, to find rows with the wrong language on a side. A word that is nearly
always on one side is evidence for its language. A row was exchanged if its words are evidence for the opposite sides;
it holds one language twice if both sides are evidence for the same one.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from dragoman.languages import SPACELESS

EXCHANGED = "rows whose sides look exchanged"
ONE_LANGUAGE = "rows that look like one language on both sides"

LEARN_ROWS = 10_000
"""The number of rows, from the first of the training text, whose words are counted."""
_ROUNDS = 5
LONGEST = 12
"""The number of words of a side, from the first, that are looked at."""
_LEAST_OFTEN = 5
"""Occurrences of a word that make it evidence."""
CLEAR = 6.0
"""Nats by which one side must be more probable for a text, over all its words."""

_IN_CHARACTERS = re.compile(f"[{SPACELESS}\uac00-\ud7a3]")
"""Scripts of which each character is looked at, because a word of them seldom returns."""

Words = Sequence[str]


class Misalignment(NamedTuple):
    """Rows whose targets fit the source of the row before (-1) or after (+1) better than their own, or none (0)."""

    origin: str
    """The place of the first row, within a few rows."""
    first: int
    rows: int
    offset: int

    def __str__(self) -> str:
        where = {
            1: "each target fits the source of the row after it",
            -1: "each target fits the source of the row before it",
            0: "the targets fit unrelated sources as well as their own",
        }[self.offset]
        return f"{self.origin}: from about here {self.rows:,} rows look misaligned: {where}"


class _RowFeatures(NamedTuple):
    source_length: int
    target_length: int
    source_marks: set[str]
    target_marks: set[str]
    """Words and question marks, which a translation often shares with its source."""
    origin: str


class AlignmentDetector:
    """Detector of stretches of rows that look misaligned, in windows of rows.

    Texts without evidence pass, such as a list of sentences of nearly equal length.
    """

    WINDOW = 200
    SMALLEST = 50
    """Texts of fewer rows are not judged."""
    UNRELATED = (17, -23)
    """Rows between a target and the two unrelated sources that it is compared with."""

    def __init__(self) -> None:
        self._rows: list[_RowFeatures] = []
        self._judged = 0
        """The number of rows that were judged. They are kept because the next rows are compared with them."""
        self._before = 0
        """The number of earlier rows that are no longer kept."""
        self._suspicions = [_Suspicion(offset) for offset in (1, -1, 0)]

    def add(self, source: str, target: str, words: Sequence[Words], origin: str) -> None:
        self._rows.append(
            _RowFeatures(len(source), len(target), _marks(source, words[0]), _marks(target, words[1]), origin)
        )
        if len(self._rows) - self._judged > self.WINDOW:  # one more, to compare the last of the window with
            self._judge(len(self._rows) - 1)
            done = len(self._rows) - 1 - self.WINDOW
            del self._rows[:done]
            self._before += done
            self._judged = self.WINDOW

    def finish(self) -> list[Misalignment]:
        """Return all stretches, in order."""
        if len(self._rows) >= self.SMALLEST:
            self._judge(len(self._rows))
        after, before, unrelated = (suspicion.finish() for suspicion in self._suspicions)
        shifted = after + before
        unrelated = [stretch for stretch in unrelated if not _covered(stretch, shifted)]
        return sorted(shifted + unrelated, key=lambda stretch: stretch.first)

    def _judge(self, end: int) -> None:
        """Judge the rows up to `end` that were not judged before."""
        window = _Window(self._rows, self.WINDOW + 1)
        rows = range(self._judged, end)
        own, after, before, *others = (window.fit(rows, offset) for offset in (0, 1, -1, *self.UNRELATED))
        unrelated = np.maximum(*others)
        usual = np.maximum(own, unrelated)
        against_own = unrelated - own if window.lengths_differ else np.zeros(len(rows))
        origins = [row.origin for row in self._rows[self._judged : end]]
        for suspicion, evidence in zip(self._suspicions, (after - usual, before - usual, against_own), strict=True):
            suspicion.add(evidence.tolist(), self._before + self._judged, origins)


class _Window:
    """Some hundred consecutive rows, with lengths and words that are usual in the last of them."""

    MOST_SHARED = 6 * 64
    """Shared marks count for 6 nats at most, because near repetitions share many."""

    def __init__(self, rows: Sequence[_RowFeatures], usual: int) -> None:
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
        self.lengths_differ = 2 * min(spread) > float(np.median(self._related[-usual:]))
        """True if lengths differ enough for a translation to fit its source clearly better than an unrelated one."""
        counts = Counter(chain.from_iterable(self._sources[-usual:] + self._targets[-usual:]))
        # In 64ths, whose sums are exact, because sets have another order in each process.
        most = math.log(2 * min(usual, len(rows))) - 1
        weights = {count: max(0, round(64 * (most - math.log(count)))) for count in set(counts.values())}
        self._rarity = {mark: weights[count] for mark, count in counts.items()}

    def fit(self, rows: range, offset: int) -> np.ndarray:
        """Return the nats by which each row's target fits the source `offset` rows later better than any source."""
        sources = [row + offset if 0 <= row + offset < len(self._sources) else row - offset for row in rows]
        gap = (self._target[rows] - self._source[sources] - self._ratio) ** 2
        related, unrelated = self._related[rows], self._unrelated[rows]
        ratio = np.sqrt(unrelated / related) * np.exp(gap / 2 / unrelated - gap / 2 / related)
        shared = map(set.intersection, map(self._sources.__getitem__, sources), self._targets[rows.start : rows.stop])
        marks = [min(self.MOST_SHARED, sum(map(self._rarity.__getitem__, row))) if row else 0 for row in shared]
        return np.log(0.1 + 0.9 * ratio) + np.array(marks) / 64


class _Suspicion:
    """One way in which rows may be misaligned, and the evidence for it, summed up while it lasts."""

    CLEAR = 20.0
    """The least sum of evidence, in nats, that is not random; aligned text of all kinds reached 8 at most."""
    SHORTEST = 20
    """Shorter stretches are ignored, because translators merge and split sentences."""
    GAP = 100
    """Two stretches with fewer fitting rows between them are one."""

    def __init__(self, offset: int) -> None:
        self._offset = offset
        self._stretches: list[Misalignment] = []
        self._reset()

    def add(self, evidence: Sequence[float], first: int, origins: Sequence[str]) -> None:
        """Add the evidence of the next rows; `first` is the number of the first of them."""
        for row, nats in enumerate(evidence):
            if self._sum == 0:
                if nats <= 0:
                    continue
                self._first, self._origin = first + row, origins[row]
            self._sum += nats
            if self._sum > self._peak:
                self._peak, self._last = self._sum, first + row
            elif self._sum <= 0 or self._peak - self._sum > self.CLEAR:  # the rows fit again
                self._close()

    def finish(self) -> list[Misalignment]:
        self._close()
        return self._stretches

    def _close(self) -> None:
        rows = self._last - self._first + 1
        if self._peak > self.CLEAR and rows >= self.SHORTEST:
            last = self._stretches[-1] if self._stretches else None
            if last and self._first - (last.first + last.rows) < self.GAP:
                self._stretches[-1] = last._replace(rows=self._last + 1 - last.first)
            else:
                self._stretches.append(Misalignment(self._origin, self._first, rows, self._offset))
        self._reset()

    def _reset(self) -> None:
        self._sum = self._peak = 0.0
        self._first = self._last = 0
        self._origin = ""


def _marks(text: str, words: Sequence[str]) -> set[str]:
    return {*words, "?"} if "?" in text else {*words}


def _covered(stretch: Misalignment, others: Sequence[Misalignment]) -> bool:
    """Return True if others cover most rows of a stretch."""
    end = stretch.first + stretch.rows
    covered = sum(max(0, min(end, known.first + known.rows) - max(stretch.first, known.first)) for known in others)
    return 2 * covered >= stretch.rows


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, most without punctuation; in Korean and scripts without spaces, its
    characters.

    >>> words_of("Come in, Tom!"), words_of("你好")
    (['come', 'in', 'tom'], ['你', '好'])
    """
    words = text.lower().replace(".", " ").replace(",", " ").replace("?", " ").replace("!", " ").split()
    if text.isascii() or not _IN_CHARACTERS.search(text):
        return words
    return [part for word in words for part in (word if _IN_CHARACTERS.search(word) else [word])]


class WordEvidence:
    """The evidence of each word, in nats: above zero for the source, below zero for the target."""

    def __init__(self, nats: dict[str, float]) -> None:
        self._nats = nats

    def verdict(self, source: Words, target: Words) -> str | None:
        """Return what looks wrong with the languages of a row, or None.

        >>> WordEvidence({"the": 3.0, "dog": 3.0, "il": -3.0, "cane": -3.0}).verdict(["il", "cane"], ["the", "dog"])
        'rows whose sides look exchanged'
        """
        leans = self.lean(source), self.lean(target)
        if leans[0] < 0 < leans[1] and leans[1] - leans[0] >= 2 * CLEAR:
            return EXCHANGED
        return ONE_LANGUAGE if min(leans) >= CLEAR or max(leans) <= -CLEAR else None

    def lean(self, words: Words) -> float:
        """Return the nats by which the words are more probable on the source side."""
        return sum(filter(None, map(self._nats.get, words[:LONGEST])))


def learn_evidence(rows: Sequence[Sequence[Words]], exchanged: Sequence[bool | None] | None = None) -> WordEvidence:
    """Count words on both sides in a few rounds; each round exchanges the rows that looked exchanged before.

    The first round exchanges the rows that are known to be `exchanged`, and leaves out those that may be (None). Where
    nothing is known and many rows are exchanged, each word is weak evidence at first, and stronger in each round.
    """
    looks_exchanged: Sequence[bool | None] = exchanged or [False] * len(rows)
    nats: dict[str, float] = {}
    for _ in range(_ROUNDS):
        sources, targets = Counter[str](), Counter[str]()
        for (source, target), is_exchanged in zip(rows, looks_exchanged, strict=True):
            if is_exchanged is not None:
                (targets if is_exchanged else sources).update(source)
                (sources if is_exchanged else targets).update(target)
        balance = math.log((targets.total() + 1) / (sources.total() + 1))
        nats = {
            word: max(-3.0, min(3.0, math.log((sources[word] + 0.5) / (targets[word] + 0.5)) + balance))
            for word in sources.keys() | targets.keys()
            if sources[word] + targets[word] >= _LEAST_OFTEN
        }
        evidence = WordEvidence(nats)
        looks_exchanged = [evidence.lean(source) - evidence.lean(target) < -1 for source, target in rows]
    return WordEvidence({word: value for word, value in nats.items() if abs(value) > 1})
