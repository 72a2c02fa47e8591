"""What a search may not write: each rule is a small object that forbids some tokens at a step.

It leaves the other log-probabilities as they are, so that scores stay those of the model. Rules may be applied in any
order. A rule sees the tokens that rows have written, and nothing else.
"""

import math
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int

from dragoman.decoding.steppers import Step


class Written:
    """Rows that obey a rule, and what each has written: `tokens[i, : lengths[i]]`."""

    def __init__(
        self, rows: Int[np.ndarray, "Q"], tokens: Int[np.ndarray, "R T"], lengths: Int[np.ndarray, "R"]
    ) -> None:
        """`tokens` and `lengths` are those of all rows under way."""
        self.rows, self._tokens, self._lengths = rows, tokens, lengths

    @property
    def lengths(self) -> Int[np.ndarray, "Q"]:
        return self._lengths[self.rows]

    @property
    def tokens(self) -> Int[np.ndarray, "Q T"]:
        return self._tokens[self.rows]


@runtime_checkable
class Rule(Protocol):
    @property
    def until(self) -> float:
        """Tokens of a row after which the rule has nothing more to say about it; infinite: it always has."""
        ...

    def __call__(self, step: Step, written: Written) -> None:
        """Forbids in `step` what these rows may not write next; other rows do not obey the rule."""
        ...


class Ban:
    """Forbids some tokens everywhere."""

    until = math.inf

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = np.array(tokens, np.int64)

    def __call__(self, step: Step, written: Written) -> None:
        step.forbid(written.rows[:, None], self.tokens)


class MinimumLength:
    """Forbids the end symbol before `length` tokens are written."""

    def __init__(self, length: int, end: int) -> None:
        self.until, self.end = length, np.array(end)

    def __call__(self, step: Step, written: Written) -> None:
        step.forbid(written.rows[written.lengths < self.until], self.end)


class NotBlank:
    """Forbids an empty output: before the first visible token there is no end symbol and at most one blank token, such
    as the space that some vocabularies set before a rare letter.
    """

    until = 2  # one of the first two tokens is visible

    def __init__(self, blank: Sequence[int], end: int, vocabulary: int) -> None:
        """`blank` are the invisible tokens of a vocabulary of this size, the end symbol aside."""
        self.blank, self.end = np.array(blank, np.int64), np.array(end)
        self.is_blank: Bool[np.ndarray, "V"] = np.zeros(vocabulary, np.bool_)
        self.is_blank[self.blank] = True

    def __call__(self, step: Step, written: Written) -> None:
        lengths, first = written.lengths, written.tokens[:, 0]
        begun = lengths == 1
        begun_blank = begun & self.is_blank[np.where(begun, first, 0)]
        step.forbid(written.rows[(lengths == 0) | begun_blank], self.end)
        if len(self.blank):
            step.forbid(written.rows[begun_blank][:, None], self.blank)


class NoRepeatedNgram:
    """Forbids a run of `size` tokens that the row has written before (Paulus et al. 2018)."""

    until = math.inf

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, step: Step, written: Written) -> None:
        lengths, tokens = written.lengths, written.tokens
        long_enough = lengths >= self.size
        if not long_enough.any():
            return
        rows, lengths, tokens = written.rows[long_enough], lengths[long_enough], tokens[long_enough]
        runs = np.lib.stride_tricks.sliding_window_view(tokens[:, : lengths.max()], self.size, axis=1)  # (Q, T', size)
        ends = lengths[:, None] - self.size + 1 + np.arange(self.size - 1)  # places of the last size - 1 tokens
        now = np.take_along_axis(tokens, ends, axis=1)[:, None]
        written_before = np.arange(runs.shape[1]) <= (lengths - self.size)[:, None]
        row, place = ((runs[..., :-1] == now).all(-1) & written_before).nonzero()
        step.forbid(rows[row], runs[row, place, -1])


class ForcedPrefix:
    """Allows one token at a time until `prefix` is written."""

    def __init__(self, prefix: Sequence[int]) -> None:
        self.prefix, self.until = np.array(prefix, np.int64), len(prefix)

    def __call__(self, step: Step, written: Written) -> None:
        place = written.lengths
        within = place < self.until
        step.allow_only(written.rows[within], self.prefix[place[within]])
