"""How attention weights fall on words: sums over many texts, beside what would be expected by chance.

Weights are between pieces. From a word they are the mean over its pieces, and to a word the sum (Clark et al. 2019,
section 4.1).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.aligning.attention import word_weights
from dragoman.aligning.words import Word

Span = tuple[int, int]
"""The first token and the last + 1."""


class Share(NamedTuple):
    """How often a head looks where a role says, between 0 and 1."""

    weight: float
    """The mean weight on the word in question; by chance: what equal weights on all tokens would put there."""
    largest: float
    """How often no other word gets more weight; by chance: if words were drawn at random, or for subjects, at the fixed
    distance that is right most often.
    """


@dataclass(frozen=True)
class Side:
    """The tokens of a text as words and symbols: the units that are looked at. Each token belongs to one."""

    units: tuple[Span, ...]
    words: tuple[int, ...]
    """The unit of each word."""
    marks: tuple[int, ...]
    """Of these, the words without a letter or a digit."""
    start: tuple[int, ...]
    """The units of the symbols before the text."""
    end: tuple[int, ...]
    """And after it."""

    @classmethod
    def of(cls, words: Sequence[Word], length: int, before: int, after: int) -> "Side":
        """The words among the `length` tokens that a stack reads, of which so many before and after are symbols."""
        spans = {word.first: (word.last, word) for word in words}
        units, numbers, marks, place = [], [], [], 0
        while place < length:
            last, word = spans.get(place, (place + 1, None))
            if word is not None:
                numbers.append(len(units))
                marks += [] if any(map(str.isalnum, word.text)) else [len(units)]
            units.append((place, last))
            place = last
        start = range(before)
        end = range(len(units) - after, len(units))
        return cls(tuple(units), tuple(numbers), tuple(marks), tuple(start), tuple(end))

    @property
    def word_spans(self) -> list[Span]:
        """The tokens of each word."""
        return [self.units[unit] for unit in self.words]


def between_words(
    weights: Float[Tensor, "H T S"], queries: Sequence[Span], keys: Sequence[Span]
) -> Float[Tensor, "H Q U"]:
    """Weights from spans of queries (the mean of theirs) to spans of keys (the sum), in float64 on the processor."""
    source, target = ([Word("", *span) for span in spans] for spans in (keys, queries))
    return torch.from_numpy(word_weights(weights.double().cpu().numpy(), source, target))


class Looked(NamedTuple):
    """Where the words of one text look, and by chance."""

    weights: Float[Tensor, "H Q U"]
    equal: Float[Tensor, "Q U"]
    """If every visible token got the same weight."""

    @classmethod
    def of(
        cls, weights: Float[Tensor, "H T S"], causal: bool, queries: Sequence[Span], keys: Sequence[Span]
    ) -> "Looked":
        visible = torch.ones_like(weights[0]).tril() if causal else torch.ones_like(weights[0])
        equal = visible / visible.sum(1, keepdim=True)
        return cls(between_words(weights, queries, keys), between_words(equal[None], queries, keys)[0])


@dataclass
class Tally:
    """Sums over all texts of where the H heads of one attention look."""

    weight: dict[str, Tensor] = field(default_factory=dict)
    """By role, (H + 1): the summed weight of each head, and by chance."""
    largest: dict[str, Tensor] = field(default_factory=dict)
    count: Counter[str] = field(default_factory=Counter)
    """Queries that were judged."""
    distances: Counter[int] = field(default_factory=Counter)
    """From verb to subject, in words."""

    def add(self, looked: Looked, roles: Mapping[str, Bool[Tensor, "Q U"]]) -> None:
        """Counts one text. A role says which units each query is expected to look at; a query that sees none of
        them is not judged.
        """
        weights, equal = looked
        best = torch.nn.functional.one_hot(weights.argmax(-1), weights.size(-1)).bool()
        visible = equal > 0
        for role, expected in roles.items():
            wanted = expected & visible
            judged = wanted.any(1)
            weight = torch.cat([weights, equal[None]]) * wanted
            random = wanted / visible.sum(1, keepdim=True)
            largest = torch.cat([(best & wanted).to(weights.dtype), random[None].to(weights.dtype)])
            self._sum(role, weight.sum((1, 2)), largest.sum((1, 2)), int(judged.sum()))

    def add_subjects(self, looked: Looked, side: Side, pairs: Sequence[tuple[int, int]]) -> None:
        """Counts the subjects (`subject`: from the verb) and verbs (`verb`: from the subject) of one text.

        The largest weight is the largest on another word; the symbols are left out.
        """
        if not pairs:
            return
        verbs, subjects = torch.tensor(pairs).T
        self.distances.update(subject - verb for verb, subject in pairs)
        for role, query, wanted in (("subject", verbs, subjects), ("verb", subjects, verbs)):
            self._add_arcs(role, looked, torch.tensor(side.words), query, wanted)

    def _add_arcs(
        self, role: str, looked: Looked, words: Int[Tensor, "Q"], query: Int[Tensor, "A"], wanted: Int[Tensor, "A"]
    ) -> None:
        of_words = torch.cat([looked.weights, looked.equal[None]])[:, query][..., words]  # (H + 1, A, Q)
        arcs = torch.arange(len(query))
        weight = of_words[:, arcs, wanted].sum(1)
        of_words[:, arcs, query] = -1
        largest = (of_words.argmax(-1) == wanted).sum(1).to(weight.dtype)
        largest[-1] = 0  # chance is the best distance, which is known at the end
        self._sum(role, weight, largest, len(query))

    def _sum(self, role: str, weight: Tensor, largest: Tensor, count: int) -> None:
        self.weight[role] = self.weight.get(role, 0) + weight.double()
        self.largest[role] = self.largest.get(role, 0) + largest.double()
        self.count[role] += count

    def shares(self, head: int) -> dict[str, Share]:
        """The share of each role that was judged; head -1 is chance."""
        found = {
            role: Share(float(self.weight[role][head]) / count, float(self.largest[role][head]) / count)
            for role, count in self.count.items()
            if count
        }
        if head == -1 and self.distances:
            best = self.distances.most_common(1)[0][1] / self.distances.total()
            found |= {role: found[role]._replace(largest=best) for role in ("subject", "verb")}
        return found
