"""Scores of labels as `LineStatistics`, for intervals and significance tests, and precision and recall for each label.

Accuracy and macro F1 equal scikit-learn's with `zero_division=0`. Entities in BIO labels are scored as whole spans:
their micro precision, recall and F1 equal seqeval's with `mode="strict", scheme=IOB2`, where an entity is right if its
type, first and last word are right. Every score is in points of 100.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import dragoman
from dragoman.errors import DataError
from dragoman.evaluating.metrics import Array, LineStatistics
from dragoman.text.labels import OUTSIDE
from dragoman.tokenizing.labels import Labels

Labelled = Sequence[str] | Sequence[Sequence[str]]
"""Labels of every row; a plain string is the only label of its row."""
Rows = Sequence[Sequence[str]]

HEADINGS = ("label", "precision", "recall", "F1", "gold", "found")


@dataclass(frozen=True)
class SparseCounts:
    """Sparse matrix of counts in coordinate form; values at the same coordinates are added.

    It supports the arithmetic that `LineStatistics` needs of `lines`: differences, and weighted sums of rows.
    """

    rows: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]
    values: Array
    shape: tuple[int, int]
    __array_ufunc__ = None  # so that `weights @ counts` calls this class

    def __len__(self) -> int:
        return self.shape[0]

    def __sub__(self, subtrahend: "SparseCounts") -> "SparseCounts":
        return SparseCounts(
            np.concatenate([self.rows, subtrahend.rows]),
            np.concatenate([self.columns, subtrahend.columns]),
            np.concatenate([self.values, -subtrahend.values]),
            self.shape,
        )

    def __rmatmul__(self, weights: npt.NDArray[Any]) -> Array:
        """Return the weighted sum of the rows, for a vector of weights or for each row of a matrix of weights."""
        if weights.ndim == 2:
            return np.stack([vector @ self for vector in weights])
        return np.asarray(np.bincount(self.columns, weights[self.rows] * self.values, self.shape[1]), np.float64)

    def sum(self, axis: int) -> Array:
        """Return the sums of the columns."""
        assert axis == 0, "only sums of columns are supported"
        return np.ones(len(self)) @ self


class LabelRow(NamedTuple):
    """Precision, recall and F1 of one label or one type of entity, in points of 100, and counts."""

    label: str
    precision: float
    recall: float
    f1: float
    gold: int
    """Number of gold labels; scikit-learn calls it support."""
    predicted: int

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of a table with the columns `HEADINGS`."""
        points = (f"{value:.1f}" for value in (self.precision, self.recall, self.f1))
        return (self.label, *points, f"{self.gold:,}", f"{self.predicted:,}")

    def facts(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"found" if name == "predicted" else name: value for name, value in self._asdict().items()}


def checked(gold: Labelled, predicted: Labelled) -> tuple[Rows, Rows]:
    """Return gold and predicted labels row by row, after a check that they match in number.

    Raises:
        DataError: they do not match, or there is no label.
    """
    gold_rows, rows = ([(row,) if isinstance(row, str) else tuple(row) for row in side] for side in (gold, predicted))
    if len(gold_rows) != len(rows):
        raise DataError(f"{len(rows):,} predicted rows of labels cannot be scored against {len(gold_rows):,} gold rows")
    for number, (right, row) in enumerate(zip(gold_rows, rows, strict=True), start=1):
        if len(right) != len(row):
            raise DataError(f"row {number} of the test set has {len(right):,} labels, but {len(row):,} were predicted")
    if not any(gold_rows):
        raise DataError("there is nothing to score: the test set has no label")
    return gold_rows, rows


def names_in(*sides: Rows) -> tuple[str, ...]:
    """Return every label that occurs, sorted."""
    return tuple(sorted({label for side in sides for row in side for label in row}))


def label_statistics(gold: Rows, predicted: Rows, names: Sequence[str]) -> dict[str, LineStatistics]:
    """Return the statistics of `accuracy` and `macro_f1`.

    `names` are all labels, including those that only another system predicted, so that systems can be compared count by
    count.

    Accuracy is the share of right labels. Macro F1 is the plain mean of the F1 of each label that occurs in gold or
    predicted labels, of the whole set or of a bootstrap sample: `f1_score(average="macro", zero_division=0)`.
    """
    size = describe_size(gold)
    right_and_all = [
        [sum(label == guess for label, guess in zip(labels, guesses, strict=True)), len(labels)]
        for labels, guesses in zip(gold, predicted, strict=True)
    ]
    counts = count_labels(gold, predicted, names)
    return {
        "accuracy": _statistics(
            np.array(right_and_all, np.float64), "accuracy", f"acc|{size}", lambda sums: _ratio(*sums.T)
        ),
        "macro_f1": _statistics(counts, "macro F1", f"f1|average:macro|{size}", _macro_f1),
    }


def entity_statistics(gold: Rows, predicted: Rows) -> dict[str, LineStatistics]:
    """Return the statistics of `f1`, `precision` and `recall` of all entities together, counted by sentence."""
    right_predicted_gold = [list(map(len, entities)) for entities in _entities(gold, predicted)]
    lines = np.array(right_predicted_gold, dtype=np.float64)
    key = f"average:micro|mode:strict|scheme:IOB2|{describe_size(gold)}"
    return {
        "f1": _statistics(lines, "entity F1", f"f1|{key}", lambda sums: f1(*sums.T)),
        "precision": _statistics(lines, "precision", f"precision|{key}", lambda sums: _ratio(sums[:, 0], sums[:, 1])),
        "recall": _statistics(lines, "recall", f"recall|{key}", lambda sums: _ratio(sums[:, 0], sums[:, 2])),
    }


def _statistics(lines: "Array | SparseCounts", name: str, key: str, share: Callable[[Array], Array]) -> LineStatistics:
    """Build statistics; `share` computes a share of one from summed counts.

    The signature has sacreBLEU's form: `acc|n:500|bs:1000|…`.
    """

    def signature(**facts: object) -> str:
        return "|".join([key, *(f"{key}:{value}" for key, value in {**facts, "version": dragoman.__version__}.items())])

    return LineStatistics(lines, lambda totals: 100 * share(totals), lambda _: (name, ""), signature)


def describe_size(rows: Rows) -> str:
    """Return the size of a test set for a signature: the labels, and the rows if they have several labels."""
    labels = sum(map(len, rows))
    return f"n:{labels}" if all(len(row) == 1 for row in rows) else f"n:{labels}|sentences:{len(rows)}"


def count_labels(gold: Rows, predicted: Rows, names: Sequence[str]) -> SparseCounts:
    """Count, in each of R rows, the right predictions, all predictions and the gold labels of C labels: (R, 3 C)."""
    number = {name: index for index, name in enumerate(names)}
    row_numbers = np.repeat(np.arange(len(gold)), [len(row) for row in gold])
    right, guess = (
        np.array([number[label] for row in side for label in row], dtype=np.int64) for side in (gold, predicted)
    )
    same = right == guess
    # Three blocks of C columns: right, predicted, gold.
    columns = np.concatenate([right[same], len(names) + guess, 2 * len(names) + right])
    rows = np.concatenate([row_numbers[same], row_numbers, row_numbers])
    return SparseCounts(rows, columns, np.ones(len(rows)), (len(gold), 3 * len(names)))


def label_rows(gold: Rows, predicted: Rows) -> list[LabelRow]:
    """Return precision, recall and F1 of every label that occurs."""
    names = names_in(gold, predicted)
    return _rows(names, count_labels(gold, predicted, names).sum(axis=0).reshape(3, -1))


def _rows(names: Sequence[str], counts: Array) -> list[LabelRow]:
    """Build rows from the counts (3, C) of right predictions, predictions and gold labels of C names."""
    right, predicted, gold = counts
    scores = 100 * np.stack([_ratio(right, predicted), _ratio(right, gold), f1(right, predicted, gold)], axis=1)
    return [
        LabelRow(name, *points, gold=int(gold_count), predicted=int(count))
        for name, points, gold_count, count in zip(names, scores.tolist(), gold, predicted, strict=True)
    ]


def f1(right: Array, predicted: Array, gold: Array) -> Array:
    """Return the harmonic mean of precision and recall; 0 if nothing is right."""
    return _ratio(2 * right, predicted + gold)


def _macro_f1(totals: Array) -> Array:
    right, predicted, gold = np.moveaxis(totals.reshape(len(totals), 3, -1), 1, 0)
    occurs = predicted + gold > 0
    return _ratio(f1(right, predicted, gold).sum(axis=-1), occurs.sum(axis=-1))


def _ratio(part: Array, whole: Array) -> Array:
    return np.divide(part, whole, out=np.zeros(np.shape(part)), where=np.asarray(whole) > 0)


_ENDS = ("E-", "S-", "L-", "U-")
"""Prefixes of labels in BIOES and BILOU that BIO does not have."""


class Entity(NamedTuple):
    """Entity of the words from `start` up to, but without, `end`."""

    type: str
    start: int
    end: int


def marks_ends(labels: Labels) -> bool:
    """Return True if labels look like BIOES or BILOU, which mark the ends of entities; these are not supported."""
    return labels.task == "tag" and OUTSIDE in labels.names and any(name.startswith(_ENDS) for name in labels.names)


def find_entities(labels: Sequence[str]) -> list[Entity]:
    """Return the entities of a sentence. Each begins with B; an I that continues no entity of its type is ignored.

    >>> find_entities(["B-person", "I-person", "O", "I-person", "B-place", "B-place"])
    [Entity(type='person', start=0, end=2), Entity(type='place', start=4, end=5), Entity(type='place', start=5, end=6)]
    """
    entities: list[Entity] = []
    kind, start = None, 0
    for number, label in enumerate([*labels, OUTSIDE]):
        if kind is not None and label != f"I-{kind}":
            entities.append(Entity(kind, start, number))
            kind = None
        if label.startswith("B-"):
            kind, start = label[2:], number
    return entities


def entity_rows(gold: Rows, predicted: Rows) -> list[LabelRow]:
    """Return precision, recall and F1 of every type of entity that occurs."""
    counts = Counter[str](), Counter[str](), Counter[str]()
    for sentence in _entities(gold, predicted):
        for counter, entities in zip(counts, sentence, strict=True):
            counter.update(entity.type for entity in entities)
    names = sorted(counts[1] | counts[2])
    return _rows(names, np.array([[counter[name] for name in names] for counter in counts], dtype=np.float64))


def _entities(gold: Rows, predicted: Rows) -> Iterator[tuple[set[Entity], set[Entity], set[Entity]]]:
    """Yield, for each sentence, the entities that are right, predicted, and gold."""
    for gold_labels, labels in zip(gold, predicted, strict=True):
        right, guessed = set(find_entities(gold_labels)), set(find_entities(labels))
        yield right & guessed, guessed, right
