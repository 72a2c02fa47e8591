"""What all rows under way have written, as arrays."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from dragoman.decoding.hypothesis import Hypothesis

_GROWTH = 32  # tokens by which the room for outputs grows


class Table:
    """R rows of tokens with their log-probabilities; those of row r are `tokens[r, : lengths[r]]`."""

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
