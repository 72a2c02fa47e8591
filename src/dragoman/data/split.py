"""A split that cannot leak: pairs that share a sentence on either side stay on one side of it.

Sentences are compared as 64-bit keys, so a million pairs are a few arrays. Pairs linked by a shared sentence, over any
number of steps, form a component; whole components are dealt out, in an order that depends on the seed and on their
content alone. Knows nothing of files.
"""

import hashlib
from typing import NamedTuple

import numpy as np

TRAIN, DEV, TEST = 0, 1, 2

# Dropped from the end of a sentence before it is compared: "Come in!" and "come in." are one sentence.
FINAL_PUNCTUATION = " .,;:!?…。！？、，।؟"

# A component larger than this part of a held-out set is taken only when smaller ones do not fill it: one sentence with
# its ninety renderings would stand for the whole test.
LARGEST_PART = 0.05

Keys = np.ndarray  # of uint64, one a pair


class Sizes(NamedTuple):
    """How many pairs are held out, and why so many."""

    dev: int
    test: int
    reason: str


class Leakage(NamedTuple):
    """How much of a held-out set stands in training too, in pairs of it."""

    pairs: int
    sources: int
    """Source sentence found among the training sources."""
    targets: int
    either: int
    first: int | None
    """The first of the pairs counted in `either`, from 0."""


def sentence_key(text: str) -> int:
    """64 bits of a sentence, without its case, spacing and final punctuation; the same in every process.

    >>> sentence_key("Come  in!") == sentence_key("come in.")
    True
    >>> sentence_key("?!") == sentence_key("...")
    False
    """
    plain = " ".join(text.casefold().split())
    return text_key(plain.rstrip(FINAL_PUNCTUATION) or plain)


def text_key(text: str) -> int:
    """64 bits of an exact text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def default_sizes(pairs: int) -> Sizes:
    """A twentieth of the corpus for each held-out set, and 2,000 pairs at most.

    >>> default_sizes(3_741)
    Sizes(dev=187, test=187, reason='5 % of 3,741 pairs each')
    """
    part = max(1, round(0.05 * pairs))
    if part > 2000:
        return Sizes(2000, 2000, "2,000 pairs each: more would narrow the interval of a score little")
    return Sizes(part, part, f"5 % of {pairs:,} pairs each")


def first_occurrences(keys: Keys) -> np.ndarray:
    """True where a key stands for the first time."""
    first = np.zeros(len(keys), bool)
    first[np.unique(keys, return_index=True)[1]] = True
    return first


def components(sources: Keys, targets: Keys) -> np.ndarray:
    """A number for each pair, equal for pairs that are linked through shared sentences; 0, 1, 2 … in no stated order.

    Every root of a forest over the sentences takes the smallest root that a pair links it to, then all paths are
    shortened to their root; a few rounds reach the end, also for a chain of a million pairs.
    """
    sentence = np.unique(sources, return_inverse=True)[1]
    source, target = sentence, np.unique(targets, return_inverse=True)[1]
    target = target + (source.max(initial=-1) + 1)
    root = np.arange(target.max(initial=-1) + 1)
    while len(source):
        one, other = root[source], root[target]
        apart = one != other
        if not apart.any():
            break
        source, target, one, other = source[apart], target[apart], one[apart], other[apart]
        smaller, larger = np.minimum(one, other), np.maximum(one, other)
        np.minimum.at(root, larger, smaller)
        while (shorter := root[root]).tobytes() != root.tobytes():
            root = shorter
    return np.unique(root[sentence], return_inverse=True)[1]


def assign(sources: Keys, targets: Keys, dev: int, test: int, seed: int) -> np.ndarray:
    """TRAIN, DEV or TEST for each pair; components go whole. Held-out sets come out smaller where none fits.

    The order of the pairs does not matter: the same sentences land on the same side in any order.
    """
    label = components(sources, targets)
    sizes = np.bincount(label)
    assert int(sizes.sum()) == len(label), "every pair is in one component"
    key = np.full(len(sizes), np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(key, label, sources)
    order = np.argsort(_mix(key, seed), kind="stable")
    side = np.full(len(sizes), TRAIN, np.uint8)
    for name, wanted in ((TEST, test), (DEV, dev)):
        for largest in (max(1, int(LARGEST_PART * wanted)), wanted):
            free = order[(side[order] == TRAIN) & (sizes[order] <= largest)]
            taken = _fill(free, sizes, wanted)
            side[taken] = name
            wanted -= int(sizes[taken].sum())
    return side[label]


def leakage(train: tuple[Keys, Keys], held_out: tuple[Keys, Keys]) -> Leakage:
    """How many pairs of a held-out set share a sentence with training, from the keys of (sources, targets)."""
    source, target = (np.isin(mine, theirs) for mine, theirs in zip(held_out, train, strict=True))
    either = np.flatnonzero(source | target)
    first = int(either[0]) if len(either) else None
    return Leakage(len(source), int(source.sum()), int(target.sum()), len(either), first)


def _fill(candidates: np.ndarray, sizes: np.ndarray, wanted: int) -> list[int]:
    """Candidates in their order, each taken if it still fits."""
    taken: list[int] = []
    for candidate in candidates.tolist():
        if wanted <= 0:
            break
        if sizes[candidate] <= wanted:
            taken.append(candidate)
            wanted -= int(sizes[candidate])
    return taken


def _mix(keys: np.ndarray, seed: int) -> np.ndarray:
    """Each key scattered by the seed (SplitMix64, Steele et al. 2014)."""
    with np.errstate(over="ignore"):
        mixed = keys ^ np.uint64(text_key(f"split {seed}"))
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))
