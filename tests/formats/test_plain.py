"""Plain text: a paragraph is one text, and is wrapped again."""

from pathlib import Path

import pytest

from dragoman.formats.document import Document
from dragoman.formats.reading import read_document

LETTER = """Dear Maria,

I write to you because the house is too small for all of us, and we
want another one near the sea.
Call me.

> You said that you would come to the station on Monday and wait there
> with your brother.
I came.

- bread and water for all, because there is no shop near the house we
  visit
- a map

Yours,
Tom
"""
TEXTS = [
    "Dear Maria,",
    "I write to you because the house is too small for all of us, and we want another one near the sea.",
    "Call me.",
    "You said that you would come to the station on Monday and wait there with your brother.",
    "I came.",
    "bread and water for all, because there is no shop near the house we visit",
    "a map",
    "Yours,",
    "Tom",
]


@pytest.fixture(params=["\n", "\r\n"])
def letter(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "letter.txt").write_bytes(LETTER.replace("\n", request.param).encode())
    return tmp_path / "letter.txt"


def read(path: Path) -> Document:
    return read_document(path, ("en", "it"), "text")


def test_lines_that_were_full_go_on(letter: Path) -> None:
    assert read(letter).texts == TEXTS


def test_a_copied_text_is_the_same_to_the_byte(letter: Path) -> None:
    assert read(letter).translated(TEXTS) == letter.read_bytes()


def test_a_translation_is_wrapped_as_its_source_was(letter: Path) -> None:
    long = " ".join(["parola"] * 14)
    written = read(letter).translated([long if len(text) > 50 else "x" for text in TEXTS]).decode()
    end = "\r\n" if b"\r" in letter.read_bytes() else "\n"
    paragraphs = written.split(end * 2)
    assert paragraphs[0] == "x"
    assert paragraphs[1].split(end) == [" ".join(["parola"] * 9), " ".join(["parola"] * 5), "x"]
    assert [line[:2] for line in paragraphs[2].split(end)] == ["> ", "> ", "x"]
    assert [line[:2] for line in paragraphs[3].split(end)] == ["- ", "  ", "- "]
    assert max(map(len, written.split(end))) <= 70


@pytest.mark.parametrize(
    "content", ["\n\n", "  \t\n a", "\ufeffone\r\rtwo", "a" + " " * 100_000 + "b\n", "> " * 50_000]
)
def test_odd_texts_come_back(tmp_path: Path, content: str) -> None:
    (tmp_path / "odd.txt").write_bytes(content.encode())
    document = read(tmp_path / "odd.txt")
    assert document.translated(document.texts) == content.encode()
