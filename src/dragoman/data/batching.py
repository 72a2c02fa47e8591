"""Batches of concatenated ids without padding: their composition and order.

A batch holds pairs of similar length, up to a number of tokens. The order of an epoch is a pure function of (seed,
epoch), so there is no state to save. It is computed from raw random bits, which are the same in every version of numpy.

An epoch is computed window by window, so memory holds one window of a corpus of any size. Every epoch distributes
blocks of pairs to windows at random; the pairs of a window are sorted and cut into batches, and the batches are
shuffled. If a corpus has pools, an epoch draws a number of pairs from each: some of its pairs, and different ones in
the next epoch; or all of them, and some several times.

`Batches` handles sentence pairs and running text, `LabelledBatches` labelled texts for an encoder alone.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, TypeVar, cast, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dragoman.data.corpus import EncodedCorpus, PackedIds
from dragoman.errors import DataError
from dragoman.shapes import Int
from dragoman.tokenizing.special_tokens import DEFAULT_FRAMING, Framing

log = logging.getLogger(__name__)

# Pairs are sorted by the length of their longer side plus a random share of it, at most this. On 29,000 captions, 10 %
# of the pairs that share a batch also share one in the next epoch (19 % without jitter); on 3,700 lines of
# documentation, 57 % (84 %). Padding in attention grows from 14 % to 18 %, and from 25 % to 28 %.
_JITTER = 0.1

# Maximum pairs in a window, which takes 100 MB and a third of a second to compute. A block of neighbouring pairs is a
# few pages on the disk, so a corpus larger than memory is read about once per epoch.
_WINDOW = 2**20
_BLOCK = 64

Indices = NDArray[np.int64]
"""Indices of pairs in a corpus."""
Item = TypeVar("Item")
Changed = TypeVar("Changed")


@dataclass(frozen=True)
class BatchSize:
    """The sizes of a batch without its ids, which suffice for a batch that another process computes."""

    source_tokens: int
    target_tokens: int
    longest: int
    """Tokens of the longest sentence, on either side."""
    pairs: Int[Tensor, "P"]
    """Indices of the pairs in the corpus."""

    @property
    def tokens(self) -> int:
        """Number of source and target tokens."""
        return self.source_tokens + self.target_tokens


@dataclass(frozen=True)
class Batch:
    """B sentence pairs; N source tokens and M target tokens in all, special symbols included.

    The decoder reads `target` (start, then y) and predicts `labels` (y, then end): the next token at every position. A
    decoder-only model has no source.
    """

    source: Int[Tensor, "N"] | None
    source_lengths: Int[Tensor, "B"] | None
    target: Int[Tensor, "M"]
    labels: Int[Tensor, "M"]
    target_lengths: Int[Tensor, "B"]
    pairs: Int[Tensor, "P"]
    """Indices of the pairs in the corpus; a sentence may be several joined pairs."""
    links: Int[Tensor, "M"] | None = None
    """For every token that the decoder reads, the position of its aligned source token in the sentence; -1 if there is
    none. None in a corpus without links.
    """

    def __len__(self) -> int:
        return self.target_lengths.numel()

    @property
    def size(self) -> BatchSize:
        """The sizes of this batch."""
        lengths = [self.target_lengths, *([] if self.source_lengths is None else [self.source_lengths])]
        source_tokens = 0 if self.source is None else self.source.numel()
        return BatchSize(source_tokens, self.labels.numel(), int(torch.cat(lengths).max()), self.pairs)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The arguments of a model's `forward`, in order."""
        sides = (self.source, self.source_lengths, self.target, self.target_lengths)
        return tuple(part for part in sides if part is not None)

    def to(self, device: torch.device | str) -> "Batch":
        """Return the batch with its ids on `device`. Lengths stay on the host, which reads them."""
        return _moved(self, ("source", "target", "labels", "links"), device)


@dataclass(frozen=True)
class LabelledBatch:
    """B texts, N tokens in all, special symbols included; M of the tokens, or the B texts themselves, have labels."""

    source: Int[Tensor, "N"]
    source_lengths: Int[Tensor, "B"]
    chosen: Int[Tensor, "M"] | None
    """The rows whose labels are predicted; None if every text has one label."""
    labels: Int[Tensor, "M"]
    pairs: Int[Tensor, "B"]
    """Indices of the texts in the corpus."""

    @property
    def inputs(self) -> tuple[Tensor | None, ...]:
        """The arguments of a model's `forward`, in order."""
        return self.source, self.source_lengths, self.chosen

    def to(self, device: torch.device | str) -> "LabelledBatch":
        """Return the batch on `device`. Lengths stay on the host, which reads them."""
        return _moved(self, ("source", "chosen", "labels"), device)


AnyBatch = TypeVar("AnyBatch", Batch, LabelledBatch)


def pinned(batch: Item) -> Item:
    """Return the batch, a dataclass, in page-locked memory, which is copied to a GPU asynchronously."""
    parts = {name: part.pin_memory() for name, part in vars(batch).items() if part is not None}
    return replace(cast("Any", batch), **parts)


def _moved(batch: AnyBatch, names: Sequence[str], device: torch.device | str) -> AnyBatch:
    is_cuda = torch.device(device).type == "cuda"
    parts = {name: part for name in names if (part := getattr(batch, name)) is not None}
    if is_cuda:  # a copy from other memory may wait for the GPU
        parts = {name: part if part.is_cuda else part.pin_memory() for name, part in parts.items()}
    return replace(batch, **{name: part.to(device, non_blocking=is_cuda) for name, part in parts.items()})


class Batches:
    """The batches of a corpus, epoch by epoch. Without a seed, all epochs have the same batches, from short to long.

    Attributes:
        left_out: number of pairs with a sentence of more than `sentence_tokens`.
        tokens: number of tokens in the first epoch on both sides, special symbols included.

    Raises:
        DataError: every pair has a sentence that is too long.
    """

    def __init__(
        self,
        corpus: EncodedCorpus,
        batch_tokens: int = 4_096,
        sentence_tokens: int = 256,
        seed: int | None = None,
        framing: Framing = DEFAULT_FRAMING,
    ) -> None:
        self.corpus, self.framing, self.seed = corpus, framing, seed
        self.batch_tokens, self.sentence_tokens = batch_tokens, sentence_tokens
        self._kept = self.tokens = 0
        in_epoch = 0
        for first in range(0, len(corpus), _WINDOW):
            pairs = self._in_epoch(0, np.arange(first, min(first + _WINDOW, len(corpus))))
            in_epoch += len(pairs)
            kept = self._short_enough(pairs)
            self._kept += len(kept)
            self.tokens += sum(int(side.sum()) for side in self._tokens(kept))
        self.left_out = in_epoch - self._kept
        rows = "texts are" if corpus.labels_only else "pairs have a sentence"
        if not self._kept:
            raise DataError(
                f"all {self.left_out:,} {rows} of more than {sentence_tokens} tokens; raise batches.sentence_tokens"
            )
        if self.left_out:
            log.warning(
                "%s of %s %s of more than %s tokens and are not used for training; batches.sentence_tokens sets this "
                "limit",
                f"{self.left_out:,}",
                f"{in_epoch:,}",
                rows,
                sentence_tokens,
            )

    def __len__(self) -> int:
        """Return the number of pairs in the first epoch."""
        return self._kept

    def epoch(self, epoch: int) -> "Epoch[Indices]":
        """Return the pairs of every batch of an epoch, in order; a pair outside pools occurs exactly once."""
        blocks = np.arange(-(-len(self.corpus) // _BLOCK))
        count = -(-len(self.corpus) // _WINDOW)
        if self.seed is not None:
            blocks = _shuffled(blocks, _rng(self.seed, epoch, count))
        windows = [np.sort(part) for part in np.array_split(blocks, count)]
        return Epoch(count, partial(self._window, epoch, windows))

    def _window(self, epoch: int, windows: Sequence[Indices], number: int) -> list[Indices]:
        """Return the batches of one window, whose blocks are `windows[number]`."""
        pairs = (windows[number][:, None] * _BLOCK + np.arange(_BLOCK)).ravel()
        pairs = self._short_enough(self._in_epoch(epoch, pairs[pairs < len(self.corpus)]))
        rng = None if self.seed is None else _rng(self.seed, epoch, number)
        source, target = self._tokens(pairs)
        longer = np.maximum(source, target)
        if rng is not None:
            longer = longer * (1 + _JITTER * ((rng.random_raw(len(longer)) >> 11) * 2.0**-53))
        order = np.argsort(longer, kind="stable")
        cuts = cut(source[order], target[order], self.batch_tokens)
        batches = [pairs[order[first:last]] for first, last in pairwise(cuts)]
        return batches if rng is None else [batches[i] for i in _shuffled(np.arange(len(batches)), rng)]

    def batch(self, pairs: Indices) -> Batch:
        """Return the batch of some pairs. The framing's symbols are added to sentences, but not to windows of running
        text.
        """
        return self.lay(self.corpus.source, self.corpus.target, self.corpus.links, pairs, pairs)

    def lay(
        self,
        sources: PackedIds | None,
        targets: PackedIds,
        all_links: PackedIds | None,
        indices: Indices,
        pairs: Indices,
    ) -> Batch:
        """Return the batch of some rows, which come from these pairs of the corpus."""
        framing = self.framing
        around = ((), ()) if self.corpus.windows else ((framing.target_start,), (framing.target_end,))
        target, lengths = gather(targets, indices, *around)
        ends = np.cumsum(lengths)
        around = framing.source_before, framing.source_after
        source, source_lengths = gather(sources, indices, *around) if sources else (None, None)
        links = None
        if all_links is not None:
            positions, _ = gather(all_links, indices, before=(0,))  # the start symbol is unaligned
            links = torch.from_numpy(np.where(positions > 0, positions - 1 + len(framing.source_before), -1))
        return Batch(
            source=None if source is None else torch.from_numpy(source),
            source_lengths=None if source_lengths is None else torch.from_numpy(source_lengths),
            target=torch.from_numpy(np.delete(target, ends - 1)),
            labels=torch.from_numpy(np.delete(target, ends - lengths)),
            target_lengths=torch.from_numpy(lengths - 1),
            pairs=torch.from_numpy(pairs),
            links=links,
        )

    def size_of(self, pairs: Indices) -> BatchSize:
        """Return the sizes of `batch(pairs)` without reading ids."""
        source, target = self._tokens(pairs)
        longest = int(np.maximum(source, target).max())
        return BatchSize(int(source.sum()), int(target.sum()), longest, torch.from_numpy(pairs))

    def _in_epoch(self, epoch: int, pairs: Indices) -> Indices:
        """Return the pairs of an epoch: all outside pools, and evenly spaced ones of these, which shift every epoch."""
        times = np.ones(len(pairs), np.int64)
        for first, pool in self.corpus.facts.pools.items():
            index = pairs - first
            shifted = np.maximum(index, 0) + (epoch + (self.seed or 0)) % pool.rows
            drawn = (shifted + 1) * pool.drawn // pool.rows - shifted * pool.drawn // pool.rows
            times = np.where((index >= 0) & (index < pool.rows), drawn, times)
        return np.repeat(pairs, times)

    def _short_enough(self, pairs: Indices) -> Indices:
        """Return the pairs without a sentence of more than `sentence_tokens`."""
        source, target = self._tokens(pairs)
        source, target = source - self._source_symbols, target - max(0, self._target_symbols)
        return pairs[np.maximum(source, target) <= self.sentence_tokens]

    def _tokens(self, pairs: Indices) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the number of source tokens and of target tokens that every pair adds to a batch."""
        target = self.corpus.target.lengths(pairs) + self._target_symbols
        source = self.corpus.source.lengths(pairs) if self.corpus.source else np.zeros_like(target)
        return source + self._source_symbols, target

    @property
    def _source_symbols(self) -> int:
        return self.framing.source_symbols if self.corpus.source else 0

    @property
    def _target_symbols(self) -> int:
        """Difference between the predicted tokens and the ids of a row: a sentence gains its end symbol, a window of
        running text loses its first id, which is only read, and a row of labels is unchanged.
        """
        if self.corpus.windows:
            return -1
        return 0 if self.corpus.labels_only else self.framing.target_symbols


class LabelledBatches:
    """The labelled batches of a corpus, in the order of `Batches`."""

    def __init__(self, order: Batches) -> None:
        self.order, self.corpus, self.framing = order, order.corpus, order.framing
        self._labels_words = order.corpus.labelled == "words"

    @cached_property
    def tokens(self) -> int:
        """Number of source tokens and labels in an epoch."""
        return sum(self.size_of(indices).tokens for indices in self.order.epoch(0))

    def epoch(self, number: int) -> Sequence[Indices]:
        """Return the rows of every batch of an epoch, in order."""
        return self.order.epoch(number)

    def size_of(self, rows: Indices) -> BatchSize:
        """Return the sizes of `batch(rows)`."""
        labels = int(np.count_nonzero(self._targets(rows))) if self._labels_words else len(rows)
        return replace(self.order.size_of(rows), target_tokens=labels)

    def batch(self, rows: Indices) -> LabelledBatch:
        """Return the batch of some rows, with their labels."""
        source, lengths = framed(self.corpus, rows, self.framing)
        targets, chosen = self._targets(rows), None
        if self._labels_words:
            first_pieces = text_places(lengths, self.framing)[targets > 0]
            targets, chosen = targets[targets > 0] - 1, torch.from_numpy(first_pieces)
        return LabelledBatch(
            source=torch.from_numpy(source),
            source_lengths=torch.from_numpy(lengths),
            chosen=chosen,
            labels=torch.from_numpy(targets),
            pairs=torch.from_numpy(rows),
        )

    def _targets(self, rows: Indices) -> Indices:
        return gather(self.corpus.target, rows)[0]


class Epoch(Sequence[Item]):
    """A lazy sequence of the batches of an epoch, represented by the items from which they are made, such as the
    indices of their pairs.

    The batches of a window are computed when the first is needed, and only the latest window is kept. `len` has to
    compute every window; iteration does not need `len`.
    """

    def __init__(self, windows: int, batches_of: Callable[[int], list[Item]]) -> None:
        self._windows = windows
        self._batches_of = batches_of
        self._begins = [0]
        """Index of the first batch of every window computed so far, and of the next window."""
        self._made: tuple[int, list[Item]] = (-1, [])

    def mapped(self, change: Callable[[Item], Changed]) -> "Epoch[Changed]":
        """Return the epoch with a function applied to every item."""
        return Epoch(self._windows, lambda window: [change(item) for item in self._batches_of(window)])

    def __len__(self) -> int:
        while len(self._begins) <= self._windows:
            self._make(len(self._begins) - 1)
        return self._begins[-1]

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        while index >= self._begins[-1]:
            if len(self._begins) > self._windows:
                raise IndexError(f"the epoch has {len(self):,} batches")
            self._make(len(self._begins) - 1)
        window = bisect_right(self._begins, index) - 1
        return self._make(window)[index - self._begins[window]]

    def _make(self, window: int) -> list[Item]:
        if window != self._made[0]:
            self._made = (window, self._batches_of(window))
            if window == len(self._begins) - 1:
                self._begins.append(self._begins[-1] + len(self._made[1]))
        return self._made[1]


def _rng(seed: int, epoch: int, stream: int) -> np.random.Philox:
    """Return random bits for one window of an epoch. The stream after the last window assigns blocks to windows."""
    return np.random.Philox(key=np.array([seed, epoch], np.uint64), counter=np.array([0, 0, 0, stream], np.uint64))


def _shuffled(numbers: Indices, rng: np.random.Philox) -> Indices:
    """Return the numbers sorted by raw random bits, because numpy may change its shuffling between versions."""
    return numbers[np.argsort(rng.random_raw(len(numbers)), kind="stable")]


def cut(source_tokens: Indices, target_tokens: Indices, limit: int) -> list[int]:
    """Return the boundaries of runs of pairs with at most `limit` tokens on each side; a longer pair is a run alone.

    >>> cut(np.array([2, 2, 1, 9]), np.array([1, 1, 3, 1]), 4)
    [0, 2, 3, 4]
    """
    source, target = np.cumsum(source_tokens), np.cumsum(target_tokens)
    cuts, taken = [0], (0, 0)
    while cuts[-1] < len(source):
        ends = (
            np.searchsorted(side, done + limit, "right") for side, done in zip((source, target), taken, strict=True)
        )
        cuts.append(max(int(min(ends)), cuts[-1] + 1))
        taken = int(source[cuts[-1] - 1]), int(target[cuts[-1] - 1])
    return cuts


def gather(
    rows: PackedIds, indices: Indices, before: Sequence[int] = (), after: Sequence[int] = ()
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Concatenate some rows, with additional ids before and after each, and return ids and lengths. Vectorised over
    rows.

    >>> rows = PackedIds(np.array([7, 8, 9]), np.array([0, 2, 3]))
    >>> gather(rows, np.array([1, 0]), before=[2], after=[3])
    (array([2, 9, 3, 2, 7, 8, 3]), array([3, 4]))
    """
    starts = rows.offsets[indices]
    lengths = rows.offsets[indices + 1] - starts + len(before) + len(after)
    ends = np.cumsum(lengths)
    shift = starts - (ends - lengths) - len(before)
    ids = rows.ids.take(np.arange(ends[-1]) + np.repeat(shift, lengths), mode="clip").astype(np.int64)
    for offset, symbol in enumerate(before):
        ids[ends - lengths + offset] = symbol
    for offset, symbol in enumerate(after, -len(after)):
        ids[ends + offset] = symbol
    return ids, lengths


def framed(corpus: EncodedCorpus, rows: Indices, framing: Framing) -> tuple[Indices, Indices]:
    """Return the concatenated ids of some sources, including the framing's symbols, and their lengths."""
    assert corpus.source is not None, "a corpus for an encoder has sources"
    return gather(corpus.source, rows, framing.source_before, framing.source_after)


def text_places(lengths: Indices, framing: Framing) -> Indices:
    """Return the positions of the texts' own tokens in the ids of `framed`, without the framing's symbols."""
    before, after = len(framing.source_before), len(framing.source_after)
    inside = lengths - before - after
    shift = np.repeat(np.cumsum(lengths) - lengths + before - (np.cumsum(inside) - inside), inside)
    return np.arange(len(shift)) + shift
