"""Word documents: the same paragraphs and formats in other words."""

import re
import time
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from dragoman.errors import DataError
from dragoman.formats.reading import read_document

docx = pytest.importorskip("docx", reason="the extra documents is not installed")
etree = pytest.importorskip("lxml.etree", reason="the extra documents is not installed")
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


def test_each_change_of_format_is_a_pair_of_tags(path: Path) -> None:
    document = docx.Document()
    paragraph = document.add_paragraph()
    for number, word in enumerate("One two is three four.".split()):
        run = paragraph.add_run(f"{word} ")
        run.font.size = docx.shared.Pt(12)
        run.bold = bool(number % 2)
    document.save(str(path))
    changes = ("<g1>two </g1>", "<g1>due </g1>"), ("<g2>three </g2>", "<g2>tre </g2>")
    texts, document = translated(path, *changes)
    assert texts == ["One <g1>two </g1>is <g2>three </g2>four."]
    assert runs(document.paragraphs[0])[1:4:2] == [("due ", True), ("tre ", True)]


def test_a_document_whose_texts_stay_has_the_same_content(path: Path) -> None:
    before = docx.Document(str(path)).element.xml
    assert translated(path)[1].element.xml == before


def test_a_format_goes_on_over_breaks_and_insertions_are_translated(path: Path) -> None:
    document = docx.Document(str(path))
    paragraph = document.paragraphs[1]
    paragraph.runs[1].text = "a\nB\t"
    inserted = paragraph._p.makeelement(paragraph._p.tag[:-1] + "ins")
    inserted.append(paragraph.runs[3]._r)
    paragraph._p.append(inserted)
    document.save(str(path))
    texts, document = translated(path, ("I see", "Vedo"), ("red", "rossa"), ("house", "casa"))
    assert texts[1:4] == ["I see <g1>a</g1>", "B", "<g1>red</g1><g2> house in the garden.</g2>"]
    paragraph = document.paragraphs[1]
    assert runs(paragraph) == [("Vedo ", None), ("a", True), ("\n", True), ("B", True), ("\t", True), ("rossa", True)]
    words = [text.text for text in paragraph._p.iter(paragraph._p.tag[:-1] + "t")]
    assert words == ["Vedo ", "a", "B", "rossa", " casa in the garden."]


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("I see the{}red cat.", ['I see the<br id="1"/>red cat.']),
        ("<w:b/>I see the {}red cat.", ['I see the <br id="1"/><g2>red cat.</g2>']),
        ("I see the cat.{}so what", ["I see the cat.", "so what"]),
        ("I see{}My cat", ["I see", "My cat"]),
        ("apples{}pears", ["apples", "pears"]),
        ("See:{}pears", ["See:", "pears"]),
    ],
)
@pytest.mark.parametrize("kind", ["<w:br/>", '<w:br w:type="textWrapping" w:clear="all"/>', "<w:cr/>"])
def test_a_sentence_continues_over_the_end_of_a_line(path: Path, content: str, texts: list[str], kind: str) -> None:
    document = docx.Document(str(path))
    parts = [run(part.removeprefix("<w:b/>"), part[:6] * part.startswith("<w:b/>")) for part in content.split("{}")]
    add(document, f"<w:r>{kind}</w:r>".join(parts))
    document.save(str(path))
    read = read_document(path, ("en", "it"))
    assert read.texts[-len(texts) - 1 : -1] == texts  # the header is last
    path.write_bytes(read.translated([text.replace("see the", "see my") for text in read.texts]))
    written = docx.Document(str(path)).paragraphs[-1]
    assert written.text == re.sub("<.*?>", "", content).replace("see the", "see my").replace("{}", "\n")
    assert kind[1:5] in written._p.xml


def test_the_language_of_the_text_is_that_of_its_translation(path: Path) -> None:
    document = docx.Document(str(path))
    add(document, run("My cat", '<w:lang w:val="en-GB"/>'))
    document.save(str(path))
    for target, kind in (("it", "val"), ("ja", "eastAsia"), ("ar", "bidi")):
        read = read_document(path, ("en", target))
        path.write_bytes(read.translated([f"{text} x" for text in read.texts]))
        written = docx.Document(str(path))
        languages = [*written.styles.element.iter(f"{{{W}}}lang")]
        assert {node.get(f"{{{W}}}{kind}") for node in languages} == {target}
        assert not [*written.element.iter(f"{{{W}}}lang")]


def test_descriptions_are_translated(path: Path) -> None:
    document = docx.Document(str(path))
    picture = '<wp:inline xmlns:wp="x"><wp:docPr id="1" name="Picture 1" descr="A red&#10;cat" title="12"/></wp:inline>'
    shape = '<w:pict><v:shape xmlns:v="urn:schemas-microsoft-com:vml" id="My id" alt="A dog"/></w:pict>'
    link = f'<w:hyperlink w:tooltip="See it">{run("here")}</w:hyperlink>'
    drawn = '<w:pict><x:textpath xmlns:x="urn:schemas-microsoft-com:vml" string="KEEP IT"/></w:pict>'
    add(document, f"<w:r><w:drawing>{picture}</w:drawing></w:r><w:r>{shape}</w:r>{link}<w:r>{drawn}</w:r>")
    document.save(str(path))
    read = read_document(path, ("en", "it"))
    assert read.texts[-5:] == ["A red", "cat", "A dog", "See it", "KEEP IT"]
    assert read.place(len(read.texts) - 1) == f"paragraph {len([*document.element.iter(f'{{{W}}}p')])}"
    path.write_bytes(read.translated([text.upper() if "<" not in text else text for text in read.texts]))
    xml = docx.Document(str(path)).paragraphs[-1]._p.xml
    for kept in ('descr="A RED&#10;CAT"', 'alt="A DOG"', 'w:tooltip="SEE IT"', 'name="Picture 1"', 'id="My id"'):
        assert kept in xml


@pytest.mark.parametrize(
    ("before", "raised", "text"),
    [
        ("A cat", "3", "A cat<g1/> and"),
        ("A cat.", "[4]", "A cat.<g1/> and"),
        ("25 m", "2", "25 m<g1>2</g1> and"),
        ("The 5", "th", "The 5<g1>th</g1> and"),
    ],
)
def test_a_raised_sign_for_a_note_is_no_word(path: Path, before: str, raised: str, text: str) -> None:
    document = docx.Document(str(path))
    content = run(before) + run(raised, '<w:vertAlign w:val="superscript"/>') + run(" and")
    add(document, content)
    document.save(str(path))
    read = read_document(path, ("en", "it"))
    assert read.texts[-2] == text
    path.write_bytes(read.translated([text.replace("and", "e") for text in read.texts]))
    assert docx.Document(str(path)).paragraphs[-1].text == f"{before}{raised} e"


def test_drawn_texts_are_translated_and_names_in_the_data_of_charts_are_left_and_reported(path: Path) -> None:
    document = docx.Document(str(path))
    title = "<a:p><a:r><a:rPr lang='en-US'/><a:t>Fruit </a:t></a:r><a:r><a:rPr b='1'/><a:t>sold</a:t></a:r></a:p>"
    drawn = {
        "charts/chart1": f"<c:chartSpace xmlns:c='c' xmlns:a='a'>{title}<c:v>Sales</c:v><c:v>12</c:v></c:chartSpace>",
        "diagrams/data1": f"<x xmlns:a='a'>{title}<a:p><a:r><a:t>A diagram</a:t></a:r></a:p></x>",
        "diagrams/drawing1": "<x xmlns:a='a'><a:p><a:r><a:t>A diagram</a:t></a:r></a:p></x>",
    }
    for name, content in drawn.items():
        partname = docx.opc.packuri.PackURI(f"/word/{name}.xml")
        part = docx.opc.part.Part(partname, "x/xml", content.encode(), document.part.package)
        document.part.relate_to(part, "http://x/chart")
    document.save(str(path))
    read = read_document(path, ("en", "it"))
    assert read.left == [("it is a name in the data of a chart", "/word/charts/chart1.xml")]
    assert [*zip(read.texts, map(read.place, range(99)), strict=False)][-2:] == [
        ("Fruit <g1>sold</g1>", "/word/charts/chart1.xml"),
        ("A diagram", "/word/diagrams/data1.xml"),
    ]
    before = {name: content.encode() for name, content in drawn.items()}
    assert drawn_parts(read.translated(read.texts)) == before
    after = drawn_parts(read.translated([*read.texts[:-2], "Frutta <g1>venduta</g1>", "Un diagramma"]))
    changes = (b"Fruit ", b"Frutta "), (b"sold", b"venduta"), (b"A diagram", b"Un diagramma"), (b"en-US", b"it")
    for name, content in before.items():
        for old, new in changes:
            content = content.replace(old, new)
        assert etree.canonicalize(after[name].decode()) == etree.canonicalize(content.decode())


def drawn_parts(content: bytes) -> dict[str, bytes]:
    with ZipFile(BytesIO(content)) as archive:
        drawn = (name for name in archive.namelist() if re.search("charts/|diagrams/", name))
        return {name.removeprefix("word/").removesuffix(".xml"): archive.read(name) for name in drawn}


def run(words: str, format: str = "") -> str:
    return f'<w:r><w:rPr>{format}</w:rPr><w:t xml:space="preserve">{words}</w:t></w:r>'


def field(says: str, shows: str) -> str:
    kinds = [f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "separate", "end")]
    return f"{kinds[0]}<w:r><w:instrText>{says}</w:instrText></w:r>{kinds[1]}{shows}{kinds[2]}"


def add(document: Any, content: str) -> None:
    last = document.add_paragraph()._p
    last.getparent().replace(last, docx.oxml.parse_xml(f'<w:p xmlns:w="{W}">{content}</w:p>'))


def with_paragraph(path: Path, content: str) -> tuple[str, str, list[str]]:
    """A paragraph of a document before and after each of its words is in capitals, and the texts of it."""
    document = docx.Document(str(path))
    add(document, content)
    document.save(str(path))
    before = document.paragraphs[-1]._p
    read = read_document(path, ("en", "it"))
    texts = [text for text in read.texts if "cat" in text]
    path.write_bytes(
        read.translated([re.sub(r"(?<![</g])\b[a-z]+\b", lambda word: word[0].upper(), t) for t in read.texts])
    )
    return before.xml, docx.Document(str(path)).paragraphs[-1]._p.xml, texts


SEPARATE = '<w:r><w:fldChar w:fldCharType="separate"/></w:r>'
BOX = f"<w:r><w:pict><w:txbxContent><w:p>{run('my cat sleeps here', '<w:b/>')}</w:p></w:txbxContent></w:pict></w:r>"
CONTROL = f"<w:sdt><w:sdtPr><w:id w:val='7'/></w:sdtPr><w:sdtContent>{run('the cat', '<w:b/>')}</w:sdtContent></w:sdt>"
PARAGRAPHS = {
    "a box": (f"{run('a ')}{BOX}{run('cat sleeps')}", ["a <g1/>cat sleeps", "my cat sleeps here"]),
    "a control": (f"{run('I see ')}{CONTROL}{run(' here and now')}", ["I see <g1><g2>the cat</g2></g1> here and now"]),
    "a smart tag": (
        f"{run('my ')}<w:smartTag w:element='x'><w:smartTagPr/>{run('cat')}</w:smartTag>{run(' is')}",
        ["my <g1>cat</g1> is"],
    ),
    "changes": (
        f"{run('a ')}<w:del w:id='1'><w:r><w:delText>dead</w:delText></w:r></w:del><w:ins w:id='2'>{run('cat')}</w:ins>"
        f"{run(' is')}<w:moveFrom w:id='3'>{run('GONE')}</w:moveFrom>",
        ["a <g1/><g2>cat</g2> is"],
    ),
    "a field": (f"{run('my ')}{field('LINK x', run('cat'))}{run(' is')}", ["my <g1>cat</g1> is"]),
    "fields in a field": (
        f"{run('my ')}{field('LINK x', run('cat ') + field('PAGE', run('12')))}{run(' is')}",
        ["my <g1>cat {{2}}</g1> is"],
    ),
    "a field of several paragraphs": (f"{field('TOC', run('cat')).rpartition('<w:r>')[0]}", ["cat"]),
    "a field that ends outside its link": (
        f"{run('my ')}<w:hyperlink>{field('x', run('cat') + '</w:hyperlink>')}",
        ["my <g1><g2/><g3/><g4/>cat</g1>"],
    ),
    "a field in what a field says": (
        f"{run('my ')}{field('IF', run('cat')).replace(SEPARATE, field('x', run('12')) + SEPARATE)}{run(' is')}",
        ["my <g1>cat</g1> is"],
    ),
    "a field that shows a link without words": (
        f"{run('my ')}{field('LINK x', '<w:hyperlink><w:r><w:drawing/></w:r></w:hyperlink>')}{run('cat')}",
        ["my <g1><g2><g3/></g2></g1>cat"],
    ),
    "a field without words": (
        f"{run('my ')}{field('x', '').replace(SEPARATE, '')}{run('cat')}",
        ["my <g1/>cat"],
    ),
}


@pytest.mark.parametrize("content", PARAGRAPHS)
def test_all_that_a_paragraph_holds_stays_and_what_readers_see_is_translated(path: Path, content: str) -> None:
    before, after, texts = with_paragraph(path, PARAGRAPHS[content][0])
    assert texts == PARAGRAPHS[content][1]
    words = re.compile(r'(?<=<w:t xml:space="preserve">)[^<]*')
    canonical = [etree.tostring(etree.fromstring(joined(xml)), method="c14n") for xml in (before, after)]
    assert canonical[1].decode() == words.sub(lambda some: some[0].upper(), canonical[0].decode())


@pytest.mark.parametrize(
    ("inside", "text", "kind"),
    [
        ('<w:bookmarkStart w:id="7" w:name="x"/><w:bookmarkEnd w:id="7"/>', "a <g1/>water<g2/> is", "bookmarkEnd"),
        ('<w:commentRangeStart w:id="7"/>', "a <g1/>water is", "commentRangeStart"),
        ('<w:permEnd w:id="7"/>', "a water<g1/> is", "permEnd"),
        ('<w:del w:id="7"><w:r><w:delText>x</w:delText></w:r></w:del>', "a water<g1/> is", "del"),
        (field("XE x", "").replace(SEPARATE, ""), "a water<g1/> is", "fldChar"),
        ('<w:proofErr w:type="spellStart"/>', "a water is", "p"),
        ("<w:r><w:softHyphen/></w:r>", "a water is", "p"),
        ("<w:r><w:noBreakHyphen/></w:r>", "a wa-ter is", "p"),
        ("<w:r><w:sym w:font='Symbol' w:char='F0B0'/></w:r>", "a wa<g1/>ter is", "sym"),
    ],
)
def test_what_takes_no_space_on_the_page_parts_no_word(path: Path, inside: str, text: str, kind: str) -> None:
    document = docx.Document(str(path))
    add(document, f"{run('a wa')}{inside}{run('ter is')}")
    document.save(str(path))
    before = document.paragraphs[-1]._p.xml
    read = read_document(path, ("en", "it"))
    assert next(each for each in read.texts if each.startswith("a ")) == text
    path.write_bytes(read.translated(read.texts))
    assert docx.Document(str(path)).paragraphs[-1]._p.xml == before
    path.write_bytes(read.translated([each.replace(" is", " è") for each in read.texts]))
    written = docx.Document(str(path)).paragraphs[-1]
    assert written.text == re.sub("<g./>", "", text).replace(" is", " è")
    assert kind in {str(node.tag).rpartition("}")[2] for node in written._p.iter()}


@pytest.mark.parametrize("content", ["a control", "a field"])
def test_what_a_translation_leaves_empty_stays(path: Path, content: str) -> None:
    document = docx.Document(str(path))
    add(document, PARAGRAPHS[content][0])
    document.save(str(path))
    _, document = translated(path, ("the cat", ""), ("cat", ""))
    kept = [str(node.tag).rpartition("}")[2] for node in document.paragraphs[-1]._p.iter()]
    assert [kept.count(name) for name in ("sdtPr", "sdtContent", "fldChar", "instrText")] in (
        [1, 1, 0, 0],
        [0, 0, 3, 1],
    )


def joined(xml: str) -> str:
    """A paragraph without empty formats and spaces between elements."""
    return re.sub(r">\s+<", "><", xml).replace("<w:rPr/>", "")


@pytest.mark.parametrize("kind", ["footnotes", "endnotes", "comments"])
def test_notes_are_translated(path: Path, kind: str) -> None:
    document = docx.Document(str(path))
    types = docx.opc.constants
    note = f'<w:{kind} xmlns:w="{W}"><w:x w:id="1"><w:p><w:r><w:t>A note.</w:t></w:r></w:p></w:x></w:{kind}>'
    part = docx.opc.part.Part(
        docx.opc.packuri.PackURI(f"/word/my{kind}.xml"),
        getattr(types.CONTENT_TYPE, f"WML_{kind.upper()}"),
        note.encode(),
        document.part.package,
    )
    document.part.relate_to(part, getattr(types.RELATIONSHIP_TYPE, kind.upper()))
    document.save(str(path))
    texts, _ = translated(path, ("A note", "Una nota"))
    assert texts.count("A note.") == 1
    with ZipFile(path) as archive:
        assert ">Una nota.</w:t>" in archive.read(f"word/my{kind}.xml").decode()


@pytest.mark.parametrize("content", [b"nothing", b"PK\x03\x04 nothing"])
def test_a_damaged_document_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.docx"
    path.write_bytes(content)
    with pytest.raises(DataError, match="is not a Word document"):
        read_document(path, ("en", "it"))


def test_a_document_that_the_library_cannot_save_is_refused(path: Path) -> None:
    with ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    links = "word/_rels/document.xml.rels"
    contents[links] = re.sub(rb' Type="[^"]*/theme"', b"", contents[links])
    with ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    document = read_document(path, ("en", "it"))
    with pytest.raises(DataError, match=r"a\.docx is not a Word document .*is damaged"):
        document.translated(document.texts)


def test_a_run_of_very_many_tabs_is_written_in_seconds(tmp_path: Path) -> None:
    document = docx.Document()
    document.add_paragraph("A cat\t" * 20_000)
    document.save(str(tmp_path / "a.docx"))
    read, began = read_document(tmp_path / "a.docx", ("en", "it")), time.process_time()
    read.translated([text.upper() for text in read.texts])
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.docm", "ms-word.document.macroEnabled"),
        ("a.dotx", "openxmlformats-officedocument.wordprocessingml.template"),
        ("a.dotm", "ms-word.template.macroEnabledTemplate"),
    ],
)
def test_templates_and_documents_with_macros_stay_what_they_are(path: Path, name: str, kind: str) -> None:
    ordinary, kind = "openxmlformats-officedocument.wordprocessingml.document", f"application/vnd.{kind}.main+xml"
    macros = '<Default Extension="bin" ContentType="application/vnd.ms-office.vbaProject"/></Types>'
    link = '<Relationship Id="rIdM" Type="http://schemas.microsoft.com/office/2006/relationships/vbaProject" Target='
    with ZipFile(path) as archive, ZipFile(path.with_name(name), "w") as other:
        for part in archive.namelist():
            content = archive.read(part).decode("latin-1")
            if part == "[Content_Types].xml":
                content = content.replace(f"application/vnd.{ordinary}.main+xml", kind).replace("</Types>", macros)
            if part == "word/_rels/document.xml.rels":
                content = content.replace("</Relationships>", f'{link}"vbaProject.bin"/></Relationships>')
            other.writestr(part, content.encode("latin-1"))
        other.writestr("word/vbaProject.bin", b"\0macros")
    read = read_document(path.with_name(name), ("en", "it"))
    assert read.texts[0] == "My page"
    path.write_bytes(read.translated([text.replace("My page", "Pagina") for text in read.texts]))
    with ZipFile(path) as archive:
        assert kind in archive.read("[Content_Types].xml").decode()
        assert archive.read("word/vbaProject.bin") == b"\0macros"
        assert ">Pagina</w:t>" in archive.read("word/document.xml").decode()


@pytest.mark.parametrize("part", ["_rels/.rels", "word/document.xml"])
def test_a_strict_document_is_refused(path: Path, part: str) -> None:
    with ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    contents[part] = contents[part].replace(
        b"schemas.openxmlformats.org/wordprocessingml/2006", b"purl.oclc.org/ooxml/w"
    )
    contents[part] = contents[part].replace(b"schemas.openxmlformats.org/officeDocument/2006", b"purl.oclc.org/ooxml/o")
    with ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    with pytest.raises(DataError, match=r"Strict Open XML document; save it as an ordinary Word document"):
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


MERGED = field(" MERGEFIELD First_Name ", run("«My»", "<w:b/>"))
SIMPLE = f"<w:fldSimple w:instr=' MERGEFIELD Name '>{run('«My»')}</w:fldSimple>"
CHOICE = "<w:{0}><w:listItem w:displayText='My cat' w:value='c'/></w:{0}>"
CONTROL_WITH = "<w:sdt><w:sdtPr>{0}</w:sdtPr><w:sdtContent>{1}</w:sdtContent></w:sdt>"


def says(before: str, inner: str, after: str, shows: str) -> str:
    """Return a field with another one in its instruction."""
    rest = f'<w:r><w:instrText xml:space="preserve">{after}</w:instrText></w:r>'
    return field(before, shows).replace(SEPARATE, inner + rest + SEPARATE, 1)


@pytest.mark.parametrize(
    ("content", "text", "left"),
    [
        (says(" IF ", MERGED, ' = "m" "Dear Sir" "Dear Madam" ', run("Dear")), "<g1>Dear</g1> cat", 1),
        (says(" IF ", MERGED, ' = 5 "1" "2" ', run("Dear")), "<g1>Dear</g1> cat", 0),
        (says(" = ", field("NUMPAGES", run("12")), " - 1 ", run("11")), "<g1>11</g1> cat", 0),
        (says(" IF ", SIMPLE, ' = 1 "Dear" "" ', MERGED), "a {{1}} cat", 1),
        (says(" IF ", says(" IF ", MERGED, " 1 ", run("my")), " 2 ", run("my")), "a <g1>my</g1> cat", 0),
        (field(' XE "My cat" ', "").replace(SEPARATE, ""), "a <g1/> cat", 1),
        (field(' HYPERLINK "x" \\o "My cat" ', run("my")), "a <g1>my</g1> cat", 1),
        (field(' HYPERLINK "my-house" ', run("my")), "a <g1>my</g1> cat", 0),
        (field(" SEQ Table ", run("7")), "a {{1}} cat", 0),
        (field(" PAGEREF x ", run("7")), "a {{1}} cat", 0),
        (field(" REF x ", run("My cat")), "a {{1}} cat", 0),
        (MERGED, "a {{1}} cat", 0),
        (SIMPLE, "a {{1}} cat", 0),
        (CONTROL_WITH.format(CHOICE.format("dropDownList"), run("My cat")), "a {{1}} cat", 1),
        (CONTROL_WITH.format(CHOICE.format("comboBox"), run("My cat")), "a {{1}} cat", 1),
        (field("FORMDROPDOWN", run("My cat")), "a {{1}} cat", 0),
        (
            field("FORMDROPDOWN", run("My cat")).replace(
                '"begin"/>',
                '"begin"><w:ffData><w:ddList><w:listEntry w:val="My cat"/></w:ddList></w:ffData></w:fldChar>',
            ),
            "a {{1}} cat",
            1,
        ),
    ],
)
def test_instructions_merge_fields_and_choices_stay_in_one_piece(
    path: Path, content: str, text: str, left: int
) -> None:
    document = docx.Document(str(path))
    add(document, f"{run('a ')}{content}{run(' cat')}")
    document.save(str(path))
    before = joined(document.paragraphs[-1]._p.xml)
    read = read_document(path, ("en", "it"))
    assert read.texts[-2].removeprefix("a ") == text.removeprefix("a ")
    assert len(read.left) == left
    path.write_bytes(read.translated([re.sub(r"(a) (.*) (cat)$", r"\3 \2 \1", each) for each in read.texts]))
    after = joined(docx.Document(str(path)).paragraphs[-1]._p.xml)
    assert after == before.replace(">a <", ">cat <").replace("> cat<", "> a<")


def test_a_field_whose_instruction_has_no_end_keeps_no_text(path: Path) -> None:
    document = docx.Document(str(path))
    add(
        document,
        field("IF", run("my cat")).partition("</w:instrText></w:r>")[0] + "</w:instrText></w:r>" + run("my cat"),
    )
    document.save(str(path))
    assert "my cat" in read_document(path, ("en", "it")).texts


def test_an_instruction_that_goes_over_paragraphs_stays(path: Path) -> None:
    document = docx.Document(str(path))
    first, _, second = says(" IF ", MERGED + run("x y"), ' = "m" "Dear Sir" ', run("my cat")).partition(run("x y"))
    add(document, first)
    add(document, field("LINK x", run("some words")) + second)
    document.save(str(path))
    assert not any("«" in text or "some words" in text for text in read_document(path, ("en", "it")).texts)


VANISH = "<w:vanish/>"


@pytest.mark.parametrize(
    ("format", "text"),
    [
        (VANISH, "a water<g1/> is"),
        ("<w:b/><w:vanish w:val='1'/>", "a water<g1/> is"),
        ("<w:rStyle w:val='Secret'/>", "a water<g1/> is"),
        ("<w:rStyle w:val='Based'/>", "a water<g1/> is"),
        ("<w:rStyle w:val='Based'/><w:vanish w:val='false'/>", "a wa<g1>x y</g1>ter is"),
        ("<w:webHidden/>", "a wa<g1>x y</g1>ter is"),
    ],
)
def test_hidden_words_part_no_word_and_are_reported(path: Path, format: str, text: str) -> None:
    document = docx.Document(str(path))
    for name, rest in (("Secret", f"<w:rPr>{VANISH}</w:rPr>"), ("Based", "<w:basedOn w:val='Secret'/>")):
        style = f"<w:style xmlns:w='{W}' w:type='character' w:styleId='{name}'><w:name w:val='{name}'/>{rest}</w:style>"
        document.styles.element.append(docx.oxml.parse_xml(style))
    add(document, f"{run('a wa')}{run('x y', format)}{run('ter is')}")
    document.save(str(path))
    read = read_document(path, ("en", "it"))
    assert next(each for each in read.texts if each.startswith("a ")) == text
    assert len(read.left) == ("water" in text)
    path.write_bytes(read.translated([each.upper().replace("G1", "g1") for each in read.texts]))
    written = docx.Document(str(path)).paragraphs[-1]
    assert written.text == ("A WATERx y IS" if "water" in text else "A WAX YTER IS")
    hidden = next(each for each in written.runs if "x y" in each.text.lower())
    assert hidden._r.find(f"{{{W}}}rPr") is not None and len(hidden._r.find(f"{{{W}}}rPr"))


def test_a_paragraph_that_is_hidden_as_a_whole_is_translated(path: Path) -> None:
    document = docx.Document(str(path))
    add(document, run("the cat", VANISH) + run(" is", VANISH + "<w:b/>"))
    document.save(str(path))
    read = read_document(path, ("en", "it"))
    assert read.texts[-2] == "the cat<g1> is</g1>" and read.left == []


@pytest.mark.parametrize(("styles", "is_hidden"), [(20, True), (21, False)])
def test_styles_based_on_twenty_others_at_most_hide_words(path: Path, styles: int, is_hidden: bool) -> None:
    document = docx.Document(str(path))
    for at in range(1, styles + 1):
        rest = f"<w:rPr>{VANISH}</w:rPr>" if at == styles else f"<w:basedOn w:val='S{at + 1}'/>"
        style = f"<w:style xmlns:w='{W}' w:type='character' w:styleId='S{at}'>{rest}</w:style>"
        document.styles.element.append(docx.oxml.parse_xml(style))
    add(document, run("a ") + run("x y", "<w:rStyle w:val='S1'/>"))
    document.save(str(path))
    assert bool(read_document(path, ("en", "it")).left) == is_hidden


def test_a_run_with_thousands_of_formats_is_refused(tmp_path: Path) -> None:
    document = docx.Document()
    run = document.add_paragraph().add_run("The dog sleeps.")
    for _ in range(1_001):
        run._r.get_or_add_rPr().append(run._r.makeelement(f"{{{W}}}b"))
    document.save(str(tmp_path / "a.docx"))
    with pytest.raises(DataError, match="a run has more than 1,000 formats"):
        read_document(tmp_path / "a.docx", ("en", "it"))
