"""Links between words, and how well found links agree with those that a person drew."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from dragoman.aligning.attention import Links
from dragoman.aligning.words import split_words


@dataclass(frozen=True)
class AlignedPair:
    """A sentence, its translation, and the links that a person drew between their words (`split_words`).

    >>> pair = AlignedPair("The dog sleeps.", "Dorme il cane.", frozenset({(0, 1), (1, 2), (2, 0), (3, 3)}))
    >>> pair.source_words
    ['The', 'dog', 'sleeps', '.']
    """

    source: str
    target: str
    sure: Links
    """Links that nobody would doubt."""
    unsure: Links = frozenset()
    """Links that another person might leave out: to function words that one language lacks, inside idioms."""

    @property
    def possible(self) -> Links:
        """The sure links and the others: P in Och and Ney (2003), which contains S."""
        return self.sure | self.unsure

    @cached_property
    def source_words(self) -> list[str]:
        return split_words(self.source)

    @cached_property
    def target_words(self) -> list[str]:
        return split_words(self.target)

    @property
    def reversed(self) -> "AlignedPair":
        """The same pair for a model of the other direction."""
        return AlignedPair(self.target, self.source, _turned(self.sure), _turned(self.unsure))


class Agreement(NamedTuple):
    """How many links two sides share: A found links, S sure ones, P possible ones. Add agreements to judge a text."""

    sure_found: int
    """|A ∩ S|."""
    possible_found: int
    """|A ∩ P|."""
    found: int
    """|A|."""
    sure: int
    """|S|."""

    @property
    def precision(self) -> float:
        """The share of found links that are possible; 1 if none was found."""
        return self.possible_found / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        """The share of sure links that were found; 1 if there are none."""
        return self.sure_found / self.sure if self.sure else 1.0

    @property
    def error_rate(self) -> float:
        """The alignment error rate, AER: 0 is perfect, 1 is the worst (Och and Ney 2003)."""
        total = self.found + self.sure
        return 1 - (self.sure_found + self.possible_found) / total if total else 0.0


def agree(found: Links, pair: AlignedPair) -> Agreement:
    """How found links agree with those of a person.

    >>> pair = AlignedPair("I sleep.", "Dormo.", frozenset({(1, 0), (2, 1)}), frozenset({(0, 0)}))
    >>> agree(frozenset({(0, 0), (2, 1)}), pair)
    Agreement(sure_found=1, possible_found=2, found=2, sure=2)
    """
    return Agreement(len(found & pair.sure), len(found & pair.possible), len(found), len(pair.sure))


def total(agreements: Iterable[Agreement]) -> Agreement:
    """The agreement over a whole text, in which every link counts the same."""
    sums = [sum(column) for column in zip(*agreements, strict=True)]
    return Agreement(*sums) if sums else Agreement(0, 0, 0, 0)


def judge(found: Sequence[Links], pairs: Sequence[AlignedPair]) -> Agreement:
    """The agreement of found links with those of a person over a text: one set of links for each pair."""
    return total(agree(links, pair) for links, pair in zip(found, pairs, strict=True))


def _turned(links: Links) -> Links:
    return frozenset((target, source) for source, target in links)
