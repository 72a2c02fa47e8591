"""Logits processors: each is a small object that forbids some tokens at a step.

It leaves the other log-probabilities as they are, so that scores stay those of the model. So processors may be applied
in any order.
"""

import math
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int

from dragoman.decoding.hypothesis import Outputs
from dragoman.decoding.steppers import Step


@runtime_checkable
class LogitsProcessor(Protocol):
    @property
    def until(self) -> float:
        """Tokens of a row after which the processor changes nothing more of it; infinite: it always may."""
        ...

    def __call__(self, step: Step, rows: Int[np.ndarray, "Q"], outputs: Outputs) -> None:
        """Forbids in `step` what these rows may not write next, after what they have written in `outputs`."""
        ...


class Ban:
    """Forbids some tokens everywhere."""

    until = math.inf

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = np.array(tokens, np.int64)

    def __call__(self, step: Step, rows: Int[np.ndarray, "Q"], outputs: Outputs) -> None:
        step.forbid(rows[:, None], self.tokens)


class MinimumLength:
    """Forbids the end symbol before `length` tokens are written."""

    def __init__(self, length: int, end: int) -> None:
        self.until, self.end = length, np.array(end)

    def __call__(self, step: Step, rows: Int[np.ndarray, "Q"], outputs: Outputs) -> None:
        step.forbid(rows[outputs.lengths[rows] < self.until], self.end)


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

    def __call__(self, step: Step, rows: Int[np.ndarray, "Q"], outputs: Outputs) -> None:
        lengths, first = outputs.lengths[rows], outputs.tokens[rows, 0]
        begun = lengths == 1
        begun_blank = begun & self.is_blank[np.where(begun, first, 0)]
        step.forbid(rows[(lengths == 0) | begun_blank], self.end)
        if len(self.blank):
            step.forbid(rows[begun_blank][:, None], self.blank)


class NoRepeatedNgram:
    """Forbids a run of `size` tokens that the row has written before (Paulus et al. 2018)."""

    until = math.inf

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, step: Step, rows: Int[np.ndarray, "Q"], outputs: Outputs) -> None:
        rows = rows[outputs.lengths[rows] >= self.size]
        if not len(rows):
            return
        lengths, tokens = outputs.lengths[rows], outputs.tokens[rows]
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

    def __call__(self, step: Step, rows: Int[np.ndarray, "Q"], outputs: Outputs) -> None:
        rows = rows[outputs.lengths[rows] < self.until]
        step.allow_only(rows, self.prefix[outputs.lengths[rows]])
