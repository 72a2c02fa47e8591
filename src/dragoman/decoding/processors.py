"""Logits processors: small objects that forbid some tokens in a step.

They leave the other log-probabilities unchanged, so that scores remain those of the model (but see `ForcedPrefix`).
They can therefore be applied in any order.
"""

import codecs
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol, runtime_checkable

import numpy as np

from dragoman.decoding.hypothesis import Outputs
from dragoman.decoding.steppers import StepScores
from dragoman.shapes import Bool, Int


@runtime_checkable
class LogitsProcessor(Protocol):
    """A rule that forbids tokens depending on the output so far."""

    @property
    def until(self) -> float:
        """Length of a row from which the processor has no effect on it; infinite if it always may have one."""
        ...

    def __call__(self, step: StepScores, rows: Int[np.ndarray, "Q"], outputs: Outputs) -> None:
        """Forbid in `step` the tokens that must not follow the output of these rows in `outputs`."""
        ...


class Ban:
    """A processor that always forbids some tokens."""

    until = math.inf

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = np.array(tokens, np.int64)

    def __call__(self, step: StepScores, rows: Int[np.ndarray, "Q"], outputs: Outputs) -> None:
        step.forbid(rows[:, None], self.tokens)


class MinimumLength:
    """A processor that forbids the end symbol before `length` tokens are written."""

    def __init__(self, length: int, end: int) -> None:
        self.until, self.end = length, np.array(end)

    def __call__(self, step: StepScores, rows: Int[np.ndarray, "Q"], outputs: Outputs) -> None:
        step.forbid(rows[outputs.lengths[rows] < self.until], self.end)


class NotBlank:
    """A processor that forbids outputs whose text is blank, even if its tokens are not: two bytes may spell a no-break
    space.

    The end symbol is forbidden before the first visible character. The first token may be blank, such as the space that
    some vocabularies set before a rare letter; later tokens may not extend the blank.
    """

    until = 6  # a symbol, a blank token, three bytes that continue a character, and one that completes it

    def __init__(self, spellings: Sequence[bytes], end: int, is_blank: Callable[[str], bool]) -> None:
        """Prepare for a vocabulary; `spellings` holds the UTF-8 bytes that each token adds to the text."""
        self.spellings, self.end, self.is_blank = spellings, np.array(end), is_blank
        self.is_open: Bool[np.ndarray, "V"] = np.array([self._may_be_blank(spelled) for spelled in spellings])
        self._forbidden = lru_cache(1_024)(self._find_forbidden)

    def __call__(self, step: StepScores, rows: Int[np.ndarray, "Q"], outputs: Outputs) -> None:
        lengths = outputs.lengths[rows]
        step.forbid(rows[lengths == 0], self.end)
        for row in self.may_be_blank(rows[lengths > 0], outputs).tolist():
            tokens = outputs.written(row).tolist()
            written = b"".join(self.spellings[token] for token in tokens)
            is_begun = written or len(tokens) > 1  # by more than the symbol of a language
            step.forbid(np.array([[row]]), self._forbidden(written) if is_begun else self.end)

    def may_be_blank(self, rows: Int[np.ndarray, "Q"], outputs: Outputs) -> Int[np.ndarray, "Q2"]:
        """Return those of the rows whose output may be blank so far; the rule has no effect on others."""
        first = outputs.tokens[rows, : self.until]
        is_open = self.is_open[first] | (np.arange(first.shape[1]) >= outputs.lengths[rows, None])
        return rows[is_open.all(1)]

    def _may_be_blank(self, spelled: bytes) -> bool:
        """Return True if a token may be part of a blank output: it is blank, or continues a character."""
        if spelled.strip()[:1].isalnum():
            return False  # the fast path for most tokens
        return b"\x80" <= spelled[:1] < b"\xc0" or self.is_blank(_begin_characters(spelled)[0])

    def _find_forbidden(self, written: bytes) -> Int[np.ndarray, "N"]:
        """Return the tokens that may not follow these bytes."""
        text, begun = _begin_characters(written)
        if not self.is_blank(text):
            return np.empty(0, np.int64)
        forbidden = [int(self.end)]
        for token in self.is_open.nonzero()[0].tolist():
            added, _ = _begin_characters(begun + self.spellings[token])
            if self.is_blank(added) and (added or not self.spellings[token]):
                forbidden.append(token)
        return np.array(forbidden, np.int64)


def _begin_characters(spelled: bytes) -> tuple[str, bytes]:
    """Return the complete characters of UTF-8 bytes, and the trailing bytes of an incomplete one."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return decoder.decode(spelled), decoder.getstate()[0]


RulesOfAllRows = tuple[Int[np.ndarray, "N"], Bool[np.ndarray, "V"] | None]
"""The tokens of `Ban`, and `NotBlank.is_open` or None, if both hold for all rows: what the compiled decoder knows."""


class NoRepeatedNgram:
    """A processor that forbids an n-gram of `size` tokens that the row has written before (Paulus et al. 2018)."""

    until = math.inf

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, step: StepScores, rows: Int[np.ndarray, "Q"], outputs: Outputs) -> None:
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
    """A processor that forces a prefix token by token, and then forbids some tokens as the next one.

    The first tokens may be `certain`: they have probability 1, because the model was not asked for them, even if rules
    that are applied before this one forbid them.
    """

    def __init__(self, prefix: Sequence[int], not_next: Sequence[int] = (), certain: int = 0) -> None:
        self.prefix, self.not_next = np.array(prefix, np.int64), np.array(not_next, np.int64)
        self.certain = certain
        self.until = len(prefix) + bool(len(not_next))

    def __call__(self, step: StepScores, rows: Int[np.ndarray, "Q"], outputs: Outputs) -> None:
        lengths = outputs.lengths[rows]
        step.forbid(rows[lengths == len(self.prefix)][:, None], self.not_next)
        rows, lengths = rows[lengths < len(self.prefix)], lengths[lengths < len(self.prefix)]
        step.allow_only(rows, self.prefix[lengths])
        rows, lengths = rows[lengths < self.certain], lengths[lengths < self.certain]
        step.make_certain(rows, self.prefix[lengths])


class EachOnce:
    """A processor that allows some tokens of a kind once each, and forbids the others of that kind. While one of them
    is missing, the end symbol is forbidden unless it is the likeliest token.
    """

    until = math.inf

    def __init__(self, tokens: Sequence[int], kind: Sequence[int], end: int) -> None:
        self.tokens, self.end = np.array(tokens, np.int64), np.array(end)
        self.others = np.setdiff1d(kind, tokens)

    def __call__(self, step: StepScores, rows: Int[np.ndarray, "Q"], outputs: Outputs) -> None:
        is_written = self.is_written(rows, outputs)
        row, token = is_written.nonzero()
        step.forbid(rows[:, None], self.others)
        step.forbid(rows[row], self.tokens[token])
        is_missing = ~is_written.all(1)
        is_end = step.best(1).token[rows, 0] == self.end
        step.forbid(rows[is_missing & ~is_end], self.end)

    def is_written(self, rows: Int[np.ndarray, "Q"], outputs: Outputs) -> Bool[np.ndarray, "Q P"]:
        """Return which of the tokens each row has written."""
        lengths = outputs.lengths[rows]
        tokens = outputs.tokens[rows, : lengths.max()]  # (Q, T)
        tokens = np.where(np.arange(tokens.shape[1]) < lengths[:, None], tokens, -1)
        return (tokens[..., None] == self.tokens).any(1)


RowRules = tuple[Int[np.ndarray, "P"], Bool[np.ndarray, "R P"], Bool[np.ndarray, "R P"]]
"""Tokens, those of them that each row must not write, and the missing ones of `EachOnce`, which it may write once. A
device can apply these rules, and keep them up to date by itself.
"""


def rules_of_rows(
    processors: Sequence[tuple[LogitsProcessor, Int[np.ndarray, "..."]]], outputs: Outputs
) -> RowRules | None:
    """Return the rules of processors for these rows, or None if one of them needs the host in the next steps."""
    bans: list[tuple[Int[np.ndarray, "..."], Int[np.ndarray, "..."]]] = []
    once = [(processor, rows) for processor, rows in processors if isinstance(processor, EachOnce)]
    for processor, rows in processors:
        if isinstance(processor, Ban | EachOnce):
            bans.append((rows, processor.tokens if isinstance(processor, Ban) else processor.others))
        elif not isinstance(processor, NotBlank) or len(processor.may_be_blank(rows, outputs)):
            return None
    mentioned = [*(banned for _, banned in bans), *(rule.tokens for rule, _ in once), np.empty(0, np.int64)]
    tokens = np.unique(np.concatenate(mentioned))
    forbidden, missing = np.zeros((2, len(outputs), len(tokens)), np.bool_)
    for rule, rows in once:
        own = rows[:, None], np.searchsorted(tokens, rule.tokens)
        forbidden[own], missing[own] = True, ~rule.is_written(rows, outputs)
    for rows, banned in bans:
        banned = rows[:, None], np.searchsorted(tokens, banned)
        forbidden[banned], missing[banned] = True, False
    return tokens, forbidden, missing
