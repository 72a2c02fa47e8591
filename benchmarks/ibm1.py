"""IBM Model 1 (Brown et al. 1993): the classic word aligner, learned from nothing but sentences and their translations.

It takes every target word as the translation of one source word of its sentence, or of the empty word NULL, and all of
these as equally likely before it sees the words. Training finds the probabilities t(target word | source word) that
make a corpus most likely, by expectation-maximisation.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int32, Int64

from dragoman.errors import DataError
from dragoman.inference.alignment import Links, split_words

NULL = ""
"""The empty word, which stands in every source sentence; target words without a counterpart come from it."""
_CELLS = 1 << 20
"""How many cells are worked on at a time, or one sentence pair if it has more. A cell is a source word and a target
word of one sentence pair."""


@dataclass(frozen=True)
class Model1:
    """t(target word | source word), for the C different couples of words that stood in one sentence pair."""

    couples: Int64[np.ndarray, "C"] = field(repr=False)
    """Sorted numbers of couples: the number of the source word times the number of target words, plus that of the
    target word."""
    probability: Float64[np.ndarray, "C"] = field(repr=False)
    source: dict[str, int] = field(repr=False)
    """The number of each source word, in lower case. NULL is number 0."""
    target: dict[str, int] = field(repr=False)

    def t(self, target: str, source: str = NULL) -> float:
        """t(target word | source word); 0 if they never stood in one sentence pair."""
        row, column = self.source.get(source.lower()), self.target.get(target.lower())
        if row is None or column is None:
            return 0.0
        couple = row * len(self.target) + column
        place = int(np.searchsorted(self.couples, couple))
        return float(self.probability[place]) if place < len(self.couples) and self.couples[place] == couple else 0.0

    def align(self, source: Sequence[str], target: Sequence[str]) -> Links:
        """The most probable alignment of a sentence pair: links each target word to its likeliest source word.

        A word that is likelier to come from NULL, or was never seen in training, stays without a link.
        """
        links = set()
        for place, word in enumerate(target):
            chances = [self.t(word, each) for each in source]
            if chances and max(chances) > self.t(word):
                links.add((chances.index(max(chances)), place))
        return frozenset(links)


def train_model1(pairs: Iterable[tuple[str, str]], iterations: int = 5) -> Model1:
    """Trains on sentence pairs, by the lower-cased words of `split_words`; all t are equal at first.

    Time grows with the sum of source length times target length. Memory grows only with the text and the number of
    different couples of words. Pairs with a blank side teach nothing and are passed over.

    Raises:
        DataError: no pair has words on both sides.
    """
    text = _Text.of(pairs)
    couples = np.empty(0, np.int64)
    for cells in text.cells():
        couples = np.union1d(couples, cells.couples)
    row_starts = np.flatnonzero(np.diff(couples // len(text.target), prepend=-1))
    row_sizes = np.diff(row_starts, append=len(couples))
    probability = np.full(len(couples), 1 / len(text.target))
    for _ in range(iterations):
        counts = _expected_counts(text, couples, probability)
        probability = counts / np.repeat(np.add.reduceat(counts, row_starts), row_sizes)
    return Model1(couples, probability, text.source, text.target)


class _Cells(NamedTuple):
    """The cells of some sentence pairs: for each target word in turn, one with every word of its source."""

    couples: Int64[np.ndarray, "X"]
    source_lengths: Int64[np.ndarray, "N"]
    """How many cells each target word has."""


def _expected_counts(
    text: "_Text", couples: Int64[np.ndarray, "C"], probability: Float64[np.ndarray, "C"]
) -> Float64[np.ndarray, "C"]:
    """How often each couple is expected to be a translation: the E-step (Brown et al. 1993, eq. 17)."""
    counts = np.zeros(len(couples))
    for cells in text.cells():
        places = np.searchsorted(couples, cells.couples)
        chances = probability[places]
        starts = cells.source_lengths.cumsum() - cells.source_lengths
        shares = chances / np.repeat(np.add.reduceat(chances, starts), cells.source_lengths)
        counts += np.bincount(places, shares, minlength=len(couples))
    return counts


@dataclass(frozen=True)
class _Text:
    """A corpus as numbers of words: B sentence pairs, M source and N target words laid end to end."""

    source_words: Int32[np.ndarray, "M"]
    """Every sentence begins with NULL."""
    target_words: Int32[np.ndarray, "N"]
    source_lengths: Int64[np.ndarray, "B"]
    target_lengths: Int64[np.ndarray, "B"]
    source: dict[str, int]
    target: dict[str, int]

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> "_Text":
        vocabularies: tuple[dict[str, int], dict[str, int]] = {NULL: 0}, {}
        words, lengths = (array("i"), array("i")), (array("q"), array("q"))
        for pair in pairs:
            sides = [split_words(text.lower()) for text in pair]
            if all(sides):
                sides[0].insert(0, NULL)
                for side, vocabulary, numbers, length in zip(sides, vocabularies, words, lengths, strict=True):
                    numbers.extend(vocabulary.setdefault(word, len(vocabulary)) for word in side)
                    length.append(len(side))
        if not lengths[0]:
            raise DataError("no pair of sentences has words on both sides; there is nothing to learn alignments from")
        sides = [np.array(side) for side in (*words, *lengths)]
        return cls(sides[0], sides[1], sides[2], sides[3], *vocabularies)

    def cells(self) -> Iterator[_Cells]:
        """The cells of all sentence pairs, in blocks of about `_CELLS`."""
        block = np.cumsum(self.source_lengths * self.target_lengths) // _CELLS
        edges = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), len(block)]
        source_ends, target_ends = (
            np.append(0, lengths.cumsum()) for lengths in (self.source_lengths, self.target_lengths)
        )
        for first, last in pairwise(edges):
            yield self._cells_of(
                self.source_words[source_ends[first] : source_ends[last]],
                self.target_words[target_ends[first] : target_ends[last]],
                self.source_lengths[first:last],
                self.target_lengths[first:last],
            )

    def _cells_of(
        self,
        source_words: Int32[np.ndarray, "M"],
        target_words: Int32[np.ndarray, "N"],
        source_lengths: Int64[np.ndarray, "B"],
        target_lengths: Int64[np.ndarray, "B"],
    ) -> _Cells:
        sizes = np.repeat(source_lengths, target_lengths)  # (N,): cells of each target word
        source_starts = np.repeat(source_lengths.cumsum() - source_lengths, target_lengths)
        cell_starts = sizes.cumsum() - sizes
        source_places = np.arange(sizes.sum()) + np.repeat(source_starts - cell_starts, sizes)
        rows = source_words[source_places].astype(np.int64)
        return _Cells(rows * len(self.target) + np.repeat(target_words, sizes), sizes)
