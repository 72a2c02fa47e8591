"""Data augmentation of sentence pairs during batching, for cases that are rare in the training text.

Every epoch varies different pairs: some are joined to one row, some get typing errors, and in some a placeholder
replaces text that is the same on both sides. The choice is a pure function of seed, epoch and batch, so there is no
state to save.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dragoman.data.batching import Batch, Batches, BatchSize, Epoch, Indices, gather
from dragoman.data.corpus import PackedIds
from dragoman.surface.protected import Span, code_in, replaced
from dragoman.tokenizing.special_tokens import SYNTHETIC, UNKNOWN
from dragoman.tokenizing.tokenizers import Tokenizers

MOST_JOINED = 8
"""Maximum pairs in one row."""
_MEAN_JOINED = (2 + MOST_JOINED) / 2
_DRAWS = 24
"""Random numbers per pair: for the kind of variation, for joining, and for the change itself."""
_WITH_DIGITS = 0.5
"""Minimum share of protected pairs among pairs with a digit, because most texts contain few numbers."""
_END = re.compile(r"\s*[.!?…。！？]+\Z")
_WORD = re.compile(r"(?<![^\s(\"“«])[^\W\d_]{4,}(?![\w@/'’-])")

Rows = tuple[Indices, Indices]
"""The ids of rows, concatenated, and the lengths of the rows."""
FindCopies = Callable[[str, str], Sequence[tuple[Span, Span]]]
"""A function that returns the spans of text that should be copied from source to target."""


class EpochPairs(NamedTuple):
    """The pairs of a batch in one epoch."""

    epoch: int
    pairs: Indices


class VariedBatches:
    """Batches of varied sentence pairs, in the order of `Batches`. `joined`, `rough` (with typing errors) and
    `protected` (with placeholders) are shares of all pairs; `joined_tokens` is the maximum length of a joined row, on
    either side.

    Pairs are joined only if both tokenizers encode the start of a sentence like the start of a word (not `byte_bpe` and
    `character`), and protected only if both have placeholders. In several directions, `find_copies` has the function of
    each by its first row, only pairs of one direction are joined, and a joined row keeps the symbol of its first pair;
    so it is with synthetic pairs, which `SYNTHETIC` marks.

    Attributes:
        tokens: number of tokens in the first epoch on both sides, before variation.
    """

    def __init__(
        self,
        order: Batches,
        tokenizers: Tokenizers,
        find_copies: FindCopies | Mapping[int, FindCopies],
        *,
        joined: float = 0.0,
        joined_tokens: int | None = None,
        rough: float = 0.0,
        protected: float = 0.0,
    ) -> None:
        assert order.seed is not None, "batches without a seed are not varied"
        self.order, self.tokens, self.tokenizers = order, order.tokens, tokenizers
        self._find_copies = find_copies if isinstance(find_copies, Mapping) else {0: find_copies}
        self._is_symbol = [
            np.isin(np.arange(side.size), [SYNTHETIC, *filter(side.is_special, side.languages.values())])
            for side in tokenizers
        ]
        joins = all(tokenizer.encode("a a") == 2 * tokenizer.encode("a") for tokenizer in tokenizers)
        # A pair begins a joined row, of _MEAN_JOINED pairs on average, with this probability.
        self._begins = joined / (_MEAN_JOINED - joined * (_MEAN_JOINED - 1)) if joins else 0.0
        self._longest = min(joined_tokens or order.sentence_tokens, order.sentence_tokens)
        self._protected = protected if all(tokenizer.placeholders for tokenizer in tokenizers) else 0.0
        self._noisy = rough
        spellings = map(tokenizers.source.spelling, range(tokenizers.source.size))
        self._is_digit = np.array([bytes_.decode(errors="replace").strip().isdecimal() for bytes_ in spellings])
        self._made: tuple[EpochPairs, Batch] | None = None

    def epoch(self, number: int) -> Epoch[EpochPairs]:
        """Return the pairs of every batch of an epoch, in order."""
        return self.order.epoch(number).mapped(partial(EpochPairs, number))

    def size_of(self, item: EpochPairs) -> BatchSize:
        """Return the sizes of a batch. This makes the batch."""
        return self.batch(item).size

    def batch(self, item: EpochPairs) -> Batch:
        """Return the batch of some pairs, varied. The latest batch is cached, because its size is needed first."""
        if self._made is None or self._made[0] is not item:
            self._made = (item, self._make(*item))
        return self._made[1]

    def _make(self, epoch: int, pairs: Indices) -> Batch:
        corpus = self.order.corpus
        assert corpus.source is not None, "sentence pairs have sources"
        firsts = np.array([*self._find_copies])
        direction = firsts[np.searchsorted(firsts, pairs, "right") - 1]
        pairs, direction = pairs[np.argsort(direction, kind="stable")], np.sort(direction)
        draws = self._draws(epoch, pairs)
        source, target = gather(corpus.source, pairs), gather(corpus.target, pairs)
        links = None if corpus.links is None else gather(corpus.links, pairs)
        places, *changed = self._changes(draws, source, target, direction)
        source, target = _replaced(source, places, changed[0]), _replaced(target, places, changed[1])
        begins = self._begin(draws[:, 1], source[1], target[1])
        begins = sorted({*begins, *(np.flatnonzero(np.diff(direction)) + 1).tolist()})
        follows = ~np.isin(np.arange(len(pairs)), begins)
        read, written = (
            np.repeat(follows, rows[1]) & is_symbol[rows[0]]
            for rows, is_symbol in zip((source, target), self._is_symbol, strict=True)
        )
        before, source, target = source[1], _without(source, read), _without(target, written)
        removed = before - source[1]
        if links is not None:
            unaligned = [[0] * len(row) for row in changed[1]]  # the words have changed
            ids, lengths = _replaced(links, places, unaligned)
            ids, lengths = _without((np.maximum(ids - np.repeat(removed, lengths), 0), lengths), written)
            before = np.cumsum(source[1]) - source[1]
            shift = before - np.repeat(before[begins], np.diff([*begins, len(pairs)]))
            links = np.where(ids > 0, ids + np.repeat(shift, lengths), 0), lengths
        linked = None if links is None else _joined(links, begins)
        return self.order.lay(_joined(source, begins), _joined(target, begins), linked, np.arange(len(begins)), pairs)

    def _draws(self, epoch: int, pairs: Indices) -> NDArray[np.float64]:
        """Return random numbers from 0 to 1, `_DRAWS` per pair, computed from raw bits like those of the order."""
        key, counter = (self.order.seed, epoch), (0, 1 + int(pairs[0]), 0, 0)
        bits = np.random.Philox(key=np.array(key, np.uint64), counter=np.array(counter, np.uint64))
        return (bits.random_raw((len(pairs), _DRAWS)) >> 11).astype(np.float64) * 2.0**-53

    def _changes(
        self, draws: NDArray[np.float64], source: Rows, target: Rows, direction: Indices
    ) -> tuple[list[int], list[list[int]], list[list[int]]]:
        """Return the pairs whose text changes in this epoch: indices in the batch, source ids and target ids."""
        protected = np.full(len(draws), self._protected)
        if self._protected:
            protected[_rows_with(self._is_digit[source[0]], source)] = max(self._protected, _WITH_DIGITS)
        varied = draws[:, 0] < protected + self._noisy
        for rows in (source, target):
            varied[_rows_with(rows[0] == UNKNOWN, rows)] = False  # cannot be decoded to its text
        indices = np.flatnonzero(varied)
        limits, numbers = protected[indices].tolist(), draws[indices].tolist()
        ids = zip(_lists(source, indices), _lists(target, indices), strict=True)
        changed: dict[int, tuple[str, str]] = {}
        for index, limit, (kind, _, *rest), sides in zip(indices.tolist(), limits, numbers, ids, strict=True):
            read, written = (tokenizer.decode(row) for tokenizer, row in zip(self.tokenizers, sides, strict=True))
            change = partial(self._protect, self._find_copies[int(direction[index])]) if kind < limit else add_noise
            if (now := change(read, written, iter(rest))) != (read, written):
                changed[index] = now
        rows = zip(changed, self._encoded(changed, source, 0), self._encoded(changed, target, 1), strict=True)
        kept = [row for row in rows if max(map(len, row[1:])) <= self.order.sentence_tokens]
        return [index for index, _, _ in kept], [row for _, row, _ in kept], [row for _, _, row in kept]

    def _encoded(self, changed: Mapping[int, tuple[str, str]], rows: Rows, side: int) -> list[list[int]]:
        """Return the ids of changed texts on one side, after the symbols with which their rows begin."""
        before = _lists(rows, np.array([*changed], np.int64))
        encoded = self.tokenizers[side].encode_batch([texts[side] for texts in changed.values()])
        symbols = ([id_ for id_ in row[:2] if self._is_symbol[side][id_]] for row in before)
        return [symbol + ids for symbol, ids in zip(symbols, encoded, strict=True)]

    def _protect(self, find_copies: FindCopies, source: str, target: str, draws: Iterator[float]) -> tuple[str, str]:
        """Replace copied spans by different placeholders of their kind, on both sides of a pair."""
        copies = find_copies(source, target)
        if not copies:
            return source, target
        unused: dict[tuple[str, ...], list[str]] = {}
        for kind in dict.fromkeys(span.placeholders for span, _ in copies):
            unused[kind] = [character for _, character in sorted((next(draws), character) for character in kind)]
        chosen = [
            (read, written, unused[read.placeholders].pop()) for read, written in copies if unused[read.placeholders]
        ]
        targets = sorted((written, placeholder) for _, written, placeholder in chosen)
        return (
            replaced(source, [read for read, _, _ in chosen], [placeholder for _, _, placeholder in chosen]),
            replaced(target, [written for written, _ in targets], [placeholder for _, placeholder in targets]),
        )

    def _begin(self, draws: NDArray[np.float64], source: Indices, target: Indices) -> list[int]:
        """Return the pairs that begin a row; the others continue a row."""
        follows = np.zeros(len(draws), bool)
        for first in np.flatnonzero(draws < self._begins).tolist():
            if follows[first]:
                continue
            last = first + 2 + int(draws[first] / self._begins * (MOST_JOINED - 1))
            fits = np.maximum(np.cumsum(source[first:last]), np.cumsum(target[first:last])) <= self._longest
            follows[first + 1 : first + int(fits.sum())] = True
        return np.flatnonzero(~follows).tolist()


def add_noise(source: str, target: str, draws: Iterator[float]) -> tuple[str, str]:
    """Add typing noise to a pair: remove the final punctuation on both sides, or add an error to a lower-case word of
    the source. Return it unchanged if neither is possible.

    >>> add_noise("What is that?", "Che cos'è?", iter([0.2]))
    ('What is that', "Che cos'è")
    >>> add_noise("What is that?", "Che cos'è?", iter([0.7, 0.0, 0.4, 0.5]))
    ('What is thta?', "Che cos'è?")
    """
    if next(draws) < 0.5:
        ends = _END.search(source), _END.search(target)
        return (source[: ends[0].start()], target[: ends[1].start()]) if ends[0] and ends[1] else (source, target)
    code = {place for span in code_in(source) for place in range(span.begin, span.end)}
    words = [match for match in _WORD.finditer(source) if match[0].islower() and code.isdisjoint(range(*match.span()))]
    if not words:
        return source, target
    word = words[int(next(draws) * len(words))]
    typed = mistyped(word[0], next(draws), next(draws))
    return source[: word.start()] + typed + source[word.end() :], target


def mistyped(word: str, how: float, where: float) -> str:
    """Return a word with two neighbouring letters swapped (half of the time), a letter omitted, or a letter doubled.

    >>> mistyped("that", 0.1, 0.5), mistyped("that", 0.6, 0.5), mistyped("that", 0.9, 0.5)
    ('thta', 'tht', 'thaat')
    """
    indices = [i for i in range(1, len(word) - (how < 0.5)) if how >= 0.5 or word[i] != word[i + 1]]
    if not indices:
        return word
    i = indices[int(where * len(indices))]
    if how < 0.5:
        return word[:i] + word[i + 1] + word[i] + word[i + 2 :]
    return word[:i] + word[i + 1 :] if how < 0.75 else word[: i + 1] + word[i:]


def _rows_with(is_hit: NDArray[np.bool_], rows: Rows) -> Indices:
    """Return the rows with at least one hit among their ids; some of them several times."""
    return np.repeat(np.arange(len(rows[1])), rows[1])[is_hit]


def _lists(rows: Rows, chosen: Indices) -> list[list[int]]:
    """Return the ids of the chosen rows."""
    ids, lengths = rows
    flat, ends = ids.tolist(), np.cumsum(lengths)[chosen]
    begins = ends - lengths[chosen]
    return [flat[first:last] for first, last in zip(begins.tolist(), ends.tolist(), strict=True)]


def _replaced(rows: Rows, places: Sequence[int], replacements: Sequence[Sequence[int]]) -> Rows:
    """Return the rows with others at these places."""
    if not places:
        return rows
    ids, lengths = rows
    offsets = np.cumsum([0, *lengths, *map(len, replacements)])
    packed = PackedIds(np.concatenate([ids, np.array([*chain.from_iterable(replacements)], np.int64)]), offsets)
    order = np.arange(len(lengths))
    order[places] = len(lengths) + np.arange(len(places))
    return gather(packed, order)


def _without(rows: Rows, chosen: NDArray[np.bool_]) -> Rows:
    """Return the rows without the chosen ids."""
    ids, lengths = rows
    return ids[~chosen], lengths - np.bincount(_rows_with(chosen, rows), minlength=len(lengths))


def _joined(rows: Rows, begins: Sequence[int]) -> PackedIds:
    """Join rows to longer ones, which begin at the indices `begins`."""
    ids, lengths = rows
    offsets = np.append(0, np.cumsum(lengths))
    return PackedIds(ids, np.append(offsets[:-1][begins], offsets[-1]))
