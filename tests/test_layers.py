"""The house: which room may import which, and inside a large room which file. Imports point left, lazy ones too."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import dragoman

LINE = (
    "errors | processor | notation | run_folder < config | files | memory | progress | machine < compiling | documents"
    " < manifest | kernels | text < tokenizing < data | model < tuning < store < aligning | decoding | training <"
    " native < translating | predicting | generating < exporting | evaluating"
    " < explaining < recipe < tasks < runs < commands < cli"
)
# The floors inside each room of more than eight files; a folder inside a room counts as one file.
FLOORS = {
    "cli": "terminal < benchmark | evaluate | generate | looking | predict | prepare_data | reproduce | score |"
    " train_tokenizer | translate < making | train < demo | fine_tune < main",
    "commands": "benchmark | compare_labels | doctor | forecast | judge_heads | score | train | train_tokenizer <"
    " fine_tune | reproduce | seeds < compare < making",
    "decoding": "length_penalty | scoring < hypothesis < observer | table < stepping < rules | sampling < request <"
    " beam < company < queue < engine < crew",
    "evaluating": "direction | metrics | startup < references | scores | significance | spread < evaluation |"
    " groups < comparison | labels | speed",
    "explaining": "page < record < alignment | contributions | embeddings | heat_maps | search_tree |"
    " stacks < heads | pictures | steps | summary < understanding | writing < recording",
    "explaining/heads": "head | shares | subjects < removal | texts < roles < one_text | rows < table",
    "model": "config | dropout | packing < observer | projection < layers | positions < attention |"
    " embedding < blocks < decoder | encoder < families < build",
    "model/attention": "context | equation | keys < cache | compiled | flash | padded < ways < multi_head",
    "recipe": "expected | recipe < choices | settings < refusals < encoder_choices | language_model_choices | source |"
    " steps | translation_choices < resolution",
    "runs": "facts | metrics | options | resuming | signals < changes | curves | listing | session <"
    " lookup | trial < more < resolving",
    "text": "alignment | checks | reading | report | sides | split < mending | phrasebook < inputs | intake <"
    " labelled | plain | prepared | shards < findings < prepare",
    "text/labelled": "addresses | columns | examples < phrasebook | report | split | tables | words <"
    " findings | guessing | prepared | sources < prepare",
    "text/phrasebook": "lexemes | source < english | italian | patterns < lexicon | rendering < generate |"
    " parts_of_speech",
    "text/reading": "addresses | language_tags | languages | lines < roles < likeliest < columns < header | pairs"
    " < aligned | tables < rows < readers",
    "tokenizing": "labels | pretokenizing | specials < framing | vocabulary < tokenizer < portable |"
    " sentencepiece | words < tokenizers < training",
    "training": "exchanges | loss | muon | schedule < distributed | settings | task < objective | optimiser <"
    " masking | state < checkpoint | loop",
    "translating": "chunks | ensemble | options | resumable | risk | sentences < banned_words | translation <"
    " segments < alignment | requests < writing < translator",
}
MOST_FILES, FILES_WITHOUT_FLOORS = 14, 8

PACKAGE = Path(dragoman.__file__).parent
ROOMS = sorted({path.parent for path in PACKAGE.rglob("*.py")} - {PACKAGE})


def numbered(floors: str) -> dict[str, int]:
    return {room: number for number, rooms in enumerate(floors.split(" < ")) for room in rooms.split(" | ")}


def imported(source: str, package: str) -> Iterator[str]:
    """What stands right below `package` in the names that a source imports, at its top or when it is run."""
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name.removeprefix(f"{package}.").split(".")[0] for name in names if name.startswith(f"{package}."))


def violations(name: str, source: str, floors: str = LINE, package: str = "dragoman") -> list[str]:
    """What `name`, which lies right below `package`, imports from its own floor or above."""
    floor = numbered(floors)
    others = set(imported(source, package)) - {name, "__version__", "names_from"}
    return [f"{name} imports {other}" for other in sorted(others) if floor.get(other, len(floor)) >= floor[name]]


def violations_inside(room: Path, floors: str, package: str) -> list[str]:
    found = []
    for path in sorted(room.rglob("*.py")):
        name = path.relative_to(room).parts[0].removesuffix(".py")
        if name not in {"__init__", "__main__"}:  # they name every file and import none until asked
            found += [
                f"{path.relative_to(room)}: {each}"
                for each in violations(name, path.read_text("utf-8"), floors, package)
            ]
    return found


def files_of(room: Path) -> set[str]:
    """The modules and folders of a room; a file of names alone does not count."""
    files = {path.stem for path in room.glob("*.py")} - {"__init__"}
    return files | {path.name for path in room.iterdir() if any(path.rglob("*.py"))}


@pytest.mark.slow
def test_every_import_points_left() -> None:
    assert not (found := violations_inside(PACKAGE, LINE, "dragoman")), "\n".join(found)


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.relative_to(PACKAGE).as_posix())
def test_inside_a_large_room_every_import_points_left(room: Path) -> None:
    name = room.relative_to(PACKAGE).as_posix()
    if name not in FLOORS:
        assert len(files_of(room)) <= FILES_WITHOUT_FLOORS, f"draw the floors of {name} in FLOORS"
        return
    assert set(numbered(FLOORS[name])) == files_of(room)
    package = ".".join(["dragoman", *name.split("/")])
    assert not (found := violations_inside(room, FLOORS[name], package)), "\n".join(found)


def test_no_folder_is_a_shelf_too_long() -> None:
    long = {room.relative_to(PACKAGE).as_posix() for room in ROOMS if len(list(room.glob("*.py"))) > MOST_FILES}
    assert not long
    assert len(list(PACKAGE.glob("*.py"))) <= MOST_FILES


def test_a_planted_violation_is_caught() -> None:
    assert violations("data", "from dragoman.store import load_model") == ["data imports store"]
    assert violations("training", "import torch, dragoman.decoding.beam") == ["training imports decoding"]
    assert violations("model", "def build():\n    from dragoman import training") == ["model imports training"]
    assert violations("store", "from dragoman.kitchen import knife") == ["store imports kitchen"]
    assert violations("recipe", "from dragoman.training.loop import run\nfrom dragoman.recipe import run") == []
    inside = ("from dragoman.text.prepare import prepare_data", FLOORS["text"], "dragoman.text")
    assert violations("checks", *inside) == ["checks imports prepare"]


def test_no_name_of_a_room_is_also_a_file_in_it() -> None:
    """Names are looked up when first used: whoever imported the file before would get the file."""
    for room in [PACKAGE, *ROOMS]:
        package = importlib.import_module(".".join(["dragoman", *room.relative_to(PACKAGE).parts]))
        assert not files_of(room) & set(getattr(package, "__all__", ())), package.__name__
