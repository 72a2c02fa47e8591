"""Word alignment of sentence pairs without supervision: IBM Model 1 (Brown et al. 1993), in both directions, with the
prior of Dyer et al. (2013) that aligned tokens have similar positions in their sentences.

A cell is a target token and a source token of one sentence pair. Sentence pairs of equal lengths share a block of cells
(B, T, S). Blocks have the same order in every pass, so the same corpus has the same links.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dragoman.data.corpus import PackedIds
from dragoman.progress import Progress, silent
from dragoman.shapes import Bool, Float64, Int32, Int64

ITERATIONS = 5
"""Iterations of expectation-maximisation; eight gained nothing (benchmarks/alignment.py)."""
TENSION, NO_SOURCE, SMOOTHING = 4.0, 0.08, 0.01
"""Decay of the prior with distance, prior probability of an unaligned token, and the constant added to every count. The
error hardly changes with half or twice these values."""
LEAST_PROBABLE = 1e-9
"""Probability of a token pair that never occurred."""
SURE = 0.5
"""Minimum mean of both directions' probabilities for a link."""
LONGEST = 512
"""Maximum tokens per side; longer sentence pairs are not linked."""
_CELLS = 1 << 18
"""Maximum cells in a block of more than one sentence pair."""
_MOST_PAIRS, _MOST_CELLS = 1 << 20, 1 << 26
"""Maximum sentence pairs and cells to learn from, evenly spread; a cell takes four bytes of memory during learning."""


class PairBlock(NamedTuple):
    """Sentence pairs of equal lengths."""

    pairs: Int64[np.ndarray, "B"]
    source: Int64[np.ndarray, "B S"]
    target: Int64[np.ndarray, "B T"]


@dataclass
class Direction:
    """The probabilities of the tokens of one side, given a token of the other side, or none."""

    axis: int
    """Axis of the cells along which a token is aligned: 2 for target tokens, 1 for source tokens."""
    condition: Int32[np.ndarray, "C"]
    """The other side's token of every token pair."""
    pair_probabilities: Float64[np.ndarray, "C+1"]
    """P(token | condition) of every token pair; the last is for token pairs that never occurred."""
    empty_probabilities: Float64[np.ndarray, "V"]
    """Probability of every token if it is unaligned."""

    def probabilities(
        self, indices: Int32[np.ndarray, "B T S"], tokens: Int64[np.ndarray, "B X"]
    ) -> tuple[Float64[np.ndarray, "B T S"], Float64[np.ndarray, "B X"]]:
        """Return the probability that a token is aligned to each token of the other side, and to none: the E-step
        (Brown et al. 1993, eq. 17). Over both, the probabilities of a token sum to one.
        """
        # the prior of Dyer et al. (2013, eq. 2) for sentences of these lengths
        target, source = ((np.arange(length) + 0.5) / length for length in indices.shape[1:])
        near = np.exp(-TENSION * np.abs(target[:, None] - source))
        prior = (1 - NO_SOURCE) * (near / near.sum(self.axis - 1, keepdims=True))
        cells = self.pair_probabilities[indices] * prior
        empty = self.empty_probabilities[tokens] * NO_SOURCE
        sums = cells.sum(self.axis) + empty
        return cells / np.expand_dims(sums, self.axis), empty / sums

    def update(self, pair_counts: Float64[np.ndarray, "C+1"], empty_counts: Float64[np.ndarray, "V"]) -> None:
        """Estimate the probabilities from expected counts of token pairs and of unaligned tokens: the M-step."""
        sums = np.bincount(self.condition, pair_counts[:-1]) + SMOOTHING * len(empty_counts)
        self.pair_probabilities[:-1] = (pair_counts[:-1] + SMOOTHING) / sums[self.condition]
        self.empty_probabilities = (empty_counts + SMOOTHING) / (empty_counts.sum() + SMOOTHING * len(empty_counts))


class Aligner:
    """An alignment model. `Aligner.learn` estimates it; `links` aligns sentence pairs."""

    def __init__(self, token_pairs: Int64[np.ndarray, "C"], source_vocabulary: int, target_vocabulary: int) -> None:
        """Create a uniform model for C different pairs (s, t) of a source and a target token, which are given sorted,
        as s * target_vocabulary + t.
        """
        self._token_pairs, self._target_vocabulary = token_pairs, target_vocabulary
        source, target = (part.astype(np.int32) for part in np.divmod(token_pairs, target_vocabulary))
        self.forward, self.back = (
            Direction(axis, condition, np.full(len(token_pairs) + 1, LEAST_PROBABLE), np.full(tokens, 1 / tokens))
            for axis, condition, tokens in ((2, source, target_vocabulary), (1, target, source_vocabulary))
        )
        for direction in (self.forward, self.back):
            direction.pair_probabilities[:-1] = 1 / len(direction.empty_probabilities)

    @classmethod
    def learn(
        cls, source: PackedIds, target: PackedIds, vocabularies: tuple[int, int], progress: Progress = silent
    ) -> "Aligner":
        """Learn from the sentence pairs of these rows, or from an evenly spread part of them if there are very many."""
        blocks = [*_blocks(source, target, _sample(source, target))]
        token_pairs = np.unique(
            np.concatenate([[0], *(np.unique(_token_pairs(block, vocabularies[1])) for block in blocks)])
        )
        aligner = cls(token_pairs, *vocabularies)
        indices = [aligner._indices(block) for block in blocks]
        with progress.track("learn alignments", ITERATIONS, "passes") as advance:
            for _ in range(ITERATIONS):
                for direction in (aligner.forward, aligner.back):
                    pair_counts = np.zeros_like(direction.pair_probabilities)
                    empty_counts = np.zeros_like(direction.empty_probabilities)
                    for block, index in zip(blocks, indices, strict=True):
                        tokens = block.target if direction is aligner.forward else block.source
                        cells, empty = direction.probabilities(index, tokens)
                        np.add.at(pair_counts, index.ravel(), cells.ravel())
                        np.add.at(empty_counts, tokens.ravel(), empty.ravel())
                    direction.update(pair_counts, empty_counts)
                advance(1)
        return aligner

    def links(self, block: PairBlock) -> Int64[np.ndarray, "B T"]:
        """Return, for every target token, the position of its source token, from 1, or 0 if it is unaligned.

        The probabilities of both directions are averaged.
        """
        indices = self._indices(block)
        forward, _ = self.forward.probabilities(indices, block.target)
        back, _ = self.back.probabilities(indices, block.source)
        mean = (forward + back) / 2
        return np.where(mean.max(2) >= SURE, mean.argmax(2) + 1, 0)

    def _indices(self, block: PairBlock) -> Int32[np.ndarray, "B T S"]:
        """Return the index of every cell's token pair; the index after the last for a pair that never occurred."""
        wanted = _token_pairs(block, self._target_vocabulary)
        indices = np.searchsorted(self._token_pairs, wanted).astype(np.int32)
        is_known: Bool[np.ndarray, "B T S"] = self._token_pairs.take(indices, mode="clip") == wanted
        return np.where(is_known, indices, np.int32(len(self._token_pairs)))


def link(
    source: PackedIds, target: PackedIds, vocabularies: tuple[int, int], progress: Progress = silent
) -> NDArray[np.uint16]:
    """Align all sentence pairs; return a link for every id of the target (see `Aligner.links`)."""
    aligner = Aligner.learn(source, target, vocabularies, progress)
    links = np.zeros(len(target.ids), np.uint16)
    pairs = len(target.offsets) - 1
    with progress.track("align", pairs, "pairs") as advance:
        for first in range(0, pairs, _MOST_PAIRS):
            for block in _blocks(source, target, np.arange(first, min(first + _MOST_PAIRS, pairs))):
                links[_positions(target, block.pairs, block.target.shape[1])] = aligner.links(block)
                advance(len(block.pairs))
    return links


def _sample(source: PackedIds, target: PackedIds) -> Int64[np.ndarray, "P"]:
    """Return the indices of the sentence pairs to learn from: all, or an evenly spread part."""
    pairs = np.arange(0, len(target.offsets) - 1, -(-(len(target.offsets) - 1) // _MOST_PAIRS) or 1)
    cells = int((np.minimum(source.lengths(pairs), LONGEST) * np.minimum(target.lengths(pairs), LONGEST)).sum())
    return pairs[:: -(-cells // _MOST_CELLS) or 1]


def _blocks(source: PackedIds, target: PackedIds, pairs: Int64[np.ndarray, "P"]) -> Iterator[PairBlock]:
    """Yield the sentence pairs in blocks, without those that are too long or have an empty side."""
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
            chosen = pairs[begin : min(begin + at_once, last)]
            ids = (side.ids[_positions(side, chosen, size)] for side, size in ((source, read), (target, written)))
            yield PairBlock(chosen, *(part.astype(np.int64) for part in ids))


def _positions(rows: PackedIds, pairs: Int64[np.ndarray, "B"], length: int) -> Int64[np.ndarray, "B X"]:
    """Return the positions in `rows.ids` of the ids of some rows of equal length."""
    return rows.offsets[pairs][:, None] + np.arange(length)


def _token_pairs(block: PairBlock, target_vocabulary: int) -> Int64[np.ndarray, "B T S"]:
    return block.source[:, None, :] * target_vocabulary + block.target[:, :, None]
