"""The four special symbols: their ids, fixed for every vocabulary, and the names they are shown under.

They come before the pieces of every vocabulary and are not in the library's model, so that no text can spell them.

Which special symbols stand around the two sides of a pair: the one place that says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import pydantic

from dragoman.config import Settings

UNKNOWN, PADDING, START, END = range(4)
SYMBOLS = 4
"""The number of special symbols, and so the id of the first token that is none."""
MOST_AROUND = 16
"""Most symbols around a source; models have two or three."""
MASK = PADDING
"""Stands for a hidden word. Rows of tokens are never padded, so an encoder alone has no other use for this symbol, and
a model of any family can start it without another vocabulary.
"""


class Specials(Settings):
    """How the special symbols are shown. These are only names: text that looks like one of them stays text."""

    unknown: str = "[UNK]"
    """Stands for a word that a vocabulary of words does not hold."""
    padding: str = "[PAD]"
    """Fills up short sentences where a rectangle is needed."""
    start: str = "[SOS]"
    """Marks the beginning of a sentence."""
    end: str = "[EOS]"
    """Marks the end of a sentence."""

    @property
    def names(self) -> tuple[str, str, str, str]:
        """The four names, in the order of their ids."""
        return self.unknown, self.padding, self.start, self.end

    @pydantic.model_validator(mode="after")
    def _distinct(self) -> Self:
        if not all(self.names) or len(set(self.names)) < len(self.names):
            raise ValueError(f"special symbols need four different names, but are {', '.join(map(repr, self.names))}")
        return self


@dataclass(frozen=True)
class Framing:
    """The symbols that a model expects around sources and targets, as ids.

    The default is the paper's way. Models of Marian are fed the padding symbol first and see no start of a source:

    >>> marian = Framing(source_before=(), target_start=PADDING)
    >>> marian.source([7, 8]), marian.target([7, 8]), marian.labels([7, 8])
    ([7, 8, 3], [1, 7, 8], [7, 8, 3])
    """

    source_before: tuple[int, ...] = (START,)
    source_after: tuple[int, ...] = (END,)
    target_start: int = START
    """What the decoder is fed before the first token."""
    target_end: int = END
    """What the decoder writes after the last token."""

    def source(self, ids: Sequence[int]) -> list[int]:
        """A source as the encoder reads it."""
        return [*self.source_before, *ids, *self.source_after]

    def target(self, ids: Sequence[int]) -> list[int]:
        """A target as the decoder reads it."""
        return [self.target_start, *ids]

    def labels(self, ids: Sequence[int]) -> list[int]:
        """A target as the decoder should write it."""
        return [*ids, self.target_end]

    @property
    def padding(self) -> int:
        """What fills up a rectangle in other toolkits; here rows are never padded."""
        return PADDING

    @property
    def source_symbols(self) -> int:
        """How many symbols are added to a source."""
        return len(self.source_before) + len(self.source_after)

    @property
    def target_symbols(self) -> int:
        """How many symbols are added to a target, as the decoder reads it or as it should write it."""
        return 1

    @property
    def never_written(self) -> tuple[int, ...]:
        """Symbols that no translation holds; whether it may hold the unknown symbol is for a search to say."""
        return tuple(sorted({PADDING, START, self.target_start} - {UNKNOWN, self.target_end}))

    @property
    def never_seen(self) -> int | None:
        """The padding symbol, which a model neither reads nor writes; None where it frames a text."""
        around = {*self.source_before, *self.source_after, self.target_start, self.target_end}
        return None if PADDING in around else PADDING

    def refuse_unknown(self, source_size: int | None, target_size: int | None) -> None:
        """Refuses symbols that are not in vocabularies of these sizes, and more than a model needs; None if a size is
        not known.

        Raises:
            ValueError: one is not, or there are too many.
        """
        if self.source_symbols > MOST_AROUND:
            raise ValueError(
                f"framing puts {self.source_symbols:,} symbols around a source; {MOST_AROUND} are the most"
            )
        sides = (
            ("source", (*self.source_before, *self.source_after), source_size),
            ("target", (self.target_start, self.target_end), target_size),
        )
        for side, ids, size in sides:
            for token in ids:
                if token < 0 or (size is not None and token >= size):
                    known = "" if size is None else f", which has {size:,} tokens"
                    raise ValueError(f"framing names token {token} of the {side} vocabulary{known}")


DEFAULT_FRAMING = Framing()
MARIAN_FRAMING = Framing(source_before=(), target_start=PADDING)
"""That of Marian's models."""
