"""Entities in BIO labels, scored as whole spans: micro precision, recall and F1, and a row for each type.

Every score equals seqeval's with `mode="strict", scheme=IOB2`: an entity is right if type, first and last word are.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dragoman.evaluating.labels.classification import (
    LabelRow,
    LabelScoring,
    Rows,
    describe_size,
    f1,
    precision,
    recall,
    rows_of,
)
from dragoman.evaluating.metrics import Statistics
from dragoman.text.labels import OUTSIDE
from dragoman.tokenizing.labels import Labels

_ENDS = ("E-", "S-", "L-", "U-")
"""How labels of BIOES and BILOU begin that BIO does not have."""


class Entity(NamedTuple):
    """The words from `start` up to, but without, `end`."""

    type: str
    start: int
    end: int


def marks_ends(labels: Labels) -> bool:
    """Whether labels look like BIOES or BILOU, which mark the ends of entities too; their entities are not found."""
    return labels.task == "tag" and OUTSIDE in labels.names and any(name.startswith(_ENDS) for name in labels.names)


def find_entities(labels: Sequence[str]) -> list[Entity]:
    """The entities of a sentence. One begins with B; an I that continues nothing of its type belongs to none.

    >>> find_entities(["B-person", "I-person", "O", "I-person", "B-place", "B-place"])
    [Entity(type='person', start=0, end=2), Entity(type='place', start=4, end=5), Entity(type='place', start=5, end=6)]
    """
    found: list[Entity] = []
    kind, start = None, 0
    for number, label in enumerate([*labels, OUTSIDE]):
        if kind is not None and label != f"I-{kind}":
            found.append(Entity(kind, start, number))
            kind = None
        if label.startswith("B-"):
            kind, start = label[2:], number
    return found


def entity_statistics(gold: Rows, found: Rows) -> dict[str, Statistics]:
    """Counts for `f1`, `precision` and `recall` of all entities together, drawn by sentence."""
    lines = np.array([_count(*row) for row in zip(gold, found, strict=True)], dtype=np.float64)
    key = f"average:micro|mode:strict|scheme:IOB2|{describe_size(gold)}"
    return {
        name: Statistics(LabelScoring(printed, lambda sums, share=share: share(*sums.T), f"{name}|{key}"), lines)
        for name, printed, share in (
            ("f1", "entity F1", f1),
            ("precision", "precision", precision),
            ("recall", "recall", recall),
        )
    }


def entity_rows(gold: Rows, found: Rows) -> list[LabelRow]:
    """Precision, recall and F1 of every type of entity that occurs."""
    kinds = [Counter[str](), Counter[str](), Counter[str]()]
    for right, other in zip(gold, found, strict=True):
        of_gold, of_found = set(find_entities(right)), set(find_entities(other))
        for counter, entities in zip(kinds, (of_gold & of_found, of_found, of_gold), strict=True):
            counter.update(entity.type for entity in entities)
    names = sorted(kinds[1] | kinds[2])
    return rows_of(names, np.array([[counter[name] for name in names] for counter in kinds], dtype=np.float64))


def _count(gold: Sequence[str], found: Sequence[str]) -> tuple[int, int, int]:
    """How many entities of a sentence were found rightly, were found, and are gold."""
    of_gold, of_found = set(find_entities(gold)), set(find_entities(found))
    return len(of_gold & of_found), len(of_found), len(of_gold)
