"""Beam search once more, as plain loops over sorted lists; keeps every candidate and what became of it.

Knows no model: `follow` gives the log-probabilities of what may follow a beginning, whatever the rules. The rules are
sets of ids. Tests hand it `numpy_model` and compare the trees that the package draws. Which text is blank is the
package's own word: Python calls other characters printable than it calls visible.
"""

import codecs
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dragoman.surface.sentences import is_blank

Tokens = tuple[int, ...]
Follow = Callable[[Tokens], Sequence[float]]


class Leaf(NamedTuple):
    """A hypothesis that was considered."""

    tokens: Tokens
    total: float
    log_prob: float
    """Of its last token."""
    fate: str = "dropped"


@dataclass(frozen=True)
class Rules:
    """What may not be written, and when a search ends."""

    end: int
    limit: int
    exponent: float
    banned: frozenset[int]
    spellings: Sequence[bytes] = ()
    """What each token adds to the text, in UTF-8, if something visible must be written: no end before it, and a blank
    token only at the beginning."""

    def forbid(self, tokens: Tokens, token: int) -> bool:
        """Whether `token` may not follow `tokens`."""
        if token in self.banned:
            return True
        if not self.spellings or not is_blank(before := self.finished(tokens)):
            return False
        after = self.finished((*tokens, token))
        grows = len(after) > len(before) or not self.spellings[token]
        return token == self.end or (len(tokens) > 0 and grows and is_blank(after))

    def finished(self, tokens: Tokens) -> str:
        """The characters that these tokens spell, without one that is only begun."""
        spelled = b"".join(self.spellings[token] for token in tokens)
        return codecs.getincrementaldecoder("utf-8")("replace").decode(spelled)

    def score(self, total: float, length: int) -> float:
        """Total over length penalty (Wu et al. 2016, eq. 14)."""
        return total / ((5 + length) / 6) ** self.exponent


def beam_search(follow: Follow, width: int, rules: Rules) -> "BeamSearch":
    """A search that has come to its end."""
    search = BeamSearch(follow, width, rules)
    while not search.over:
        search.step()
    return search


class BeamSearch:
    """Every step continues each live hypothesis by every token and looks at the best 2 * width of all (at one, if the
    width is one). Of those, what ends among the first `width` is set aside; of the others, the first `width` live on.
    """

    def __init__(self, follow: Follow, width: int, rules: Rules) -> None:
        self.follow, self.width, self.rules = follow, width, rules
        self.live, self.ended = [Leaf((), 0.0, 0.0)], list[Leaf]()
        self.steps: list[list[Leaf]] = []
        """The candidates of every step, best first."""
        self.over = False
        self.closest = math.inf
        """The smallest difference of two numbers that a choice hung on; below rounding, another choice is as right."""

    @property
    def best(self) -> Leaf:
        """What the search has found: the best of those that ended by score, or the likeliest that lives."""
        return max(self.ended, key=self.score) if self.ended else self.live[0]

    def step(self) -> None:
        """One more token."""
        before, ended_before, self.live = self.live, len(self.ended), []
        self.steps.append([self.judge(rank, leaf) for rank, leaf in enumerate(self.candidates(before))])
        if not self.live and len(self.ended) == ended_before:
            self.live, self.over = before, True  # the rules forbid everything
        else:
            self.over = self.nothing_changes()

    def candidates(self, live: list[Leaf]) -> list[Leaf]:
        """The best continuations; equals in the order of their parents, then the likelier token, then the lower id."""
        found = []
        for place, parent in enumerate(live):
            for token, log_prob in enumerate(self.follow(parent.tokens)):
                if not self.rules.forbid(parent.tokens, token):
                    leaf = Leaf((*parent.tokens, token), parent.total + log_prob, log_prob)
                    found.append(((-leaf.total, place, -log_prob, token), leaf))
        found.sort()
        count = 1 if self.width == 1 else 2 * self.width
        self.compare(*(leaf.total for _, leaf in found[: count + 1]))
        return [leaf for _, leaf in found[:count]]

    def judge(self, rank: int, leaf: Leaf) -> Leaf:
        """Sets a candidate aside, lets it live or drops it; `rank` counts from 0."""
        if len(self.live) == self.width:
            return leaf
        if leaf.tokens[-1] != self.rules.end:
            self.live.append(leaf._replace(fate="live"))
            return self.live[-1]
        if rank < self.width:
            self.ended.append(leaf._replace(fate="ended"))
            return self.ended[-1]
        return leaf

    def nothing_changes(self) -> bool:
        """Whether nothing that lives can change the result."""
        if not self.live or len(self.live[0].tokens) == self.rules.limit or len(self.ended) >= self.width:
            self.compare(*sorted(map(self.score, self.ended)))
            return True
        if not self.ended:
            return False
        could_become, best = self.rules.score(self.live[0].total, self.rules.limit), self.score(self.best)
        self.compare(could_become, best)
        return could_become <= best

    def score(self, leaf: Leaf) -> float:
        return self.rules.score(leaf.total, len(leaf.tokens))

    def compare(self, *numbers: float) -> None:
        """Notes how far apart neighbours are."""
        self.closest = min([self.closest, *(abs(a - b) for a, b in itertools.pairwise(numbers))])
