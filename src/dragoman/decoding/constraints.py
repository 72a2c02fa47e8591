"""What an output must hold: lexical constraints, and how far an output has written them.

The search shares its places among outputs by how many tokens of their constraints are written: dynamic beam allocation
(Post and Vilar 2018). `beam` says how. How far an output is follows from its tokens alone, so no row keeps a state.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

Form = tuple[int, ...]


class WordEdges(NamedTuple):
    """Which tokens stand beside a word, and which are part of it."""

    goes_on: Bool[np.ndarray, "V"]
    """Whether a token begins with letters that go on with a word before it."""
    is_open: Bool[np.ndarray, "V"]
    """Whether a token ends in letters, so that another may go on with its word."""


class Progress(NamedTuple):
    """How far an output has written its constraints."""

    met: int
    """Tokens of the constraints that it holds."""
    bank: int
    """The same, and tokens at its end that begin another one. By it, hypotheses share a beam."""
    missing: frozenset[int]
    """The constraints that it does not hold."""
    going_on: frozenset[int]
    """The tokens by which a form that is begun goes on."""
    ends_in_form: bool
    """Whether a token that goes on with its last word undoes what is met."""
    settled: tuple[int, frozenset[int]]
    """A place before which no further token changes what it holds, and what is missing there."""


class Constraints:
    """Each is met by any one of its forms, as whole words. Two that are the same must be met twice.

    The forms of an output are found from its beginning, the longest first, and none overlaps another.
    """

    def __init__(self, constraints: Sequence[Sequence[Form]], edges: WordEdges) -> None:
        self.edges = edges
        self._sizes = [max(map(len, forms)) for forms in constraints]
        self.size = sum(self._sizes)
        """Tokens of all constraints, of each in its longest form."""
        self._beginning: defaultdict[int, list[tuple[int, Form]]] = defaultdict(list)
        every = [(number, form) for number, forms in enumerate(constraints) for form in forms]
        for number, form in sorted(every, key=lambda one: -len(one[1])):
            self._beginning[form[0]].append((number, form))
        self._matters: Bool[np.ndarray, "V"] = np.zeros(len(edges.goes_on), np.bool_)
        self._matters[[token for _, form in every for token in form]] = True
        nothing = 0, frozenset(range(len(constraints)))
        self.progress = lru_cache(1_024)(lambda tokens: self._progress(tokens, nothing))
        """The progress of an output with these tokens."""
        self._gains = lru_cache(64)(self._find_gains)

    def wanted(self, tokens: Form) -> list[int]:
        """The tokens by which a constraint that an output lacks may begin or go on, in order."""
        progress = self.progress(tokens)
        beginning = (
            one for one in self._gains(progress.missing) if not self._joins((*tokens[-1:], one), len(tokens[-1:]))
        )
        return sorted(progress.going_on.union(beginning))

    def banks(self, tokens: Form, following: Int[np.ndarray, "C"]) -> Int[np.ndarray, "C"]:
        """The bank of an output after one more token, for each of these."""
        progress = self.progress(tokens)
        banks = np.full(len(following), progress.met)
        matters, gains = self._matters[following], self._gains(progress.missing)
        if progress.ends_in_form:
            matters |= self.edges.goes_on[following]
        for place in matters.nonzero()[0].tolist():
            token = int(following[place])
            if progress.settled[0] < len(tokens):
                banks[place] = self._progress((*tokens, token), progress.settled).bank
            elif token in gains and not self._joins((*tokens[-1:], token), len(tokens[-1:])):
                banks[place] += gains[token]
        return banks

    def _find_gains(self, missing: frozenset[int]) -> dict[int, int]:
        """How much the bank grows by each token that begins one of these constraints where nothing is begun."""
        gains: dict[int, int] = {}
        for token, every in self._beginning.items():
            if forms := [(number, form) for number, form in every if number in missing]:
                gains[token] = next((self._sizes[number] for number, form in forms if len(form) == 1), 1)
        return gains

    def _progress(self, tokens: Form, start: tuple[int, frozenset[int]]) -> Progress:
        """The progress of an output, where so much of it is settled."""
        missing, settled, length = set(start[1]), None, len(tokens)
        begun: list[tuple[int, int, int]] = []  # a constraint, the token by which it goes on, tokens that are written
        end = 0  # of the last form
        for place in range(start[0], length):
            forms = self._beginning.get(tokens[place])
            if forms is None or place < end or self._joins(tokens, place):
                continue
            rest, held, before = tokens[place:], None, len(begun)
            for number, form in forms:
                if number in missing and len(form) > len(rest):
                    if form[: len(rest)] == rest:
                        begun.append((number, form[len(rest)], len(rest)))
                elif number in missing and form == rest[: len(form)] and not self._joins(tokens, place + len(form)):
                    held, end = number, place + len(form)
                    begun[before:] = [(longer, token, 0) for longer, token, _ in begun[before:]]
                    break
            if settled is None and (len(begun) > before or end == length):
                settled = place, frozenset(missing)
            missing.discard(-1 if held is None else held)
        begun = [one for one in begun if one[0] in missing]
        met = self.size - sum(self._sizes[number] for number in missing)
        return Progress(
            met,
            met + max((written for *_, written in begun), default=0),
            frozenset(missing),
            frozenset(token for _, token, _ in begun),
            0 < end == length,
            settled or (length, frozenset(missing)),
        )

    def _joins(self, tokens: Form, place: int) -> bool:
        """Whether the token at a place, if there is one, goes on with the word before it."""
        if not 0 < place < len(tokens) or not self.edges.goes_on[tokens[place]]:
            return False
        return bool(self.edges.is_open[tokens[place - 1]])
