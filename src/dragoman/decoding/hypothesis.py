"""Hypotheses, the length penalty that makes them comparable, and the outputs of all active rows as arrays."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from dragoman.shapes import Float, Int

if TYPE_CHECKING:
    from torch import Tensor


def length_penalty(length: int, exponent: float) -> float:
    """Return the length penalty of Wu et al. (2016, eq. 14), ((5 + length) / 6)^exponent; the end symbol counts.

    Log-probabilities are divided by it, so that a search does not favour short outputs.

    >>> length_penalty(1, 0.6), length_penalty(7, 1.0)
    (1.0, 2.0)
    """
    return ((5 + length) / 6) ** exponent


class Hypothesis(NamedTuple):
    """A complete or partial output; if `finished`, it ends with the end symbol. `total` is the sum of `log_probs`."""

    tokens: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()
    total: float = 0.0
    finished: bool = False

    def score(self, exponent: float) -> float:
        """Return total over length penalty, which ranks hypotheses of different lengths."""
        return self.total / length_penalty(len(self.tokens), exponent)

    def continued(self, token: int, log_prob: float, total: float, end: int) -> "Hypothesis":
        """Return this hypothesis with one more token."""
        return Hypothesis((*self.tokens, token), (*self.log_probs, log_prob), total, token == end)


def common_prefix(rivals: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the longest common prefix."""
    first, last = min(rivals), max(rivals)  # in lexicographic order, so a prefix of these two is one of all
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), None)
    return first[: min(len(first), len(last)) if same is None else same]


CandidateStatus = Literal["live", "ended", "dropped"]
"""Status of a candidate. `live`: continued in the next step. `ended`: finished. `dropped`: the beam was full."""


class BeamCandidate(NamedTuple):
    """A hypothesis that a search considered, and its status."""

    hypothesis: Hypothesis
    status: CandidateStatus


@runtime_checkable
class SearchObserver(Protocol):
    """An observer of a search, and of its model if the stepper supports that. It causes no extra work when absent."""

    def tensor(self, site: str, value: "Tensor") -> None:
        """Receive a tensor of the model: see `model.observer.Observer`."""
        ...

    def candidates(self, ticket: int, candidates: Sequence[BeamCandidate]) -> None:
        """Receive every candidate that a step considered for the request with this ticket, best first: one for greedy
        search, else twice the beam size; fewer if processors forbid the others.
        """
        ...


_GROWTH = 32  # tokens


class Outputs:
    """The tokens that R rows have written, with log-probabilities; those of row r are `tokens[r, : lengths[r]]`."""

    def __init__(self) -> None:
        self.tokens: Int[np.ndarray, "R T"] = np.empty((0, _GROWTH), np.int64)
        self.log_probs: Float[np.ndarray, "R T"] = np.empty((0, _GROWTH), np.float32)
        self.lengths: Int[np.ndarray, "R"] = np.empty(0, np.int64)
        self.totals: Float[np.ndarray, "R"] = np.empty(0, np.float64)
        self.last: Int[np.ndarray, "R"] = np.empty(0, np.int64)
        """The next input of the model: the last token, or the start symbol."""
        self._all: Int[np.ndarray, "R"] = np.empty(0, np.int64)
        self._longest = 0  # at least the longest length

    def __len__(self) -> int:
        return len(self.last)

    def add_rows(self, starts: Sequence[int]) -> None:
        """Add empty rows, whose first inputs are these start symbols."""
        count, capacity = len(starts), self.tokens.shape[1]
        self.tokens = np.concatenate([self.tokens, np.zeros((count, capacity), np.int64)])
        self.log_probs = np.concatenate([self.log_probs, np.zeros((count, capacity), np.float32)])
        self.lengths = np.concatenate([self.lengths, np.zeros(count, np.int64)])
        self.totals = np.concatenate([self.totals, np.zeros(count)])
        self.last = np.concatenate([self.last, np.array(starts, np.int64)])
        self._all = np.arange(len(self.last))

    def select(self, rows: Int[np.ndarray, "R2"]) -> None:
        """Keep these rows, in this order."""
        self.tokens, self.log_probs = self.tokens[rows], self.log_probs[rows]
        self.lengths, self.totals, self.last = self.lengths[rows], self.totals[rows], self.last[rows]
        if len(rows) != len(self._all):
            self._all = np.arange(len(rows))
            self._longest = int(self.lengths.max(initial=0))

    def append(
        self, token: Int[np.ndarray, "R"], log_prob: Float[np.ndarray, "R"], total: Float[np.ndarray, "R"]
    ) -> None:
        """Append the next token of every row."""
        self.ensure_capacity()
        self.tokens[self._all, self.lengths] = self.last = token
        self.log_probs[self._all, self.lengths] = log_prob
        self.lengths += 1
        self.totals = total
        self.count_tokens(1)

    def ensure_capacity(self) -> None:
        """Ensure that every row has capacity for one more token."""
        if self._longest == self.tokens.shape[1]:
            wider = ((0, 0), (0, max(_GROWTH, self._longest // 2)))
            self.tokens, self.log_probs = np.pad(self.tokens, wider), np.pad(self.log_probs, wider)

    def count_tokens(self, count: int) -> None:
        """Count more tokens in every row."""
        self._longest += count

    @property
    def room(self) -> int:
        """The number of further tokens for which every row has capacity."""
        return self.tokens.shape[1] - self._longest

    def written(self, row: int) -> Int[np.ndarray, "T"]:
        """Return a view of the tokens of a row."""
        return self.tokens[row, : self.lengths[row]]

    def hypothesis(self, row: int) -> Hypothesis:
        """Return the output of a row as a hypothesis."""
        tokens, log_probs = self.written(row).tolist(), self.log_probs[row, : self.lengths[row]].tolist()
        return Hypothesis(tuple(tokens), tuple(log_probs), float(self.totals[row]))
