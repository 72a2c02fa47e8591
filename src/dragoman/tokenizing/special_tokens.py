"""Special symbols: their fixed ids, their display names, and the framing of sources and targets with them.

They come before the pieces of every vocabulary and are not in the library's model, so no text can spell them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import pydantic

from dragoman.config import Settings

UNKNOWN, PADDING, START, END = range(4)
SYMBOLS = 4
"""Number of special symbols, and therefore the id of the first ordinary token."""
SYNTHETIC = START
"""The symbol before a source that a model wrote; no other source holds it."""
MOST_AROUND = 16
"""Maximum number of symbols around a source; models have two or three."""
MASK = PADDING
"""Symbol for a masked word. Rows of tokens are never padded, so an encoder-only model has no other use for the padding
symbol, and it can start from a model of any family with the same vocabulary.
"""


class Specials(Settings):
    """Display names of the special symbols. Text that looks like one of them is still text."""

    unknown: str = "[UNK]"
    """A word that is not in a word vocabulary."""
    padding: str = "[PAD]"
    """Fills up short sentences where a rectangular batch is needed."""
    start: str = "[SOS]"
    """Start of a sentence."""
    end: str = "[EOS]"
    """End of a sentence."""

    @property
    def names(self) -> tuple[str, str, str, str]:
        """Return the four names in the order of their ids."""
        return self.unknown, self.padding, self.start, self.end

    @pydantic.model_validator(mode="after")
    def _distinct(self) -> Self:
        if not all(self.names) or len(set(self.names)) < len(self.names):
            raise ValueError(f"special symbols need four different names, but are {', '.join(map(repr, self.names))}")
        return self


@dataclass(frozen=True)
class Framing:
    """Ids of the symbols that a model expects around sources and targets.

    The default follows the paper. The decoder of Marian's models starts from the padding symbol, and their sources have
    no start symbol:

    >>> marian = Framing(source_before=(), target_start=PADDING)
    >>> marian.source([7, 8]), marian.target([7, 8]), marian.labels([7, 8])
    ([7, 8, 3], [1, 7, 8], [7, 8, 3])
    """

    source_before: tuple[int, ...] = (START,)
    source_after: tuple[int, ...] = (END,)
    target_start: int = START
    """Symbol that the decoder reads before the first token."""
    target_end: int = END
    """Symbol that the decoder writes after the last token."""
    target_prefix: bool = False
    """Place of the symbols of languages in a model with several. False: that of the target language begins the source.
    True: that of the source language begins the source, that of the target language the target. Ids of texts include
    these symbols.
    """

    def source(self, ids: Sequence[int]) -> list[int]:
        """Return a source as the encoder reads it."""
        return [*self.source_before, *ids, *self.source_after]

    def target(self, ids: Sequence[int]) -> list[int]:
        """Return a target as the decoder reads it."""
        return [self.target_start, *ids]

    def labels(self, ids: Sequence[int]) -> list[int]:
        """Return a target as the decoder should write it."""
        return [*ids, self.target_end]

    @property
    def padding(self) -> int:
        """Return the id that other toolkits pad with; rows here are never padded."""
        return PADDING

    @property
    def source_symbols(self) -> int:
        """Return the number of symbols added to a source."""
        return len(self.source_before) + len(self.source_after)

    @property
    def target_symbols(self) -> int:
        """Return the number of symbols added to a target, as input or as labels of the decoder."""
        return 1

    @property
    def suppressed_ids(self) -> tuple[int, ...]:
        """Return the symbols that no translation may contain; the search decides about the unknown symbol."""
        return tuple(sorted({PADDING, START, self.target_start} - {UNKNOWN, self.target_end}))

    @property
    def unused_id(self) -> int | None:
        """Return the padding symbol if the model neither reads nor writes it, else None."""
        framing = {*self.source_before, *self.source_after, self.target_start, self.target_end}
        return None if PADDING in framing else PADDING

    def check_ids(self, source_size: int | None, target_size: int | None) -> None:
        """Check that all symbols are in vocabularies of these sizes (None if unknown), and that they are not too many.

        Raises:
            ValueError: a symbol is not in its vocabulary, or there are too many.
        """
        if self.source_symbols > MOST_AROUND:
            raise ValueError(
                f"framing puts {self.source_symbols:,} symbols around a source; at most {MOST_AROUND} are allowed"
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
PREFIXED_FRAMING = Framing(source_before=(), target_start=END, target_prefix=True)
"""Framing of M2M-100, NLLB-200 and mBART-50."""
SMALL100_FRAMING = Framing(source_before=(), target_start=END)
