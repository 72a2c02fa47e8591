"""Where a model looked, as one matrix: an alignment of words, or the weights of one head.

Heat maps are drawn as text, or as files for a paper: PNG, SVG or PDF, with matplotlib (extra `plots`).
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# (matplotlib's types are partial)

import io
import logging
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal, NamedTuple
from unicodedata import combining, east_asian_width

from dragoman.errors import ConfigError, missing_extra
from dragoman.explaining.record import Array, AttentionRecord, Layer, Part, Record

log = logging.getLogger(__name__)

Form = Literal["png", "svg", "pdf"]
_SHADES = " ░▒▓█"
_LONGEST_LABEL = 24
_WIDEST = 60
_CELL_INCHES = 0.32
_TITLE_LETTERS_AN_INCH = 12


class HeatMap(NamedTuple):
    """How much each row looks at each column; a row sums to at most one.

    A row of a decoder is named by the token that it reads and the one that it then writes.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    weights: Array


def heat_maps(record: Record, head: str | None = None) -> list[HeatMap]:
    """One map for each part of a record: of the head that is named, as in `decoder.0.cross_attention.3`; without a
    name, of the words' alignment, and in a language model of the mean over the last layer's heads.
    """
    parts = [part for part in record.parts if not part.copied]
    return [_of_head(part, head) if head is not None else _usual(part) for part in parts]


def heat_lines(heat: HeatMap) -> Iterator[str]:
    """A map as text, in five shades, and below it the columns by number. Blank is a weight of less than a fifth."""
    labels = [label[:_LONGEST_LABEL] for label in heat.rows]
    width = max(map(_columns, labels), default=0)
    labels = [" " * (width - _columns(label)) + label for label in labels]
    yield heat.title
    if len(heat.columns) <= _WIDEST:
        yield " " * width + "".join(f"{number:>3}" for number in range(1, len(heat.columns) + 1))
        for label, row in zip(labels, heat.weights, strict=True):
            yield label + "".join(f" {_shade(weight) * 2}" for weight in row)
        yield "  ".join(f"{number} {column}" for number, column in enumerate(heat.columns, 1))
    for label, row in zip(labels, heat.weights, strict=True):
        best = sorted(range(len(row)), key=lambda column: -row[column])[:3]
        yield f"{label} ← " + ", ".join(
            f"{heat.columns[column]} {row[column]:.2f}" for column in best if row[column] >= 0.005
        )


def _columns(label: str) -> int:
    """How many columns of a terminal a label takes."""
    return sum((east_asian_width(each) in "WF") + (not combining(each)) for each in label)


def _shade(weight: float) -> str:
    return _SHADES[min(int(weight * len(_SHADES)), len(_SHADES) - 1)]


def _usual(part: Part) -> HeatMap:
    if part.alignment is not None:
        alignment = part.alignment
        return HeatMap(f"alignment: {alignment.how}", part.written, part.words("encoder"), alignment.weights)
    stack = part.stacks[-1]
    layer = stack.layers[-1]
    attention = layer.attentions[-1]
    title = f"mean over the heads of {layer.name}.{attention.name}"
    return _tokens(part, title, attention, layer, attention.weights.mean(0))


def _of_head(part: Part, name: str) -> HeatMap:
    for stack in part.stacks:
        for layer in stack.layers:
            for attention in layer.attentions:
                heads = {f"{layer.name}.{attention.name}.{i}": i for i in range(len(attention.weights))}
                if name in heads:
                    return _tokens(part, name, attention, layer, attention.weights[heads[name]])
    raise ConfigError(f"head must be one of the model's, as in {_some_head(part)}, but is {name}")


def _tokens(part: Part, title: str, attention: AttentionRecord, layer: Layer, weights: Array) -> HeatMap:
    queries, keys = part.stack(layer.name.partition(".")[0]), part.stack(attention.keys)
    assert queries is not None and keys is not None, "an attention belongs to stacks of its part"
    rows, columns = (tuple(token.text for token in stack.tokens) for stack in (queries, keys))
    if queries.name == "decoder":
        rows = tuple(f"{read} → {step.token.text}" for read, step in zip(rows, part.steps, strict=True))
    return HeatMap(title, rows, columns, weights)


def _some_head(part: Part) -> str:
    layer = part.stacks[-1].layers[-1]
    return f"{layer.name}.{layer.attentions[-1].name}.{len(layer.attentions[-1].weights) - 1}"


def draw(heats: Sequence[HeatMap], form: Form) -> bytes:
    """The maps below one another, as a file of this form."""
    width = max(5.0, max(len(heat.columns) for heat in heats) * _CELL_INCHES + 3.5)
    height = sum(len(heat.rows) * _CELL_INCHES + 2.0 for heat in heats)
    names = [name for heat in heats for name in (*heat.rows, *heat.columns)]
    return _figure((width, height), partial(_fill, heats), form, names)


def _fill(heats: Sequence[HeatMap], figure: Any, drawn: Mapping[str, str]) -> None:
    ratios = [max(len(heat.rows), 1) for heat in heats]
    axes = figure.subplots(len(heats), 1, squeeze=False, height_ratios=ratios)[:, 0]
    for each, heat in zip(axes, heats, strict=True):
        image = each.imshow(heat.weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        each.set_xticks(range(len(heat.columns)), [drawn[name] for name in heat.columns], rotation=60, ha="right")
        each.set_yticks(range(len(heat.rows)), [drawn[name] for name in heat.rows])
        each.tick_params(labelsize=8)
        lines = textwrap.wrap(_plain(heat.title), int(_TITLE_LETTERS_AN_INCH * figure.get_figwidth()))
        each.set_title("\n".join(lines), fontsize=9)
        figure.colorbar(image, ax=each, label="weight", shrink=0.6)


def _figure(
    inches: tuple[float, float], fill: Callable[[Any, Mapping[str, str]], None], form: Form, names: Iterable[str]
) -> bytes:
    """A figure of matplotlib as a file, without its date and with names that are not random, so that equal pictures are
    equal files.

    `fill` is given what stands for each of the `names`: the name, or a number where no font has its letters.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context  # pyright: ignore
        from matplotlib.figure import Figure  # pyright: ignore
    except ImportError:
        raise missing_extra("matplotlib", "plots") from None
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
        fill(figure, {name: numbers.get(name, _plain(name)) for name in names})
        file = io.BytesIO()
        date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)
        figure.savefig(file, format=form, dpi=200, metadata=date)
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


def _plain(text: str) -> str:
    """Text that matplotlib shows as it is, and not as a formula."""
    return text.replace("$", r"\$")


_HARMLESS = ("Glyph", "Attempting to set identical low and high")
"""Warnings that nobody needs: a font lacks a letter that another has; a text without words gives an empty map."""
