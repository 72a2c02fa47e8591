"""Scores of labels, as `Statistics` that give intervals and significance; and precision and recall, label by label.

Accuracy and macro F1 equal scikit-learn's with `zero_division=0`. Entities in BIO labels are scored as whole spans:
their micro precision, recall and F1 equal seqeval's with `mode="strict", scheme=IOB2`, where an entity is right if its
type, first and last word are. Every score is in points of 100.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import dragoman
from dragoman.errors import DataError
from dragoman.evaluating.metrics import Array, Statistics
from dragoman.text.labels import OUTSIDE
from dragoman.tokenizing.labels import Labels

Labelled = Sequence[str] | Sequence[Sequence[str]]
"""The labels of every row; a plain string is the only label of its row."""
Rows = Sequence[Sequence[str]]

HEADINGS = ("label", "precision", "recall", "F1", "gold", "found")


@dataclass(frozen=True)
class SparseCounts:
    """A matrix of counts of which nearly all are zero, as (row, column) pairs: each adds its `values` to that count.

    It has the arithmetic that `Statistics` asks of `lines`: the difference of two, and sums of weighted rows.
    """

    rows: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]
    values: Array
    shape: tuple[int, int]
    __array_ufunc__ = None  # so that `weights @ counts` asks this class

    def __len__(self) -> int:
        return self.shape[0]

    def __sub__(self, other: "SparseCounts") -> "SparseCounts":
        return SparseCounts(
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.columns, other.columns]),
            np.concatenate([self.values, -other.values]),
            self.shape,
        )

    def __rmatmul__(self, weights: npt.NDArray[Any]) -> Array:
        """The sum of all rows, each times its weight, for a vector of weights or for each row of a matrix."""
        if weights.ndim == 2:
            return np.stack([each @ self for each in weights])
        return np.asarray(np.bincount(self.columns, weights[self.rows] * self.values, self.shape[1]), np.float64)

    def sum(self, axis: int) -> Array:
        """The sums of the columns."""
        assert axis == 0, "nobody needs the others"
        return np.ones(len(self)) @ self


class LabelRow(NamedTuple):
    """How well one label, or one type of entity, is found: points of 100, and counts."""

    label: str
    precision: float
    recall: float
    f1: float
    gold: int
    """How often it is right; scikit-learn calls it support."""
    found: int

    @property
    def cells(self) -> tuple[str, ...]:
        """As a row of a table, under `HEADINGS`."""
        points = (f"{value:.1f}" for value in (self.precision, self.recall, self.f1))
        return (self.label, *points, f"{self.gold:,}", f"{self.found:,}")


def checked(gold: Labelled, found: Labelled) -> tuple[Rows, Rows]:
    """Gold and found labels row by row, once they are known to fit."""
    rows, others = ([(row,) if isinstance(row, str) else tuple(row) for row in side] for side in (gold, found))
    if len(rows) != len(others):
        raise DataError(f"{len(others):,} found rows of labels cannot be scored against {len(rows):,} gold ones")
    for number, (right, other) in enumerate(zip(rows, others, strict=True), start=1):
        if len(right) != len(other):
            raise DataError(f"row {number} of the test set has {len(right):,} labels, but {len(other):,} were found")
    if not any(rows):
        raise DataError("there is nothing to score: the test set has no label")
    return rows, others


def names_in(*sides: Rows) -> tuple[str, ...]:
    """Every label that occurs, sorted."""
    return tuple(sorted({label for side in sides for row in side for label in row}))


def label_statistics(gold: Rows, found: Rows, names: Sequence[str]) -> dict[str, Statistics]:
    """Counts for `accuracy` and `macro_f1`. `names` are all labels, also those that only another system found, so that
    systems can be compared count by count.

    Accuracy is the share of right labels. Macro F1 is the plain mean of the F1 of each label that occurs in gold or
    found labels, of the whole set or of a bootstrap sample: `f1_score(average="macro", zero_division=0)`.
    """
    size = describe_size(gold)
    right_of_all = [
        [sum(one == other for one, other in zip(*pair, strict=True)), len(pair[0])]
        for pair in zip(gold, found, strict=True)
    ]
    counts = count_labels(gold, found, names)
    return {
        "accuracy": _statistics(
            np.array(right_of_all, np.float64), "accuracy", f"acc|{size}", lambda sums: _ratio(*sums.T)
        ),
        "macro_f1": _statistics(counts, "macro F1", f"f1|average:macro|{size}", _macro_f1),
    }


def entity_statistics(gold: Rows, found: Rows) -> dict[str, Statistics]:
    """Counts for `f1`, `precision` and `recall` of all entities together, drawn by sentence."""
    right_found_gold = [list(map(len, entities)) for entities in _entities(gold, found)]
    lines = np.array(right_found_gold, dtype=np.float64)
    key = f"average:micro|mode:strict|scheme:IOB2|{describe_size(gold)}"
    return {
        "f1": _statistics(lines, "entity F1", f"f1|{key}", lambda sums: f1(*sums.T)),
        "precision": _statistics(lines, "precision", f"precision|{key}", lambda sums: _ratio(sums[:, 0], sums[:, 1])),
        "recall": _statistics(lines, "recall", f"recall|{key}", lambda sums: _ratio(sums[:, 0], sums[:, 2])),
    }


def _statistics(lines: "Array | SparseCounts", name: str, key: str, share: Callable[[Array], Array]) -> Statistics:
    """`share` makes shares of one from summed counts. The signature has sacreBLEU's form: `acc|n:500|bs:1000|…`."""

    def signature(**facts: object) -> str:
        return "|".join([key, *(f"{key}:{value}" for key, value in {**facts, "version": dragoman.__version__}.items())])

    return Statistics(lines, lambda totals: 100 * share(totals), lambda _: (name, ""), signature)


def describe_size(rows: Rows) -> str:
    """The size of a test set, as signatures tell it: examples, and rows if they hold several."""
    labels = sum(map(len, rows))
    return f"n:{labels}" if all(len(row) == 1 for row in rows) else f"n:{labels}|sentences:{len(rows)}"


def count_labels(gold: Rows, found: Rows, names: Sequence[str]) -> SparseCounts:
    """How often each of C labels was found rightly, was found, and is gold, in each of R rows: (R, 3 C)."""
    number = {name: index for index, name in enumerate(names)}
    row = np.repeat(np.arange(len(gold)), [len(each) for each in gold])
    right, other = (
        np.array([number[label] for each in side for label in each], dtype=np.int64) for side in (gold, found)
    )
    same = right == other
    # Three blocks of C columns: found rightly, found, gold.
    columns = np.concatenate([right[same], len(names) + other, 2 * len(names) + right])
    rows = np.concatenate([row[same], row, row])
    return SparseCounts(rows, columns, np.ones(len(rows)), (len(gold), 3 * len(names)))


def label_rows(gold: Rows, found: Rows) -> list[LabelRow]:
    """Precision, recall and F1 of every label that occurs."""
    names = names_in(gold, found)
    return rows_of(names, count_labels(gold, found, names).sum(axis=0).reshape(3, -1))


def rows_of(names: Sequence[str], counts: Array) -> list[LabelRow]:
    """Rows from how often each of C names was found rightly, was found, and is gold: (3, C)."""
    right, found, gold = counts
    scores = 100 * np.stack([_ratio(right, found), _ratio(right, gold), f1(right, found, gold)], axis=1)
    return [
        LabelRow(name, *points, gold=int(of_gold), found=int(of_found))
        for name, points, of_gold, of_found in zip(names, scores.tolist(), gold, found, strict=True)
    ]


def f1(right: Array, found: Array, gold: Array) -> Array:
    """The harmonic mean of precision and recall; 0 if nothing is right."""
    return _ratio(2 * right, found + gold)


def _macro_f1(totals: Array) -> Array:
    right, found, gold = np.moveaxis(totals.reshape(len(totals), 3, -1), 1, 0)
    occurs = found + gold > 0
    return _ratio(f1(right, found, gold).sum(axis=-1), occurs.sum(axis=-1))


def _ratio(part: Array, whole: Array) -> Array:
    return np.divide(part, whole, out=np.zeros(np.shape(part)), where=np.asarray(whole) > 0)


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


def entity_rows(gold: Rows, found: Rows) -> list[LabelRow]:
    """Precision, recall and F1 of every type of entity that occurs."""
    counts = Counter[str](), Counter[str](), Counter[str]()
    for sentence in _entities(gold, found):
        for counter, entities in zip(counts, sentence, strict=True):
            counter.update(entity.type for entity in entities)
    names = sorted(counts[1] | counts[2])
    return rows_of(names, np.array([[counter[name] for name in names] for counter in counts], dtype=np.float64))


def _entities(gold: Rows, found: Rows) -> Iterator[tuple[set[Entity], set[Entity], set[Entity]]]:
    """The entities of each sentence that were found rightly, that were found, and that are gold."""
    for right, other in zip(gold, found, strict=True):
        of_gold, of_found = set(find_entities(right)), set(find_entities(other))
        yield of_gold & of_found, of_found, of_gold
