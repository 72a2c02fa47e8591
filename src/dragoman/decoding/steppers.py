"""What a search needs of any model, which it never sees itself; models that step as one, and texts beyond a context."""

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from dragoman.decoding.hypothesis import Outputs


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

    def write_next(self, outputs: Outputs, limits: Int[np.ndarray, "B"], end: int) -> Int[np.ndarray, "R"] | None:
        """Writes the best next token of every row, for B requests of equally many rows, if this can be done at once and
        nothing ends by it: no hypothesis, no request at its limit, none with NaN. Returns from which row each row goes
        on; None if it did nothing.
        """
        ...

    def log_probs(self) -> Float[np.ndarray, "R V"]:
        """All log-probabilities, float32."""
        ...

    def of_log_probs(self, log_prob: Float[np.ndarray, "R V"]) -> "Step":
        """Another step of this kind, with these log-probabilities."""
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


@runtime_checkable
class ScoringStepper(Stepper, Protocol):
    """A stepper of a translation model, which also scores given targets."""

    def score(
        self, sources: Sequence[Sequence[int]], given: Sequence[Sequence[int]], labels: Sequence[Sequence[int]]
    ) -> Float[np.ndarray, "M"]:
        """The log-probability of each label of each target in turn: that of what follows the tokens that the decoder is
        `given` up to its place. No row is under way before and after.
        """
        ...


class EnsembleStepper:
    """Steps models of one vocabulary side by side. What follows has the mean of the probabilities that they give it
    (Sutskever et al. 2014, section 3.6), so the order of the models changes nothing but the last bit.
    """

    def __init__(self, steppers: Sequence[ScoringStepper]) -> None:
        self.steppers = steppers

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        for stepper in self.steppers:
            stepper.admit(sources)

    def advance(self, token: Int[np.ndarray, "R"]) -> Step:
        steps = [stepper.advance(token) for stepper in self.steppers]
        return steps[0].of_log_probs(_log_mean([step.log_probs() for step in steps]))

    def select(self, row: Int[np.ndarray, "R2"]) -> None:
        for stepper in self.steppers:
            stepper.select(row)

    def score(
        self, sources: Sequence[Sequence[int]], given: Sequence[Sequence[int]], labels: Sequence[Sequence[int]]
    ) -> Float[np.ndarray, "M"]:
        return _log_mean([stepper.score(sources, given, labels) for stepper in self.steppers])


def _log_mean(log_probs: Sequence[Float[np.ndarray, "..."]]) -> Float[np.ndarray, "..."]:
    """The logarithm of the mean probability; NaN where one of them is NaN."""
    with np.errstate(invalid="ignore"):
        return np.logaddexp.reduce(np.stack(log_probs)) - np.float32(math.log(len(log_probs)))


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
