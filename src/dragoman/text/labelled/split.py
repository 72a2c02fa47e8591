"""Which examples are held out: by label as far as counts allow, with equal texts on one side.

Texts are compared as those of translation are (`dragoman.text.split.sentence_key`). Examples with equal texts form a
group, and whole groups are held out. The order of the groups depends only on the seed and on their texts.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from dragoman.text.labelled.examples import Example
from dragoman.text.split import sentence_key

HELD_OUT = 0.1
"""Share of the training text that is held out for dev, and the same again for test."""
MOST_HELD_OUT = 2_000
LARGEST_PART = 0.05
"""A group with a larger part of a held-out set is taken only if smaller ones do not fill it: one text must not be the
whole test."""


class _Group(NamedTuple):
    """Examples with equal texts, by their numbers."""

    key: int
    order: bytes
    members: list[int]
    stratum: str
    """The rarest of their labels."""


def default_size(examples: int) -> tuple[int, str]:
    """How many examples to hold out for each set, and why. It is twice the share of translation, because labelled sets
    are small and a score on a hundred examples says little.

    >>> default_size(5_452)
    (545, '10 % of 5,452 examples')
    """
    size = max(1, round(HELD_OUT * examples))
    if size > MOST_HELD_OUT:
        return MOST_HELD_OUT, f"{MOST_HELD_OUT:,} examples: more would narrow the interval of a score little"
    return size, f"10 % of {examples:,} examples"


def hold_out(
    examples: Sequence[Example], wanted: Mapping[str, int], seed: int, given: Collection[int] = ()
) -> list[str]:
    """The set of each example: train, or one of those `wanted`, which say how many examples each should hold.

    Each label keeps at least one training example. Texts whose keys are `given`, because a set beside the training text
    holds them, stay in training. A set comes out smaller if too few groups are free.
    """
    groups = _groups(examples, seed)
    sides = ["train"] * len(examples)
    free = _free(groups, examples, given)
    for name, size in wanted.items():
        for largest in (max(1, int(LARGEST_PART * size)), size):
            taken = _spread([group for group in free if len(group.members) <= largest], size - sides.count(name))
            for group in taken:
                for member in group.members:
                    sides[member] = name
            keys = {group.key for group in taken}
            free = [group for group in free if group.key not in keys]
    return sides


def _groups(examples: Sequence[Example], seed: int) -> list[_Group]:
    """All groups, by their rarest label and then in keyed order."""
    counts = Counter(label for example in examples for label in example.labels)
    members: dict[int, list[int]] = {}
    for number, example in enumerate(examples):
        members.setdefault(sentence_key(example.text), []).append(number)
    groups = [
        _Group(key, _order(seed, key), numbers, _rarest(numbers, examples, counts)) for key, numbers in members.items()
    ]
    return sorted(groups, key=lambda group: (group.stratum, group.order))


def _order(seed: int, key: int) -> bytes:
    return hashlib.blake2b(f"{seed} {key}".encode(), digest_size=8).digest()


def _rarest(numbers: Sequence[int], examples: Sequence[Example], counts: Mapping[str, int]) -> str:
    labels = {label for number in numbers for label in examples[number].labels}
    return min(labels, key=lambda label: (counts[label], label))


def _free(groups: Sequence[_Group], examples: Sequence[Example], given: Collection[int]) -> list[_Group]:
    """The groups that may be held out. The first group with each label stays in training."""
    kept: set[str] = set()
    free = []
    for group in groups:
        labels = {label for member in group.members for label in examples[member].labels}
        if group.key in given or labels - kept:
            kept |= labels
        else:
            free.append(group)
    return free


def _spread(groups: Sequence[_Group], wanted: int) -> list[_Group]:
    """About `wanted` examples in whole groups, never more, evenly spaced over the groups in their order."""
    total = sum(len(group.members) for group in groups)
    seen = count = 0
    taken = []
    for group in groups:
        seen += len(group.members)
        due = wanted if total <= wanted else seen * wanted // total
        if count + len(group.members) <= due:
            taken.append(group)
            count += len(group.members)
    return taken
