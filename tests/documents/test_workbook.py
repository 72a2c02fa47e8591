"""Workbooks: the text of cells is translated, and nothing else changes."""

from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from dragoman.documents.document import Document
from dragoman.documents.reading import read_document
from dragoman.errors import DataError

pytest.importorskip("lxml", reason="the extra documents is not installed")
openpyxl = pytest.importorskip("openpyxl", reason="the extra documents is not installed")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    book = openpyxl.Workbook()
    for row in (["name", "text", "price"], ["Chair A", "Red and old.\n Buy it!", 12.5], ["=B2", "42", None]):
        book.active.append(row)
    book.create_sheet("Two")["B7"] = "Chair A"
    book.save(tmp_path / "book.xlsx")
    return tmp_path / "book.xlsx"


def read(path: Path, **how: Any) -> Document:
    return read_document(path, ("en", "it"), **how)


def cells(content: bytes) -> list[list[list[Any]]]:
    book = openpyxl.load_workbook(BytesIO(content))
    return [[[cell.value for cell in row] for row in sheet.iter_rows()] for sheet in book]


def test_every_line_of_a_cell_is_a_text(path: Path) -> None:
    document = read(path)
    assert document.texts == ["name", "text", "price", "Chair A", "Red and old.", "Buy it!", "Chair A"]
    one, two = cells(document.translated([text.upper() for text in document.texts]))
    assert one == [["NAME", "TEXT", "PRICE"], ["CHAIR A", "RED AND OLD.\n BUY IT!", 12.5], ["=B2", "42", None]]
    assert two[-1] == [None, "CHAIR A"]


def test_copied_texts_leave_the_same_parts(path: Path) -> None:
    document = read(path)
    written = document.translated(document.texts)
    assert cells(written) == cells(path.read_bytes())
    with ZipFile(path) as before, ZipFile(BytesIO(written)) as after:
        assert before.namelist() == after.namelist()
        others = [name for name in before.namelist() if "worksheets" not in name]
        assert all(before.read(name) == after.read(name) for name in others)


def test_only_some_columns(path: Path) -> None:
    book = openpyxl.load_workbook(path)
    book["Sheet"].insert_rows(1)
    book["Sheet"]["B1"] = "Texts of 2026"
    book.save(path)
    document = read(path, only=["te*"])
    assert document.texts == ["Red and old.", "Buy it!"]
    rows, others = cells(document.translated(["a", "b"]))
    assert others[-1] == [None, "Chair A"]
    assert rows[1:3] == [["name", "text", "price"], ["Chair A", "a\n b", 12.5]]
    with pytest.raises(DataError, match="has no column or key 'title', only name, text, price"):
        read(path, only=["title"])


def test_a_text_gets_the_format_of_its_longest_piece(tmp_path: Path) -> None:
    from openpyxl.cell.rich_text import CellRichText, TextBlock
    from openpyxl.cell.text import InlineFont

    book = openpyxl.Workbook()
    book.active["A1"] = CellRichText("an old ", TextBlock(InlineFont(b=True), "red chair"))
    book.active["A2"] = CellRichText("an old ", TextBlock(InlineFont(b=True), "chair"))
    book.save(tmp_path / "rich.xlsx")
    document = read(tmp_path / "rich.xlsx")
    assert document.texts == ["an old red chair", "an old chair"]
    written = openpyxl.load_workbook(BytesIO(document.translated(["sedia", "sedia"])), rich_text=True)
    (block,) = written.active["A1"].value
    assert (block.text, block.font.b) == ("sedia", True)
    assert written.active["A2"].value == "sedia"


MAIN = "xmlns='http://schemas.openxmlformats.org/spreadsheetml/2006/main'"
SHEET = (
    f"<worksheet {MAIN}><sheetData><row r='1'><c r='A1' t='s'><v>0</v></c><c r='B1' t='s'><v>1</v></c></row>"
    "<row r='2'><c r='A2' t='s'><v>0</v></c><c r='B2' t='str'><f>A1</f><v>good day</v></c></row>"
    "</sheetData></worksheet>"
).encode()
STRINGS = (
    f"<sst {MAIN}><si><t>good day</t></si>"
    "<si><r><rPr><i/></rPr><t>red </t></r><r><t>chair</t></r><rPh><t>x</t></rPh></si></sst>"
).encode()


def with_parts(path: Path, changes: dict[str, bytes]) -> None:
    with ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()} | changes
    with ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


def test_a_text_that_cells_share_is_translated_in_each(path: Path) -> None:
    with_parts(path, {"xl/worksheets/sheet1.xml": SHEET, "xl/sharedStrings.xml": STRINGS})
    document = read(path)
    assert document.texts[:3] == ["good day", "red chair", "good day"]
    one, _ = cells(document.translated(["a", "b", "c", "d"]))
    assert one == [["a", "b"], ["c", "=A1"]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"xl/worksheets/sheet1.xml": SHEET, "xl/sharedStrings.xml": f"<sst {MAIN}/>".encode()}, "damaged"),
        ({"xl/worksheets/sheet1.xml": SHEET.replace(b"<v>0", b"<v>" + b"9" * 5_000)}, "damaged: its cell A1"),
        ({"xl/worksheets/sheet1.xml": b"<worksheet"}, "not well-formed XML"),
        ({"xl/worksheets/sheet1.xml": b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"}, "uses the entity"),
        (None, "is not an Excel workbook"),
    ],
)
def test_a_damaged_workbook_is_refused(path: Path, changes: dict[str, bytes] | None, message: str) -> None:
    if changes is None:
        path.write_bytes(path.read_bytes()[:-100])
    else:
        with_parts(path, changes)
    with pytest.raises(DataError, match=message):
        read(path)


def test_a_workbook_with_a_damaged_part_is_refused(path: Path) -> None:
    with_parts(path, {"xl/media/a.png": b"a picture"})
    content = path.read_bytes()
    path.write_bytes(content.replace(b"a picture", b"a pibture", 1))
    with pytest.raises(DataError, match="is damaged: its part xl/media/a.png"):
        read(path)
    path.write_bytes(bytes(255 - byte if place in range(60, 70) else byte for place, byte in enumerate(content)))
    with pytest.raises(DataError, match="is damaged"):
        read(path)


@pytest.mark.parametrize(("limit", "value"), [("LARGEST_UNPACKED", 1_000), ("MOST_PACKED", 1)])
def test_a_workbook_that_unpacks_to_too_much_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(f"dragoman.documents.workbook.{limit}", value)
    with pytest.raises(DataError, match="unpacks to"):
        read(path)


@pytest.mark.parametrize("header", [True, False])
def test_the_names_of_a_tables_columns_stay_because_another_part_repeats_them(tmp_path: Path, header: bool) -> None:
    from openpyxl.worksheet.table import Table

    book = openpyxl.Workbook()
    for row in (["A title", None, "beside"], ["name", "text", "beside"], ["red", "chair", "old"]):
        book.active.append(row)
    book.active.add_table(Table(displayName="Chairs", ref="A2:B3", headerRowCount=int(header)))
    book.save(tmp_path / "table.xlsx")
    document = read(tmp_path / "table.xlsx")
    names = [] if header else ["name", "text"]
    assert document.texts == ["A title", "beside", *names, "beside", "red", "chair", "old"]
