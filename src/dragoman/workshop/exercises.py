"""The reader's folder, and the parts to write there: functions and methods of the solutions that have a docstring."""

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

from dragoman.files import new_folder, write_file
from dragoman.text.phrasebook import read_phrasebook

SOLUTIONS = Path(__file__).parent / "solutions"
FILES = tuple(sorted(path.name for path in SOLUTIONS.glob("step_*.py")))
"""Files that a reader completes, in the order of the pages."""
MODEL = "my_transformer.py"
"""The program that trains what the reader has written."""


class WorkshopPart(NamedTuple):
    """A function or class that a reader writes."""

    page: int
    file: str
    name: str


def make_workshop(folder: Path | str, solutions: bool = False) -> Path:
    """Write the files of the workshop into a new folder, with empty bodies or with the solutions, and return it.

    Raises:
        DataError: the folder exists.
    """
    phrasebook = read_phrasebook()
    with new_folder(folder) as made:
        for file in (*FILES, MODEL):
            source = (SOLUTIONS / file).read_text("utf-8")
            write_file(made / file, source if solutions or file == MODEL else leave_bodies_out(source))
        for name, pairs in (("train", phrasebook.train), ("test", phrasebook.test)):
            write_file(made / f"{name}.tsv", "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs))
    return Path(folder)


@cache
def list_parts() -> tuple[WorkshopPart, ...]:
    """Return all parts, in the order of the pages."""
    sources = {file: (SOLUTIONS / file).read_text("utf-8") for file in FILES}
    return tuple(
        WorkshopPart(int(file.split("_")[1]), file, name) for file in FILES for name in find_parts(sources[file])
    )


def find_parts(source: str) -> dict[str, list[ast.FunctionDef]]:
    """Return the functions and classes of a file, by name, each with the functions whose bodies are to be written."""
    parts = {
        node.name: [part for part in ast.walk(node) if isinstance(part, ast.FunctionDef) and ast.get_docstring(part)]
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    return {name: functions for name, functions in parts.items() if functions}


def leave_bodies_out(source: str) -> str:
    """Return a solution as an exercise: `...` in place of each body that is to be written."""
    lines = source.splitlines()
    for function in reversed([function for functions in find_parts(source).values() for function in functions]):
        docstring = function.body[0]
        lines[docstring.end_lineno : function.end_lineno] = [" " * docstring.col_offset + "..."]
    return "\n".join(lines) + "\n"


def is_open(source: str, name: str) -> bool:
    """Return True if a body of this part is still `...`."""
    return any([ast.unparse(line) for line in part.body[1:]] == ["..."] for part in find_parts(source).get(name, []))
