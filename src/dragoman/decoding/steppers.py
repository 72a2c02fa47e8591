"""What a search needs of any model, and what may come next in each row. A search never sees a model itself.

A language model that sees a part of its text.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from dragoman.decoding.hypothesis import Table


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


class TextStepper:
    """Steps a language model over texts longer than its context. A source is the beginning of a text, without its last
    token, which is the first that the row is fed.

    A row sees at most `context` tokens, as many as the model was trained on. When it has seen so many, the newer half
    of them is read again as if a text began there, and the row goes on after it. So what follows a token depends on its
    own row alone. None: a row sees all of its text.
    """

    def __init__(self, stepper: Stepper, context: int | None = None) -> None:
        self.stepper, self.context = stepper, context
        self._seen: list[list[int]] = []
        """The tokens that each row of the stepper has seen."""

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        most = None if self.context is None else self.context - 1
        seen = [_last(source, most) for source in sources]
        self.stepper.admit(seen)
        self._seen += seen

    def advance(self, token: Int[np.ndarray, "R"]) -> Step:
        self._make_room()
        for seen, new in zip(self._seen, token.tolist(), strict=True):
            seen.append(new)
        return self.stepper.advance(token)

    def select(self, row: Int[np.ndarray, "R2"]) -> None:
        self.stepper.select(row)
        self._seen = [list(self._seen[number]) for number in row.tolist()]

    def _make_room(self) -> None:
        """Lets the rows that are full begin anew with the newer half of their context."""
        if self.context is None:
            return
        full = [row for row, seen in enumerate(self._seen) if len(seen) == self.context]
        if not full:
            return
        for row in full:
            self._seen[row] = _last(self._seen[row], self.context // 2)
        others = [row for row in range(len(self._seen)) if row not in full]
        self.stepper.select(np.array(others, np.int64))
        self.stepper.admit([self._seen[row] for row in full])
        self.stepper.select(np.argsort(np.array(others + full)))


def _last(tokens: Sequence[int], count: int | None) -> list[int]:
    """The last `count` of some tokens; None: all."""
    return list(tokens if count is None else tokens[max(0, len(tokens) - count) :])
