"""Which pairs go together, in which order, and how they are fetched.

A batch is filled with pairs of like length up to a number of tokens. The order of an epoch is a pure function of
(seed, epoch), made from raw random bits that no version of numpy changes; there is no state to save.
"""

import logging
from itertools import pairwise

import numpy as np
import pydantic
import torch
from numpy.typing import NDArray

from dragoman.config import Settings
from dragoman.data.batch import Batch, Outline
from dragoman.data.corpus import EncodedCorpus, Rows
from dragoman.data.specials import END, START
from dragoman.errors import DataError

logger = logging.getLogger(__name__)

# Pairs are sorted by their longer side, made longer by up to this share at random. Of the pairs that share a batch,
# 10 % are together again in the next epoch on 29,000 captions (without it 19 %), on 3,700 lines of documentation 57 %
# (84 %); attention then pads 18 % (14 %) and 28 % (25 %).
_JITTER = 0.1

Indices = NDArray[np.int64]


class BatchSettings(Settings):
    """How sentence pairs are put together for a step."""

    batch_tokens: int = pydantic.Field(default=4_096, ge=1)
    """Tokens of a batch at most, on each side, special symbols included, padding never; a longer sentence is alone."""
    sentence_tokens: int = pydantic.Field(default=256, ge=1)
    """Longest sentence, in tokens, on either side; pairs with a longer one are left out, counted and reported."""


def build_batches(corpus: EncodedCorpus, settings: BatchSettings, seed: int | None) -> "Batches":
    """The batches that the settings ask for."""
    return Batches(corpus, settings.batch_tokens, settings.sentence_tokens, seed)


class Batches:
    """The batches of a corpus, epoch by epoch. Without a seed they are the same ones each time, from short to long.

    Attributes:
        left_out: number of pairs with a sentence of more than `sentence_tokens`.
    """

    def __init__(
        self, corpus: EncodedCorpus, batch_tokens: int = 4_096, sentence_tokens: int = 256, seed: int | None = None
    ) -> None:
        self.corpus = corpus
        self.batch_tokens = batch_tokens
        self.seed = seed
        source = corpus.source.lengths if corpus.source else np.zeros_like(corpus.target.lengths)
        target = corpus.target.lengths - 1 if corpus.windows else corpus.target.lengths
        self._pairs = np.flatnonzero(np.maximum(source, target) <= sentence_tokens)
        self._source_tokens = source[self._pairs] + 2 * bool(corpus.source)
        self._target_tokens = target[self._pairs] + (not corpus.windows)
        self.left_out = len(corpus) - len(self._pairs)
        if not len(self._pairs):
            raise DataError(
                f"all {self.left_out:,} pairs have a sentence of more than {sentence_tokens} tokens; "
                "raise sentence_tokens"
            )
        if self.left_out:
            logger.warning(
                "%s of %s pairs have a sentence of more than %s tokens and are left out",
                f"{self.left_out:,}",
                f"{len(corpus):,}",
                sentence_tokens,
            )

    def __len__(self) -> int:
        """Number of pairs in an epoch."""
        return len(self._pairs)

    def epoch(self, epoch: int) -> list[Indices]:
        """The pairs of each batch of an epoch, in order: every pair that is not left out, exactly once."""
        chance = None if self.seed is None else np.random.Philox(key=np.array([self.seed, epoch], np.uint64))
        order = self._by_length(chance)
        cuts = self._cut(order)
        batches = [self._pairs[order[first:last]] for first, last in pairwise(cuts)]
        if chance is None:
            return batches
        # Raw bits, here and below: numpy may change its own shuffling between versions.
        return [batches[i] for i in np.argsort(chance.random_raw(len(batches)), kind="stable")]

    def batch(self, pairs: Indices) -> Batch:
        """The ids of some pairs, laid end to end, with special symbols around every sentence."""
        corpus = self.corpus
        before, after = (None, None) if corpus.windows else (START, END)
        target, lengths = gather(corpus.target, pairs, before, after)
        ends = np.cumsum(lengths)
        source, source_lengths = gather(corpus.source, pairs, START, END) if corpus.source else (None, None)
        return Batch(
            source=None if source is None else torch.from_numpy(source),
            source_lengths=None if source_lengths is None else torch.from_numpy(source_lengths),
            target=torch.from_numpy(np.delete(target, ends - 1)),
            labels=torch.from_numpy(np.delete(target, ends - lengths)),
            target_lengths=torch.from_numpy(lengths - 1),
            pairs=torch.from_numpy(pairs),
        )

    def outline(self, pairs: Indices) -> Outline:
        """How many tokens `batch` would have, without reading any."""
        source, target = self._sides(pairs)
        return Outline(source, target, torch.from_numpy(pairs))

    def _sides(self, pairs: Indices) -> tuple[int, int]:
        corpus = self.corpus
        source = int(corpus.source.lengths[pairs].sum()) + 2 * len(pairs) if corpus.source else 0
        return source, int(corpus.target.lengths[pairs].sum()) + (-len(pairs) if corpus.windows else len(pairs))

    def _by_length(self, chance: np.random.Philox | None) -> Indices:
        """Positions in `_pairs` from short to long, with a little chance."""
        longer = np.maximum(self._source_tokens, self._target_tokens)
        if chance is None:
            return np.argsort(longer, kind="stable")
        share = (chance.random_raw(len(longer)) >> 11) * 2.0**-53
        return np.argsort(longer * (1 + _JITTER * share), kind="stable")

    def _cut(self, order: Indices) -> list[int]:
        """Where batches begin and end, so that neither side holds more than `batch_tokens`."""
        source, target = (
            np.cumsum(tokens[order], dtype=np.int64) for tokens in (self._source_tokens, self._target_tokens)
        )
        cuts, taken = [0], (0, 0)
        while cuts[-1] < len(order):
            limits = (taken[0] + self.batch_tokens, taken[1] + self.batch_tokens)
            end = min(np.searchsorted(source, limits[0], "right"), np.searchsorted(target, limits[1], "right"))
            cuts.append(max(int(end), cuts[-1] + 1))
            taken = int(source[cuts[-1] - 1]), int(target[cuts[-1] - 1])
        return cuts


def gather(
    rows: Rows, indices: Indices, before: int | None = None, after: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Some rows laid end to end, each with an id put before and after it, and their lengths. No loop over rows.

    >>> rows = Rows(np.array([7, 8, 9]), np.array([0, 2, 3]))
    >>> gather(rows, np.array([1, 0]), before=2, after=3)
    (array([2, 9, 3, 2, 7, 8, 3]), array([3, 4]))
    """
    starts = rows.offsets[indices]
    lengths = rows.offsets[indices + 1] - starts + (before is not None) + (after is not None)
    ends = np.cumsum(lengths)
    shift = starts - (ends - lengths) - (before is not None)
    ids = rows.ids.take(np.arange(ends[-1]) + np.repeat(shift, lengths), mode="clip").astype(np.int64)
    if before is not None:
        ids[ends - lengths] = before
    if after is not None:
        ids[ends - 1] = after
    return ids, lengths
