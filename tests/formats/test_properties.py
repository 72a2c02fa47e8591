"""Properties of Java: values in other words mean the same to a plain reader; all else stays to the byte."""

import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.formats.document import Document
from dragoman.formats.reading import read_document

CONTENT = r"""# not me
! not = me
greeting=Hello \
    world, \u00e9t\u00e9\n\
    \ second line
  path : C:\\temp is here
two\ words\:x Some words
empty
spaced = \ Padded \
"""


def read(path: Path, content: str | bytes) -> Document:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_document(path, ("en", "it"))


def translated(document: Document, change: Callable[[str], str]) -> str:
    return document.translated([change(text) for text in document.texts]).decode()


def properties(content: str) -> dict[str, str]:
    """Return what Java reads, character by character."""
    lines, logical = re.split(r"\r\n|[\r\n]", content), list[str]()
    is_continued = False
    for line in lines:
        stripped = line.lstrip(" \t\f")
        if not is_continued and (not stripped or stripped[0] in "#!"):
            continue
        logical[len(logical) - is_continued :] = [(logical[-1] if is_continued else "") + stripped]
        is_continued = (len(logical[-1]) - len(logical[-1].rstrip("\\"))) % 2 == 1
        logical[-1] = logical[-1][:-1] if is_continued else logical[-1]
    read = dict[str, str]()
    for line in logical:
        sides, place, is_value, is_separated = ["", ""], 0, False, False
        while place < len(line):
            sign = line[place]
            place += 1
            if sign == "\\" and place < len(line):
                escape = line[place]
                place += 1
                sign = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}.get(escape, escape)
                if escape == "u":
                    sign, place = chr(int(line[place : place + 4], 16)), place + 4
            elif not is_value and sign in " \t\f=:":
                rest = line[place - 1 :].lstrip(" \t\f")
                is_separated = rest[:1] in ("=", ":")
                rest = rest[is_separated:].lstrip(" \t\f")
                place, is_value = len(line) - len(rest), True
                continue
            sides[is_value] += sign
        read[sides[0]] = sides[1]
    return read


def test_values_are_the_texts(tmp_path: Path) -> None:
    document = read(tmp_path / "a.properties", CONTENT)
    assert document.texts == ["Hello world, été", "second line", r"C:\temp is here", "Some words", "Padded"]
    assert translated(document, str) == CONTENT
    assert [document.place(number) for number in range(3)] == ["line 3", "line 5", "line 6"]
    before, after = properties(CONTENT), properties(translated(document, str.upper))
    assert after == {key: value.upper() for key, value in before.items()}
    assert before["two words:x"] == "Some words" and before["spaced"] == " Padded "


SIGNS = [*"ab =:#!'\\\n\r\t", "\\\n", "\\\r\n", "\\ ", "\\u00e8", "\\n", "\r\n", "word", "{0}", "''", "|"]


@given(st.lists(st.sampled_from(SIGNS), min_size=1, max_size=20).map("".join))
def test_any_file_comes_back_and_means_the_same(content: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        document = read(Path(folder) / "a.properties", content)
        assert translated(document, str) == content
        after = properties(translated(document, str.upper))
    before = properties(content)
    assert {key: value.upper().split() for key, value in before.items()} == {
        key: value.upper().split() for key, value in after.items()
    }


@pytest.mark.parametrize(
    ("content", "written"),
    [
        (b"a=one\n", b"a=\\u00e8 \\ud83d\\ude00\n"),
        ("b=é\na=one\n".encode(), "b=é\na=è 😀\n".encode()),
        ("b=é\na=one\n".encode("latin-1"), "b=é\na=\\u00e8 \\ud83d\\ude00\n".encode("latin-1")),
        ("\ufeffa=one\n".encode(), "\ufeffa=è 😀\n".encode()),
    ],
)
def test_other_letters_are_written_as_the_file_does(tmp_path: Path, content: bytes, written: bytes) -> None:
    document = read(tmp_path / "a.properties", content)
    assert document.translated([text.replace("one", "è 😀") for text in document.texts]) == written


def test_apostrophes_are_doubled_in_values_with_arguments(tmp_path: Path) -> None:
    content = "a=The user''s {0}\nb=The user's\nc=The users\\nof {0,number,#} users\n"
    document = read(tmp_path / "a.properties", content)
    assert document.texts == ["The user's {0}", "The user's", "The users", "of {0,number,#} users"]
    written = translated(document, lambda text: text.replace("The user", "l'utente"))
    assert written == "a=l''utente''s {0}\nb=l'utente's\nc=l''utentes\\nof {0,number,#} users\n"


def test_a_file_that_doubles_no_apostrophe_is_no_format_of_messages(tmp_path: Path) -> None:
    document = read(tmp_path / "a.properties", "a=The user's {0}\n")
    assert translated(document, lambda _: "l'utente {0}") == "a=l'utente {0}\n"


def test_values_that_depend_on_a_number_or_quote_are_reported(tmp_path: Path) -> None:
    content = "a=It''s {0}\nb=There {0,choice,0#are|1#is} files\nc=Don't {0}\nd=Say '{0}' to {1}\n"
    document = read(tmp_path / "a.properties", content)
    assert document.texts == ["It's {0}"]
    assert [left.place for left in document.left] == ["line 2", "line 3", "line 4"]


def test_earlier_translations_are_kept(tmp_path: Path) -> None:
    document = read(tmp_path / "en.properties", "a=one\nb=two\na=three\n")
    document.keep(read(tmp_path / "it.properties", "b=due\na=uno\n"))
    assert document.texts == ["three"]
    assert translated(document, str.upper) == "a=uno\nb=due\na=THREE\n"


def test_a_large_file_is_read_soon(tmp_path: Path) -> None:
    for content in ("a=" + "\\" * 100_001, "a" * 100_000, "=" * 100_000, "a=x\\\n" * 20_000, "\\u" * 50_000):
        read(tmp_path / "a.properties", content)


@pytest.mark.parametrize(
    ("source", "earlier", "kept"),
    [
        (b"a=x\nb=two\n", "a=Perché\n".encode("latin-1"), b"a=Perch\\u00e9\n"),
        ("a=é\nb=two\n".encode("latin-1"), "a=Ещё\n".encode(), b"a=\\u0415\\u0449\\u0451\n"),
        ("a=é\nb=two\n".encode(), "a=Perché\n".encode("latin-1"), "a=Perché\n".encode()),
        (b"a=It {0,choice,0#is|1#are}\nb=two\n", b"a=Ci {0,choice,0#va|1#vanno}\n", b"a=Ci {0,choice,0#va|1#vanno}\n"),
        (b"a=\nb=two\n", b"a=Ciao\n", b"a=Ciao\n"),
    ],
)
def test_an_earlier_value_keeps_its_meaning(tmp_path: Path, source: bytes, earlier: bytes, kept: bytes) -> None:
    document = read(tmp_path / "en.properties", source)
    document.keep(read(tmp_path / "it.properties", earlier))
    assert document.texts == ["two"] and not document.left
    assert document.translated(["due"]) == kept + b"b=due\n"


def test_an_earlier_value_is_kept_at_the_end_of_a_file(tmp_path: Path) -> None:
    document = read(tmp_path / "en.properties", "b=two\na=")
    document.keep(read(tmp_path / "it.properties", "a=Ciao"))
    assert document.translated(["due"]) == b"b=due\na=Ciao"


def test_a_translation_that_changes_arguments_is_left_out(tmp_path: Path) -> None:
    document = read(tmp_path / "a.properties", "a=%s has %d dogs\nb={0} and {1}\nc=a\\n%s dog\n")
    written = document.translated(["%d cani di %s", "{1} e {0}", "uno", "cane"]).decode()
    assert written == "a=%s has %d dogs\nb={1} e {0}\nc=uno\\n%s dog\n"
    assert [left.place for left in document.left] == ["line 1", "line 3"]


def test_lines_without_a_value_are_read_soon(tmp_path: Path) -> None:
    begin = time.perf_counter()
    read(tmp_path / "a.properties", "\\\n" * 40_000)
    assert time.perf_counter() - begin < 5  # 80 s if each line reads all that follow
