"""Records as files or in a terminal: the page, the numbers in full, text, or pictures of attention weights.

Pictures are PNG, SVG or PDF for a paper, by matplotlib (extra `plots`).
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# (matplotlib's types are partial)

import json
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args
from unicodedata import combining, east_asian_width

from dragoman.errors import ConfigError
from dragoman.evaluating.confusion import PictureFormat, draw_figure, draw_matrix, plain_text
from dragoman.explaining import RecordFormat
from dragoman.explaining.page.page import pack, render_page
from dragoman.explaining.record import Array, AttentionRecord, Layer, PartRecord, Record
from dragoman.files import check_output, write_file

_CONSIDERED = 4
_SHADES = " ░▒▓█"
_LONGEST_LABEL = 24
_WIDEST = 60
_CELL_INCHES = 0.32
_TITLE_LETTERS_AN_INCH = 12


def summary(record: Record, head: str | None = None) -> Iterator[str]:
    """Yield a record as lines of text; `head` names the map, as in `heat_maps`."""
    maps = iter(heat_maps(record, head))
    for part in record.parts:
        yield from _part(part)
        if not part.copied:
            yield ""
            yield from heat_lines(next(maps))
        yield ""
    for meaning in record.flags.values():
        yield f"note: {meaning}"
    if record.unknown_words:
        yield f"words that the model does not know: {', '.join(record.unknown_words)}"


def _part(part: PartRecord) -> Iterator[str]:
    if part.copied:
        yield f"copied  {part.source}"
        return
    if part.typed is not None:
        yield f"typed   {part.typed}"
    if part.source is not None:
        yield f"source  {part.source}"
    yield f"target  {part.target}"
    tokens = len(part.steps) - (part.source is None)  # without the token that a language model expects next
    yield f"log-probability {part.log_prob:.4f}, {part.log_prob / max(tokens, 1):.4f} a token"
    yield ""
    width = max((len(step.token.text) for step in part.steps), default=0)
    for number, step in enumerate(part.steps, 1):
        others = [rival for rival in step.candidates if rival.id != step.token.id][:_CONSIDERED]
        considered = ", ".join(f"{rival.text} {math.exp(rival.log_prob):.1%}" for rival in others)
        yield f"{number:>3}  {step.token.text:<{width}}  {math.exp(step.log_prob):>6.1%}  others {considered}"
    if part.searches:
        yield ""
    for search in part.searches:
        kept = sum(node.status != "dropped" for node in search.nodes)
        yield (
            f"{'*' if search.chosen else ' '} beam {search.width}: {search.text}  (total {search.total:.4f}, score "
            f"{search.score:.4f}; {kept:,} hypotheses kept, {len(search.nodes) - kept:,} dropped)"
        )


def format_of(path: Path) -> RecordFormat:
    """Return the format that the name of a file implies."""
    name = path.suffix.removeprefix(".").lower()
    for form in get_args(RecordFormat):
        if form == name != "terminal":
            return form
    raise ConfigError(f"{path} must end in .html, .json, .png, .svg or .pdf; or name the format with --format")


def render(record: Record, form: RecordFormat, head: str | None = None) -> bytes:
    """Return a record in one format. `head` names the map of pictures and of the terminal, as in `heat_maps`."""
    if form == "html":
        return render_page(record.facts(pack)).encode()
    if form == "json":
        return (json.dumps(record.facts(), ensure_ascii=False, allow_nan=False) + "\n").encode()
    if form == "terminal":
        return "".join(f"{line}\n" for line in summary(record, head)).encode()
    return draw(heat_maps(record, head), form)


def write_record(path: Path | str, record: Record, form: RecordFormat | None = None, head: str | None = None) -> None:
    """Write a record, in the format that the file's name implies unless `form` is given; whole or not at all.

    Raises:
        ConfigError: its name ends in no known format, or the model has no such head.
        DataError: no file can be written there.
        MissingExtra: a picture is asked for, and matplotlib is not installed.
    """
    check_output(path)
    write_file(path, render(record, form or format_of(Path(path)), head))


# Heat maps


class HeatMap(NamedTuple):
    """The weights with which each row looks at each column; a row sums to at most one.

    A row of a decoder is named by the token that it reads and the one that it then writes.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    weights: Array


def heat_maps(record: Record, head: str | None = None) -> list[HeatMap]:
    """Return one map for each part of a record: of the head that is named, as in `decoder.0.cross_attention.3`; without
    a name, of the words' alignment, and in a language model of the mean over the last layer's heads.
    """
    parts = [part for part in record.parts if not part.copied]
    return [_map_of_head(part, head) if head is not None else _default_map(part) for part in parts]


def heat_lines(heat: HeatMap) -> Iterator[str]:
    """Yield a map as text, in five shades, and below it the columns by number. Blank means less than a fifth."""
    labels = [label[:_LONGEST_LABEL] for label in heat.rows]
    width = max(map(_columns, labels), default=0)
    labels = [" " * (width - _columns(label)) + label for label in labels]
    yield heat.title
    if len(heat.columns) <= _WIDEST:
        yield " " * width + "".join(f"{number:>3}" for number in range(1, len(heat.columns) + 1))
        for label, row in zip(labels, heat.weights, strict=True):
            shades = (_SHADES[min(int(weight * len(_SHADES)), len(_SHADES) - 1)] for weight in row)
            yield label + "".join(f" {shade * 2}" for shade in shades)
        yield "  ".join(f"{number} {column}" for number, column in enumerate(heat.columns, 1))
    for label, row in zip(labels, heat.weights, strict=True):
        best = sorted(range(len(row)), key=lambda column: -row[column])[:3]
        yield f"{label} ← " + ", ".join(
            f"{heat.columns[column]} {row[column]:.2f}" for column in best if row[column] >= 0.005
        )


def _columns(label: str) -> int:
    """Return the number of columns of a terminal that a label takes."""
    return sum((east_asian_width(letter) in "WF") + (not combining(letter)) for letter in label)


def _default_map(part: PartRecord) -> HeatMap:
    if part.alignment is not None:
        alignment = part.alignment
        return HeatMap(f"alignment: {alignment.how}", part.written, part.words("encoder"), alignment.weights)
    stack = part.stacks[-1]
    layer = stack.layers[-1]
    attention = layer.attentions[-1]
    title = f"mean over the heads of {layer.name}.{attention.name}"
    return _tokens(part, title, attention, layer, attention.weights.mean(0))


def _map_of_head(part: PartRecord, name: str) -> HeatMap:
    for stack in part.stacks:
        for layer in stack.layers:
            for attention in layer.attentions:
                heads = {f"{layer.name}.{attention.name}.{i}": i for i in range(len(attention.weights))}
                if name in heads:
                    return _tokens(part, name, attention, layer, attention.weights[heads[name]])
    layer = part.stacks[-1].layers[-1]
    some_head = f"{layer.name}.{layer.attentions[-1].name}.{len(layer.attentions[-1].weights) - 1}"
    raise ConfigError(f"head must be one of the model's, as in {some_head}, but is {name}")


def _tokens(part: PartRecord, title: str, attention: AttentionRecord, layer: Layer, weights: Array) -> HeatMap:
    queries, keys = part.stack(layer.name.partition(".")[0]), part.stack(attention.keys)
    assert queries is not None and keys is not None, "an attention belongs to stacks of its part"
    rows, columns = (tuple(token.text for token in stack.tokens) for stack in (queries, keys))
    if queries.name == "decoder":
        rows = tuple(f"{read} → {step.token.text}" for read, step in zip(rows, part.steps, strict=True))
    return HeatMap(title, rows, columns, weights)


def draw(heats: Sequence[HeatMap], form: PictureFormat) -> bytes:
    """Draw the maps below one another, as a file of this format."""
    width = max(5.0, max(len(heat.columns) for heat in heats) * _CELL_INCHES + 3.5)
    height = sum(len(heat.rows) * _CELL_INCHES + 2.0 for heat in heats)
    names = [name for heat in heats for name in (*heat.rows, *heat.columns)]

    def fill(figure: Any, drawn: Mapping[str, str]) -> None:
        ratios = [max(len(heat.rows), 1) for heat in heats]
        axes = figure.subplots(len(heats), 1, squeeze=False, height_ratios=ratios)[:, 0]
        for panel, heat in zip(axes, heats, strict=True):
            rows, columns = ([drawn[label] for label in labels] for labels in (heat.rows, heat.columns))
            image = draw_matrix(panel, heat.weights, rows, columns, aspect="auto")
            lines = textwrap.wrap(plain_text(heat.title), int(_TITLE_LETTERS_AN_INCH * figure.get_figwidth()))
            panel.set_title("\n".join(lines), fontsize=9)
            figure.colorbar(image, ax=panel, label="weight", shrink=0.6)

    return draw_figure((width, height), fill, form, 200, names)
