"""A record as a file or in a terminal: the page, the numbers in full, pictures of where the model looked, or text."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

from dragoman.errors import ConfigError
from dragoman.explaining.page.page import pack, render_page
from dragoman.explaining.pictures import draw, heat_lines, heat_maps
from dragoman.explaining.record import Part, Record, Search
from dragoman.files import check_output, write_file

Form = Literal["html", "json", "png", "svg", "pdf", "terminal"]
_CONSIDERED = 4


def summary(record: Record, head: str | None = None) -> Iterator[str]:
    """A record as lines of text; `head` names the map, as in `heat_maps`."""
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


def _part(part: Part) -> Iterator[str]:
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
        others = [each for each in step.candidates if each.id != step.token.id][:_CONSIDERED]
        considered = ", ".join(f"{each.text} {math.exp(each.log_prob):.1%}" for each in others)
        yield f"{number:>3}  {step.token.text:<{width}}  {math.exp(step.log_prob):>6.1%}  others {considered}"
    if part.searches:
        yield ""
        yield from map(_search, part.searches)


def _search(search: Search) -> str:
    kept = sum(node.fate != "dropped" for node in search.nodes)
    mark = "*" if search.chosen else " "
    return (
        f"{mark} beam {search.width}: {search.text}  (total {search.total:.4f}, score {search.score:.4f}; "
        f"{kept:,} hypotheses kept, {len(search.nodes) - kept:,} dropped)"
    )


def form_of(path: Path) -> Form:
    """The form that the name of a file asks for."""
    name = path.suffix.removeprefix(".").lower()
    for form in get_args(Form):
        if form == name != "terminal":
            return form
    raise ConfigError(f"{path} must end in .html, .json, .png, .svg or .pdf; or name the form with --format")


def render(record: Record, form: Form, head: str | None = None) -> bytes:
    """A record in one form. `head` names the map of pictures and of the terminal, as in `heat_maps`."""
    if form == "html":
        return render_page(record.facts(pack)).encode()
    if form == "json":
        return (json.dumps(record.facts(), ensure_ascii=False, allow_nan=False) + "\n").encode()
    if form == "terminal":
        return "".join(f"{line}\n" for line in summary(record, head)).encode()
    return draw(heat_maps(record, head), form)


def write_record(path: Path | str, record: Record, form: Form | None = None, head: str | None = None) -> None:
    """Writes a record, in the form that the file's name asks for unless another is given; whole or not at all.

    Raises:
        ConfigError: its name ends in no known form, or the model has no such head.
        DataError: no file can be written there.
        MissingExtra: a picture is asked for, and matplotlib is not installed.
    """
    check_output(path)
    write_file(path, render(record, form or form_of(Path(path)), head))
