"""Batches: sentences as ids, laid end to end without padding; which pairs share one, and in what order.

A batch holds pairs of similar length, up to a number of tokens. The order of an epoch is a pure function of (seed,
epoch), so there is no state to save. It comes from raw random bits, which are the same in every version of numpy.

An epoch is made window by window, so memory holds one window of a corpus of any size. Each epoch deals blocks of pairs
anew to the windows; the pairs of a window are sorted, cut into batches, and the batches shuffled. Of a corpus with a
pool, an epoch has only some of the pool's pairs, and the next epoch others.

`Batches` makes them of pairs and of running text, `LabelledBatches` of texts with labels for an encoder alone.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import TypeVar, overload

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from dragoman.data.corpus import EncodedCorpus, Rows
from dragoman.errors import DataError
from dragoman.tokenizing.special_tokens import DEFAULT_FRAMING, Framing

log = logging.getLogger(__name__)

# Pairs are sorted by the length of their longer side plus a random share of it, at most this. On 29,000 captions, 10 %
# of the pairs that share a batch meet again in the next epoch (19 % without jitter); on 3,700 lines of documentation,
# 57 % (84 %). Padding in attention grows from 14 % to 18 %, and from 25 % to 28 %.
_JITTER = 0.1

# Most pairs in a window, which takes 100 MB and a third of a second to make. A block of neighbouring pairs is a few
# pages on the disk, so a corpus larger than memory is read about once an epoch.
_WINDOW = 2**20
_BLOCK = 64

Indices = NDArray[np.int64]
"""Of pairs in a corpus."""
Item = TypeVar("Item")
Other = TypeVar("Other")


@dataclass(frozen=True)
class BatchSize:
    """The sizes of a batch, without its ids: all that a process needs to know of a batch that another one computes."""

    source_tokens: int
    target_tokens: int
    longest: int
    """Tokens of the longest sentence, on either side."""
    pairs: Int[Tensor, "P"]
    """Index in the corpus of each pair."""

    @property
    def tokens(self) -> int:
        """Source and target tokens together."""
        return self.source_tokens + self.target_tokens


@dataclass(frozen=True)
class Batch:
    """B sentence pairs; N source tokens and M target tokens in all, special symbols included.

    The decoder reads `target` (start, then y) and should predict `labels` (y, then end): the next token at each
    position. A decoder-only model has no source.
    """

    source: Int[Tensor, "N"] | None
    source_lengths: Int[Tensor, "B"] | None
    target: Int[Tensor, "M"]
    labels: Int[Tensor, "M"]
    target_lengths: Int[Tensor, "B"]
    pairs: Int[Tensor, "P"]
    """Index in the corpus of each pair; a sentence may be several pairs joined."""
    links: Int[Tensor, "M"] | None = None
    """For each token that the decoder reads, the place in its sentence of the source token that it renders; -1 if there
    is none. None in a corpus without links.
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
        """The same batch with its ids on `device`. Lengths stay on the host, which reads them."""
        return _moved(self, ("source", "target", "labels", "links"), device)


@dataclass(frozen=True)
class LabelledBatch:
    """B texts, N tokens in all, special symbols included; M of the tokens, or the B texts themselves, have labels."""

    source: Int[Tensor, "N"]
    source_lengths: Int[Tensor, "B"]
    chosen: Int[Tensor, "M"] | None
    """The rows whose labels are predicted; None where each text has one label."""
    labels: Int[Tensor, "M"]
    pairs: Int[Tensor, "B"]
    """Index in the corpus of each text."""

    @property
    def inputs(self) -> tuple[Tensor | None, ...]:
        """The arguments of a model's `forward`, in order."""
        return self.source, self.source_lengths, self.chosen

    def to(self, device: torch.device | str) -> "LabelledBatch":
        """The same batch on `device`. Lengths stay on the host, which reads them."""
        return _moved(self, ("source", "chosen", "labels"), device)


AnyBatch = TypeVar("AnyBatch", Batch, LabelledBatch)


def pinned(batch: AnyBatch) -> AnyBatch:
    """The same batch in page-locked memory, which a GPU copies while the host goes on."""
    return replace(batch, **{name: part.pin_memory() for name, part in vars(batch).items() if part is not None})


def _moved(batch: AnyBatch, names: Sequence[str], device: torch.device | str) -> AnyBatch:
    is_cuda = torch.device(device).type == "cuda"
    parts = {name: part for name in names if (part := getattr(batch, name)) is not None}
    if is_cuda:  # a copy from other memory may wait for the GPU
        parts = {name: part if part.is_cuda else part.pin_memory() for name, part in parts.items()}
    return replace(batch, **{name: part.to(device, non_blocking=is_cuda) for name, part in parts.items()})


class Batches:
    """The batches of a corpus, epoch by epoch. Without a seed, every epoch has the same ones, from short to long.

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
        self.corpus = corpus
        self.framing = framing
        self.batch_tokens = batch_tokens
        self.sentence_tokens = sentence_tokens
        self.seed = seed
        self._kept = self.tokens = 0
        in_epoch = 0
        for first in range(0, len(corpus), _WINDOW):
            pairs = self._of_epoch(0, np.arange(first, min(first + _WINDOW, len(corpus))))
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
                "%s of %s %s of more than %s tokens, and nothing is learnt from them; batches.sentence_tokens says how "
                "long they may be",
                f"{self.left_out:,}",
                f"{in_epoch:,}",
                rows,
                sentence_tokens,
            )

    def __len__(self) -> int:
        """Number of pairs in the first epoch."""
        return self._kept

    def epoch(self, epoch: int) -> "Epoch[Indices]":
        """The pairs of each batch of an epoch, in order: every pair of it that is not left out, exactly once."""
        blocks = np.arange(-(-len(self.corpus) // _BLOCK))
        count = -(-len(self.corpus) // _WINDOW)
        if self.seed is not None:
            blocks = _shuffled(blocks, _rng(self.seed, epoch, count))
        windows = [np.sort(part) for part in np.array_split(blocks, count)]
        return Epoch(count, partial(self._window, epoch, windows))

    def _window(self, epoch: int, windows: Sequence[Indices], number: int) -> list[Indices]:
        """The batches of one window, whose blocks are `windows[number]`."""
        pairs = (windows[number][:, None] * _BLOCK + np.arange(_BLOCK)).ravel()
        pairs = self._short_enough(self._of_epoch(epoch, pairs[pairs < len(self.corpus)]))
        rng = None if self.seed is None else _rng(self.seed, epoch, number)
        source, target = self._tokens(pairs)
        order = _by_length(np.maximum(source, target), rng)
        cuts = self._cut(source[order], target[order])
        batches = [pairs[order[first:last]] for first, last in pairwise(cuts)]
        return batches if rng is None else [batches[i] for i in _shuffled(np.arange(len(batches)), rng)]

    def batch(self, pairs: Indices) -> Batch:
        """The ids of some pairs, laid end to end. The framing's symbols stand around each sentence, but not around
        windows of running text.
        """
        return self.lay(self.corpus.source, self.corpus.target, self.corpus.links, pairs, pairs)

    def lay(
        self, sources: Rows | None, targets: Rows, all_links: Rows | None, indices: Indices, pairs: Indices
    ) -> Batch:
        """The same for some rows, which come from these pairs of the corpus."""
        framing = self.framing
        around = ((), ()) if self.corpus.windows else ((framing.target_start,), (framing.target_end,))
        target, lengths = gather(targets, indices, *around)
        ends = np.cumsum(lengths)
        around = framing.source_before, framing.source_after
        source, source_lengths = gather(sources, indices, *around) if sources else (None, None)
        return Batch(
            source=None if source is None else torch.from_numpy(source),
            source_lengths=None if source_lengths is None else torch.from_numpy(source_lengths),
            target=torch.from_numpy(np.delete(target, ends - 1)),
            labels=torch.from_numpy(np.delete(target, ends - lengths)),
            target_lengths=torch.from_numpy(lengths - 1),
            pairs=torch.from_numpy(pairs),
            links=None if all_links is None else torch.from_numpy(self._links(all_links, indices)),
        )

    def _links(self, links: Rows, indices: Indices) -> NDArray[np.int64]:
        """`Batch.links` of some rows: the start symbol, which is read first, renders nothing."""
        places, _ = gather(links, indices, before=(0,))
        return np.where(places > 0, places - 1 + len(self.framing.source_before), -1)

    def size_of(self, pairs: Indices) -> BatchSize:
        """The sizes that `batch` would have, without reading any ids."""
        source, target = self._tokens(pairs)
        longest = int(np.maximum(source, target).max())
        return BatchSize(int(source.sum()), int(target.sum()), longest, torch.from_numpy(pairs))

    def _of_epoch(self, epoch: int, pairs: Indices) -> Indices:
        """Those of the pairs that an epoch has: all that are not in the pool, and evenly spaced ones of the pool, which
        move on by one from epoch to epoch, so that in time each has its turn.
        """
        pool = self.corpus.facts.pool
        if pool is None:
            return pairs
        place = pairs - (len(self.corpus) - pool.rows)
        moved = np.maximum(place, 0) + (epoch + (self.seed or 0)) % pool.rows
        is_drawn = (moved + 1) * pool.drawn // pool.rows > moved * pool.drawn // pool.rows
        return pairs[(place < 0) | is_drawn]

    def _short_enough(self, pairs: Indices) -> Indices:
        """Those of the pairs that have no sentence of more than `sentence_tokens`."""
        source, target = self._tokens(pairs)
        source, target = source - self._source_symbols, target - max(0, self._target_symbols)
        return pairs[np.maximum(source, target) <= self.sentence_tokens]

    def _tokens(self, pairs: Indices) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The number of source tokens and of target tokens that each pair adds to a batch."""
        target = self.corpus.target.lengths(pairs) + self._target_symbols
        source = self.corpus.source.lengths(pairs) if self.corpus.source else np.zeros_like(target)
        return source + self._source_symbols, target

    @property
    def _source_symbols(self) -> int:
        return self.framing.source_symbols if self.corpus.source else 0

    @property
    def _target_symbols(self) -> int:
        """How many more tokens are predicted than a row of the corpus has ids. A sentence gains its end symbol. A
        window of running text loses its first id, which is only read. A row of labels stays as it is.
        """
        if self.corpus.windows:
            return -1
        return 0 if self.corpus.labels_only else self.framing.target_symbols

    def _cut(self, source_tokens: NDArray[np.int64], target_tokens: NDArray[np.int64]) -> list[int]:
        """Where batches begin and end, so that neither side has more than `batch_tokens`."""
        source, target = np.cumsum(source_tokens), np.cumsum(target_tokens)
        cuts, taken = [0], (0, 0)
        while cuts[-1] < len(source):
            limits = (taken[0] + self.batch_tokens, taken[1] + self.batch_tokens)
            end = min(np.searchsorted(source, limits[0], "right"), np.searchsorted(target, limits[1], "right"))
            cuts.append(max(int(end), cuts[-1] + 1))
            taken = int(source[cuts[-1] - 1]), int(target[cuts[-1] - 1])
        return cuts


class LabelledBatches:
    """The labelled batches of a corpus, in the order of `Batches`."""

    def __init__(self, order: Batches) -> None:
        self.order, self.corpus, self.framing = order, order.corpus, order.framing

    @cached_property
    def tokens(self) -> int:
        """Source tokens and labels of an epoch."""
        return sum(self.size_of(indices).tokens for indices in self.order.epoch(0))

    def epoch(self, number: int) -> Sequence[Indices]:
        """The rows of each batch of an epoch, in order."""
        return self.order.epoch(number)

    def size_of(self, rows: Indices) -> BatchSize:
        """The sizes that `batch` would have."""
        size = self.order.size_of(rows)
        return replace(size, target_tokens=int(np.count_nonzero(self._targets(rows))) if self._of_words else len(rows))

    def batch(self, rows: Indices) -> LabelledBatch:
        """Some rows, laid end to end, with their labels."""
        source, lengths = framed(self.corpus, rows, self.framing)
        targets, chosen = self._targets(rows), None
        if self._of_words:
            first_pieces = text_places(lengths, self.framing)[targets > 0]
            targets, chosen = targets[targets > 0] - 1, torch.from_numpy(first_pieces)
        return LabelledBatch(
            source=torch.from_numpy(source),
            source_lengths=torch.from_numpy(lengths),
            chosen=chosen,
            labels=torch.from_numpy(targets),
            pairs=torch.from_numpy(rows),
        )

    @property
    def _of_words(self) -> bool:
        return self.corpus.labelled == "words"

    def _targets(self, rows: Indices) -> Indices:
        return gather(self.corpus.target, rows)[0]


class Epoch(Sequence[Item]):
    """The batches of an epoch, in order, each as what a batch is made from: the indices of its pairs.

    The batches of a window are made when the first of them is needed, and only the latest window is kept. `len` has to
    make every window to count its batches; iterating does not need it.
    """

    def __init__(self, windows: int, batches_of: Callable[[int], list[Item]]) -> None:
        self._windows = windows
        self._batches_of = batches_of
        self._begins = [0]
        """The index of the first batch of each window made so far, and of the next window."""
        self._made: tuple[int, list[Item]] = (-1, [])

    def mapped(self, change: Callable[[Item], Other]) -> "Epoch[Other]":
        """The same batches, each made from something else."""
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
    """Random bits for one window of an epoch. The stream after that of the last window deals blocks to windows."""
    return np.random.Philox(key=np.array([seed, epoch], np.uint64), counter=np.array([0, 0, 0, stream], np.uint64))


def _shuffled(numbers: Indices, rng: np.random.Philox) -> Indices:
    """The numbers sorted by raw random bits, because numpy may change its own shuffling between versions."""
    return numbers[np.argsort(rng.random_raw(len(numbers)), kind="stable")]


def _by_length(longer: NDArray[np.int64], rng: np.random.Philox | None) -> Indices:
    """Indices that sort by length, with a little randomness."""
    if rng is None:
        return np.argsort(longer, kind="stable")
    share = (rng.random_raw(len(longer)) >> 11) * 2.0**-53
    return np.argsort(longer * (1 + _JITTER * share), kind="stable")


def gather(
    rows: Rows, indices: Indices, before: Sequence[int] = (), after: Sequence[int] = ()
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lays some rows end to end, each with ids before and after it, and returns their lengths. Does not loop over rows.

    >>> rows = Rows(np.array([7, 8, 9]), np.array([0, 2, 3]))
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
    """The ids of some sources, laid end to end, each with the framing's symbols around it; and their lengths."""
    assert corpus.source is not None, "a corpus for an encoder has sources"
    return gather(corpus.source, rows, framing.source_before, framing.source_after)


def text_places(lengths: Indices, framing: Framing) -> Indices:
    """Where the tokens of texts lie among those that `framed` lays end to end, between the symbols around each text."""
    before, after = len(framing.source_before), len(framing.source_after)
    inside = lengths - before - after
    shift = np.repeat(np.cumsum(lengths) - lengths + before - (np.cumsum(inside) - inside), inside)
    return np.arange(len(shift)) + shift
