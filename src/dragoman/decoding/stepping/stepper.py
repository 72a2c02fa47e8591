"""What a search needs of any model. A search never sees a model itself."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from dragoman.decoding.stepping.step import Step


@runtime_checkable
class Stepper(Protocol):
    """R rows under way, each one hypothesis of one source. The source of a language model is the beginning of its text.

    It returns log-probabilities rather than logits, so that an ensemble can average them.
    """

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """Adds one new row for each source, after the rows under way."""
        ...

    def advance(self, token: Int[np.ndarray, "R"]) -> Step:
        """Takes in each row's next token, the start symbol first; returns what may follow."""
        ...

    def select(self, row: Int[np.ndarray, "R2"]) -> None:
        """Keeps these rows, in this order; a row may be named twice or not at all."""
        ...
