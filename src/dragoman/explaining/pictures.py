# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# (matplotlib's types are partial)
"""Heat maps as files for a paper: PNG, SVG or PDF. Needs matplotlib (extra `plots`)."""

import io
import textwrap
import warnings
from collections.abc import Sequence
from typing import Any, Literal

from dragoman.errors import missing_extra
from dragoman.explaining.heat_maps import HeatMap

_CELL_INCHES = 0.32
_TITLE_LETTERS_AN_INCH = 12


def draw(heats: Sequence[HeatMap], form: Literal["png", "svg", "pdf"]) -> bytes:
    """The maps below one another, as a file of this form.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context  # pyright: ignore
        from matplotlib.figure import Figure  # pyright: ignore
    except ImportError:
        raise missing_extra("matplotlib", "plots") from None
    with rc_context({"svg.hashsalt": "dragoman"}), warnings.catch_warnings():
        for harmless in _HARMLESS:
            warnings.filterwarnings("ignore", message=harmless)
        figure: Any = Figure(figsize=_inches(heats), layout="constrained")
        _fill(figure, heats)
        return _saved(figure, form)


_HARMLESS = ("Glyph", "Attempting to set identical low and high")
"""A script that the font lacks gives boxes, and not a line each; a text without words gives an empty map."""


def _inches(heats: Sequence[HeatMap]) -> tuple[float, float]:
    """Width and height of all maps with their labels."""
    width = max(len(heat.columns) for heat in heats) * _CELL_INCHES + 3.5
    return max(width, 5.0), sum(len(heat.rows) * _CELL_INCHES + 2.0 for heat in heats)


def _fill(figure: Any, heats: Sequence[HeatMap]) -> None:
    ratios = [max(len(heat.rows), 1) for heat in heats]
    axes = figure.subplots(len(heats), 1, squeeze=False, height_ratios=ratios)[:, 0]
    for each, heat in zip(axes, heats, strict=True):
        image = _draw(each, heat)
        lines = textwrap.wrap(_plain(heat.title), int(_TITLE_LETTERS_AN_INCH * figure.get_figwidth()))
        each.set_title("\n".join(lines), fontsize=9)
        figure.colorbar(image, ax=each, label="weight", shrink=0.6)


def _saved(figure: Any, form: Literal["png", "svg", "pdf"]) -> bytes:
    """The file; its date is left out and its names are not random, so that equal pictures are equal files."""
    date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)
    file = io.BytesIO()
    figure.savefig(file, format=form, dpi=200, metadata=date)
    return file.getvalue()


def _draw(axes: Any, heat: HeatMap) -> Any:
    image = axes.imshow(heat.weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(heat.columns)), [_plain(label) for label in heat.columns], rotation=60, ha="right")
    axes.set_yticks(range(len(heat.rows)), [_plain(label) for label in heat.rows])
    axes.tick_params(labelsize=8)
    return image


def _plain(label: str) -> str:
    """A label that matplotlib takes as it is, and not as a formula."""
    return label.replace("$", r"\$")
