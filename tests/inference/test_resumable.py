"""Files that outlive the process that makes them: whatever ends it, the same command ends in the same bytes."""

import gzip
import hashlib
import json
import os
import random
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
from small_runs import exit_code, kill_at

from dragoman.cli.main import main
from dragoman.errors import DataError, DiskFull, FolderInUse
from dragoman.inference import documents
from dragoman.inference.resumable import FileRecord, record_of, resumable_file
from dragoman.inference.translator import Translator

WORDS = "gatt can top lup ors cavall asin mul polp corv".split()
ASKED = {"decode": {"beam_size": 4}, "model": "abc"}


def texts(count: int = 47) -> list[str]:
    draw = random.Random(1)
    lines = [f"The {draw.choice(WORDS)} sees. the {draw.choice(WORDS)} \u2028 è" for _ in range(count)]
    return [line if draw.random() < 0.9 else "" for line in lines]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of several chunks."""
    monkeypatch.setattr(documents, "LINES", 10)
    path = tmp_path / "in.en"
    path.write_text("".join(f"{text}\n" for text in texts()), "utf-8")
    return path


def make(path: Path, lines: list[str], stop_after: int = 1000, asked: dict[str, Any] | None = None, **how: Any) -> None:
    """Lines in upper case, three at a time; fails after so many chunks."""
    with resumable_file(path, ASKED if asked is None else asked, **how) as file:
        rest = list(file.rest(lines, "in.txt"))
        for start in range(0, len(rest), 3):
            if start // 3 == stop_after:
                raise RuntimeError("stop")
            chunk = rest[start : start + 3]
            file.counts.update("".join(chunk))
            file.add(chunk, "".join(f"{each.upper()}\n" for each in chunk))


def stopped(path: Path, lines: list[str], stop_after: int = 2) -> Path:
    with pytest.raises(RuntimeError, match="stop"):
        make(path, lines, stop_after)
    return path.with_name(f"{path.name}.part")


LINES = [f"line {number}" for number in range(20)]
WHOLE = "".join(f"{line.upper()}\n" for line in LINES)


def test_what_is_made_of_all_lines_appears_in_their_place(tmp_path: Path) -> None:
    out, fails = tmp_path / "out.txt", [True]

    def convert(lines: Sequence[str]) -> bytes:
        if fails.pop():
            raise RuntimeError("stop")
        return "|".join(lines).encode()

    with pytest.raises(RuntimeError, match="stop"):
        make(out, LINES, convert=convert)
    assert not out.exists() and (tmp_path / "out.txt.part").read_text("utf-8") == WHOLE
    fails[:] = [False]
    make(out, LINES, convert=convert)
    assert out.read_text("utf-8") == "|".join(line.upper() for line in LINES)
    assert [*tmp_path.iterdir()] == [out]


def test_what_was_done_is_kept_and_gone_on_with(tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    part = stopped(out, LINES)
    assert not out.exists() and part.read_text("utf-8") == "".join(f"{line.upper()}\n" for line in LINES[:6])
    with part.open("a") as file:
        file.write("LINE 6\nLIN")  # of a chunk that was not recorded
    stopped(out, LINES, 3)
    record = FileRecord(**json.loads(record_of(part).read_text("utf-8")))
    assert (record.lines, record.bytes) == (15, part.stat().st_size)
    assert record.sha256 == hashlib.sha256("".join(f"{line}\n" for line in LINES[:15]).encode()).hexdigest()
    assert record.counts["l"] == 15, "what was counted before counts too"
    make(out, [*LINES, "one more"])  # a file may have grown
    assert out.read_text("utf-8") == f"{WHOLE}ONE MORE\n"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    ("lines", "asked", "message"),
    [
        (["other", *LINES[1:]], ASKED, r"in.txt has changed: its first 6 lines are not those whose results are in"),
        (LINES[:4], ASKED, r"in.txt has only 4 lines, but .*out.txt.part holds results of 6; use --fresh"),
        (
            LINES,
            {"decode": {"beam_size": 1}, "model": "abc"},
            r"another model, options or document \(decode.beam_size: 4 then, 1 now\); give the same to go on, or",
        ),
        (LINES, {"decode": {"beam_size": 4}, "model": "abd"}, "model: 'abc' then, 'abd' now"),
    ],
)
def test_what_changed_is_named_and_nothing_is_lost(
    lines: list[str], asked: dict[str, Any], message: str, tmp_path: Path
) -> None:
    part = stopped(tmp_path / "out.txt", LINES)
    before = part.read_bytes(), record_of(part).read_bytes()
    with pytest.raises(DataError, match=message):
        make(tmp_path / "out.txt", lines, asked=asked)
    assert (part.read_bytes(), record_of(part).read_bytes()) == before
    make(tmp_path / "out.txt", lines, asked=asked, fresh=True)
    assert (tmp_path / "out.txt").read_text("utf-8") == "".join(f"{line.upper()}\n" for line in lines)


def test_a_damaged_part_is_refused_and_a_lost_one_is_made_again(tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    part = stopped(out, LINES)
    for damaged in ("LINE", "x" * 42):
        part.write_text(damaged)
        for fresh in (False, True):
            with pytest.raises(
                DataError, match=r"out.txt.part was changed: it does not hold the results .* .42 bytes.; move it"
            ):
                make(out, LINES, fresh=fresh)
        assert part.read_text() == damaged
    part.unlink()
    make(out, LINES)
    assert out.read_text("utf-8") == WHOLE and list(tmp_path.iterdir()) == [out]


def test_no_changed_bit_of_a_part_or_its_record_gets_into_the_output(tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    part = stopped(out, LINES[:8])
    begun = {path: path.read_bytes() for path in (part, record_of(part))}
    for path, content in begun.items():
        for place in range(len(content)):
            changed = bytearray(content)
            changed[place] ^= 1 << place % 7
            path.write_bytes(changed)
            with pytest.raises(DataError, match=r"out\.txt\.part"):
                make(out, LINES[:8])
        path.write_bytes(content)
    part.write_text("".join(reversed(part.read_text("utf-8").splitlines(keepends=True))), "utf-8")
    with pytest.raises(DataError, match=r"out\.txt\.part was changed"):
        make(out, LINES[:8])


@pytest.mark.parametrize(("name", "by"), [("lines", 1), ("bytes", 100), ("bytes", -7), ("bytes", -1000)])
def test_a_wrong_number_in_a_record_is_noticed(name: str, by: int, tmp_path: Path) -> None:
    part = stopped(tmp_path / "out.txt", LINES)
    record = json.loads(record_of(part).read_text("utf-8"))
    record[name] += by
    record_of(part).write_text(json.dumps(record), "utf-8")
    with pytest.raises(DataError, match=r"out\.txt\.part\.json was changed: it is not what this command wrote there"):
        make(tmp_path / "out.txt", LINES)


def test_a_file_that_was_not_begun_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    stopped(out, LINES, 0)
    assert not list(tmp_path.iterdir())
    out.write_text("before")
    stopped(out, LINES)
    assert out.read_text("utf-8") == "before"
    (tmp_path / "link.txt").symlink_to(out)
    make(tmp_path / "link.txt", LINES)
    assert out.read_text("utf-8") == WHOLE and (tmp_path / "link.txt").is_symlink()


def standing(folder: Path) -> dict[str, object]:
    """What a folder holds: the bytes of files, where links lead, and the rest by its kind."""
    return {
        path.name: os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else path.is_fifo()
        for path in sorted(folder.iterdir())
    }


def recorded(**facts: object) -> str:
    record = FileRecord.model_validate({"asked": ASKED, **facts})
    return json.dumps(record.but(check=record.right_check).model_dump())


RECORD = recorded(lines=1, bytes=7, results=hashlib.sha256(b"LINE 0\n").hexdigest())
STRANGERS: dict[str, Callable[[Path], object]] = {
    "a part": lambda out: (out / "out.txt.part").write_text("precious"),
    "an empty part": lambda out: (out / "out.txt.part").touch(),
    "a record": lambda out: (out / "out.txt.part.json").write_text('{"precious": 1}'),
    "a part and a record": lambda out: [
        (out / f"out.txt.part{end}").write_text('{"format": 1}') for end in ("", ".json")
    ],
    "a part beside a record of ours": lambda out: [
        (out / "out.txt.part").write_text("precious text"),
        (out / "out.txt.part.json").write_text(RECORD),
    ],
    "a part beside a record of nothing": lambda out: [
        (out / "out.txt.part").write_text("precious"),
        (out / "out.txt.part.json").write_text(recorded()),
    ],
    "a link to a part": lambda out: (out / "out.txt.part").symlink_to("precious.txt"),
    "a link astray": lambda out: (out / "out.txt.part").symlink_to("nowhere"),
    "a link beside a record of ours": lambda out: [
        (out / "out.txt.part").symlink_to("ours"),
        (out / "ours").write_text("LINE 0\nmore"),
        (out / "out.txt.part.json").write_text(RECORD),
    ],
    "a link to a record": lambda out: [
        (out / "out.txt.part.json").symlink_to("record"),
        (out / "record").write_text(RECORD),
    ],
    "a folder": lambda out: (out / "out.txt.part").mkdir(),
    "a pipe": lambda out: os.mkfifo(out / "out.txt.part"),
    "a pipe for a record": lambda out: os.mkfifo(out / "out.txt.part.json"),
}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such pipes, and links need a permission")
@pytest.mark.parametrize("stranger", STRANGERS)
@pytest.mark.parametrize("fresh", [False, True])
def test_what_is_not_ours_is_refused_and_left_as_it_is(stranger: str, fresh: bool, tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("precious")
    STRANGERS[stranger](tmp_path)
    before = standing(tmp_path)
    with pytest.raises(
        DataError, match=r"out\.txt\.part(\.json)? .*; (move it away, or )?name (another|a) file to write"
    ):
        make(tmp_path / "out.txt", LINES, fresh=fresh)
    assert standing(tmp_path) == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows does not fork")
@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("function", ["os.fsync", "os.replace"])
def test_a_kill_at_any_moment_leaves_what_the_next_call_knows(function: str, fresh: bool, tmp_path: Path) -> None:
    for call in range(1, 30):
        folder = tmp_path / str(call)
        folder.mkdir()
        if fresh:
            stopped(folder / "out.txt", LINES[:6], 1)
        if (child := os.fork()) == 0:
            with suppress(BaseException):
                kill_at(function, call, partial(make, fresh=fresh), folder / "out.txt", LINES[:6])
            os._exit(0)
        killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
        assert (folder / "out.txt").exists() or killed
        make(folder / "out.txt", LINES[:6])
        whole = "".join(f"{line.upper()}\n" for line in LINES[:6])
        assert standing(folder) == {"out.txt": whole.encode()}, f"killed at {function} number {call}"
        if not killed:
            break


def test_two_processes_cannot_make_the_same_file(tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    with resumable_file(out, ASKED) as file:
        file.add(LINES[:3], "1\n2\n3\n")
        with pytest.raises(FolderInUse, match=r"out.txt.part is in use by another process; wait for it"):
            make(out, LINES)
    assert out.read_text("utf-8") == "1\n2\n3\n"


def test_a_full_disk_keeps_what_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, fsync, calls = tmp_path / "out.txt", os.fsync, 0

    def full(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 11:  # of the third chunk; each needs three, and the records before the first need four
            raise OSError(28, "No space left on device")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFull, match="run the same command again"):
        make(out, LINES)
    assert out.with_name("out.txt.part").exists()
    make(out, LINES)
    assert out.read_text("utf-8") == WHOLE


# The command


def command(run: Path, source: Path, output: Path, *more: str) -> list[str]:
    options = ["--beam-size", "2", "--set", "length_ratio=1", "--set", "length_extra=3", "--threads", "1"]
    return ["translate", str(run), "--input", str(source), "--output", str(output), *options, *more]


def run_it(arguments: list[str]) -> None:
    documents.LINES = 10
    sys.exit(main(arguments))


@pytest.mark.thorough
@pytest.mark.parametrize("more", [(), ("--format", "json"), ("--n-best", "2")], ids=["text", "json", "n-best"])
def test_any_number_of_kills_end_in_the_same_bytes(
    more: tuple[str, ...], run_folder: Path, source: Path, tmp_path: Path
) -> None:
    packed = tmp_path / "in.en.gz"
    packed.write_bytes(gzip.compress(source.read_bytes()))
    assert main(command(run_folder, source, tmp_path / "whole", *more)) == 0
    killed = tmp_path / "killed"
    moments = [("os.fsync", 1), ("os.fsync", 8), ("os.replace", 2), ("os.fsync", 3), ("os.replace", 1)]
    for number, (function, call) in enumerate(moments):
        again = command(run_folder, packed if number % 2 else source, killed, *more)
        assert exit_code(kill_at, function, call, run_it, again) == -signal.SIGKILL
        assert not killed.exists()
    assert exit_code(run_it, command(run_folder, source, killed, *more)) == 0
    assert killed.read_bytes() == (tmp_path / "whole").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.en", "in.en.gz", "killed", "whole"]


def test_a_signal_says_how_to_go_on(
    run_folder: Path,
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert main(command(run_folder, source, whole)) == 0
    at_once = capsys.readouterr().err
    assert "translate: 47 of 47 lines" in at_once and "of 47 lines flagged split" in at_once
    with monkeypatch.context() as patch:
        patch.setattr(Translator, "translate", signalled(Translator.translate, call=3))
        assert main(command(run_folder, source, out)) == 3
    assert f"; 20 lines are done and in {out}.part; run the same command again to go on" in capsys.readouterr().err
    assert main(command(run_folder, source, out, "--beam-size", "1")) == 2
    told = capsys.readouterr().err
    assert "decode.beam_size: 2 then, 1 now" in told and "--fresh" in told
    assert main(command(run_folder, source, out, "--set", "batch_tokens=500")) == 0
    going_on = capsys.readouterr().err
    assert f"going on after 20 lines, which are in {out}.part" in going_on
    assert "translate: 47 of 47 lines" in going_on
    flagged = [[line for line in told.splitlines() if "flagged" in line] for told in (at_once, going_on)]
    assert flagged[0] == flagged[1]
    assert out.read_bytes() == whole.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(Translator, "translate", signalled(Translator.translate, call=1))
        assert main(command(run_folder, source, out)) == 3
    assert "; nothing was written" in capsys.readouterr().err and out.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.en", "out", "whole"]


PARAGRAPHS = [f"the gatt {number}" for number in range(15)]
KEYS = json.dumps({"a": PARAGRAPHS, "b": ["the asin"]})
MARKDOWN, ROWS = "\n\n".join(PARAGRAPHS), "\n".join(f"{text},5" for text in ["name,n", *PARAGRAPHS])
DOCUMENTS = {
    "in.json": (KEYS, ["--only", "a"], KEYS, ["--only", "a", "--only", "b"]),
    "in.md": (MARKDOWN, [], MARKDOWN, ["--document-format", "text"]),
    "in.csv": (ROWS, [], f"{ROWS[:-1]}6", []),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_of_which_something_changed_is_not_gone_on_with(
    name: str, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before, options, after, others = DOCUMENTS[name]
    document, out = tmp_path / name, tmp_path / f"out{Path(name).suffix}"
    document.write_text(before, "utf-8")
    monkeypatch.setattr(documents, "LINES", 10)
    with monkeypatch.context() as patch:
        patch.setattr(Translator, "translate", signalled(Translator.translate, call=2))
        assert main(command(run_folder, document, out, *options)) == 3
    assert "10 lines are done" in capsys.readouterr().err
    document.write_text(after, "utf-8")
    assert main(command(run_folder, document, out, *others)) == 2
    assert "document: [" in capsys.readouterr().err and not out.exists()
    document.write_text(before, "utf-8")
    assert main(command(run_folder, document, out, *options)) == 0


def signalled(function: Callable[..., Any], call: int) -> Callable[..., Any]:
    """The function, which at the `call`-th call meets a signal to stop."""
    calls = 0

    def with_signal(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            signal.raise_signal(signal.SIGTERM)
        return function(*given, **named)

    return with_signal


def test_standard_input_cannot_go_on_and_says_so(
    run_folder: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Translator, "translate", signalled(Translator.translate, call=3))
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(source.read_bytes())))
    assert main(["translate", str(run_folder), "--output", str(tmp_path / "out")]) == 3
    assert "out was not written; only translate with --input FILE resumes where it was stopped" in (
        capsys.readouterr().err
    )
    assert list(tmp_path.iterdir()) == [source]
    assert main(["translate", str(run_folder), "text", "--fresh"]) == 2
    assert "--fresh starts a file again, so it needs --input and --output" in capsys.readouterr().err


def test_a_damaged_line_is_refused_before_the_first_is_translated(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.en").write_bytes(b"the gatt\n" * 30 + b"\xe0\n")
    assert main(["translate", str(run_folder), "--input", str(tmp_path / "in.en")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "in.en:31 is not valid UTF-8" in err
