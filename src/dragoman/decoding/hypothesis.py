"""What a search writes: hypotheses, the penalty by which their lengths compare, and all rows under way as arrays."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

if TYPE_CHECKING:
    from torch import Tensor


def length_penalty(length: int, exponent: float) -> float:
    """The length penalty of Wu et al. (2016, eq. 14), ((5 + length) / 6)^exponent; the end symbol counts.

    Log-probabilities are divided by it, so that a search does not favour short outputs.

    >>> length_penalty(1, 0.6), length_penalty(7, 1.0)
    (1.0, 2.0)
    """
    return ((5 + length) / 6) ** exponent


class Hypothesis(NamedTuple):
    """An output, or the beginning of one; if it has `ended`, its last token is the end symbol.

    `total` is the sum of `log_probs`, one natural logarithm a token.
    """

    tokens: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()
    total: float = 0.0
    ended: bool = False

    def score(self, exponent: float) -> float:
        """Total over length penalty, which ranks hypotheses of different lengths."""
        return self.total / length_penalty(len(self.tokens), exponent)

    def continued(self, token: int, log_prob: float, total: float, end: int) -> "Hypothesis":
        """This hypothesis and one more token."""
        return Hypothesis((*self.tokens, token), (*self.log_probs, log_prob), total, token == end)


def common_beginning(rivals: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The tokens that all of these begin with."""
    first, last = min(rivals), max(rivals)  # in the order of tokens, so what these two share, all share
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), None)
    return first[: min(len(first), len(last)) if same is None else same]


Fate = Literal["live", "ended", "dropped"]
"""`live`: continued at the next step. `ended`: a finished hypothesis. `dropped`: better candidates filled the beam."""


class Candidate(NamedTuple):
    """A hypothesis that a search considered, and what became of it."""

    hypothesis: Hypothesis
    fate: Fate


@runtime_checkable
class SearchObserver(Protocol):
    """Watches a search, and the model below it where the stepper shows it. Without one a search does no extra work."""

    def tensor(self, site: str, value: "Tensor") -> None:
        """What the model shows: see `model.observer.Observer`."""
        ...

    def candidates(self, ticket: int, candidates: Sequence[Candidate]) -> None:
        """Takes every candidate that one step considered for the request with this ticket, best first: one for a
        greedy search, else twice the beam size; fewer where processors forbid the others.
        """
        ...


_GROWTH = 32  # tokens


class Outputs:
    """What R rows have written, with its log-probabilities; the tokens of row r are `tokens[r, : lengths[r]]`."""

    def __init__(self) -> None:
        self.tokens: Int[np.ndarray, "R T"] = np.empty((0, _GROWTH), np.int64)
        self.log_probs: Float[np.ndarray, "R T"] = np.empty((0, _GROWTH), np.float32)
        self.lengths: Int[np.ndarray, "R"] = np.empty(0, np.int64)
        self.totals: Float[np.ndarray, "R"] = np.empty(0, np.float64)
        self.last: Int[np.ndarray, "R"] = np.empty(0, np.int64)
        """What the model is fed next: the last token, or the start symbol."""
        self._all: Int[np.ndarray, "R"] = np.empty(0, np.int64)
        self._longest = 0  # at least the longest length

    def __len__(self) -> int:
        return len(self.last)

    def enter(self, starts: Sequence[int]) -> None:
        """Adds rows that have written nothing; each is fed its start symbol first."""
        count, room = len(starts), self.tokens.shape[1]
        self.tokens = np.concatenate([self.tokens, np.zeros((count, room), np.int64)])
        self.log_probs = np.concatenate([self.log_probs, np.zeros((count, room), np.float32)])
        self.lengths = np.concatenate([self.lengths, np.zeros(count, np.int64)])
        self.totals = np.concatenate([self.totals, np.zeros(count)])
        self.last = np.concatenate([self.last, np.array(starts, np.int64)])
        self._all = np.arange(len(self.last))

    def select(self, rows: Int[np.ndarray, "R2"]) -> None:
        """Keeps these rows, in this order."""
        self.tokens, self.log_probs = self.tokens[rows], self.log_probs[rows]
        self.lengths, self.totals, self.last = self.lengths[rows], self.totals[rows], self.last[rows]
        if len(rows) != len(self._all):
            self._all = np.arange(len(rows))
            self._longest = int(self.lengths.max(initial=0))

    def append(
        self, token: Int[np.ndarray, "R"], log_prob: Float[np.ndarray, "R"], total: Float[np.ndarray, "R"]
    ) -> None:
        """Writes the next token of every row."""
        self.make_room()
        self.tokens[self._all, self.lengths] = self.last = token
        self.log_probs[self._all, self.lengths] = log_prob
        self.lengths += 1
        self.totals = total
        self.has_grown()

    def make_room(self) -> None:
        """Makes sure that every row has room for one more token."""
        if self._longest == self.tokens.shape[1]:
            wider = ((0, 0), (0, max(_GROWTH, self._longest // 2)))
            self.tokens, self.log_probs = np.pad(self.tokens, wider), np.pad(self.log_probs, wider)

    def has_grown(self) -> None:
        """Counts one more token in every row."""
        self._longest += 1

    def written(self, row: int) -> Int[np.ndarray, "T"]:
        """The tokens of a row, where they lie."""
        return self.tokens[row, : self.lengths[row]]

    def hypothesis(self, row: int) -> Hypothesis:
        """What a row has written."""
        tokens, log_probs = self.written(row).tolist(), self.log_probs[row, : self.lengths[row]].tolist()
        return Hypothesis(tuple(tokens), tuple(log_probs), float(self.totals[row]))
