"""A language model that sees a part of its text."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from dragoman.decoding.stepper import Step, Stepper


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
