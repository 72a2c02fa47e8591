"""Confusion matrices of labels: as a table, in words, and as a picture (extra `plots`)."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# (matplotlib's types are partial)

import io
import logging
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dragoman.brief import brief
from dragoman.errors import optional
from dragoman.evaluating.label_metrics import Rows, names_in

log = logging.getLogger(__name__)

MOST_LABELS = 12
"""Maximum number of labels in a table; about this many fit on a screen."""
OTHERS = "others"
PictureFormat = Literal["png", "svg", "pdf"]
MOST_DRAWN = 60
"""Maximum number of labels in a picture, to keep it readable; the most confused labels are shown."""
_CELL_INCHES = 0.42


@dataclass(frozen=True)
class Confusion:
    """Confusion matrix of C labels: counts (C, C), gold labels down, predicted labels across."""

    __repr__ = brief

    labels: tuple[str, ...]
    counts: npt.NDArray[np.int64]

    @classmethod
    def from_labels(cls, gold: Rows, predicted: Rows) -> Self:
        """Count the confusions of all labels that occur."""
        names = names_in(gold, predicted)
        number = {name: index for index, name in enumerate(names)}
        rows, columns = (
            np.array([number[label] for row in side for label in row], dtype=np.int64) for side in (gold, predicted)
        )
        counts = np.bincount(rows * len(names) + columns, minlength=len(names) ** 2)
        return cls(names, counts.reshape(len(names), len(names)))

    @property
    def mistakes(self) -> npt.NDArray[np.int64]:
        """The counts with a zero diagonal."""
        return self.counts - np.diag(np.diag(self.counts))

    def worst_labels(self, most: int) -> list[int]:
        """Return the labels with the most mistakes, gold or predicted, in the order of the matrix."""
        mistakes = self.mistakes
        order = np.argsort(-(mistakes.sum(axis=0) + mistakes.sum(axis=1)), kind="stable")
        return sorted(order[:most].tolist())

    def facts(self) -> dict[str, dict[str, int]]:
        """Return plain values for JSON: the nonzero counts of predicted labels for each gold label."""
        return {
            name: {self.labels[column]: int(row[column]) for column in np.flatnonzero(row)}
            for name, row in zip(self.labels, self.counts, strict=True)
        }


class ConfusionTable(NamedTuple):
    """Confusion matrix as plain rows, for a console, Markdown or CSV."""

    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]
    """One row per gold label, with the counts of its predicted labels."""
    left_out: str
    """Sentence about labels that are not shown; empty if all are."""


def confusion_table(confusion: Confusion, most: int = MOST_LABELS) -> ConfusionTable:
    """Return the rows and columns of the most confused labels; one more column counts all others."""
    shown = confusion.worst_labels(most)
    names = tuple(confusion.labels[index] for index in shown)
    cells, columns = confusion.counts[np.ix_(shown, shown)], names
    if len(shown) < len(confusion.labels):
        others = confusion.counts[shown].sum(axis=1) - cells.sum(axis=1)
        cells, columns = np.column_stack([cells, others]), (*names, OTHERS)
    rows = [(name, *map(str, row)) for name, row in zip(names, cells.tolist(), strict=True)]
    left_out, missing = "", len(confusion.labels) - len(shown)
    if missing:
        mistakes = confusion.mistakes.sum()
        without = mistakes - confusion.mistakes[np.ix_(shown, shown)].sum()
        left_out = f"{missing:,} of {len(confusion.labels):,} labels are left out; "
        left_out += f"{without:,} of {mistakes:,} mistakes are theirs"
    return ConfusionTable(("gold, found as", *columns), rows, left_out)


def worst_confusions(confusion: Confusion, most: int = 5) -> list[str]:
    """Describe the most frequent confusions: `12 of 94 ENTY were taken for DESC`."""
    names, mistakes, totals = confusion.labels, confusion.mistakes, confusion.counts.sum(axis=1)
    order = np.argsort(-mistakes, axis=None, kind="stable")[:most]
    pairs = zip(*np.unravel_index(order, mistakes.shape), strict=True)
    return [
        f"{mistakes[gold, predicted]:,} of {totals[gold]:,} {names[gold]} were taken for {names[predicted]}"
        for gold, predicted in pairs
        if mistakes[gold, predicted]
    ]


def draw_confusion(confusion: Confusion, form: PictureFormat = "png") -> bytes:
    """Draw the matrix: gold labels down, predicted labels across, coloured by the share of the gold label."""
    shown = confusion.worst_labels(MOST_DRAWN)
    inches = len(shown) * _CELL_INCHES + 2.0
    names = [confusion.labels[index] for index in shown]

    def fill(figure: Any, drawn: Mapping[str, str]) -> None:
        axes = figure.subplots()
        labels = [drawn[name] for name in names]
        counts = confusion.counts[np.ix_(shown, shown)]
        shares = counts / np.maximum(confusion.counts[shown].sum(axis=1, keepdims=True), 1)
        image = draw_matrix(axes, shares, labels, labels, aspect="equal")
        for (row, column), count in np.ndenumerate(counts):
            if count:
                colour = "white" if shares[row, column] > 0.5 else "black"
                axes.text(column, row, str(count), ha="center", va="center", fontsize=7, color=colour)
        left_out = len(confusion.labels) - len(shown)
        axes.set(xlabel="found", ylabel="gold", title=f"{left_out:,} labels left out" if left_out else "")
        figure.colorbar(image, ax=axes, label="share of the gold label", shrink=0.6)

    return draw_figure((inches + 0.6, inches), fill, form, 150, names)


def draw_figure(
    inches: tuple[float, float],
    fill: Callable[[Any, Mapping[str, str]], None],
    form: PictureFormat,
    dpi: int,
    names: Iterable[str],
) -> bytes:
    """Draw a matplotlib figure and return the file; equal pictures are equal files, because dates and ids are fixed.

    `fill` receives the text to draw for each of the `names`: the name, or a number if no font has its letters.

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
    """Return the default font followed by fonts of this machine that have its missing letters, and the letters that
    no font has, for which matplotlib would draw a sign that looks like another letter.
    """
    from matplotlib import font_manager

    chosen, missing = ["DejaVu Sans"], set(letters)
    fonts = sorted(font_manager.fontManager.ttflist, key=lambda font: (font.name != chosen[0], font.name, font.fname))
    for font in fonts:
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
    """Draw cells from white (0) to dark blue (1), with the names of rows and columns; `aspect` is matplotlib's."""
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect=aspect)
    axes.set_xticks(range(len(columns)), columns, rotation=60, ha="right")
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(labelsize=8)
    return image


def plain_text(text: str) -> str:
    """Escape text so that matplotlib does not read it as a formula."""
    return text.replace("$", r"\$")


_HARMLESS = ("Glyph", "Attempting to set identical low and high")
"""Warnings to ignore: a font lacks a letter that another has; a text without words gives an empty map."""
