"""What a search needs of any model, and what may come next in each row. A search never sees a model itself."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from dragoman.decoding.table import Table


class Best(NamedTuple):
    """The likeliest tokens of each row in order, the lower id first among equals."""

    log_prob: Float[np.ndarray, "R C"]
    token: Int[np.ndarray, "R C"]


@runtime_checkable
class Step(Protocol):
    """The log-probability of every token in each of R rows, wherever it lies."""

    def forbid(self, rows: Int[np.ndarray, "..."], tokens: Int[np.ndarray, "..."]) -> None:
        """Sets log-probabilities to minus infinity, and leaves the others as they are. The arrays fit each other, as in
        `array[rows, tokens]`.
        """
        ...

    def allow_only(self, rows: Int[np.ndarray, "Q"], tokens: Int[np.ndarray, "Q"]) -> None:
        """Forbids all tokens of each of these rows but one."""
        ...

    def best(self, count: int) -> Best:
        """The best `count` tokens of each row, or all if there are fewer. NaN anywhere in a row is seen in it."""
        ...

    def write_next(self, table: Table, limits: Int[np.ndarray, "B"], end: int) -> Int[np.ndarray, "R"] | None:
        """Writes the best next token of every row, for B requests of equally many rows, if this can be done at once and
        nothing ends by it: no hypothesis, no request at its limit, none with NaN. Returns from which row each row goes
        on; None if it did nothing.
        """
        ...

    def log_probs(self) -> Float[np.ndarray, "R V"]:
        """All log-probabilities, float32."""
        ...


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
