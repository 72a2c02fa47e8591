# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# (matplotlib's types are partial)
"""A confusion matrix as a picture: PNG, SVG or PDF. Needs matplotlib (extra `plots`)."""

import io
import warnings
from typing import Any, Literal

import numpy as np

from dragoman.errors import missing_extra
from dragoman.evaluating.labels.confusion import Confusion

Form = Literal["png", "svg", "pdf"]
MOST_LABELS = 60
"""With more labels, those that are confused most are drawn; a picture must stay readable."""
_CELL_INCHES = 0.42


def draw_confusion(confusion: Confusion, form: Form = "png") -> bytes:
    """Gold labels down, found labels across. Colours are shares of the gold label, numbers are counts.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context  # pyright: ignore
        from matplotlib.figure import Figure  # pyright: ignore
    except ImportError:
        raise missing_extra("matplotlib", "plots") from None
    shown = confusion.worst_labels(MOST_LABELS)
    inches = len(shown) * _CELL_INCHES + 2.0
    with rc_context({"svg.hashsalt": "dragoman"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a script that the font lacks gives boxes
        figure: Any = Figure(figsize=(inches + 0.6, inches), layout="constrained")
        _fill(figure, confusion, shown)
        return _saved(figure, form)


def _fill(figure: Any, confusion: Confusion, shown: list[int]) -> None:
    axes = figure.subplots()
    names = [confusion.labels[index].replace("$", r"\$") for index in shown]
    counts = confusion.counts[np.ix_(shown, shown)]
    shares = counts / np.maximum(confusion.counts[shown].sum(axis=1, keepdims=True), 1)
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(names)), names, rotation=60, ha="right")
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(labelsize=8)
    for (row, column), count in np.ndenumerate(counts):
        if count:
            colour = "white" if shares[row, column] > 0.5 else "black"
            axes.text(column, row, str(count), ha="center", va="center", fontsize=7, color=colour)
    left_out = len(confusion.labels) - len(shown)
    axes.set(xlabel="found", ylabel="gold", title=f"{left_out:,} labels left out" if left_out else "")
    figure.colorbar(image, ax=axes, label="share of the gold label", shrink=0.6)


def _saved(figure: Any, form: str) -> bytes:
    """The file, without its date, so that equal pictures are equal files."""
    file = io.BytesIO()
    figure.savefig(
        file, format=form, dpi=150, metadata={"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)
    )
    return file.getvalue()
