# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# (matplotlib's types are partial)
"""Heat maps as files for a paper: PNG, SVG or PDF. Needs matplotlib (extra `plots`)."""

import io
import warnings
from collections.abc import Sequence
from typing import Any, Literal

from dragoman.errors import MissingExtra
from dragoman.explaining.heat_maps import HeatMap

_CELL_INCHES = 0.32


def draw(heats: Sequence[HeatMap], form: Literal["png", "svg", "pdf"]) -> bytes:
    """The maps below one another, as a file of this form.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # pyright: ignore
    except ImportError:
        raise MissingExtra(f"{form} needs matplotlib: pip install 'dragoman[plots]'") from None
    width = max(len(heat.columns) for heat in heats) * _CELL_INCHES + 3.5
    height = sum(len(heat.rows) * _CELL_INCHES + 2.0 for heat in heats)
    figure: Any = Figure(figsize=(max(width, 5), height), layout="constrained")
    axes = figure.subplots(len(heats), 1, squeeze=False)[:, 0]
    for each, heat in zip(axes, heats, strict=True):
        image = _draw(each, heat)
        figure.colorbar(image, ax=each, label="weight", shrink=0.6)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a script that the font lacks: boxes, and not a line each
        figure.savefig(file, format=form, dpi=200, metadata={} if form == "png" else {_DATE[form]: None})
    return file.getvalue()


_DATE = {"svg": "Date", "pdf": "CreationDate"}
"""Left out, so that equal pictures are equal files."""


def _draw(axes: Any, heat: HeatMap) -> Any:
    image = axes.imshow(heat.weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_title(_plain(heat.title), fontsize=9)
    axes.set_xticks(range(len(heat.columns)), [_plain(label) for label in heat.columns], rotation=60, ha="right")
    axes.set_yticks(range(len(heat.rows)), [_plain(label) for label in heat.rows])
    axes.tick_params(labelsize=8)
    return image


def _plain(label: str) -> str:
    """A label that matplotlib takes as it is, and not as a formula."""
    return label.replace("$", r"\$")
