"""Banned words, which no translation may contain, however they are split into tokens.

Tokens are compared by the text that they add, even if they are single bytes. `car` does not ban `carta`: a token that
extends beyond `car` is allowed. A token that ends there is forbidden, because after a whole word the search rarely
continues to a longer one. Only a vocabulary of characters has no tokens that extend beyond: there `car` is allowed if a
letter may follow, and then a letter must follow.
"""

import math
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from dragoman.decoding.hypothesis import Outputs
from dragoman.decoding.steppers import StepScores
from dragoman.shapes import Int
from dragoman.surface.words import BYTES, begins_in_word, is_byte, is_in_word, joins_word
from dragoman.tokenizing.tokenizer import Tokenizer

_SPACES = re.compile(r"[\s\0]+")
_PENDING = re.compile("[\udcc2-\udcf4][\udc80-\udcbf]{0,2}")
_BEFORE_BYTES = re.compile(" (?=[\udc80-\udcff])")
_OPEN = 8
"""Maximum characters at the end of a text that the next token may change: bytes of a letter, and the space before."""
_REMEMBERED = 8_192
"""Minimum number of texts whose tails are cached: more than the active rows."""


class Tail(NamedTuple):
    """The state of a text that determines which tokens may follow."""

    inside: bool = False
    """True if the character before `begun` is part of a word."""
    begun: str = ""
    """The longest end of the text that is the beginning of a banned phrase."""


class Forbidden(NamedTuple):
    """The tokens that may not follow a text."""

    anywhere: Int[np.ndarray, "N"]
    last: Int[np.ndarray, "N2"]
    """Tokens that may not be the last of an output that reaches its limit, where no word can continue."""


class BannedWords:
    """A processor that keeps words and phrases out of outputs, as whole words.

    Case matters; the number of spaces between words and next to punctuation does not. A script without spaces has no
    whole words, so there a phrase is banned anywhere.
    """

    until = math.inf

    def __init__(self, phrases: Sequence[str], tokenizer: Tokenizer, end: int) -> None:
        """Prepare the phrases for a tokenizer; `end` is its end symbol."""
        forms = [*phrases, *map(tokenizer.normalise, phrases)]
        self._phrases = sorted({_plain(form.strip()) for form in forms})
        self._encoded_phrases = [phrase.encode() for phrase in self._phrases]
        self._any = re.compile("|".join(map(re.escape, self._phrases)))
        self._end = end
        self._spellings = [tokenizer.spelling_in_line(token) for token in range(tokenizer.size)]
        self._tokens = [*filter(tokenizer.is_text, range(tokenizer.size))]
        by_character = tokenizer.kind == "character"
        self._letters = [i for i in self._tokens if by_character and begins_in_word(self._spellings[i])]
        self._recent: dict[bytes, Tail] = {}  # tails by the tokens of a text
        self._older: dict[bytes, Tail] = {}
        self._follow = lru_cache(_REMEMBERED)(self._find_tail)
        self.after = lru_cache(1_024)(self._find_forbidden)

    def __call__(self, step: StepScores, rows: Int[np.ndarray, "Q"], outputs: Outputs) -> None:
        for tail, tail_rows in self.tails(rows, outputs.tokens[rows], outputs.lengths[rows]).items():
            step.forbid(np.array(tail_rows)[:, None], self.after(tail).anywhere)

    def held_by(self, text: str) -> str | None:
        """Return the first banned phrase in a text."""
        return next((phrase for phrase, _ in self._matches(False, _plain(text))), None)

    def tails(
        self, rows: Int[np.ndarray, "Q"], tokens: Int[np.ndarray, "Q T"], lengths: Int[np.ndarray, "Q"]
    ) -> dict[Tail, list[int]]:
        """Group rows, of which the tokens and their numbers are given, by their tails."""
        tails: dict[Tail, list[int]] = {}
        for row, written, length in zip(rows.tolist(), tokens, lengths.tolist(), strict=True):
            tails.setdefault(self._tail(written[:length]), []).append(row)
        return tails

    def _tail(self, written: Int[np.ndarray, "T"]) -> Tail:
        """Return the tail of a text, from the cached tail of the text without its last token."""
        earlier = written[:-1].tobytes()
        before = self._recent.get(earlier) or self._older.get(earlier)
        tail, tokens = (Tail(), written) if before is None else (before, written[-1:])
        for token in tokens.tolist():
            tail = self._follow(tail, token)
        if len(self._recent) >= _REMEMBERED:
            self._recent, self._older = {}, self._recent
        self._recent[written.tobytes()] = tail
        return tail

    def _find_forbidden(self, tail: Tail) -> Forbidden:
        """Find the tokens that may not follow a tail."""
        verdicts = [(token, self._verdict(tail, token)) for token in self._tokens]
        anywhere = [token for token, verdict in verdicts if verdict == "held"]
        ends = [token for token, verdict in verdicts if verdict == "at the end"]
        anywhere += [token for token in ends if not self._can_go_on(self._follow(tail, token))]
        anywhere += [self._end] if self.held_by(tail.begun) else []
        return Forbidden(np.array(anywhere, np.int64), np.array(anywhere + ends, np.int64))

    def _can_go_on(self, tail: Tail) -> bool:
        """Return True if a letter may follow that makes the banned word a longer one."""
        return any(self._verdict(tail, token) == "free" for token in self._letters)

    def _verdict(self, tail: Tail, token: int) -> Literal["held", "at the end", "free"]:
        """Return "held" if a text with this token would contain a banned phrase, "at the end" if it would end with one,
        which may become a longer word, else "free".
        """
        inside, text = self._with(tail, token)
        if not self._any.search(text):
            return "free"
        complete = {is_complete for _, is_complete in self._matches(inside, text)}
        return "held" if True in complete else "at the end" if complete else "free"

    def _matches(self, inside: bool, text: str) -> Iterator[tuple[str, bool]]:
        """Yield banned phrases that a text contains as whole words, with False if the last may become a longer word."""
        for phrase in self._phrases:
            begins_with_letter, ends_with_letter = is_in_word(phrase[0]), is_in_word(phrase[-1])
            place = text.find(phrase)
            while place >= 0:
                end = place + len(phrase)
                letter_before = inside if place == 0 else is_in_word(text[place - 1])
                letter_after = end < len(text) and is_in_word(text[end])
                ends_longer_word = letter_before and begins_with_letter
                begins_longer_word = letter_after and ends_with_letter
                if not ends_longer_word and not begins_longer_word:
                    yield phrase, end < len(text) or not ends_with_letter
                place = text.find(phrase, place + 1)  # one occurrence over another counts too

    def _find_tail(self, tail: Tail, token: int) -> Tail:
        """Return the tail of a text after one more token."""
        inside, text = self._with(tail, token)
        for place, character in enumerate(text):
            is_letter = is_in_word(character)
            continues_word = inside and is_letter
            if not continues_word and self._may_begin(text[place:]):
                return Tail(inside, text[place:])
            inside = is_letter
        return Tail(inside)

    def _may_begin(self, text: str) -> bool:
        """Return True if a banned phrase may begin with this text, or if it is the first bytes of a character."""
        if not is_byte(text[-1]):
            return any(phrase.startswith(text) for phrase in self._phrases)
        spellings = tuple({spelled.encode(errors=BYTES) for spelled in (text, _BEFORE_BYTES.sub("", text))})
        is_begun = any(phrase.startswith(spellings) for phrase in self._encoded_phrases)
        return is_begun or _PENDING.fullmatch(text) is not None

    def _with(self, tail: Tail, token: int) -> tuple[bool, str]:
        """Append a token to a tail; return True if a character of a word precedes the text, and the text."""
        cut = max(0, len(tail.begun) - _OPEN)
        if cut and tail.begun[cut] == " ":
            cut -= 1  # a plain text does not begin with a space
        settled, end = tail.begun[:cut], tail.begun[cut:]
        end = (end.encode(errors=BYTES) + self._spellings[token]).decode(errors=BYTES)
        return tail.inside and not _SPACES.match(settled or end), settled + _plain(end)


class NoBannedEnd:
    """A processor that keeps an output from ending with a banned word at its `limit`, in addition to `BannedWords`."""

    def __init__(self, words: BannedWords, limit: int) -> None:
        self.words, self.until = words, limit

    def __call__(self, step: StepScores, rows: Int[np.ndarray, "Q"], outputs: Outputs) -> None:
        rows = rows[outputs.lengths[rows] == self.until - 1]
        if not len(rows):
            return
        for tail, tail_rows in self.words.tails(rows, outputs.tokens[rows], outputs.lengths[rows]).items():
            step.forbid(np.array(tail_rows)[:, None], self.words.after(tail).last)


def _plain(text: str) -> str:
    """Return a text with single spaces between words, next to bytes, which may become letters, and at its end, where
    another word may follow; remove all other spaces.
    """

    def space(spaces: re.Match[str]) -> str:
        before, after = text[spaces.start() - 1 : spaces.start()], text[spaces.end() : spaces.end() + 1]
        return " " if before and joins_word(before) and (not after or joins_word(after)) else ""

    return _SPACES.sub(space, text)
