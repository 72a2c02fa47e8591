"""The interface of a search to its model, and steppers for ensembles and for texts longer than a context."""

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from dragoman.decoding.hypothesis import Outputs
from dragoman.shapes import Float, Int


class TopTokens(NamedTuple):
    """The likeliest tokens of each row in order, the lower id first among equals."""

    log_prob: Float[np.ndarray, "R C"]
    token: Int[np.ndarray, "R C"]


@runtime_checkable
class StepScores(Protocol):
    """The log-probability of every token in each of R rows, on any device."""

    def forbid(self, rows: Int[np.ndarray, "..."], tokens: Int[np.ndarray, "..."]) -> None:
        """Set log-probabilities to minus infinity. The index arrays broadcast as in `array[rows, tokens]`."""
        ...

    def allow_only(self, rows: Int[np.ndarray, "Q"], tokens: Int[np.ndarray, "Q"]) -> None:
        """Forbid all tokens of each of these rows except one."""
        ...

    def make_certain(self, rows: Int[np.ndarray, "Q"], tokens: Int[np.ndarray, "Q"]) -> None:
        """Set the log-probability of one token of each of these rows to 0."""
        ...

    def best(self, count: int) -> TopTokens:
        """Return the best `count` tokens of each row, or all if there are fewer; a NaN in a row is among them."""
        ...

    def write_next(self, outputs: Outputs, limits: Int[np.ndarray, "B"], end: int) -> Int[np.ndarray, "R"] | None:
        """Write the best next token of every row, for B requests with the same number of rows, and return the parent
        row of every row. Do nothing and return None if this stepper has no such fast path, a hypothesis would end, a
        request would reach its limit, or a value is NaN.
        """
        ...

    def log_probs(self) -> Float[np.ndarray, "R V"]:
        """Return all log-probabilities as float32."""
        ...

    def from_log_probs(self, log_prob: Float[np.ndarray, "R V"]) -> "StepScores":
        """Return a new object of this type with these log-probabilities."""
        ...


@runtime_checkable
class Stepper(Protocol):
    """R active rows, each a hypothesis of one source. The source of a language model is the beginning of its text.

    A step returns log-probabilities rather than logits, so that an ensemble can average them.
    """

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """Add a row for each source, after the active rows."""
        ...

    def advance(self, token: Int[np.ndarray, "R"]) -> StepScores:
        """Append each row's next token, the start symbol first; return the scores of the following tokens."""
        ...

    def select(self, row: Int[np.ndarray, "R2"]) -> None:
        """Keep these rows, in this order; rows may repeat or be left out."""
        ...


@runtime_checkable
class ScoringStepper(Stepper, Protocol):
    """A stepper of a translation model, which also scores given targets."""

    def score(
        self, sources: Sequence[Sequence[int]], inputs: Sequence[Sequence[int]], labels: Sequence[Sequence[int]]
    ) -> Float[np.ndarray, "M"]:
        """Return the log-probability of every label, given the decoder's `inputs`; there must be no active rows."""
        ...


class EnsembleStepper:
    """A stepper of several models with the same vocabulary. The probability of a token is the mean of the models'
    probabilities (Sutskever et al. 2014, section 3.6), so the order of the models affects at most the last bit.
    """

    def __init__(self, steppers: Sequence[ScoringStepper]) -> None:
        self.steppers = steppers

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        for stepper in self.steppers:
            stepper.admit(sources)

    def advance(self, token: Int[np.ndarray, "R"]) -> StepScores:
        steps = [stepper.advance(token) for stepper in self.steppers]
        return steps[0].from_log_probs(_log_mean([step.log_probs() for step in steps]))

    def select(self, row: Int[np.ndarray, "R2"]) -> None:
        for stepper in self.steppers:
            stepper.select(row)

    def score(
        self, sources: Sequence[Sequence[int]], inputs: Sequence[Sequence[int]], labels: Sequence[Sequence[int]]
    ) -> Float[np.ndarray, "M"]:
        return _log_mean([stepper.score(sources, inputs, labels) for stepper in self.steppers])


def _log_mean(log_probs: Sequence[Float[np.ndarray, "..."]]) -> Float[np.ndarray, "..."]:
    """Return the logarithm of the mean probability; NaN if any value is NaN."""
    with np.errstate(invalid="ignore"):
        return np.logaddexp.reduce(np.stack(log_probs)) - np.float32(math.log(len(log_probs)))


class TextStepper:
    """A stepper of a language model for texts longer than its context. A source is the beginning of a text without its
    last token, which is the first input of the row.

    A row sees at most `context` tokens, the length that the model was trained on. When the context is full, the newer
    half of it is read again as if a text began there, and the row continues after it. Scores therefore depend only on
    the row itself. With None, a row sees its whole text.
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

    def advance(self, token: Int[np.ndarray, "R"]) -> StepScores:
        self._shorten_full_rows()
        for seen, new in zip(self._seen, token.tolist(), strict=True):
            seen.append(new)
        return self.stepper.advance(token)

    def select(self, row: Int[np.ndarray, "R2"]) -> None:
        self.stepper.select(row)
        self._seen = [list(self._seen[number]) for number in row.tolist()]

    def _shorten_full_rows(self) -> None:
        """Restart full rows with the newer half of their context."""
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
    """Return the last `count` tokens; None: all."""
    return list(tokens if count is None else tokens[max(0, len(tokens) - count) :])
