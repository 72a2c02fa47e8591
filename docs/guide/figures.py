"""Drawings and tables for the pages, in the colours of the page, with a text alternative; they print well."""

import hashlib
import html
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from cycler import cycler
from IPython.display import HTML
from matplotlib import rcParams
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

INK = "#010203"
"""Placeholder for the colour of the page's text, which no drawing can know."""
COLOURS = ("#1f83d6", "#d9730d", "#2e9e5b", "#a06cc8")
"""Colours of lines and points, with a contrast of at least 3 to a white and to a dark page."""
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "dragoman",
    "font.size": 10,
    "font.family": "sans-serif",
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "axes.prop_cycle": cycler(linestyle=("-", "--")) * cycler(color=COLOURS),  # a fifth line is dashed
    **{f"{part}.color": INK for part in ("text", "xtick", "ytick")},
    **{f"axes.{part}": INK for part in ("labelcolor", "edgecolor", "titlecolor")},
}
rcParams.update(STYLE)

Lines = dict[str, tuple[Sequence[float], Sequence[float]]]
"""Lines by name, with their coordinates along x and y."""


# Drawings


def show(figure: Figure, alt: str) -> HTML:
    """Return the drawing for the page, in the colours of its text. `alt` describes it in words."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    drawing = re.sub(r"^.*?<svg", "<svg", file.getvalue(), flags=re.DOTALL).replace(INK, "currentColor")
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    prefix = "f" + hashlib.sha256((drawing + alt).encode()).hexdigest()[:8]
    drawing = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{prefix}-", drawing)
    named = drawing.replace("<svg", f'<svg role="img" aria-label="{html.escape(alt)}"', 1)
    return HTML(f'<div class="drawing">{named}</div>')


def new_figure(width: float = 7.0, height: float = 3.0) -> Figure:
    """Return an empty drawing, in inches; add `axes = figure.subplots()`, draw, and `show` it."""
    return Figure(figsize=(width, height), layout="constrained")


def line_plot(lines: Lines, x: str, y: str, alt: str) -> HTML:
    """Draw lines along labelled axes, with a legend if there are several."""
    figure = new_figure()
    axes = figure.subplots()
    for name, (across, up) in lines.items():
        axes.plot(across, up, label=name)
    axes.set(xlabel=x, ylabel=y)
    if len(lines) > 1:
        axes.legend()
    return show(figure, alt)


def line_plots(panels: dict[str, Lines], x: str, alt: str, logarithmic: Sequence[str] = ()) -> HTML:
    """Draw line plots side by side, each named for its y axis. The legend of the first applies to all."""
    figure = new_figure(6.4, 2.8)
    places = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (y, lines) in zip(places, panels.items(), strict=True):
        for name, (across, up) in lines.items():
            axes.plot(across, up, label=name)
        axes.set(xlabel=x, ylabel=y)
        if y in logarithmic:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
    places[0].legend()
    return show(figure, alt)


def bars(groups: dict[str, Sequence[float]], places: Sequence[Any], x: str, y: str, alt: str) -> HTML:
    """Draw bars side by side: at each place along x, a bar for each group."""
    figure = new_figure()
    axes = figure.subplots()
    width = 0.8 / len(groups)
    for number, (name, heights) in enumerate(groups.items()):
        middle = [place + (number - (len(groups) - 1) / 2) * width for place in range(len(places))]
        axes.bar(middle, heights, width, label=name)
    axes.set(xlabel=x, ylabel=y)
    axes.set_xticks(range(len(places)), [str(place) for place in places])
    if len(groups) > 1:
        axes.legend()
    return show(figure, alt)


def histogram(values: Sequence[float], marks: Sequence[float], x: str, y: str, alt: str) -> HTML:
    """Draw how often values fall into each of thirty equal ranges, with dashed lines at `marks`."""
    figure = new_figure()
    axes = figure.subplots()
    axes.hist(values, bins=30, color=COLOURS[0])
    for mark in marks:
        axes.axvline(mark, color=COLOURS[1], linestyle="--")
    axes.set(xlabel=x, ylabel=y)
    return show(figure, alt)


def scatter(groups: dict[str, Sequence[Sequence[float]]], names: Sequence[str], alt: str) -> HTML:
    """Draw named points on a plane, each group in its own colour; `names` covers the groups in order."""
    figure = new_figure(height=4.0)
    axes = figure.subplots()
    left = iter(names)
    for group, points in groups.items():
        axes.scatter(*np.reshape(points, (-1, 2)).T, label=group)
        for across, up in points:
            axes.annotate(next(left), (across, up), xytext=(4, 4), textcoords="offset points", fontsize=9)
    axes.set(xticks=[], yticks=[])
    axes.legend()
    return show(figure, alt)


def shades(pictures: dict[str, Any], x: str, y: str, alt: str) -> HTML:
    """Draw named matrices below each other: a coloured point for each number, from blue (−) to red (+)."""
    figure = new_figure(5.4, 2.0 * len(pictures))
    places = figure.subplots(len(pictures), squeeze=False, sharex=True)[:, 0]
    for axes, (name, numbers) in zip(places, pictures.items(), strict=True):
        axes.imshow(np.asarray(numbers), aspect="auto", cmap="coolwarm", vmin=-1, vmax=1)
        axes.set(ylabel=y, title=name)
    places[-1].set_xlabel(x)
    return show(figure, alt)


def diagram(
    boxes: dict[str, tuple[float, float, str]],
    arrows: Sequence[tuple[str, str]],
    alt: str,
    height: float = 4.2,
    width: float = 5.4,
) -> HTML:
    """Draw boxes, given by name with their x, y and text, and arrows from box to box."""
    figure = new_figure(width, height)
    axes = figure.subplots()
    axes.set_axis_off()
    drawn = {name: _box(axes, *box) for name, box in boxes.items()}
    for start, end in arrows:
        ends = {"patchA": drawn[start], "patchB": drawn[end]}
        axes.annotate(
            "", boxes[end][:2], boxes[start][:2], arrowprops={"arrowstyle": "-|>", "color": COLOURS[0], **ends}
        )
    across, up = [box[0] for box in boxes.values()], [box[1] for box in boxes.values()]
    axes.set(xlim=(min(across) - 0.8, max(across) + 0.8), ylim=(min(up) - 0.5, max(up) + 0.5))
    return show(figure, alt)


def _box(axes: Any, x: float, y: float, text: str) -> FancyBboxPatch:
    """Draw a box with lines of text. Its size is counted in letters, because only the browser knows the font."""
    lines = text.split("\n")
    letters = max(len(re.sub(r"[$^_]", "", line)) for line in lines)  # formulas have marks that are not drawn
    width, height = 0.075 * letters + 0.2, 0.27 * len(lines) + 0.1
    corner, round_ = (x - width / 2, y - height / 2), "round,pad=0,rounding_size=0.06"
    for number, line in enumerate(lines):
        axes.text(x, y + 0.26 * ((len(lines) - 1) / 2 - number), line, ha="center", va="center")
    return axes.add_patch(FancyBboxPatch(corner, width, height, boxstyle=round_, fc="none", ec=INK))


# Tables


def matrix(
    numbers: Any, rows: Sequence[str], columns: Sequence[str], caption: str, digits: int = 2, shaded: bool = True
) -> HTML:
    """Return a matrix as a table with named rows and columns; the larger a number, the darker its cell."""
    values = np.asarray(numbers, dtype=float)
    most = float(np.nanmax(np.abs(values), initial=0.0, where=np.isfinite(values))) or 1.0
    body = [[_cell(value, value / most if shaded else 0.0, digits) for value in row] for row in values]
    named = [
        f'<th scope="row">{html.escape(name)}</th>{"".join(cells)}' for name, cells in zip(rows, body, strict=True)
    ]
    return _table("matrix", ["", *columns], named, caption)


def table(rows: Iterable[Sequence[Any]], columns: Sequence[str], caption: str) -> HTML:
    """Return a table of facts, in rows below the names of their columns."""
    shown = ["".join(f"<td>{html.escape(str(value))}</td>" for value in row) for row in rows]
    return _table("facts", columns, shown, caption)


def _table(kind: str, columns: Sequence[str], rows: Sequence[str], caption: str) -> HTML:
    head = "".join(f'<th scope="col">{html.escape(str(name))}</th>' if name else "<td></td>" for name in columns)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return HTML(
        f'<div class="{kind}" tabindex="0"><table><caption>{html.escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(value: float, share: float, digits: int) -> str:
    shade = 55 * min(1.0, abs(share)) if np.isfinite(value) else 0
    colour = "--negative" if share < 0 else "--positive"
    shown = f"{value:.{digits}f}" if np.isfinite(value) else str(value).replace("inf", "∞")
    return f'<td style="--shade: {shade:.0f}%; --hue: var({colour})">{shown.replace("-", "−")}</td>'
