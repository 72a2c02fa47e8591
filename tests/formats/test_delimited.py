"""CSV and TSV: the cells of a table in other words, and all else as it was."""

import csv
import io
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.formats.document import Document
from dragoman.formats.reading import read_document


def read(path: Path, content: str, only: Sequence[str] = ()) -> Document:
    path.write_bytes(content.encode())
    return read_document(path, ("en", "it"), only=only)


def in_capitals(document: Document) -> str:
    return document.translated([text.upper() for text in document.texts]).decode()


def test_every_cell_with_words_is_translated_and_quotes_stay(tmp_path: Path) -> None:
    content = '\ufeffno,name ,"what ""it"" is"\r\n1, a cat ,"It says ""meow"", loud.\r\n\r\n 2 lines"\r\n\r\n2,"",x,,'
    document = read(tmp_path / "a.csv", content)
    assert document.texts == ["no", "name", 'what "it" is', "a cat", 'It says "meow", loud.', "2 lines", "x"]
    assert document.translated(document.texts).decode() == content
    assert in_capitals(document) == content.upper()


@pytest.mark.parametrize(
    ("name", "content", "text", "written"),
    [
        ("a.csv", "en,it\n a cat ,12\n", "a, b", '"a, b","a, b"\n" a, b ",12\n'),
        ("a.csv", "en;it\n'x';12\n", 'a "b"', '"a ""b""";"a ""b"""\n"a ""b""";12\n'),
        ("a.csv", "sep=|\r\na;b|c,d\r\n", "a|b", 'sep=|\r\n"a|b"|"a|b"\r\n'),
        ("a.tsv", 'en\tit\nHe said "no".\t"x\n', 'a\tb "c"', 'a b "c"\ta b "c"\na b "c"\ta b "c"\n'),
        ("a.tab", 'en\t12\n"He said ""no""."\tx\n', "a\tb", '"a\tb"\t12\n"a\tb"\t"a\tb"\n'),
    ],
)
def test_a_translation_is_quoted_if_it_must_be(
    tmp_path: Path, name: str, content: str, text: str, written: str
) -> None:
    document = read(tmp_path / name, content)
    assert document.translated([text for _ in document.texts]).decode() == written


@pytest.mark.parametrize(
    ("cell", "texts"),
    [
        (r"One.\nTwo.\r\n\tThree.\n", ["One.", "Two.", "Three."]),
        (r"See C:\names and \now", [r"See C:\names and \now"]),
        ("No dogs | one dog|{n} dogs", ["No dogs", "one dog", "{n} dogs"]),
        ("{dog|upper} sleeps, see [[Dog|it]]", ["{dog|upper} sleeps, see [[Dog|it]]"]),
        ("12 | 13", []),
    ],
)
def test_lines_and_alternatives_of_a_cell_are_texts(tmp_path: Path, cell: str, texts: list[str]) -> None:
    document = read(tmp_path / "a.tsv", f"Text\t12\n{cell}\t12\n")
    assert document.texts == ["Text", *texts]
    expected = re.sub(r"(?<!\\)[A-Za-z]+|(?<=\\)n(?=ames|ow)", lambda words: words[0].upper(), cell)
    assert in_capitals(document) == f"TEXT\t12\n{expected}\t12\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'x,"{n, plural, one {a dog} and {dogs}}"\n'),
        ("a.md", "Say {n,select, one {a dog} other {dogs}}.\n"),  # {dogs} is code in Markdown
        ("a.html", "<p>{ n , selectordinal, one {a dog} and {dogs}}</p>"),
        ("a.json", '{"a": "Say {n, plural, one {a dog} and {dogs}}"}'),
        ("a.po", 'msgid "{n, plural, one {a dog} and {dogs}}"\nmsgstr ""\n'),
    ],
)
def test_messages_with_damaged_branches_are_reported(tmp_path: Path, name: str, content: str) -> None:
    document = read(tmp_path / name, content)
    reason = "its branches of ICU are damaged, too many, or share a tag"
    assert [(left.reason, left.place) for left in document.left] == [(reason, "line 1")]


CELLS = st.lists(st.sampled_from([*'ab è ,;"\n\t', "\r\n", " 1"]), max_size=9).map("".join)


@pytest.mark.parametrize("all_quoted", [False, True])
@given(rows=st.lists(st.lists(CELLS, min_size=1, max_size=4), max_size=4), end=st.sampled_from(["\n", "\r\n"]))
def test_other_programs_read_the_same_cells_in_other_words(all_quoted: bool, rows: list[list[str]], end: str) -> None:
    rows = [["English", "Italian", "French"], *rows]
    file = io.StringIO()
    csv.writer(file, quoting=csv.QUOTE_ALL if all_quoted else csv.QUOTE_MINIMAL, lineterminator=end).writerows(rows)
    with tempfile.TemporaryDirectory() as folder:
        document = read(Path(folder) / "a.csv", file.getvalue())
    assert document.translated(document.texts).decode() == file.getvalue()
    again = csv.reader(io.StringIO(in_capitals(document), newline=""))
    assert [*again] == [[cell.upper() for cell in row] for row in rows]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('a,b\n"x\n,y\n', 2),
        ('a,b\nx,"y" z\n', 2),
        ('a,b\n"x\ny"z,1\n', 2),
        ('"' + 300_000 * "a,\n", 1),
        (5_000_000 * '"a', 1),
    ],
)
def test_a_quote_that_does_not_end_its_cell_is_refused(tmp_path: Path, content: str, line: int) -> None:
    with pytest.raises(DataError, match=f"a.csv:{line} has a cell whose quote is never closed"):
        read(tmp_path / "a.csv", content)


LARGE = (1_000 * (999 * "1," + "a\n"), 300_000 * "a,", "a,b\n" + 5_000_000 * "x", 'a,"' + 1_000_000 * 'x""' + '"')


@pytest.mark.parametrize("content", LARGE)
def test_large_tables_come_back_to_the_byte(tmp_path: Path, content: str) -> None:
    document = read(tmp_path / "a.csv", content)
    assert document.translated(document.texts).decode() == content


def test_only_some_columns_are_translated_and_the_header_stays(tmp_path: Path) -> None:
    document = read(tmp_path / "a.csv", 'id,name,text\n1,Red chair,"Big, red"\n2,Table\n', only=["text", "n*"])
    assert document.texts == ["Red chair", "Big, red", "Table"]
    assert document.translated(["a", "b", "c"]) == b'id,name,text\n1,a,"b"\n2,c\n'
    with pytest.raises(DataError, match="no column or key 'title', only id, name, text"):
        read(tmp_path / "a.csv", "id,name,text\n1,a,b\n", only=["title"])


def test_columns_of_values_for_programs_stay_and_are_named(tmp_path: Path) -> None:
    content = "id;Name;status;colour\nA-100;Red chair;IN_STOCK;red\nA-101;https://example.com/a;SOLD;Large\n"
    document = read(tmp_path / "a.csv", content)
    assert document.texts == ["Name", "colour", "Red chair", "red", "Large"]
    assert "'id' (3, such as 'A-101'), 'Name' (1, such as 'https://example.com/a'), 'status' (3" in document.notes[0]
    assert read(tmp_path / "a.csv", content, only=["id", "status"]).texts == ["A-100", "IN_STOCK", "A-101", "SOLD"]


def test_columns_without_names_are_chosen_by_their_numbers(tmp_path: Path) -> None:
    content = "Red chair,Old\nGreen chair,New\n"
    assert read(tmp_path / "a.csv", content, only=["2"]).texts == ["Old", "New"]
    assert read(tmp_path / "a.csv", "2,a\nOld,New\n", only=["2"]).texts == ["Old"]
    for unknown in ("3", "0", "text"):
        with pytest.raises(DataError, match="only Red chair, Old; .*the number of a column"):
            read(tmp_path / "a.csv", content, only=[unknown])
