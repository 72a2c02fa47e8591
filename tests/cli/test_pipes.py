"""Lines through pipes: what has arrived is answered when nothing more is waiting, and many lines go together."""

import os
import re
import select
import sys
import threading
from pathlib import Path

import pytest

from dragoman.cli.main import main
from dragoman.cli.streams import Incoming
from dragoman.inference import documents
from dragoman.inference.documents import Arriving
from dragoman.inference.translator import Translator

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows cannot say what waits in a pipe")

SECONDS = 60
COMMANDS = {
    "translate": ("translate RUN", "the gatt sees the can"),
    "translate --format json": ("translate RUN --format json", "the gatt sees the can"),
    "score": ("score RUN", "the gatt\til gatto"),
    "predict": ("predict MODELS/classifier", "the gatt sees the can"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_line_is_answered_before_the_next_is_sent(
    name: str, run_folder: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, line = COMMANDS[name]
    (in_read, in_write), (out_read, out_write) = os.pipe(), os.pipe()
    answers: list[bytes] = []

    def converse() -> None:
        for half in (b"", *[line.encode()] * 3):
            os.write(in_write, half[:5])
            os.write(in_write, half[5:] + b"\n")
            if not select.select([out_read], [], [], SECONDS)[0]:
                break
            answers.append(os.read(out_read, 1 << 16))
        os.close(in_write)

    with os.fdopen(in_read, encoding="utf-8") as typed, os.fdopen(out_write, "w", encoding="utf-8") as printed:
        monkeypatch.setattr(sys, "stdin", typed)
        monkeypatch.setattr(sys, "stdout", printed)
        client = threading.Thread(target=converse)
        client.start()
        arguments = command.replace("RUN", str(run_folder)).replace("MODELS", str(models))
        assert main([*arguments.split(), "--quiet"]) == 0
        client.join()
    os.close(out_read)
    assert len(answers) == 4 and all(answer.count(b"\n") == 1 for answer in answers)
    same = {re.sub(rb'"line": \d+', b"", answer) for answer in answers[1:]}
    assert len(same) == 1, "the same line, the same answer"


def test_a_file_and_a_quick_writer_are_read_in_whole_chunks(tmp_path: Path) -> None:
    lines = [f"line {number} of some length, so that a pipe does not hold them all at once\n" for number in range(5500)]
    (tmp_path / "in.txt").write_text("".join(lines))

    def sizes(handle: int) -> list[int]:
        incoming = Incoming(file := open(handle, "rb", buffering=0))  # noqa: SIM115 (closed below)
        texts = iter(lambda: incoming.readline(1000).decode(), "")
        chunks = list(documents.chunks(Arriving(texts, incoming.has_come), len))
        file.close()
        assert [line for chunk in chunks for line in chunk] == lines
        return [len(chunk) for chunk in chunks]

    def send() -> None:
        with os.fdopen(write, "w") as file:
            file.writelines(lines)

    assert sizes(os.open(tmp_path / "in.txt", os.O_RDONLY)) == [1000] * 5 + [500]
    read, write = os.pipe()
    writer = threading.Thread(target=send)
    writer.start()
    assert len(sizes(read)) < 50  # a busy machine may keep the writer waiting
    writer.join()


def test_the_end_of_input_and_a_last_line_without_an_end_are_lines_that_have_come() -> None:
    read, write = os.pipe()
    incoming = Incoming(file := open(read, "rb", buffering=0))  # noqa: SIM115 (closed below)
    assert not incoming.has_come()
    os.write(write, b"one")
    assert not incoming.has_come(), "half a line"
    os.write(write, b" line\ntwo")
    assert incoming.has_come() and incoming.readline(100) == b"one line\n"
    assert not incoming.has_come()
    os.close(write)
    assert incoming.has_come() and incoming.readline(100) == b"two"
    assert incoming.has_come() and incoming.readline(100) == b""
    file.close()


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_chunks_do_not_change_what_is_printed(
    size: int, run_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ["the gatt sees the can", "", "the lup. The top!", "the asin sees the mul", "xyz"]
    (expected,) = [[translation.text for translation in Translator.load(run_folder).translate(texts)]]
    monkeypatch.setattr(documents, "LINES", size)
    read, write = os.pipe()
    os.write(write, "\n".join(texts).encode())
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as typed:
        monkeypatch.setattr(sys, "stdin", typed)
        assert main(["translate", str(run_folder), "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines() == expected
