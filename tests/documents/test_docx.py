"""Word documents: the same paragraphs and formats in other words."""

from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from dragoman.documents.reading import read_document
from dragoman.errors import DataError

docx = pytest.importorskip("docx", reason="the extra documents is not installed")
W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    document = docx.Document()
    document.add_heading("My page", 1)
    paragraph = document.add_paragraph("I see ")
    paragraph.add_run("the ").bold = True
    paragraph.add_run("red").bold = True
    paragraph.add_run(" house in the garden.")
    document.add_paragraph().add_run("All of it is bold.").bold = True
    document.add_paragraph("12")
    document.add_paragraph("One\ttwo\nthree")
    document.add_table(1, 2).cell(0, 1).text = "A cell"
    document.sections[0].header.paragraphs[0].text = "A header"
    path = tmp_path / "a.docx"
    document.save(str(path))
    return path


def translated(path: Path, *changes: tuple[str, str]) -> tuple[list[str], Any]:
    document = read_document(path, ("en", "it"))
    translations = [*document.texts]
    for old, new in changes:
        translations = [text.replace(old, new) for text in translations]
    path.write_bytes(document.translated(translations))
    return [*document.texts], docx.Document(str(path))


def runs(paragraph: Any) -> list[tuple[str, bool | None]]:
    return [(run.text, run.bold) for run in paragraph.runs]


def test_every_paragraph_is_a_text_and_runs_of_one_format_are_one(path: Path) -> None:
    texts, _ = translated(path)
    assert texts == [
        "My page",
        "I see <g1>the red</g1> house in the garden.",
        "All of it is bold.",
        "One",
        "two",
        "three",
        "A cell",
        "A header",
    ]


def test_formats_stand_where_the_tags_of_a_translation_do(path: Path) -> None:
    changes = ("<g1>the red</g1> house", "la casa <g1>rossa</g1>"), ("All of it", "Tutto"), ("A cell", "Cella")
    _, document = translated(path, *changes, ("A header", "Testata"), ("three", "tre"))
    heading, seen, bold, number, lines = document.paragraphs
    assert heading.style.name == "Heading 1"
    assert runs(seen) == [("I see la casa ", None), ("rossa", True), (" in the garden.", None)]
    assert runs(bold) == [("Tutto is bold.", True)]
    assert (number.text, lines.text) == ("12", "One\ttwo\ntre")
    assert document.tables[0].cell(0, 1).text == "Cella"
    assert document.sections[0].header.paragraphs[0].text == "Testata"


def test_a_document_whose_texts_stay_has_the_same_content(path: Path) -> None:
    before = docx.Document(str(path)).element.xml
    assert translated(path)[1].element.xml == before


def test_a_format_goes_on_over_breaks_and_insertions_are_translated(path: Path) -> None:
    document = docx.Document(str(path))
    paragraph = document.paragraphs[1]
    paragraph.runs[1].text = "a\nb\t"
    inserted = paragraph._p.makeelement(paragraph._p.tag[:-1] + "ins")
    inserted.append(paragraph.runs[3]._r)
    paragraph._p.append(inserted)
    document.save(str(path))
    texts, document = translated(path, ("I see", "Vedo"), ("red", "rossa"), ("house", "casa"))
    assert texts[1:4] == ["I see <g1>a</g1>", "b", "<g1>red</g1><g2> house in the garden.</g2>"]
    paragraph = document.paragraphs[1]
    assert runs(paragraph) == [("Vedo ", None), ("a", True), ("\n", True), ("b", True), ("\t", True), ("rossa", True)]
    words = [text.text for text in paragraph._p.iter(paragraph._p.tag[:-1] + "t")]
    assert words == ["Vedo ", "a", "b", "rossa", " casa in the garden."]


@pytest.mark.parametrize("content", [b"nothing", b"PK\x03\x04 nothing"])
def test_a_damaged_document_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.docx"
    path.write_bytes(content)
    with pytest.raises(DataError, match="is not a Word document"):
        read_document(path, ("en", "it"))


@pytest.mark.parametrize(("limit", "value"), [("LARGEST_UNPACKED", 10_000), ("MOST_PACKED", 1)])
def test_a_document_that_unpacks_to_too_much_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(f"dragoman.documents.docx.{limit}", value)
    with pytest.raises(DataError, match="too much for one document"):
        read_document(path, ("en", "it"))


def test_notes_and_text_boxes_are_translated_once(tmp_path: Path) -> None:
    from docx.opc.constants import RELATIONSHIP_TYPE
    from docx.opc.packuri import PackURI
    from docx.opc.part import Part
    from docx.oxml import parse_xml

    path = tmp_path / "notes.docx"
    document = docx.Document()
    paragraph = document.add_paragraph("A house")
    paragraph.add_run(" by the ")
    paragraph.add_run("sea").bold = True
    box = (
        f'<w:r xmlns:w="{W}" xmlns:v="urn:schemas-microsoft-com:vml"><w:pict><v:textbox><w:txbxContent>'
        "<w:p><w:r><w:t>In a box</w:t></w:r></w:p></w:txbxContent></v:textbox></w:pict></w:r>"
    )
    paragraph._p.append(parse_xml(box))
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml"
    note = '<w:footnote w:id="1"><w:p><w:r><w:t>A note</w:t></w:r></w:p></w:footnote>'
    notes = f'<w:footnotes xmlns:w="{W}">{note}</w:footnotes>'
    part = Part(PackURI("/word/footnotes.xml"), kind, notes.encode(), document.part.package)
    document.part.relate_to(part, RELATIONSHIP_TYPE.FOOTNOTES)
    document.save(path)
    read = read_document(path, ("en", "it"))
    assert read.texts == ["A house by the <g1>sea</g1>", "In a box", "A note"]
    path.write_bytes(read.translated(["Una <g1>casa</g1> al mare", "In una scatola", "Una nota"]))
    again = read_document(path, ("en", "it"))
    assert again.texts == ["Una <g1>casa</g1> al mare", "In una scatola", "Una nota"]
    with ZipFile(path) as archive:
        assert archive.read("word/document.xml").decode().count("In una scatola") == 1
