"""Which labels are taken for which: the confusion matrix, as a table, in words, and as a picture (extra `plots`)."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# (matplotlib's types are partial)

import io
import logging
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dragoman.brief import brief
from dragoman.errors import optional
from dragoman.evaluating.label_metrics import Rows, names_in

log = logging.getLogger(__name__)

MOST_LABELS = 12
"""A table shows at most this many labels: about as many as fit on a screen."""
OTHERS = "others"
Form = Literal["png", "svg", "pdf"]
MOST_DRAWN = 60
"""A picture shows at most this many labels, those that are confused most, so that it stays readable."""
_CELL_INCHES = 0.42


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


def draw_confusion(confusion: Confusion, form: Form = "png") -> bytes:
    """Gold labels down, found labels across. Colours are shares of the gold label, numbers are counts."""
    shown = confusion.worst_labels(MOST_DRAWN)
    inches = len(shown) * _CELL_INCHES + 2.0
    names = [confusion.labels[index] for index in shown]
    return draw_figure((inches + 0.6, inches), partial(_fill, confusion, shown), form, 150, names)


def draw_figure(
    inches: tuple[float, float],
    fill: Callable[[Any, Mapping[str, str]], None],
    form: Form,
    dpi: int,
    names: Iterable[str],
) -> bytes:
    """A figure of matplotlib as a file, without its date and with names that are not random, so that equal pictures are
    equal files.

    `fill` is given what stands for each of the `names`: the name, or a number where no font has its letters.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    with optional("matplotlib", "plots"):
        from matplotlib import rc_context  # pyright: ignore
        from matplotlib.figure import Figure  # pyright: ignore
    names = list(dict.fromkeys(names))
    fonts, missing = _fonts_for({letter for name in names for letter in name if letter.isprintable()})
    numbers = {name: str(number) for number, name in enumerate(names, 1) if missing & {*name}}
    if numbers:
        log.warning(
            "no font of this machine has the letters of some names, so the picture shows numbers: %s; a font of the "
            "script, such as Noto Sans CJK, shows them",
            ", ".join(f"{number} {name}" for name, number in numbers.items()),
        )
    with rc_context({"svg.hashsalt": "dragoman", "font.family": fonts}), warnings.catch_warnings():
        for harmless in _HARMLESS:
            warnings.filterwarnings("ignore", message=harmless)
        figure: Any = Figure(figsize=inches, layout="constrained")
        fill(figure, {name: numbers.get(name, plain_text(name)) for name in names})
        file = io.BytesIO()
        date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)
        figure.savefig(file, format=form, dpi=dpi, metadata=date)
        return file.getvalue()


def _fonts_for(letters: set[str]) -> tuple[list[str], set[str]]:
    """The usual font, fonts of this machine that have those of the letters which it lacks, and what none of them has.

    Matplotlib would draw a sign of the script for such a letter, which looks like another letter.
    """
    from matplotlib import font_manager

    chosen, missing = ["DejaVu Sans"], set(letters)
    found = sorted(font_manager.fontManager.ttflist, key=lambda font: (font.name != chosen[0], font.name, font.fname))
    for font in found:
        if not missing:
            break
        if font.style != "normal" or "lastresort" in font.name.lower().replace(" ", ""):
            continue
        with suppress(OSError, RuntimeError):  # a damaged font, or one that was removed
            lacking = {
                letter for letter in missing if not font_manager.get_font(font.fname).get_char_index(ord(letter))
            }
            if lacking != missing:
                chosen.append(font.name)
                missing = lacking
    return list(dict.fromkeys(chosen)), missing


def draw_matrix(
    axes: Any, shares: Any, rows: Sequence[str], columns: Sequence[str], aspect: Literal["auto", "equal"]
) -> Any:
    """Cells from white (0) to dark blue (1), with the names of rows and columns; `aspect` as matplotlib means it."""
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect=aspect)
    axes.set_xticks(range(len(columns)), columns, rotation=60, ha="right")
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(labelsize=8)
    return image


def plain_text(text: str) -> str:
    """Text that matplotlib shows as it is, and not as a formula."""
    return text.replace("$", r"\$")


_HARMLESS = ("Glyph", "Attempting to set identical low and high")
"""Warnings that nobody needs: a font lacks a letter that another has; a text without words gives an empty map."""


def _fill(confusion: Confusion, shown: list[int], figure: Any, drawn: Mapping[str, str]) -> None:
    axes = figure.subplots()
    names = [drawn[confusion.labels[index]] for index in shown]
    counts = confusion.counts[np.ix_(shown, shown)]
    shares = counts / np.maximum(confusion.counts[shown].sum(axis=1, keepdims=True), 1)
    image = draw_matrix(axes, shares, names, names, aspect="equal")
    for (row, column), count in np.ndenumerate(counts):
        if count:
            colour = "white" if shares[row, column] > 0.5 else "black"
            axes.text(column, row, str(count), ha="center", va="center", fontsize=7, color=colour)
    left_out = len(confusion.labels) - len(shown)
    axes.set(xlabel="found", ylabel="gold", title=f"{left_out:,} labels left out" if left_out else "")
    figure.colorbar(image, ax=axes, label="share of the gold label", shrink=0.6)
