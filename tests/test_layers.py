"""The house: which room may import which. Imports point left, lazy ones too."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import dragoman

LINE = (
    "errors | processor | notation < config | files | memory | progress | machine | pages < documents"
    " < manifest | kernels | text < tokenizing < data | model < store < decoding | training | tuning"
    " < translating < exporting < evaluating | explaining < tasks < report < recipe < runs < commands | serving < cli"
)
FLOOR = {room: floor for floor, rooms in enumerate(LINE.split(" < ")) for room in rooms.split(" | ")}
PACKAGE = Path(dragoman.__file__).parent


def imported_rooms(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name.split(".")[1] for name in names if name.startswith("dragoman."))


def violations(room: str, source: str) -> list[str]:
    return [f"{room} imports {other}" for other in imported_rooms(source) if other != room and not allowed(room, other)]


def allowed(room: str, other: str) -> bool:
    return other in {"__version__", "names_from"} or (other in FLOOR and FLOOR[other] < FLOOR[room])


def test_every_import_points_left() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room not in {"__init__", "__main__"}:  # they name every room and import none until asked
            found += [f"{path.relative_to(PACKAGE)}: {each}" for each in violations(room, path.read_text("utf-8"))]
    assert not found, "\n".join(found)


def test_a_planted_violation_is_caught() -> None:
    assert violations("data", "from dragoman.store import load_model") == ["data imports store"]
    assert violations("training", "import torch, dragoman.decoding.beam") == ["training imports decoding"]
    assert violations("model", "def build():\n    from dragoman import training") == ["model imports training"]
    assert violations("store", "from dragoman.kitchen import knife") == ["store imports kitchen"]
    assert violations("recipe", "from dragoman.training.loop import run\nfrom dragoman.recipe import run") == []


def test_no_name_of_a_room_is_also_a_file_in_it() -> None:
    """Names are looked up when first used: whoever imported the file before would get the file."""
    for room in [PACKAGE, *(path.parent for path in PACKAGE.glob("*/__init__.py"))]:
        name = ".".join(["dragoman", *room.relative_to(PACKAGE).parts])
        files = {path.stem for path in room.glob("*.py")} | {path.name for path in room.iterdir() if path.is_dir()}
        assert not files & set(getattr(importlib.import_module(name), "__all__", ())), name
