"""Which labels are taken for which: the confusion matrix, as a table and in words."""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dragoman.brief import brief
from dragoman.evaluating.label_metrics import Rows, names_in

MOST_LABELS = 12
"""A table shows at most this many labels: about as many as fit on a screen."""
OTHERS = "others"


@dataclass(frozen=True)
class Confusion:
    """How often each of C gold labels, down, was found as each label, across: counts (C, C)."""

    __repr__ = brief

    labels: tuple[str, ...]
    counts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, gold: Rows, found: Rows) -> Self:
        """The confusions of all labels that occur."""
        names = names_in(gold, found)
        number = {name: index for index, name in enumerate(names)}
        right, other = (
            np.array([number[label] for row in side for label in row], dtype=np.int64) for side in (gold, found)
        )
        counts = np.bincount(right * len(names) + other, minlength=len(names) ** 2)
        return cls(names, counts.reshape(len(names), len(names)))

    @property
    def mistakes(self) -> npt.NDArray[np.int64]:
        """The counts without the right ones, which stand on the diagonal."""
        return self.counts - np.diag(np.diag(self.counts))

    def worst_labels(self, most: int) -> list[int]:
        """The labels with the most mistakes, as gold or as found, in the order of the matrix."""
        mistakes = self.mistakes
        order = np.argsort(-(mistakes.sum(axis=0) + mistakes.sum(axis=1)), kind="stable")
        return sorted(order[:most].tolist())

    def facts(self) -> dict[str, dict[str, int]]:
        """Plain values for JSON: what each gold label was found as, without the zeros."""
        return {
            name: {self.labels[other]: int(row[other]) for other in np.flatnonzero(row)}
            for name, row in zip(self.labels, self.counts, strict=True)
        }


class ConfusionTable(NamedTuple):
    """A confusion matrix as plain rows, for a console, Markdown or CSV."""

    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]
    """Gold labels; each row says how often its label was found as each other."""
    left_out: str
    """Which labels are not shown; empty if all are."""


def confusion_table(confusion: Confusion, most: int = MOST_LABELS) -> ConfusionTable:
    """The rows and columns of the labels that are confused most; one more column counts all others."""
    shown = confusion.worst_labels(most)
    names = tuple(confusion.labels[index] for index in shown)
    cells, columns = confusion.counts[np.ix_(shown, shown)], names
    if len(shown) < len(confusion.labels):
        others = confusion.counts[shown].sum(axis=1) - cells.sum(axis=1)
        cells, columns = np.column_stack([cells, others]), (*names, OTHERS)
    rows = [(name, *map(str, row)) for name, row in zip(names, cells.tolist(), strict=True)]
    return ConfusionTable(("gold, found as", *columns), rows, _left_out(confusion, shown))


def worst_confusions(confusion: Confusion, most: int = 5) -> list[str]:
    """The most frequent confusions in words: `12 of 94 ENTY were taken for DESC`."""
    names, mistakes, totals = confusion.labels, confusion.mistakes, confusion.counts.sum(axis=1)
    order = np.argsort(-mistakes, axis=None, kind="stable")[:most]
    pairs = zip(*np.unravel_index(order, mistakes.shape), strict=True)
    return [
        f"{mistakes[gold, found]:,} of {totals[gold]:,} {names[gold]} were taken for {names[found]}"
        for gold, found in pairs
        if mistakes[gold, found]
    ]


def _left_out(confusion: Confusion, shown: list[int]) -> str:
    missing = len(confusion.labels) - len(shown)
    if not missing:
        return ""
    within, mistakes = confusion.mistakes[np.ix_(shown, shown)].sum(), confusion.mistakes.sum()
    return (
        f"{missing:,} of {len(confusion.labels):,} labels are left out; {mistakes - within:,} of {mistakes:,} mistakes "
        "are theirs"
    )
