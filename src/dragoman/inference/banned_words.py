"""Words that no translation may hold, however its tokens spell them.

Tokens are compared by the text that they add, so every spelling of a word counts, byte by byte too. `car` does not ban
`carta`: a token that reaches beyond `car` may be written. One that ends there may not, because a search that has
written a whole word seldom finds a longer one. Only a vocabulary of characters has no tokens that reach beyond: there
`car` may be written, and then a character must follow that goes on with the word, if another can.
"""

import math
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Int

from dragoman.decoding.hypothesis import Outputs
from dragoman.decoding.steppers import StepScores
from dragoman.surface.words import BYTES, begins_in_word, is_byte, is_in_word, joins_word
from dragoman.tokenizing.tokenizer import Tokenizer

_SPACES = re.compile(r"[\s\0]+")
_PENDING = re.compile("[\udcc2-\udcf4][\udc80-\udcbf]{0,2}")
_BEFORE_BYTES = re.compile(" (?=[\udc80-\udcff])")
_OPEN = 8
"""So many characters at the end of a text may read otherwise after the next token: bytes that become a letter, and the
space before them. What stands before is settled.
"""
_REMEMBERED = 8_192
"""The tails of so many texts are remembered, at least: more than rows are under way."""


class Tail(NamedTuple):
    """What of a text decides how it may go on."""

    inside: bool = False
    """Whether a word goes on, or a character that is part of one stands before `begun`."""
    begun: str = ""
    """The longest end of the text with which a banned phrase begins."""


class Forbidden(NamedTuple):
    """The tokens that may not follow a text."""

    anywhere: Int[np.ndarray, "N"]
    last: Int[np.ndarray, "N2"]
    """At the last place of an output, where no word can go on any more."""


class BannedWords:
    """No output holds one of these words or phrases as whole words.

    They are compared as they are given, letter case included; only how many spaces stand between words, or beside
    punctuation, does not matter. A script without spaces has no whole words, so there a phrase is banned anywhere.
    """

    until = math.inf

    def __init__(self, phrases: Sequence[str], tokenizer: Tokenizer, end: int) -> None:
        """`end` is the symbol that ends an output."""
        forms = [*phrases, *map(tokenizer.normalise, phrases)]
        self._phrases = sorted({_plain(form.strip()) for form in forms})
        self._beginnings = [phrase.encode() for phrase in self._phrases]
        self._any = re.compile("|".join(map(re.escape, self._phrases)))
        self._end = end
        self._spellings = [tokenizer.spelling_in_line(token) for token in range(tokenizer.size)]
        self._tokens = [*filter(tokenizer.is_text, range(tokenizer.size))]
        is_spelled = tokenizer.kind == "character"
        self._letters = [i for i in self._tokens if is_spelled and begins_in_word(self._spellings[i])]
        self._recent: dict[bytes, Tail] = {}  # by the tokens of a text
        self._older: dict[bytes, Tail] = {}
        self._follow = lru_cache(_REMEMBERED)(self._find_tail)
        self.after = lru_cache(1_024)(self._find_forbidden)
        """What may not follow a tail."""

    def __call__(self, step: StepScores, rows: Int[np.ndarray, "Q"], outputs: Outputs) -> None:
        for tail, those in self.tails(rows, outputs.tokens[rows], outputs.lengths[rows]).items():
            step.forbid(np.array(those)[:, None], self.after(tail).anywhere)

    def held_by(self, text: str) -> str | None:
        """The first banned phrase that a text holds."""
        return next((phrase for phrase, _ in self._matches(False, _plain(text))), None)

    def tails(
        self, rows: Int[np.ndarray, "Q"], tokens: Int[np.ndarray, "Q T"], lengths: Int[np.ndarray, "Q"]
    ) -> dict[Tail, list[int]]:
        """These rows, which have written so many of these tokens, by what decides how they may go on."""
        tails: dict[Tail, list[int]] = {}
        for row, written, length in zip(rows.tolist(), tokens, lengths.tolist(), strict=True):
            tails.setdefault(self._tail(written[:length]), []).append(row)
        return tails

    def _tail(self, written: Int[np.ndarray, "T"]) -> Tail:
        """The tail of a text: one token after that of the text before, which is remembered from the step before."""
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
        verdicts = [(token, self._verdict(tail, token)) for token in self._tokens]
        anywhere = [token for token, verdict in verdicts if verdict == "held"]
        ends = [token for token, verdict in verdicts if verdict == "at the end"]
        anywhere += [token for token in ends if not self._can_go_on(self._follow(tail, token))]
        anywhere += [self._end] if self.held_by(tail.begun) else []
        return Forbidden(np.array(anywhere, np.int64), np.array(anywhere + ends, np.int64))

    def _can_go_on(self, tail: Tail) -> bool:
        """Whether a letter makes another word of one that is banned."""
        return any(self._verdict(tail, token) == "free" for token in self._letters)

    def _verdict(self, tail: Tail, token: int) -> Literal["held", "at the end", "free"]:
        """Whether a text with this token would hold a banned phrase, or end in one, which may become a longer word."""
        inside, text = self._with(tail, token)
        if not self._any.search(text):
            return "free"
        ended = {ended for _, ended in self._matches(inside, text)}
        return "held" if True in ended else "at the end" if ended else "free"

    def _matches(self, inside: bool, text: str) -> Iterator[tuple[str, bool]]:
        """Each banned phrase that stands in a text as whole words, and whether it has ended there. At the end of the
        text it has not if another letter may follow.
        """
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
        """The tail of a text after one more token."""
        inside, text = self._with(tail, token)
        for place, character in enumerate(text):
            is_letter = is_in_word(character)
            goes_on_with_word = inside and is_letter
            if not goes_on_with_word and self._may_begin(text[place:]):
                return Tail(inside, text[place:])
            inside = is_letter
        return Tail(inside)

    def _may_begin(self, text: str) -> bool:
        """Whether a banned phrase begins with this, or it is the beginning of a character."""
        if not is_byte(text[-1]):
            return any(phrase.startswith(text) for phrase in self._phrases)
        spellings = tuple({spelled.encode(errors=BYTES) for spelled in (text, _BEFORE_BYTES.sub("", text))})
        begun = any(phrase.startswith(spellings) for phrase in self._beginnings)
        return begun or _PENDING.fullmatch(text) is not None

    def _with(self, tail: Tail, token: int) -> tuple[bool, str]:
        """What a text ends in after one more token, and whether a character of a word stands before that."""
        cut = max(0, len(tail.begun) - _OPEN)
        if cut and tail.begun[cut] == " ":
            cut -= 1  # no space begins a plain text
        settled, end = tail.begun[:cut], tail.begun[cut:]
        end = (end.encode(errors=BYTES) + self._spellings[token]).decode(errors=BYTES)
        return tail.inside and not _SPACES.match(settled or end), settled + _plain(end)


class NoBannedEnd:
    """Beside `BannedWords`: an output of at most `limit` tokens does not end in a banned word where it is cut off."""

    def __init__(self, words: BannedWords, limit: int) -> None:
        self.words, self.until = words, limit

    def __call__(self, step: StepScores, rows: Int[np.ndarray, "Q"], outputs: Outputs) -> None:
        rows = rows[outputs.lengths[rows] == self.until - 1]
        if not len(rows):
            return
        for tail, those in self.words.tails(rows, outputs.tokens[rows], outputs.lengths[rows]).items():
            step.forbid(np.array(those)[:, None], self.words.after(tail).last)


def _plain(text: str) -> str:
    """A text with one space between two words, beside bytes, which may become letters, and at its end, where another
    word may follow. Elsewhere it has none.
    """

    def space(found: re.Match[str]) -> str:
        before, behind = text[found.start() - 1 : found.start()], text[found.end() : found.end() + 1]
        return " " if before and joins_word(before) and (not behind or joins_word(behind)) else ""

    return _SPACES.sub(space, text)
