"""Texts as heads are judged on them: what a model reads and writes in ids, and which tokens are a word."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dragoman.errors import DataError
from dragoman.explaining.heads.shares import Side, Span
from dragoman.explaining.passes import Given
from dragoman.explaining.words import words_of
from dragoman.tokenizing.framing import Framing
from dragoman.tokenizing.tokenizer import Tokenizer, Tokenizers

Link = tuple[int, int]
"""A word of the source and a word of the target, by number, as `words_of` counts them."""
LinkedPair = tuple[str, str, Collection[Link]]
"""A source, its translation, and their aligned words."""


@dataclass(frozen=True)
class ReadText:
    """One text, and the words of its tokens."""

    given: Given
    source: Side | None
    """What the encoder reads; None for a language model."""
    target: Side
    """What the decoder reads."""
    written: tuple[Span, ...] = ()
    """Where the decoder writes each word of the target: before it reads it."""
    links: tuple[Link, ...] = ()
    """A text with links is judged by them alone."""

    @classmethod
    def of_pair(
        cls, tokenizers: Tokenizers, framing: Framing, source: str, target: str, links: Collection[Link] = ()
    ) -> "ReadText":
        """A source and its translation.

        Raises:
            DataError: a link names a word that does not exist.
        """
        written, given = tokenizers.target.encode(target), tokenizers.source.encode(source)
        words, side = words_of(tokenizers.target, written), source_side(tokenizers.source, framing, given)
        if wrong := [link for link in links if not (link[0] < len(side.words) and link[1] < len(words))]:
            raise DataError(
                f"{source!r} has {len(side.words)} words and {target!r} {len(words)}, counted from 0; there is no link "
                f"{wrong[0][0]}-{wrong[0][1]}"
            )
        return cls(
            Given.of(framing, given, written),
            side,
            Side.of(words, len(written) + 1, 1, 0),
            tuple((word.first, word.last) for word in words),
            tuple(links),
        )

    @classmethod
    def of_text(cls, tokenizer: Tokenizer, text: str) -> "ReadText":
        """A text that a language model reads; each token is what it should write after those before it."""
        read, labels = (ids := tokenizer.encode(text))[:-1], ids[1:]
        return cls(Given(None, read, labels), None, Side.of(words_of(tokenizer, read), len(read), 0, 0))

    @property
    def tokens(self) -> int:
        """On both sides."""
        return len(self.given.source or []) + len(self.given.target)

    def fits(self, positions: int | None) -> bool:
        """Whether there is something to write, and no side has more tokens than the model has positions."""
        longest = max(len(self.given.source or []), len(self.given.target))
        return bool(self.target.words) and (positions is None or longest <= positions)


def source_side(tokenizer: Tokenizer, framing: Framing, ids: Sequence[int]) -> Side:
    """The words of a source with its symbols."""
    before, after = len(framing.source_before), len(framing.source_after)
    return Side.of(words_of(tokenizer, ids), before + len(ids) + after, before, after)
