"""Strings of Apple's systems: values in other words; keys, comments and encodings stay."""

import codecs
import json
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.formats.document import Document
from dragoman.formats.reading import read_document

CONTENT = r"""/* not "me" = "me"; */
"key \"one\"" = "Hello \"you\"\n%@ and %1$@, 5 \U00e9t\U00e9";
// nor me
NSName   =   "The app's name" ;
"same text";
"id" = bare;
"two" = "first
second"; "three"="third";
"""


def read(path: Path, content: str | bytes) -> Document:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_document(path, ("en", "it"))


def test_values_are_the_texts(tmp_path: Path) -> None:
    document = read(tmp_path / "a.strings", CONTENT)
    texts = ['Hello "you"', "%@ and %1$@, 5 été", "The app's name", "first", "second", "third"]
    assert document.texts == texts
    assert document.translated(document.texts).decode() == CONTENT
    written = document.translated([f'x"\\{text}' for text in texts]).decode()
    assert read(tmp_path / "b.strings", written).texts == [f'x"\\{text}' for text in texts]
    assert re.sub(r'x\\"\\\\', "", written).replace("été", r"\U00e9t\U00e9") == CONTENT


@given(st.lists(st.text('àè "\\\n%@é😀/*', min_size=1), min_size=1, max_size=4))
def test_any_value_comes_back(values: list[str]) -> None:
    content = "".join(f"{json.dumps(value, ensure_ascii=False)} = {json.dumps(value)};\n" for value in values)
    content = content.replace("\\ud83d\\ude00", "\\Ud83d\\Ude00").replace("\\u00e9", "\\U00e9")
    with tempfile.TemporaryDirectory() as folder:
        document = read(Path(folder) / "a.strings", content)
        assert document.translated(document.texts).decode() == content
        after = document.translated([text.upper() for text in document.texts])
        again = read(Path(folder) / "b.strings", after)
    assert again.texts == [text.upper() for text in document.texts]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_encodings_stay(tmp_path: Path, encoding: str, mark: str) -> None:
    content = f'{mark}"a" = "caffè";'
    document = read(tmp_path / "a.strings", content.encode(encoding))
    assert document.translated(document.texts).decode(encoding) == content
    assert document.translated(["tè 你"]).decode(encoding) == content.replace("caffè", "tè 你")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ('"a" = "b";\n"c" = "d"\n"e" = "f";\n', "line 2: expected"),
        ('"a" = "b";\n\n/* never ends', "line 3: expected"),
        ('"a" = "b', "line 1: expected"),
        ('"a" = { b = c; };', "line 1: expected"),
        (b"bplist00\xd1", "is a property list"),
        ('<?xml version="1.0"?>\n<plist/>', "is a property list"),
        (b'"a" = "\xe8";', "is not UTF-8"),
        (codecs.BOM_UTF16_LE + b"\0\xd8", "is not UTF-16"),
        ("/* " * 50_000, "line 1: expected"),
        ('"' + "\\" * 100_001, "line 1: expected"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, content: str | bytes, complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        read(tmp_path / "a.strings", content)


def test_octal_escapes_are_left(tmp_path: Path) -> None:
    document = read(tmp_path / "a.strings", '"a" = "caf\\351 is open";')
    assert not document.texts
    assert document.left[0].reason == "it has octal escapes"


def test_earlier_translations_are_kept(tmp_path: Path) -> None:
    document = read(tmp_path / "en.strings", '"a" = "one"; b = "two";')
    document.keep(read(tmp_path / "it.strings", '"b" = "due"; "c" = "tre";'))
    assert document.texts == ["one"]
    assert document.translated(["uno"]).decode() == '"a" = "uno"; b = "due";'


def test_a_translation_that_changes_arguments_is_left_out(tmp_path: Path) -> None:
    document = read(tmp_path / "a.strings", '"a" = "%@ has %d dogs";\n"b" = "%1$@ and %2$@";\n')
    written = document.translated(["%d cani di %@", "%2$@ e %1$@"]).decode()
    assert written == '"a" = "%@ has %d dogs";\n"b" = "%2$@ e %1$@";\n'
    assert [left.place for left in document.left] == ["line 1"]


def test_what_is_left_may_have_an_earlier_translation(tmp_path: Path) -> None:
    document = read(tmp_path / "en.strings", '"a" = "caf\\351";\n"b" = "caf\\351 now";\n')
    document.keep(read(tmp_path / "it.strings", '"a" = "tè";\n'))
    assert document.translated([]).decode() == '"a" = "tè";\n"b" = "caf\\351 now";\n'
    assert [left.place for left in document.left] == ["line 2"]
