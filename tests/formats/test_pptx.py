"""Presentations: what their slides show is translated, in their order, and nothing else changes."""

import random
import re
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from small_decks import A, deck_parts, packed, paragraphs, part, relations, run, slide

from dragoman.errors import DataError
from dragoman.formats.document import Document
from dragoman.formats.reading import read_document

etree = pytest.importorskip("lxml.etree", reason="the extra documents is not installed")
TAG = re.compile(r"(</?g\d+/?>|<br id=\"\d+\"/>|\{\{\d+\}\})")
Parts = dict[str, str | bytes]


def full_parts() -> Parts:
    """Return the parts of a presentation with everything that is translated, and what is left."""
    table = f"<a:tbl><a:tr><a:tc><a:txBody>{paragraphs('A cell')}</a:txBody></a:tc></a:tr></a:tbl>"
    parts: Parts = {**deck_parts(paragraphs("Second title", "12") + table, paragraphs("First title", "Again"))}
    parts["ppt/presentation.xml"] = part(
        "p:presentation",
        '<p:sldIdLst><p:sldId id="257" r:id="r2"/><p:sldId id="256" r:id="r1"/></p:sldIdLst>'
        '<p:extLst><p:sldIdLst><p:sldId id="257"/></p:sldIdLst></p:extLst>',
    )
    parts["ppt/slides/_rels/slide1.xml.rels"] = relations(
        "comments:../comments/comment1.xml", "notesSlide:../notesSlides/notes1.xml", "chart:../charts/chart1.xml",
        "diagramData:../diagrams/data1.xml", "diagramDrawing:/ppt/diagrams/drawing1.xml", "oleObject:../a.bin",
        "slideLayout:../slideLayouts/slideLayout1.xml", "comments:../comments/modern1.xml", "chart:../missing.xml",
    )  # fmt: skip
    parts["ppt/comments/comment1.xml"] = part("p:cmLst", "<p:cm><p:pos/><p:text>Is it old?\nYes.</p:text></p:cm>")
    parts["ppt/comments/modern1.xml"] = part("p:cmLst", f"<p:cm><p:txBody>{paragraphs('Is it new?')}</p:txBody></p:cm>")
    parts["ppt/notesSlides/notes1.xml"] = slide(paragraphs("Say hello", "Again"), "p:notes", "A cat&#10;on a mat")
    parts["ppt/notesSlides/_rels/notes1.xml.rels"] = relations("slide:../slides/slide1.xml")
    names = "<c:tx><c:strRef><c:strCache><c:pt><c:v>Apples</c:v></c:pt></c:strCache></c:strRef></c:tx><c:v>12</c:v>"
    parts["ppt/charts/chart1.xml"] = part("c:chartSpace", f"<c:rich>{paragraphs('Fruit sold')}</c:rich>{names}")
    parts["ppt/diagrams/data1.xml"] = part("dgm:dataModel", f"<dgm:t>{paragraphs('Buy a chair')}</dgm:t>")
    drawn = paragraphs(run("Buy ", 'sz="9"') + run("a chair", 'sz="9"'))
    parts["ppt/diagrams/drawing1.xml"] = part("dgm:drawing", f"<dgm:t>{drawn}</dgm:t>")
    parts["ppt/a.bin"] = b"<an object>"
    parts["ppt/media/cat.png"] = bytes(range(256))
    return parts


def read(path: Path, parts: Parts | dict[str, str]) -> Document:
    path.write_bytes(packed(parts))
    return read_document(path, ("en", "it"))


def parts_of(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def changed(text: str, change: Callable[[str], str] = str.upper) -> str:
    """Return a text whose words, not tags, are changed."""
    return "".join(piece if TAG.fullmatch(piece) else change(piece) for piece in TAG.split(text))


def in_capitals(document: Document) -> dict[str, bytes]:
    return parts_of(document.translated([changed(text) for text in document.texts]))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.pptx"


def test_texts_come_in_the_order_of_the_slides_with_their_places(path: Path) -> None:
    document = read(path, full_parts())
    places = [(text, document.place(number)) for number, text in enumerate(document.texts)]
    assert places == [
        ("First title", "slide 1"),
        ("Again", "slide 1"),
        ("Second title", "slide 2"),
        ("A cell", "slide 2"),
        ("Fruit sold", "slide 2"),
        ("Buy a chair", "slide 2"),
        ("Say hello", "notes of slide 2"),
        ("A cat", "notes of slide 2"),
        ("on a mat", "notes of slide 2"),
        ("Is it old?", "comment on slide 2"),
        ("Yes.", "comment on slide 2"),
        ("Is it new?", "comment on slide 2"),
    ]
    reasons = ["it is an embedded object", "it is a name in the data of a chart"]
    assert sorted(document.left, reverse=True) == [(reason, "slide 2") for reason in reasons]


def test_a_presentation_whose_texts_stay_has_the_same_parts_to_the_byte(path: Path) -> None:
    document = read(path, full_parts())
    written = document.translated(document.texts)
    assert parts_of(written) == parts_of(path.read_bytes())
    with zipfile.ZipFile(path) as before, zipfile.ZipFile(BytesIO(written)) as after:
        for old, new in zip(before.infolist(), after.infolist(), strict=True):
            assert (old.filename, old.date_time, old.compress_type) == (new.filename, new.date_time, new.compress_type)


def test_only_parts_with_texts_change_and_hold_the_translations_where_the_texts_were(path: Path) -> None:
    before = full_parts()
    document = read(path, before)
    after = in_capitals(document)
    assert [*after] == [*before]
    kinds = {name.split("/")[1] for name, old in parts_of(path.read_bytes()).items() if old != after[name]}
    assert kinds == {"slides", "charts", "comments", "diagrams", "notesSlides"}
    path.write_bytes(document.translated([changed(text) for text in document.texts]))
    again = read_document(path, ("en", "it"))
    assert again.texts == [text.upper() for text in document.texts] and again.left == document.left
    assert [*map(again.place, range(12))] == [*map(document.place, range(12))]
    assert b">Apples<" in after["ppt/charts/chart1.xml"]
    for name in ("data1", "drawing1"):
        words = etree.fromstring(after[f"ppt/diagrams/{name}.xml"]).iter(f"{{{A}}}t")
        assert "".join(word.text for word in words) == "BUY A CHAIR"


FIELD = '<a:fld type="slidenum"><a:rPr lang="en-US"/><a:t>3</a:t></a:fld>'
LINK = run("our page", '><a:hlinkClick r:id="r7"/>')
FORMULA = "<a14:m><a14:t>x</a14:t></a14:m>"


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (run("See the ") + run("red", 'b="1"') + run(" cat."), ["See the <g1>red</g1> cat."]),
        (run("See ") + LINK + run(" in there."), ["See <g1>our page</g1> in there."]),
        (run("Page ") + FIELD + run(" of 30"), ["Page {{1}} of 30"]),
        (FIELD + run(" – Page"), ["{{1}} – Page"]),
        (run("Learning with") + "<a:br><a:rPr/></a:br>" + run("machines"), ['Learning with<br id="1"/>machines']),
        (run("A cat.") + "<a:br/>" + run("A dog."), ["A cat.", "A dog."]),
        (run("Price\tOld chair\n and table"), ["Price", 'Old chair<br id="1"/>and table']),
        (run("Let ") + FORMULA + run(" be even."), ["Let <g1/> be even."]),
        (run("Wel", 'err="1"') + run("come, ", 'dirty="0"') + run("all", 'spc="-5" baseline="0"'), ["Welcome, all"]),
        (run("I see ") + run("a ", 'b="1" err="1"') + run("cat", 'b="1"'), ["I see <g1>a cat</g1>"]),
        (run("Sales rose") + run("1", 'baseline="30000"') + run(" in May."), ["Sales rose<g1/> in May."]),
        (run("The 1") + run("st", 'baseline="30000"') + run(" day"), ["The 1<g1>st</g1> day"]),
        ("<a:r><a:t>No </a:t></a:r>" + run("format"), ["No format"]),
        ("<a:r/>" + run("One") + "<!-- no -->" + run(" run"), ["One run"]),
        (run("12") + FIELD, []),
    ],
)  # fmt: skip
def test_markup_is_kept_at_its_words(path: Path, content: str, texts: list[str]) -> None:
    parts = deck_parts(paragraphs(content))
    document = read(path, parts)
    assert document.texts == texts
    before, after = parts["ppt/slides/slide1.xml"], in_capitals(document)["ppt/slides/slide1.xml"]
    assert shown(after) == [(shows.upper() if format is not None else shows, format) for shows, format in shown(before)]


def shown(slide: str | bytes) -> list[tuple[str, str | None]]:
    """Return the letters of a slide, each with its format, and what else its paragraphs hold, with None."""
    pieces = list[tuple[str, str | None]]()
    for child in etree.fromstring(slide.encode() if isinstance(slide, str) else slide).iterfind(f".//{{{A}}}p/*"):
        words, format = child.findtext(f"{{{A}}}t") or "", child.find(f"{{{A}}}rPr")
        if child.tag == f"{{{A}}}r":
            says = ["0"] if format is None else [format.get("b", ""), format.get("baseline", "0"), "link" * len(format)]
            says = "".join(says)
            pieces += [(letter, says) for letter in words if not letter.isspace() or letter in "\t\n"]
        else:
            pieces.append((etree.tostring(child, with_tail=False).decode(), None))
    return pieces


def test_runs_and_links_of_translated_words_name_their_language_and_no_spelling_mistake(path: Path) -> None:
    link = run("page", 'err="1"><a:hlinkClick r:id="r7" tooltip="See it"/>')
    document = read(path, deck_parts(paragraphs(run("One ") + link, "12")))
    assert document.texts == ["One <g1>page</g1>", "See it"]
    written = in_capitals(document)["ppt/slides/slide1.xml"].decode()
    assert re.findall('rPr lang="(.*?)"', written) == ["it", "it", "en-US"]
    assert "err" not in written and 'tooltip="SEE IT"' in written and written.count("r7") == 1


def test_words_move_with_their_tags(path: Path) -> None:
    document = read(path, deck_parts(paragraphs(run("I see the ") + run("red", 'b="1"') + run(" cat ") + FIELD)))
    assert document.texts == ["I see the <g1>red</g1> cat {{2}}"]
    for translation, words in (("{{2}} Vedo <g1>rossa</g1>", "3 Vedo rossa"), ("Vedo", "Vedo3")):
        root = etree.fromstring(parts_of(document.translated([translation]))["ppt/slides/slide1.xml"])
        assert "".join(text.text for text in root.iter(f"{{{A}}}t")) == words
        bold = root.findall(f".//{{{A}}}rPr[@b]/../{{{A}}}t")
        assert [text.text for text in bold] == (["rossa"] if "rossa" in words else ["Vedo"])


def test_a_strict_presentation_is_read_and_written(path: Path) -> None:
    kinds = ("drawingml/2006", "presentationml/2006", "officeDocument/2006")
    strict: Parts = {}
    for name, content in full_parts().items():
        if isinstance(content, str):
            for kind in kinds:
                content = content.replace(f"http://schemas.openxmlformats.org/{kind}/", f"http://purl.oclc.org/{kind}/")
        strict[name] = content
    texts = read(path, full_parts()).texts
    document = read(path, strict)
    assert document.texts == texts
    assert b"FIRST TITLE" in in_capitals(document)["ppt/slides/slide2.xml"]


@pytest.mark.parametrize("suffix", [".pptm", ".potx", ".potm", ".ppsx", ".ppsm"])
def test_templates_shows_and_macros_are_presentations(tmp_path: Path, suffix: str) -> None:
    assert read(tmp_path / f"a{suffix}", full_parts()).texts[0] == "First title"


def test_a_presentation_without_slides_is_a_copy(path: Path) -> None:
    document = read(path, deck_parts())
    assert not document.texts and "no text was found" in document.remarks[0]


MAIN, FIRST = "ppt/presentation.xml", "ppt/slides/slide1.xml"
LISTED, RELATED = "ppt/_rels/presentation.xml.rels", "ppt/slides/_rels/slide1.xml.rels"
BOMB = "<!ENTITY b0 'lol'>" + "".join(f"<!ENTITY b{n} '{9 * ('&b' + str(n - 1) + ';')}'>" for n in range(1, 9))
CYCLE = {"ppt/a.xml": "<a/>", "ppt/_rels/a.xml.rels": relations("chart:a.xml")}
FILE = "<!ENTITY b8 SYSTEM '/etc/passwd'>"
NO_IDENTIFIER = {MAIN: part("p:presentation", '<p:sldIdLst><p:sldId r:id="r1"/><p:sldId id="9"/></p:sldIdLst>')}
HOSTILE: dict[str, dict[str, str | bytes | None]] = {
    "no main part": {"_rels/.rels": None},
    "no presentation": {MAIN: None},
    "no relationships": {LISTED: None},
    "no slide": {FIRST: None},
    "a slide without identifier": {**NO_IDENTIFIER},
    "a Word document": {MAIN: "<document/>"},
    "a broken slide": {FIRST: "<p:sld"},
    "no XML": {FIRST: b"\x00\xff<"},
    "an empty slide": {FIRST: b""},
    "entities": {FIRST: f"<!DOCTYPE a [{BOMB}]><a><p>&b8;</p></a>"},
    "entities in an attribute": {FIRST: f"<!DOCTYPE a [{BOMB}]><a><cNvPr descr='&b8;'/></a>"},
    "an entity of a file": {FIRST: f"<!DOCTYPE a [{FILE}]><a><p>&b8;</p></a>"},
    "deep elements": {FIRST: "<a>" * 100_000},
    "very many formats of a run": {FIRST: slide(paragraphs(run("a cat", ">" + "<a:b/>" * 1_001)))},
    "a slide in itself": {RELATED: relations("chart:slide1.xml", "notesSlide:slide2.xml")},
    "a cycle": {RELATED: relations("chart:../a.xml"), **CYCLE},
    "paths out of the archive": {RELATED: relations("chart:../../../../etc/passwd", "chart:/")},
    "an absolute path": {"/etc/passwd": "x", RELATED: relations("chart:/etc/passwd")},
    "a relationship without target": {RELATED: "<a><Relationship/></a>"},
    "comments that are no XML": {RELATED: relations("comments:../media/cat.png")},
    "names that differ in case": {FIRST.upper(): "<a/>"},
    "nested paragraphs": {FIRST: slide("<a:p>" * 90 + run("a cat") + "</a:p>" * 90)},
    "a paragraph alone": {FIRST: part("a:p", run("a cat"))},
    "runs without words": {FIRST: slide("<a:p><a:r/><a:r><a:t/></a:r><a:fld/></a:p><p:text/>")},
    "runs with two texts": {"ppt/comments/comment1.xml": "<a><text><r><t>One</t><t>Two</t></r></text></a>"},
    "instructions and comments": {FIRST: slide(f"<?a b?><a:p><!--a--><?b c?>{run('a')}</a:p>")},
    "one slide twice": {LISTED: relations("slide:slides/slide1.xml", "slide:slides/slide1.xml")},
}  # fmt: skip


@pytest.mark.parametrize("changes", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_presentation_is_translated_or_refused_by_one_line(
    path: Path, changes: dict[str, str | bytes | None]
) -> None:
    parts = full_parts() | changes
    translated_or_refused(path, packed({name: content for name, content in parts.items() if content is not None}))


def translated_or_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    try:
        document = read_document(path, ("en", "it"))
    except DataError as refusal:
        message = str(refusal)
    else:
        assert {*in_capitals(document)} == {*parts_of(content)}
        return
    assert (str(path) in message or "damaged" in message) and "\n" not in message and len(message) < 400


def test_a_presentation_of_any_length_with_any_bit_flipped_is_translated_or_refused(path: Path) -> None:
    content, chosen = packed(full_parts()), random.Random(1)
    for _ in range(100):
        translated_or_refused(path, content[: chosen.randrange(len(content))])
        flipped = bytearray(content)
        flipped[chosen.randrange(len(content))] ^= 1 << chosen.randrange(8)
        translated_or_refused(path, bytes(flipped))


def test_a_presentation_with_a_password_or_of_another_kind_is_refused(path: Path) -> None:
    encrypted = bytearray(packed(full_parts()))
    for sign, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        for match in re.finditer(sign, encrypted):
            encrypted[match.start() + at] |= 1
    for content, message in (
        (bytes(encrypted), "is encrypted"),
        (b"\xd0\xcf\x11\xe0" + b"a" * 99, "has a password, or the format of old Office; save it as .pptx"),
        (packed({"a.txt": "a"}), "is not a presentation"),
        (packed({**full_parts(), MAIN: "<document/>"}), "is not a presentation .*list of slides"),
        (packed({**full_parts(), **NO_IDENTIFIER}), "is damaged: slide 2 of its list is not in the file"),
        (b"a text", "is not a presentation"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=message):
            read_document(path, ("en", "it"))


def test_of_two_parts_with_one_name_the_last_is_read_and_written(path: Path) -> None:
    path.write_bytes(packed(full_parts()))
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr(FIRST, slide(paragraphs("Third title")))
    document = read_document(path, ("en", "it"))
    assert "Third title" in document.texts and "Second title" not in document.texts
    with zipfile.ZipFile(BytesIO(document.translated(document.texts))) as archive:
        assert archive.namelist().count(FIRST) == 1 and b"Third title" in archive.read(FIRST)


def test_a_broken_part_is_named_with_its_line(path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.pptx/ppt/slides/slide1\.xml:2 is not well-formed"):
        read(path, {**full_parts(), FIRST: "<a>\n<b></a>"})
