"""What is wrong with a pair, and with the order of pairs: each rule is a word in the report, none changes the text.

`fault` judges one pair; `ShiftDetector` watches many for sides that slid against each other. What is done about it is
`prepare`'s business.
"""

import re
from collections import deque
from typing import NamedTuple

import numpy as np
from pydantic import Field

from dragoman.config import Settings

EMPTY = "empty side"
CONTROL = "control characters"
TOO_LONG = "too long"
RATIO = "length ratio"
COPY = "source copied to target"
DUPLICATE = "duplicate of an earlier pair"

# Sides shorter than this count as this long: "No." for "Assolutamente no." is a fair translation.
SHORT_CHARACTERS = 20

# Control characters and the Unicode line separators; tab and line breaks are text.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")


class CheckSettings(Settings):
    """Which pairs are dropped from the training text. Test and dev sets that are given keep every pair."""

    max_words: int | None = Field(default=250, ge=1)
    """Longest side kept, in words between spaces; left out for no limit."""
    max_characters: int | None = Field(default=2000, ge=1)
    """Longest side kept, in characters; the limit that counts in scripts without spaces."""
    max_ratio: float | None = Field(default=5.0, ge=1)
    """Most characters of the longer side for one of the shorter, which counts as 20 at least."""
    drop_copies: bool = True
    """Drop pairs whose two sides are the same text: they teach a model to copy."""
    drop_duplicates: bool = True
    """Keep only the first of pairs that are equal on both sides."""


def fault(source: str, target: str, checks: CheckSettings) -> str | None:
    """The first rule that a pair breaks.

    >>> fault("Good morning.", " ", CheckSettings())
    'empty side'
    >>> fault("Good morning.", "Buongiorno.", CheckSettings()) is None
    True
    """
    if not (source and target) or source.isspace() or target.isspace():
        return EMPTY
    if _has_control(source) or _has_control(target):
        return CONTROL
    if _too_long(source, checks) or _too_long(target, checks):
        return TOO_LONG
    if checks.max_ratio is not None:
        short, long = sorted((len(source), len(target)))
        if long > checks.max_ratio * max(short, SHORT_CHARACTERS):
            return RATIO
    return COPY if checks.drop_copies and source == target else None


def _has_control(text: str) -> bool:
    return not text.isprintable() and _CONTROL.search(text) is not None


def _too_long(text: str, checks: CheckSettings) -> bool:
    length = len(text)
    if checks.max_characters is not None and length > checks.max_characters:
        return True
    # n words need n - 1 spaces: most texts need not be split to be judged
    return checks.max_words is not None and length >= 2 * checks.max_words and len(text.split()) > checks.max_words


class Shift(NamedTuple):
    """A stretch of rows whose target fits the row before (-1) or after (+1) better than its own."""

    origin: str
    """About where it begins."""
    rows: int
    offset: int
    own: float
    shifted: float
    """Correlation of the lengths of the two sides, row by row and shifted by one."""

    def __str__(self) -> str:
        where = "after" if self.offset > 0 else "before"
        return (
            f"{self.origin}: from about here {self.rows:,} rows look misaligned: each target fits the source of the "
            f"row {where} it (lengths correlate {self.shifted:.2f} shifted, {self.own:.2f} as they stand)"
        )


class ShiftDetector:
    """Watches the lengths of both sides, in windows of rows, for a row too many or too few on one side.

    Translations of long sentences are long: within a window the logarithms of the lengths correlate. Where they do so
    clearly better against the neighbouring row, the sides slid. Texts of nearly equal length tell nothing, and pass.
    """

    WINDOW = 200
    SMALLEST = 50
    CLEAR = 0.5
    """Least correlation of the shifted rows, and least gain over the rows as they stand."""

    def __init__(self) -> None:
        self._rows: deque[tuple[float, float, str]] = deque()
        self._new = 0
        self._shifts: list[Shift] = []
        self._open = False

    def see(self, source_length: int, target_length: int, origin: str) -> None:
        self._rows.append((source_length, target_length, origin))
        self._new += 1
        if self._new == self.WINDOW:
            self._judge()

    def finish(self) -> list[Shift]:
        """All stretches found, in order."""
        if self._new >= self.SMALLEST:
            self._judge()
        return self._shifts

    def _judge(self) -> None:
        """Judges the newest window; the one before it stays, for the slide may begin there."""
        lengths = np.log1p(np.array([row[:2] for row in self._rows], np.float64)).T
        own, offset, shifted = _best_shift(lengths[0, -self._new :], lengths[1, -self._new :])
        if shifted > self.CLEAR and shifted - own > self.CLEAR:
            if self._open and self._shifts[-1].offset == offset:
                self._shifts[-1] = self._shifts[-1]._replace(rows=self._shifts[-1].rows + self._new)
            else:
                begin = _beginning(lengths[0], lengths[1], offset)
                self._shifts.append(Shift(self._rows[begin][2], len(self._rows) - begin, offset, own, shifted))
            self._open = True
        else:
            self._open = False
        while len(self._rows) > self._new:
            self._rows.popleft()
        self._new = 0


def _best_shift(source: np.ndarray, target: np.ndarray) -> tuple[float, int, float]:
    """Correlation as the rows stand; the better offset of the source row, and its correlation."""
    after = _correlation(source[1:], target[:-1])
    before = _correlation(source[:-1], target[1:])
    own = _correlation(source, target)
    return (own, 1, after) if after > before else (own, -1, before)


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    one, other = one - one.mean(), other - other.mean()
    norm = float(np.sqrt((one @ one) * (other @ other)))
    return float(one @ other) / norm if norm else 0.0


def _beginning(source: np.ndarray, target: np.ndarray, offset: int) -> int:
    """The row at which the lengths fit best when the rows before it stand and those after it are shifted."""
    ratio = np.median(target) - np.median(source)
    stands = np.abs(target - source - ratio)
    slid = np.abs(target - np.roll(source, -offset) - ratio)
    gain = np.concatenate([[0.0], np.cumsum(slid - stands)])
    return int(np.argmax(gain[:-1]))
