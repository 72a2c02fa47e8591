"""A record as a file: the page, the numbers in full, or pictures of where the model looked."""

import json
from pathlib import Path
from typing import Literal, get_args

from dragoman.errors import ConfigError
from dragoman.explaining.heat_maps import heat_maps
from dragoman.explaining.page.page import pack, render_page
from dragoman.explaining.pictures import draw
from dragoman.explaining.record import Record
from dragoman.explaining.summary import summary
from dragoman.files import check_output, write_file

Form = Literal["html", "json", "png", "svg", "pdf", "terminal"]


def form_of(path: Path) -> Form:
    """The form that the name of a file asks for.

    Raises:
        ConfigError: it ends in no known form.
    """
    name = path.suffix.removeprefix(".").lower()
    for form in get_args(Form):
        if form == name != "terminal":
            return form
    raise ConfigError(f"{path} must end in .html, .json, .png, .svg or .pdf; or name the form with --format")


def render(record: Record, form: Form, head: str | None = None) -> bytes:
    """A record in one form. `head` names the map of pictures and of the terminal, as in `heat_maps`.

    Raises:
        ConfigError: the model has no such head.
        MissingExtra: a picture is asked for, and matplotlib is not installed.
    """
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
