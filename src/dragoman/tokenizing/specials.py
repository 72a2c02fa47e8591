"""The four special symbols: their ids, fixed for every vocabulary, and the names they are shown under.

They come before the pieces of every vocabulary and are not in the library's model, so that no text can spell them.
"""

from typing import Self

import pydantic

from dragoman.config import Settings

UNKNOWN, PADDING, START, END = range(4)
SYMBOLS = 4
"""The number of special symbols, and so the id of the first token that is none."""
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
