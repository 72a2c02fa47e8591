"""Texts as heads are judged on them: what a model reads and writes in ids, and which tokens are a word."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Self

from dragoman.aligning.attention import Link
from dragoman.aligning.passes import Given
from dragoman.aligning.words import Word, words_of
from dragoman.errors import DataError
from dragoman.explaining.alignment.links import AlignedPair
from dragoman.explaining.heads.shares import Side, Span
from dragoman.explaining.heads.subjects import Tree, overlapping, word_pairs
from dragoman.tokenizing.framing import Framing
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.tokenizers import Tokenizers

LinkedPair = tuple[str, str, Collection[Link]]
"""A source, its translation, and their aligned words, as `words_of` counts them."""


@dataclass(frozen=True)
class ReadText:
    """One text, and the words of its tokens."""

    given: Given
    source: Side | None
    """What the encoder reads; None for a language model."""
    target: Side
    """What the decoder reads."""
    written: tuple[Span, ...]
    """Where the decoder writes each word of the target: before it reads it."""
    links: tuple[Link, ...] = ()
    """Aligned words of source and target."""

    @classmethod
    def of(cls, tokenizers: Tokenizers, given: Given, links: Collection[Link] = ()) -> Self:
        """A text in ids, with or without links between the words of source and target.

        Raises:
            DataError: a link names a word that does not exist.
        """
        source = side_of(tokenizers.source, given.source) if given.source is not None else None
        words = _words(tokenizers.target, given.labels)
        counts = (len(source.words) if source else 0, len(words))
        for link in links:
            if not (0 <= link[0] < counts[0] and 0 <= link[1] < counts[1]):
                raise DataError(
                    f"there is no link {link[0]}-{link[1]} between {counts[0]} source and {counts[1]} target words, "
                    "which are counted from 0"
                )
        target = side_of(tokenizers.target, given.target)
        return cls(given, source, target, tuple((word.first, word.last) for word in words), tuple(links))

    @classmethod
    def of_pair(
        cls, tokenizers: Tokenizers, framing: Framing, source: str, target: str, links: Collection[Link] = ()
    ) -> Self:
        """A source and its translation.

        Raises:
            DataError: a link names a word that does not exist.
        """
        ids = tokenizers.source.encode(source), tokenizers.target.encode(target)
        return cls.of(tokenizers, Given.of(framing, *ids), links)

    @classmethod
    def of_text(cls, tokenizers: Tokenizers, text: str) -> Self:
        """A text that a language model reads; each token is what it should write after those before it."""
        ids = tokenizers.target.encode(text)
        return cls.of(tokenizers, Given(None, ids[:-1], ids[1:]))

    def fits(self, positions: int | None) -> bool:
        """Whether each side has a word, and none has more tokens than the model has positions."""
        sides = [self.target] if self.source is None else [self.source, self.target]
        longest = max(len(self.given.source or []), len(self.given.target))
        return all(side.words for side in sides) and (positions is None or longest <= positions)


@dataclass(frozen=True)
class ReadTree:
    """One sentence of the source language, and which of its words are verbs and their subjects."""

    source: list[int]
    side: Side
    subjects: tuple[tuple[int, int], ...]
    """(verb, subject), by number of the word."""

    @classmethod
    def of(cls, tokenizer: Tokenizer, framing: Framing, tree: Tree) -> Self:
        """The sentence of a treebank as the encoder reads it."""
        source = framing.source(tokenizer.encode(tree.text))
        return cls(source, side_of(tokenizer, source), tuple(word_pairs(tree, _characters(tokenizer, tree.text))))

    def fits(self, positions: int | None) -> bool:
        """Whether there is a verb to judge by, and no more tokens than the model has positions."""
        return bool(self.subjects) and (positions is None or len(self.source) <= positions)


def side_of(tokenizer: Tokenizer, ids: Sequence[int]) -> Side:
    """The words of what a stack reads, and the symbols around them. What stands for an unknown word is no symbol."""
    symbols = [tokenizer.is_special(id_) and id_ != tokenizer.unknown for id_ in ids]
    before = len(list(takewhile(bool, symbols)))
    after = len(list(takewhile(bool, reversed(symbols[before:]))))
    return Side.of(_words(tokenizer, ids), len(ids), before, after)


def _words(tokenizer: Tokenizer, ids: Sequence[int]) -> list[Word]:
    """The words of these tokens; spaces alone are none."""
    return [word for word in words_of(tokenizer, ids) if word.text]


def _characters(tokenizer: Tokenizer, text: str) -> list[Span]:
    """The words of a text, as characters of it."""
    places = tokenizer.offsets(text)
    return [(places[word.first][0], places[word.last - 1][1]) for word in _words(tokenizer, tokenizer.encode(text))]


def linked_pairs(tokenizers: Tokenizers, pairs: Iterable[AlignedPair]) -> list[LinkedPair]:
    """Hand-aligned pairs with their sure links. Where these tokenizers cut other words, the links are those of the
    words that share the most characters.
    """
    return [(pair.source, pair.target, _links(tokenizers, pair)) for pair in pairs]


def _links(tokenizers: Tokenizers, pair: AlignedPair) -> set[Link]:
    source = _counterparts(tokenizers.source, pair.source, pair.source_words)
    target = _counterparts(tokenizers.target, pair.target, pair.target_words)
    found = ((source[of_source], target[of_target]) for of_source, of_target in pair.sure)
    return {(one, other) for one, other in found if one is not None and other is not None}


def _counterparts(tokenizer: Tokenizer, text: str, words: Sequence[str]) -> list[int | None]:
    """Which word of a tokenizer each of these words of a text is."""
    cut, found, end = _characters(tokenizer, text), [], 0
    for word in words:
        start = text.index(word, end)
        end = start + len(word)
        found.append(overlapping((start, end), cut))
    return found
