"""Sentence pairs that are varied as they are batched, so that a model learns what its training text has too little of.

Each epoch varies other pairs: some lie behind one another in one row, some are typed roughly, and in some a placeholder
stands for what both sides write alike. Which ones is a pure function of seed, epoch and batch, so there is no state to
save.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dragoman.data.batching import Batch, Batches, BatchSize, Epoch, Indices, gather
from dragoman.data.corpus import Rows
from dragoman.surface.protected import Span, code_in, replaced
from dragoman.tokenizing.special_tokens import UNKNOWN
from dragoman.tokenizing.tokenizers import Tokenizers

MOST_JOINED = 8
"""Most pairs in one row."""
_MEAN_JOINED = (2 + MOST_JOINED) / 2
_DRAWS = 24
"""Random numbers for each pair: how it is varied, whether others follow it in its row, and those of the change."""
_WITH_DIGITS = 0.5
"""Share of the pairs with a digit that are protected, if it is larger: most texts have few numbers to learn from."""
_END = re.compile(r"\s*[.!?…。！？]+\Z")
_WORD = re.compile(r"(?<![^\s(\"“«])[^\W\d_]{4,}(?![\w@/'’-])")

Alike = Callable[[str, str], Sequence[tuple[Span, Span]]]
"""Finds what stands on both sides of a pair and should be copied."""


class EpochPairs(NamedTuple):
    """The pairs of a batch, in one epoch."""

    epoch: int
    pairs: Indices


class VariedBatches:
    """The batches of sentence pairs, in the order of `Batches`, varied. `joined`, `rough` and `protected` are shares of
    all pairs, and `joined_tokens` is the length in tokens of the longest row of several, on either side.

    Nothing is joined if a tokenizer does not begin a sentence as it begins a word (`byte_bpe`, `character`). Nothing is
    protected if one has no placeholders.

    Attributes:
        tokens: number of tokens in the first epoch on both sides, before they are varied.
    """

    def __init__(
        self,
        order: Batches,
        tokenizers: Tokenizers,
        alike: Alike,
        *,
        joined: float = 0.0,
        joined_tokens: int | None = None,
        rough: float = 0.0,
        protected: float = 0.0,
    ) -> None:
        assert order.seed is not None, "batches without a seed are not varied"
        self.order, self.tokens, self.tokenizers, self._alike = order, order.tokens, tokenizers, alike
        joins = all(each.encode("a a") == 2 * each.encode("a") for each in tokenizers)
        # A row that begins with probability p holds p * mean pairs, and the others one each.
        self._begins = joined / (_MEAN_JOINED - joined * (_MEAN_JOINED - 1)) if joins else 0.0
        self._longest = min(joined_tokens or order.sentence_tokens, order.sentence_tokens)
        self._protected = protected if all(each.placeholders for each in tokenizers) else 0.0
        self._rough = rough
        spelled = map(tokenizers.source.spelling, range(tokenizers.source.size))
        self._is_digit = np.array([each.decode(errors="replace").strip().isdecimal() for each in spelled])
        self._made: tuple[EpochPairs, Batch] | None = None

    def epoch(self, number: int) -> Epoch[EpochPairs]:
        """The pairs of each batch of an epoch, in order."""
        return self.order.epoch(number).mapped(partial(EpochPairs, number))

    def size_of(self, item: EpochPairs) -> BatchSize:
        """The sizes of a batch, which has to be made for that."""
        return self.batch(item).size

    def batch(self, item: EpochPairs) -> Batch:
        """The varied ids of some pairs, laid end to end. The latest batch is kept, because its size is asked first."""
        if self._made is None or self._made[0] is not item:
            self._made = (item, self._make(*item))
        return self._made[1]

    def _make(self, epoch: int, pairs: Indices) -> Batch:
        corpus = self.order.corpus
        assert corpus.source is not None, "sentence pairs have sources"
        draws = self._draws(epoch, pairs)
        sides = [_rows(side, pairs) for side in (corpus.source, corpus.target)]
        links = None if corpus.links is None else _rows(corpus.links, pairs)
        for place, *changed in self._changes(draws, *sides):
            for rows, ids in zip(sides, changed, strict=True):
                rows[place] = np.array(ids, np.int64)
            if links is not None:
                links[place] = np.zeros(len(changed[1]), np.int64)  # whose words are others now
        lengths = [np.array([len(row) for row in rows]) for rows in sides]
        begins = self._begin(draws[:, 1], *lengths)
        if links is not None:
            before = np.cumsum(lengths[0]) - lengths[0]
            shift = before - np.repeat(before[begins], np.diff([*begins, len(pairs)]))
            links = [np.where(row > 0, row + more, 0) for row, more in zip(links, shift, strict=True)]
        source, target = (_joined(rows, begins) for rows in sides)
        linked = None if links is None else _joined(links, begins)
        return self.order.lay(source, target, linked, np.arange(len(begins)), pairs)

    def _draws(self, epoch: int, pairs: Indices) -> NDArray[np.float64]:
        """Numbers from 0 to 1, `_DRAWS` for each pair, from raw random bits as those of the order are."""
        key, counter = (self.order.seed, epoch), (0, 1 + int(pairs[0]), 0, 0)
        bits = np.random.Philox(key=np.array(key, np.uint64), counter=np.array(counter, np.uint64))
        return (bits.random_raw((len(pairs), _DRAWS)) >> 11).astype(np.float64) * 2.0**-53

    def _changes(
        self, draws: NDArray[np.float64], source: Sequence[Indices], target: Sequence[Indices]
    ) -> list[tuple[int, list[int], list[int]]]:
        """The pairs that are other texts in this epoch: the place of each in the batch, and its ids."""
        changed: dict[int, tuple[str, str]] = {}
        protected = np.full(len(draws), self._protected)
        if self._protected:
            protected[[self._is_digit[row].any() for row in source]] = max(self._protected, _WITH_DIGITS)
        for place in np.flatnonzero(draws[:, 0] < protected + self._rough).tolist():
            if UNKNOWN in source[place] or UNKNOWN in target[place]:
                continue  # these do not come back as text
            both = zip(self.tokenizers, (source[place], target[place]), strict=True)
            one, other = (tokenizer.decode(row.tolist()) for tokenizer, row in both)
            kind, _, *rest = draws[place].tolist()
            change = self._protect if kind < protected[place] else roughened
            varied = change(one, other, iter(rest))
            if varied != (one, other):
                changed[place] = varied
        rows = zip(
            changed,
            self.tokenizers.source.encode_batch([source for source, _ in changed.values()]),
            self.tokenizers.target.encode_batch([target for _, target in changed.values()]),
            strict=True,
        )
        return [row for row in rows if max(map(len, row[1:])) <= self.order.sentence_tokens]

    def _protect(self, source: str, target: str, draws: Iterator[float]) -> tuple[str, str]:
        """A pair with a placeholder for what is alike on both sides, for each another of its kind."""
        alike = self._alike(source, target)
        order = {kind: _shuffled(kind, draws) for kind in dict.fromkeys(span.placeholders for span, _ in alike)}
        taken = [(one, other, order[one.placeholders].pop()) for one, other in alike if order[one.placeholders]]
        spans = sorted((other, placeholder) for _, other, placeholder in taken)
        return (
            replaced(source, [one for one, _, _ in taken], [placeholder for _, _, placeholder in taken]),
            replaced(target, [other for other, _ in spans], [placeholder for _, placeholder in spans]),
        )

    def _begin(self, draws: NDArray[np.float64], source: Indices, target: Indices) -> list[int]:
        """The pairs that begin a row; the others follow one in its row."""
        follows = np.zeros(len(draws), bool)
        for first in np.flatnonzero(draws < self._begins).tolist():
            if follows[first]:
                continue
            last = first + 2 + int(draws[first] / self._begins * (MOST_JOINED - 1))
            room = np.maximum(np.cumsum(source[first:last]), np.cumsum(target[first:last])) <= self._longest
            follows[first + 1 : first + int(room.sum())] = True
        return np.flatnonzero(~follows).tolist()


def roughened(source: str, target: str, draws: Iterator[float]) -> tuple[str, str]:
    """A pair as someone may type it in haste: without the last mark on both sides, or with an error in a small word of
    the source. Without either if nothing suits.

    >>> roughened("What is that?", "Che cos'è?", iter([0.2]))
    ('What is that', "Che cos'è")
    >>> roughened("What is that?", "Che cos'è?", iter([0.7, 0.0, 0.4, 0.5]))
    ('What is thta?', "Che cos'è?")
    """
    if next(draws) < 0.5:
        ends = _END.search(source), _END.search(target)
        return (source[: ends[0].start()], target[: ends[1].start()]) if ends[0] and ends[1] else (source, target)
    code = code_in(source)
    words = [match for match in _WORD.finditer(source) if match[0].islower() and not _is_inside(match, code)]
    if not words:
        return source, target
    word = words[int(next(draws) * len(words))]
    typed = mistyped(word[0], next(draws), next(draws))
    return source[: word.start()] + typed + source[word.end() :], target


def mistyped(word: str, how: float, where: float) -> str:
    """A word with two neighbouring letters exchanged, or, each a quarter of the time, one left out or typed twice.

    >>> mistyped("that", 0.1, 0.5), mistyped("that", 0.6, 0.5), mistyped("that", 0.9, 0.5)
    ('thta', 'tht', 'thaat')
    """
    places = [place for place in range(1, len(word) - (how < 0.5)) if how >= 0.5 or word[place] != word[place + 1]]
    if not places:
        return word
    place = places[int(where * len(places))]
    if how < 0.5:
        return word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    return word[:place] + word[place + 1 :] if how < 0.75 else word[: place + 1] + word[place:]


def _is_inside(match: re.Match[str], spans: Sequence[Span]) -> bool:
    return any(span.begin < match.end() and match.start() < span.end for span in spans)


def _shuffled(characters: Sequence[str], draws: Iterator[float]) -> list[str]:
    return [character for _, character in sorted((next(draws), character) for character in characters)]


def _rows(rows: Rows, pairs: Indices) -> list[Indices]:
    """The ids of some pairs on one side."""
    ids, lengths = gather(rows, pairs)
    ids = np.asarray(ids)  # slices of a memory map are slow
    return [ids[first:last] for first, last in pairwise([0, *np.cumsum(lengths).tolist()])]


def _joined(rows: Sequence[Indices], begins: Sequence[int]) -> Rows:
    """The rows that begin where `begins` says."""
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    return Rows(np.concatenate(rows), np.append(offsets[:-1][begins], offsets[-1]))
