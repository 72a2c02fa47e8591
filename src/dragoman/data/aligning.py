"""Which source token each target token renders, learnt from nothing but pairs: IBM Model 1 (Brown et al. 1993), in both
directions, with the prior of Dyer et al. (2013), that a token is likelier rendered near its own place in the sentence.

A cell is a target token and a source token of one pair. Pairs of equal lengths share a block of cells (B, T, S), and
blocks follow one another in the same order in every pass, so the same corpus has the same links.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int32, Int64
from numpy.typing import NDArray

from dragoman.data.corpus import Rows
from dragoman.progress import Progress, silent

ITERATIONS = 5
"""Of expectation-maximisation; eight gained nothing (benchmarks/alignment.py)."""
TENSION, NO_SOURCE, SMOOTHING = 4.0, 0.08, 0.01
"""How fast the prior falls with distance, the prior share of tokens that render nothing, and what is added to every
count. The error hardly changes with half or twice of them."""
LEAST_PROBABLE = 1e-9
"""Probability of a couple that was never seen."""
SURE = 0.5
"""Least mean of both directions' probabilities from which tokens are linked."""
LONGEST = 512
"""Most tokens of a side; longer pairs are not linked."""
_CELLS = 1 << 18
"""Cells in a block, or one pair if it has more."""
_MOST_PAIRS, _MOST_CELLS = 1 << 20, 1 << 26
"""Most pairs and cells that are learnt from, spread over all; each cell takes four bytes of memory meanwhile."""


class Block(NamedTuple):
    """Pairs of equal lengths."""

    pairs: Int64[np.ndarray, "B"]
    source: Int64[np.ndarray, "B S"]
    target: Int64[np.ndarray, "B T"]


@dataclass
class Direction:
    """The probabilities of the tokens of one side, given those of the other or none."""

    axis: int
    """The axis of the cells along which a token finds what it renders: 2 for target tokens, 1 for source tokens."""
    given: Int32[np.ndarray, "C"]
    """Which token of the other side each couple has."""
    of_couples: Float64[np.ndarray, "C+1"]
    """Of the token of each couple, given that of the other side; the last is for couples that were never seen."""
    of_none: Float64[np.ndarray, "V"]
    """Of each token if it renders nothing."""

    def probabilities(
        self, places: Int32[np.ndarray, "B T S"], tokens: Int64[np.ndarray, "B X"]
    ) -> tuple[Float64[np.ndarray, "B T S"], Float64[np.ndarray, "B X"]]:
        """How probably each token renders each token of the other side, and none: the E-step (Brown et al. 1993, eq.
        17). Over both, the probabilities of a token sum to one.
        """
        cells = self.of_couples[places] * ((1 - NO_SOURCE) * _near(places.shape[1], places.shape[2], self.axis - 1))
        none = self.of_none[tokens] * NO_SOURCE
        sums = cells.sum(self.axis) + none
        return cells / np.expand_dims(sums, self.axis), none / sums

    def learn(self, of_couples: Float64[np.ndarray, "C+1"], of_none: Float64[np.ndarray, "V"]) -> None:
        """Takes the expected counts of couples, and of tokens that render nothing, for probabilities: the M-step."""
        sums = np.bincount(self.given, of_couples[:-1]) + SMOOTHING * len(of_none)
        self.of_couples[:-1] = (of_couples[:-1] + SMOOTHING) / sums[self.given]
        self.of_none = (of_none + SMOOTHING) / (of_none.sum() + SMOOTHING * len(of_none))


class Aligner:
    """What was learnt from pairs. `Aligner.of` learns; `links` says what each target token renders."""

    def __init__(self, couples: Int64[np.ndarray, "C"], source_vocabulary: int, target_vocabulary: int) -> None:
        """The C different couples of a source token and a target token, sorted: s * target_vocabulary + t."""
        self._couples, self._target_vocabulary = couples, target_vocabulary
        source, target = (part.astype(np.int32) for part in np.divmod(couples, target_vocabulary))
        self.forward, self.back = (
            Direction(axis, given, np.full(len(couples) + 1, LEAST_PROBABLE), np.full(tokens, 1 / tokens))
            for axis, given, tokens in ((2, source, target_vocabulary), (1, target, source_vocabulary))
        )
        for direction in (self.forward, self.back):
            direction.of_couples[:-1] = 1 / len(direction.of_none)

    @classmethod
    def of(cls, source: Rows, target: Rows, vocabularies: tuple[int, int], progress: Progress = silent) -> "Aligner":
        """Learns from the pairs of these rows, if there are very many from some that are spread over all."""
        blocks = [*_blocks(source, target, _some(source, target))]
        couples = np.unique(np.concatenate([[0], *(np.unique(_couples(block, vocabularies[1])) for block in blocks)]))
        aligner = cls(couples, *vocabularies)
        places = [aligner._places(block) for block in blocks]
        with progress.track("learn alignments", ITERATIONS, "passes") as advance:
            for _ in range(ITERATIONS):
                for direction in (aligner.forward, aligner.back):
                    counts, none = np.zeros_like(direction.of_couples), np.zeros_like(direction.of_none)
                    for block, place in zip(blocks, places, strict=True):
                        tokens = block.target if direction is aligner.forward else block.source
                        of_couples, of_none = direction.probabilities(place, tokens)
                        np.add.at(counts, place.ravel(), of_couples.ravel())
                        np.add.at(none, tokens.ravel(), of_none.ravel())
                    direction.learn(counts, none)
                advance(1)
        return aligner

    def links(self, block: Block) -> Int64[np.ndarray, "B T"]:
        """For each target token, the place of the source token that it renders, from 1; or 0 if there is none.

        Both directions are averaged: a link needs one of them to be sure, and the other not to deny it.
        """
        places = self._places(block)
        forward, _ = self.forward.probabilities(places, block.target)
        back, _ = self.back.probabilities(places, block.source)
        both = (forward + back) / 2
        return np.where(both.max(2) >= SURE, both.argmax(2) + 1, 0)

    def _places(self, block: Block) -> Int32[np.ndarray, "B T S"]:
        """Where the couple of each cell stands; the place behind all of one that was never seen."""
        wanted = _couples(block, self._target_vocabulary)
        places = np.searchsorted(self._couples, wanted).astype(np.int32)
        found: Bool[np.ndarray, "B T S"] = self._couples.take(places, mode="clip") == wanted
        return np.where(found, places, np.int32(len(self._couples)))


def link(source: Rows, target: Rows, vocabularies: tuple[int, int], progress: Progress = silent) -> NDArray[np.uint16]:
    """Links the tokens of all pairs. For each id of the target, laid end to end as they are: `Aligner.links`."""
    aligner = Aligner.of(source, target, vocabularies, progress)
    links = np.zeros(len(target.ids), np.uint16)
    pairs = len(target.offsets) - 1
    with progress.track("align", pairs, "pairs") as advance:
        for first in range(0, pairs, _MOST_PAIRS):
            for block in _blocks(source, target, np.arange(first, min(first + _MOST_PAIRS, pairs))):
                links[_rows_of(target, block.pairs, block.target.shape[1])] = aligner.links(block)
                advance(len(block.pairs))
    return links


def _some(source: Rows, target: Rows) -> Int64[np.ndarray, "P"]:
    """The pairs to learn from: all, or evenly spread ones."""
    pairs = np.arange(0, len(target.offsets) - 1, -(-(len(target.offsets) - 1) // _MOST_PAIRS) or 1)
    cells = int((np.minimum(source.lengths(pairs), LONGEST) * np.minimum(target.lengths(pairs), LONGEST)).sum())
    return pairs[:: -(-cells // _MOST_CELLS) or 1]


def _blocks(source: Rows, target: Rows, pairs: Int64[np.ndarray, "P"]) -> Iterator[Block]:
    """The pairs in blocks; those without a token on a side, and those that are too long, stand in none."""
    lengths = np.stack([target.lengths(pairs), source.lengths(pairs)])
    usable = (lengths.min(0) > 0) & (lengths.max(0) <= LONGEST)
    pairs, lengths = pairs[usable], lengths[:, usable]
    order = np.lexsort(lengths)
    pairs, lengths = pairs[order], lengths[:, order]
    edges = [0, *(np.flatnonzero(np.diff(lengths).any(0)) + 1).tolist(), len(pairs)]
    for first, last in pairwise(edges):
        written, read = lengths[:, first].tolist() if first < last else (1, 1)
        at_once = max(1, _CELLS // (written * read))
        for begin in range(first, last, at_once):
            some = pairs[begin : min(begin + at_once, last)]
            ids = (side.ids[_rows_of(side, some, size)] for side, size in ((source, read), (target, written)))
            yield Block(some, *(part.astype(np.int64) for part in ids))


def _rows_of(rows: Rows, pairs: Int64[np.ndarray, "B"], length: int) -> Int64[np.ndarray, "B X"]:
    """Where the ids of some rows of one length lie."""
    return rows.offsets[pairs][:, None] + np.arange(length)


def _couples(block: Block, target_vocabulary: int) -> Int64[np.ndarray, "B T S"]:
    return block.source[:, None, :] * target_vocabulary + block.target[:, :, None]


def _near(written: int, read: int, axis: int) -> Float64[np.ndarray, "T S"]:
    """The prior (Dyer et al. 2013, eq. 2) of pairs of these lengths; sums to one along an axis."""
    target, source = ((np.arange(length) + 0.5) / length for length in (written, read))
    near = np.exp(-TENSION * np.abs(target[:, None] - source))
    return near / near.sum(axis, keepdims=True)
