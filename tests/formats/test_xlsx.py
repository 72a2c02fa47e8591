"""Workbooks: the text of cells is translated, and nothing else changes."""

from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from dragoman.errors import DataError
from dragoman.formats.document import Document
from dragoman.formats.reading import read_document

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
    assert document.texts == ["name", "text", "price", "Chair A", "Red and old.", "Buy it!"]
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
    with pytest.raises(DataError, match="has no column or key 'title', only .*name, price"):
        read(path, only=["title"])


def test_formats_of_a_cell_are_those_of_the_words_that_the_tags_enclose(tmp_path: Path) -> None:
    from openpyxl.cell.rich_text import CellRichText, TextBlock
    from openpyxl.cell.text import InlineFont

    bold, italic = InlineFont(b=True), InlineFont(i=True)
    book = openpyxl.Workbook()
    cells = [
        CellRichText("an old ", TextBlock(bold, "red"), " chair"),
        CellRichText("Sit on\nan ", TextBlock(bold, "old\nchair."), TextBlock(italic, " 12\n"), TextBlock(bold, "Now")),
        CellRichText(TextBlock(bold, "an old"), TextBlock(bold, " chair")),
    ]
    book.active.append(cells)
    book.save(tmp_path / "rich.xlsx")
    document = read(tmp_path / "rich.xlsx")
    texts = [
        "an old <g1>red</g1> chair",
        '<g1>Sit on</g1><br id="2"/><g3>an </g3>old<br id="4"/>chair.<g5> 12</g5>',
        "Now",
        "an old chair",
    ]
    assert document.texts == texts
    written = openpyxl.load_workbook(
        BytesIO(document.translated(["<g1>rossa</g1> sedia", *document.texts[1:]])), rich_text=True
    )
    assert shown(written.active["A1"].value) == [("rossa", True), (" sedia", None)]
    assert shown(written.active["B1"].value) == shown(cells[1])
    assert str(written.active["C1"].value) == "an old chair"


def shown(value: Any) -> list[tuple[str, bool | None]]:
    """Return the pieces of a cell, and whether they are bold."""
    return [(str(piece), piece.font.b if hasattr(piece, "font") else None) for piece in value]


def test_comments_and_drawings_are_translated_and_prompts_and_headers_reported(path: Path) -> None:
    from openpyxl.chart import BarChart
    from openpyxl.comments import Comment
    from openpyxl.worksheet.datavalidation import DataValidation
    from openpyxl.worksheet.hyperlink import Hyperlink

    book = openpyxl.load_workbook(path)
    sheet = book.active
    sheet["B2"].comment = Comment("Is it\nold?\nSo what", "me")
    chart = BarChart()
    chart.title, chart.y_axis.title = "The old chairs", "12"
    sheet.add_chart(chart, "E5")
    sheet["B1"].hyperlink = Hyperlink("B1", target="https://a.org", tooltip="See it")
    sheet.add_data_validation(DataValidation("whole", sqref="C2:C9", formula1="1", promptTitle="1", prompt="A number"))
    sheet.oddFooter.center.text, sheet.evenFooter.center.text = "Page &P of the book", "&P/&N"
    book["Two"].oddHeader.left.text = "&P of &N"
    book.save(path)
    threaded = b"<x><threadedComment ref='A1'><text>Buy two</text></threadedComment></x>"
    with_parts(path, {"xl/threadedComments/threadedComment1.xml": threaded})
    document = read(path)
    others = {
        text: document.place(number)
        for number, text in enumerate(document.texts)
        if "cell" not in document.place(number)
    }
    assert set(others) == {"Is it", "old?", "So what", "The old chairs", "Buy two"}
    assert others["Buy two"] == "comment threadedComment1!A1" and others["The old chairs"] == "drawing chart1"
    assert [left.place for left in document.left] == ["sheet1!C2:C9", "sheet1!B1", "sheet1", "sheet2"]
    written = document.translated([text.upper() for text in document.texts])
    book = openpyxl.load_workbook(BytesIO(written))
    assert book.active["B2"].comment.text == "IS IT\nOLD?\nSO WHAT"
    with ZipFile(BytesIO(written)) as archive:
        assert b">THE OLD CHAIRS<" in archive.read("xl/charts/chart1.xml")
        assert b">BUY TWO<" in archive.read("xl/threadedComments/threadedComment1.xml")
    assert not read(path, only=["text"]).left


def test_drawings_keep_fields_and_line_breaks_and_their_descriptions_are_translated(path: Path) -> None:
    paragraph = (
        "<a:p><a:r><a:rPr lang='en-US' err='1'/><a:t>My </a:t></a:r><a:fld><a:t>12</a:t></a:fld>"
        "<a:r><a:rPr lang='en-GB'/><a:t> chairs.</a:t></a:r><a:br/><a:r><a:rPr/><a:t>So what</a:t></a:r></a:p>"
    )
    drawing = f"<x xmlns:a='a'><a:cNvPr descr='A cat'/>{paragraph}<a:p><a:r><a:t>12</a:t></a:r></a:p></x>"
    with_parts(path, {"xl/drawings/drawing1.xml": drawing.encode()})
    document = read(path)
    assert document.texts[-3:] == ["A cat", "My {{1}} chairs.", "So what"] and not document.left
    with ZipFile(BytesIO(document.translated([text.upper() for text in document.texts]))) as archive:
        written = archive.read("xl/drawings/drawing1.xml").decode()
    assert 'descr="A CAT"' in written and '</a:fld><a:r><a:rPr lang="it"/><a:t> CHAIRS.</a:t></a:r><a:br/>' in written


def test_a_comment_that_mentions_a_person_is_left_and_reported(path: Path) -> None:
    mention = b"<x><threadedComment ref='A1'><text>@Ann</text><mentions/></threadedComment></x>"
    with_parts(path, {"xl/threadedComments/threadedComment1.xml": mention})
    document = read(path)
    assert [left.place for left in document.left] == ["comment threadedComment1!A1"] and "@Ann" not in document.texts


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


def test_a_text_that_cells_share_is_translated_once(path: Path) -> None:
    with_parts(path, {"xl/worksheets/sheet1.xml": SHEET, "xl/sharedStrings.xml": STRINGS})
    document = read(path)
    assert document.texts == ["good day", "<g1>red </g1>chair", "Chair A"]
    assert document.place(0) == "cell sheet1!A1"
    one, _ = cells(document.translated(["a", "b", "c"]))
    assert one == [["a", "b"], ["a", "=A1"]]


def test_a_text_that_is_written_as_the_value_of_a_cell_is_one(path: Path) -> None:
    row = "<row r='1'><c r='A1' t='str'><v>good day</v></c><c r='B1' t='str'><v/></c></row>"
    with_parts(
        path, {"xl/worksheets/sheet1.xml": f"<worksheet {MAIN}><sheetData>{row}</sheetData></worksheet>".encode()}
    )
    document = read(path)
    assert document.texts == ["good day", "Chair A"]
    assert cells(document.translated(["a", "b"]))[0] == [["a", None]]


def test_texts_that_cells_share_are_limited_in_all_their_letters(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = 100 * "<row><c t='s'><v>0</v></c></row>"
    sheet = f"<worksheet {MAIN}><sheetData>{rows}</sheetData></worksheet>"
    with_parts(path, {"xl/worksheets/sheet1.xml": sheet.encode(), "xl/sharedStrings.xml": STRINGS})
    assert len(read(path).texts) == 2
    monkeypatch.setattr("dragoman.formats.xlsx.MOST_LETTERS", 100 * len("good day"))
    with pytest.raises(DataError, match="shows 807 letters, too many"):
        read(path)


def test_a_strict_workbook_is_read_and_written(path: Path) -> None:
    strict = b"http://purl.oclc.org/ooxml/spreadsheetml/main"
    with ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist() if name.startswith("xl/")}
    with_parts(path, {name: part.replace(MAIN[7:-1].encode(), strict) for name, part in parts.items()})
    document = read(path)
    assert "Chair A" in document.texts
    with ZipFile(BytesIO(document.translated([text.upper() for text in document.texts]))) as archive:
        sheet, workbook = archive.read("xl/worksheets/sheet1.xml"), archive.read("xl/workbook.xml")
    assert b"CHAIR A" in sheet
    assert sheet.count(b"xmlns") == 1  # no part of it in another namespace
    assert b"fullCalcOnLoad" in workbook


COMPARING = {
    "a formula": '<c r=\'F1\'><f>IF(A1="Open","It\'s ""on""",\'a "b\'!A1)</f></c>',
    "a formula in other capitals": "<c r='F1'><f>COUNTIF(A1:A9,\"OPEN\")</f></c>",
    "a criterion": "<c r='F1'><f>COUNTIF(A1:A9,\"&lt;&gt;open\")</f></c>",
    "a pattern": "<c r='F1'><f>COUNTIF(A1:A9,\"op*\")</f></c>",
    "joined strings": '<c r=\'F1\'><f>IF(A1="O"&amp;"p" &amp; "en",1,2)</f></c>',
    "a string that is joined with a cell": "<c r='F1'><f>MATCH(\"Op\"&amp;B9,A1:A9)</f></c>",
    "a string that is joined with a result": '<c r=\'F1\'><f>TEXT(B9,"x")&amp;"pen"=A1</f></c>',
    "a search": "<c r='F1'><f>ISNUMBER(SEARCH(\"pen\",A1))</f></c>",
    "a list of choices": "|<dataValidation type='list' sqref='A1'><formula1>\"Shut, Open\"</formula1></dataValidation>",
    "a list of choices of Excel 2010": "|<x:formula1 xmlns:x='urn:x'><x:f>\"Open,Shut\"</x:f></x:formula1>",
    "a filter": "|<autoFilter ref='A1:A9'><filters><filter val='Open'/></filters></autoFilter>",
    "a pattern of a filter": "|<autoFilter><customFilters><customFilter val='*pe?'/></customFilters></autoFilter>",
    "a conditional format": "|<cfRule type='cellIs' operator='equal'><formula>\"Open\"</formula></cfRule>",
    "the beginning of a cell": '<c r="F1"><f>IF(LEFT(A1,2)="op",1,0)</f></c>',
    "the end of a cell": '<c r="F1"><f>SUM(--("en"=RIGHT(A1:A9,2)))</f></c>',
    "the middle of a cell": '<c r="F1"><f>MATCH("pe",MID(A1:C1,2,2),0)</f></c>',
    "a defined name": "|<definedName name='a'>IF(A1=\"open\",B1,C1)</definedName>",
    "a reference by a name": "<c r='F1'><f>SUM(INDIRECT(A1))</f></c>|<definedName name='open'>A1</definedName>",
    "a column of a table": "|<tableColumn name='Open'/>",
    "a pivot table": "|<cacheField name='Status'><sharedItems><s v='Open'/></sharedItems></cacheField>",
}


def sheet_with(comparing: str) -> bytes:
    cell, _, rest = comparing.partition("|")
    texts = "".join(
        f"<c r='{at}1' t='inlineStr'><is><t>{text}</t></is></c>"
        for at, text in (("A", "Open"), ("B", "The door is blue"), ("C", "open"))
    )
    return f"<worksheet {MAIN}><sheetData><row r='1'>{texts}{cell}</row></sheetData>{rest}</worksheet>".encode()


@pytest.mark.parametrize("comparing", COMPARING.values(), ids=COMPARING)
def test_a_text_that_the_workbook_compares_with_stays_in_every_cell(path: Path, comparing: str) -> None:
    with_parts(path, {"xl/worksheets/sheet1.xml": sheet_with(comparing)})
    document = read(path)
    assert document.texts == ["The door is blue", "Chair A"]
    assert [left.place for left in document.left] == ["cell sheet1!A1", "cell sheet1!C1"]


@pytest.mark.parametrize(
    "comparing",
    [
        "",
        '<c r=\'F1\'><f>COUNTIF(A1:A9,"*")+SEARCH(" ",A1)+A1</f></c>',
        "<c r='F1'><f>\"Open\"&amp;A9</f></c>",
        '<c r=\'F1\'><f>IF(A9=1,"Open"&amp;" now")</f></c>',
    ],
)
def test_other_formulas_keep_no_text(path: Path, comparing: str) -> None:
    with_parts(path, {"xl/worksheets/sheet1.xml": sheet_with(comparing)})
    document = read(path)
    assert document.texts == ["Open", "The door is blue", "open", "Chair A"]
    assert document.left == []


@pytest.mark.parametrize(
    ("formula", "is_noted"),
    [
        ('VLOOKUP(A1&amp;" "&amp;B1,C1:D2,2,FALSE)', True),
        ('VLOOKUP(TRIM(A1)&amp;" "&amp;B1,C1:D2,2,FALSE)', True),
        ('IF(A1&amp;" "&amp;B1=C1,1,0)', True),
        ('C1&lt;&gt;A1&amp;"-"&amp;B1', True),
        ('IF([@First]&amp;" "&amp;[@Last]=C1,1,0)', True),
        ('COUNTIF(A1:A9,C1&amp;"*")', True),
        ('IF(A1=1,"Total: "&amp;B1,A1&amp;" = "&amp;B1)', False),
        ('"Total = "&amp;A1', False),
    ],
)
def test_a_formula_that_joins_cells_to_compare_them_is_noted(path: Path, formula: str, is_noted: bool) -> None:
    with_parts(path, {"xl/worksheets/sheet1.xml": sheet_with(f"<c r='F1'><f>{formula}</f></c>")})
    assert any("join cells" in note for note in read(path).notes) == is_noted


def test_a_list_in_cells_that_are_not_translated_keeps_its_texts(path: Path) -> None:
    book = openpyxl.load_workbook(path)
    for row in (["Status", None, "choices"], ["Open", None, "Open"], ["New", None, None]):
        book["Two"].append(row)
    book.save(path)
    assert read(path, only=["Status"]).texts == ["Open", "New"][1:]
    assert [left.place for left in read(path, only=["Status"]).left] == ["cell sheet2!A9"]
    assert "Open" in read(path).texts


def test_formulas_are_computed_again_if_a_text_has_changed(path: Path) -> None:
    for settings in (b'<calcPr calcId="1"/>', b"<pivotCaches/>"):
        with ZipFile(path) as archive:
            content = archive.read("xl/workbook.xml")
        with_parts(path, {"xl/workbook.xml": content[: content.index(b"<calcPr")] + settings + b"</workbook>"})
        document = read(path)
        for change, is_computed in ((str, False), (str.upper, True)):
            with ZipFile(BytesIO(document.translated([change(text) for text in document.texts]))) as archive:
                content = archive.read("xl/workbook.xml")
            assert (b'fullCalcOnLoad="1"' in content) == is_computed
        assert content.index(b"</sheets>") < content.index(b"<calcPr")


def test_columns_of_values_for_programs_stay(path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["A list of 2026"], ["sku", "Name"], ["A-100", "Red chair"], ["B-200", "old@example.com"]):
        book.active.append(row)
    book.save(path)
    document = read(path)
    assert document.texts == ["A list of 2026", "Name", "Red chair"]
    assert "'sku' (3, such as 'B-200'), 'Name' (1" in document.notes[0]
    assert read(path, only=["sku"]).texts == ["A-100", "B-200"]


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
    with pytest.raises(DataError, match="is damaged: .*xl/media/a.png"):
        read(path)
    path.write_bytes(bytes(255 - byte if place in range(60, 70) else byte for place, byte in enumerate(content)))
    with pytest.raises(DataError, match="is damaged"):
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
    assert document.texts == ["A title", "beside", *names, "red", "chair", "old"]
    assert [left.place for left in document.left] == (
        [f"cell sheet1!{name}" for name in ("A2", "B2")] if header else []
    )


def test_an_empty_cell_of_the_kind_of_texts_is_no_damage(path: Path) -> None:
    before = list(read(path).texts)
    sheet = ZipFile(path).read("xl/worksheets/sheet1.xml")
    with_parts(path, {"xl/worksheets/sheet1.xml": sheet.replace(b"</row>", b'<c r="Z1" t="s"/></row>', 1)})
    assert list(read(path).texts) == before
