"""No command writes over what it reads, over what others left next to its output, or into a run or a model."""

import os
import shlex
import sys
from pathlib import Path

import pytest

from dragoman.cli.main import main

pytestmark = pytest.mark.skipif(os.name == "nt", reason="on Windows links need a permission")

READ = "is also read, and would be lost"
NOT_OURS = "move it away, or name another file to write"
OF_A_RUN = "one of the run's own files"

# In the folder that `place` makes: the command line, and what its line must say.
WRONG = [
    ("translate RUN --input book.part --output book", f"book.part {READ}"),
    ("translate RUN --input ./book.part --output deep/../book --fresh", f"book.part {READ}"),
    ("translate RUN --input here/book.part --output book", f"book.part {READ}"),
    ("translate RUN --input hard.en --output book", f"book.part {READ}"),
    ("translate RUN --input link.en --output book", f"book.part {READ}"),
    ("translate RUN --input book.part --output astray", f"book.part {READ}"),
    ("translate RUN --input x.part.json --output x", f"x.part.json {READ}"),
    ("translate RUN --input train.it --output linked", f"linked.part {READ}"),
    ("translate RUN --input pairs.tsv --output book", NOT_OURS),
    ("translate RUN --input pairs.tsv --output book --fresh", NOT_OURS),
    ("translate RUN --input pairs.tsv --output x", NOT_OURS),
    ("translate RUN --input train.en --output linked", NOT_OURS),
    ("translate RUN --input pairs.tsv --output here/pairs.tsv", f"here/pairs.tsv {READ}"),
    ("translate RUN --output pairs.tsv", READ),  # which is also standard input
    ("translate RUN text --output RUN/run.json", OF_A_RUN),
    ("translate RUN text --output RUN/data/test.jsonl", OF_A_RUN),
    ("translate RUN --input train.en --output run/data/new.txt", OF_A_RUN),
    ("translate RUN --input train.en --output RUN/best/new.txt", "lies in a model folder"),
    ("score RUN train --output train.en", f"train.en {READ}"),
    ("score RUN 'p*.tsv' --output pairs.tsv", f"pairs.tsv {READ}"),
    ("score RUN train.en train.it --output deep/../train.it", f"train.it {READ}"),
    ("score RUN --output pairs.tsv", READ),
    ("score RUN pairs.tsv --output RUN/data/train.jsonl", OF_A_RUN),
    ("evaluate RUN train --output train.it", f"train.it {READ}"),
    ("evaluate RUN 'p*.tsv' --scores pairs.tsv", f"pairs.tsv {READ}"),
    ("evaluate RUN data --output data/test.jsonl", f"test.jsonl {READ}"),
    ("evaluate train.it train.en train.it --scores train.it", f"train.it {READ}"),
    ("evaluate link.en data --output book.part", f"book.part {READ}"),
    ("evaluate RUN --output new --scores deep/../new", "--output and --scores both name"),
    ("evaluate RUN --scores RUN/recipe.toml", OF_A_RUN),
    ("benchmark RUN --output RUN/scores.json", OF_A_RUN),
    ("explain RUN text --output RUN/data/page.html", OF_A_RUN),
    ("explain RUN text --aligned a.html --output a.html", f"a.html {READ}"),
]


@pytest.fixture
def place(run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pairs = (run_folder.parent / "pairs.tsv").read_text("utf-8").partition("\n")[2]
    rows = [line.split("\t") for line in pairs.splitlines()]
    contents = {
        "pairs.tsv": f"en\tit\n{pairs}",
        "train.en": "".join(f"{row[0]}\n" for row in rows),
        "train.it": "".join(f"{row[1]}\n" for row in rows),
        "book.part": "precious\n",
        "x.part.json": '{"precious": 1}\n',
        "a.html": "a page",
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    (tmp_path / "deep").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "test.jsonl").write_bytes((run_folder / "data" / "test.jsonl").read_bytes())
    for name, target in {
        "here": ".",
        "link.en": "book.part",
        "astray": "book",
        "linked.part": "train.it",
        "run": run_folder,
    }.items():
        (tmp_path / name).symlink_to(target)
    os.link(tmp_path / "book.part", tmp_path / "hard.en")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def standing(*folders: Path) -> dict[Path, bytes]:
    paths = [path for folder in folders for path in sorted(folder.rglob("*"))]
    return {path: path.read_bytes() if path.is_file() else b"" for path in paths}


@pytest.mark.parametrize(("line", "expected"), WRONG, ids=[line for line, _ in WRONG])
def test_what_would_be_lost_is_refused_and_stays(
    line: str,
    expected: str,
    run_folder: Path,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before, kept = standing(place, run_folder), os.dup(0)
    piped = (place / "pairs.tsv").open()
    os.dup2(piped.fileno(), 0)
    monkeypatch.setattr(sys, "stdin", piped)
    try:
        code = main([word.replace("RUN", str(run_folder)) for word in shlex.split(line)])
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        piped.close()
    errors = [message for message in capsys.readouterr().err.split("\n") if message.startswith("error: ")]
    assert len(errors) == 1 and expected in errors[0]
    assert code == 2
    assert standing(place, run_folder) == before


@pytest.mark.parametrize("command", ["translate RUN --raw --input", "score RUN"])
def test_nothing_is_printed_onto_what_is_read(
    command: str, run_folder: Path, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before, kept = standing(place), os.dup(1)
    with (place / "pairs.tsv").open("ab") as appended:
        os.dup2(appended.fileno(), 1)
        try:
            code = main([*command.replace("RUN", str(run_folder)).split(), "here/pairs.tsv"])
        finally:
            os.dup2(kept, 1)
            os.close(kept)
    assert code == 2 and "is also standard output, and would grow as it is read" in capfd.readouterr().err
    assert standing(place) == before
