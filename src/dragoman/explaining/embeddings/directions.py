"""Is a difference in meaning, such as the plural, one direction of an embedding space? Measured, with chance beside it.

Agreement is the cosine between the differences of two pairs, such as cat → cats and dog → dogs. Prediction adds the
mean difference of the other pairs to `cat`, which should lead to `cats` (3CosAdd, Mikolov et al. 2013, averaged over
pairs as by Drozd et al. 2016). Each has baselines: `cats` may lie next to `cat` anyway, so that plain similarity
explains the hit (Linzen 2016, "Issues in evaluating semantic spaces using word analogies").
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from dragoman.errors import DataError
from dragoman.evaluating.metrics import interval
from dragoman.explaining.embeddings.pairs import PairList
from dragoman.explaining.embeddings.space import EmbeddingSpace

LEAST = 5
"""Fewer pairs than this tell nothing of a direction."""
_SAMPLES, _DRAWS, _SEED = 1_000, 20, 0
_Z = 1.959964
"""The standard normal's quantile at 97.5 %."""


class Estimate(NamedTuple):
    """A mean, and its 95 % interval."""

    mean: float
    low: float
    high: float


class Hits(NamedTuple):
    """How often the right second word came first, and how often among the first five, as shares of the pairs."""

    first: float
    low: float
    high: float
    """The ends of the 95 % interval of `first` (Wilson 1927)."""
    top_5: float


@dataclass(frozen=True)
class Direction:
    """What one list of pairs says of its direction."""

    name: str
    given: int
    """How many pairs there were."""
    pairs: int
    """How many are measured: two different words, each a single entry of the vocabulary and in no earlier pair."""
    candidates: int
    """Among how many words the right one has to be found."""
    agreement: Estimate
    """The cosine of two differences."""
    shuffled: Estimate
    """The same with second words dealt out at random: the mean of such deals, and the range of 95 % of them."""
    added: Hits
    """The first word plus the mean difference of the other pairs."""
    alone: Hits
    """The first word, without any direction."""
    random: Hits
    """The first word plus a random direction of the same length; the mean of 20 draws."""
    gain: Estimate
    """The share of first places of `added`, less that of `alone`; the interval is by bootstrap over pairs."""

    def facts(self) -> dict[str, object]:
        """As plain values for JSON."""
        figures = (Estimate, Hits)
        return {name: value._asdict() if isinstance(value, figures) else value for name, value in vars(self).items()}


def measure_direction(space: EmbeddingSpace, listed: PairList) -> Direction:
    """Measures how well the pairs of a list agree in one direction. The same list gives the same figures.

    Raises:
        DataError: fewer than `LEAST` pairs can be measured.
    """
    found = [(space.entry(first), space.entry(second)) for first, second in listed.pairs]
    ids = torch.tensor([pair for pair in found if None not in pair], dtype=torch.int64)
    if len(ids) < LEAST:
        raise DataError(
            f"{listed.name}: of {listed.given:,} pairs, {len(ids)} can be measured and at least {LEAST} are needed: "
            f"two different words, each a single entry of the vocabulary ({space.title}) and in no earlier pair"
        )
    first, second = space.unit[ids[:, 0]], space.unit[ids[:, 1]]
    candidates = torch.tensor(sorted({*space.words, *ids.flatten().tolist()}))
    search = Search(space.unit[candidates], *(torch.searchsorted(candidates, side) for side in ids.T.contiguous()))
    moved = mean_of_others(second - first)
    random = torch.Generator().manual_seed(_SEED)
    by_chance = [search.ranks(first + _randomly(moved, random)) for _ in range(_DRAWS)]
    added, alone = search.ranks(first + moved), search.ranks(first)
    return Direction(
        name=listed.name,
        given=listed.given,
        pairs=len(ids),
        candidates=len(candidates),
        agreement=agreement(second - first),
        shuffled=shuffled_agreement(first, second),
        added=hits(added),
        alone=hits(alone),
        random=hits(torch.stack(by_chance)),
        gain=gain(added, alone),
    )


def agreement(differences: Float[Tensor, "P D"]) -> Estimate:
    """The mean cosine between the differences of two different pairs, with an interval by bootstrap over pairs.

    A pair that a sample holds twice is never compared with itself.
    """
    cosine = _cosines(differences)
    times = _samples(len(cosine))
    compared = times.sum(-1) ** 2 - (times**2).sum(-1)
    means = ((times @ cosine) * times).sum(-1)[compared > 0] / compared[compared > 0]
    return Estimate(_mean(cosine), *interval(means.numpy()))


def shuffled_agreement(first: Float[Tensor, "P D"], second: Float[Tensor, "P D"]) -> Estimate:
    """The agreement of wrong pairs, of 1,000 deals in which no first word keeps its second word.

    What is left of the agreement is the difference between all first words and all second words together.
    """
    random = torch.Generator().manual_seed(_SEED)
    means = []
    for _ in range(_SAMPLES):
        order = torch.randperm(len(first), generator=random)
        means.append(_mean(_cosines(second[order.roll(1)] - first[order])))
    found = torch.tensor(means, dtype=torch.float64)
    return Estimate(found.mean().item(), *interval(found.numpy()))


class Search:
    """Looks for the second word of each pair among words of length one (C, D)."""

    def __init__(self, words: Float[Tensor, "C D"], first: Int[Tensor, "P"], second: Int[Tensor, "P"]) -> None:
        self.words, self.first, self.second = words, first, second

    def ranks(self, asked: Float[Tensor, "P D"]) -> Int[Tensor, "P"]:
        """The place of each right word by its cosine with what is asked, from 1; of equals, the last. The first word of
        the pair itself is no answer.
        """
        cosine = asked @ self.words.T  # the length of `asked` changes no order
        pair = torch.arange(len(asked))
        cosine[pair, self.first] = -math.inf
        return (cosine >= cosine[pair, self.second, None]).sum(-1)


def mean_of_others(differences: Float[Tensor, "P D"]) -> Float[Tensor, "P D"]:
    """For each pair the mean difference of all other pairs, so that no pair is predicted from itself."""
    return (differences.sum(0) - differences) / (len(differences) - 1)


def hits(ranks: Int[Tensor, "... P"]) -> Hits:
    """The shares of first places and of the first five, with the interval for as many pairs as there are."""
    share = (ranks == 1).double().mean().item()
    return Hits(share, *wilson(share, ranks.size(-1)), (ranks <= 5).double().mean().item())


def gain(ranks: Int[Tensor, "P"], others: Int[Tensor, "P"]) -> Estimate:
    """How many more pairs come first in `ranks` than in `others`, as a share of the pairs."""
    won = (ranks == 1).double() - (others == 1).double()
    return Estimate(won.mean().item(), *interval((_samples(len(won)) @ won / len(won)).numpy()))


def wilson(share: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a share that was seen in `count` cases (Wilson 1927).

    >>> [round(end, 3) for end in wilson(0.5, 10)]
    [0.237, 0.763]
    """
    middle = share + _Z**2 / (2 * count)
    half = _Z * math.sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
    whole = 1 + _Z**2 / count
    return max(0.0, (middle - half) / whole), min(1.0, (middle + half) / whole)


def _samples(count: int) -> Float[Tensor, "samples P"]:
    """How often each pair is in each bootstrap sample."""
    random = torch.Generator().manual_seed(_SEED)
    drawn = torch.randint(count, (_SAMPLES, count), generator=random)
    return F.one_hot(drawn, count).sum(1).double()


def _cosines(differences: Float[Tensor, "P D"]) -> Float[Tensor, "P P"]:
    """The cosine of every difference with every other; zero with itself."""
    unit = F.normalize(differences.double(), dim=-1)
    return (unit @ unit.T).fill_diagonal_(0)


def _mean(cosine: Float[Tensor, "P P"]) -> float:
    return cosine.sum().item() / (len(cosine) * (len(cosine) - 1))


def _randomly(like: Float[Tensor, "P D"], random: torch.Generator) -> Float[Tensor, "P D"]:
    """Random directions, each as long as the one in its place."""
    drawn = torch.randn(like.shape, generator=random)
    return F.normalize(drawn, dim=-1) * like.norm(dim=-1, keepdim=True)
