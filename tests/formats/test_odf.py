"""OpenDocument: the same paragraphs, formats, fields and formulas in other words."""

import io
import re
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import DataError
from dragoman.formats.document import Document
from dragoman.formats.reading import DocumentSettings, read_document

etree = pytest.importorskip("lxml.etree", reason="the extra documents is not installed")
URN = "urn:oasis:names:tc:opendocument:xmlns"
ROOMS = {
    name: f"{URN}:{name}:1.0" for name in "office text table style drawing presentation form manifest meta".split()
}
ROOMS |= {"svg": f"{URN}:svg-compatible:1.0", "fo": f"{URN}:xsl-fo-compatible:1.0", "draw": ROOMS.pop("drawing")}
ROOMS |= {"rsid": "http://openoffice.org/2009/office", "dc": "http://purl.org/dc/elements/1.1/"}
NAMES = " ".join(f'xmlns:{prefix}="{name}"' for prefix, name in ROOMS.items())
FORMATS = {
    "Bold": '<style:text-properties fo:font-weight="bold"/>',
    "BoldToo": '<style:text-properties fo:font-weight="bold" rsid:rsid="00ab"/>',
    "Edited": '<style:text-properties rsid:rsid="00cd" fo:language="en" fo:country="GB"/>',
    "Hidden": '<style:text-properties text:display="none"/>',
}
STYLES = "".join(f'<style:style style:name="{n}" style:family="text">{p}</style:style>' for n, p in FORMATS.items())
DEFAULTS = (
    '<office:styles><style:default-style style:family="paragraph"><style:text-properties fo:language="en" '
    'fo:country="US" style:language-asian="zh" style:country-asian="CN"/></style:default-style><style:style '
    'style:name="Code" style:family="text"><style:text-properties fo:language="zxx"/></style:style></office:styles>'
)
HEADER = "<style:master-page><style:header><text:p>A header</text:p></style:header></style:master-page>"
MIMETYPE = "application/vnd.oasis.opendocument"


def parts_of(body: str, kind: str = "text") -> dict[str, str]:
    """Return the parts of a file of this kind, with this content."""
    content = (
        f"<office:automatic-styles>{STYLES}</office:automatic-styles>"
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body>"
    )
    return {
        "mimetype": f"{MIMETYPE}.{kind}",
        "content.xml": f"<office:document-content {NAMES}>{content}</office:document-content>",
        "styles.xml": f"<office:document-styles {NAMES}>{DEFAULTS}<office:master-styles>{HEADER}"
        "</office:master-styles></office:document-styles>",
        "meta.xml": f"<office:document-meta {NAMES}><office:meta><dc:title>My title</dc:title><dc:creator>Ann Lee"
        "</dc:creator><dc:language>en-US</dc:language></office:meta></office:document-meta>",
        "Pictures/a.png": "PNG",
        "META-INF/manifest.xml": f'<manifest:manifest {NAMES}><manifest:file-entry manifest:full-path="/"/>'
        "</manifest:manifest>",
    }


def packed(parts: dict[str, str]) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, content in parts.items():
            method = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            archive.writestr(name, content, method)
    return written.getvalue()


def odt(folder: Path, body: str, kind: str = "text", **others: str) -> Path:
    path = folder / {"text": "a.odt", "spreadsheet": "a.ods", "presentation": "a.odp"}[kind]
    path.write_bytes(packed(parts_of(body, kind) | others))
    return path


def read(path: Path, *only: str) -> Document:
    return read_document(path, ("en", "it"), only=only)


def content(written: bytes, part: str = "content.xml") -> Any:
    with zipfile.ZipFile(io.BytesIO(written)) as archive:
        return etree.fromstring(archive.read(part))


def inside(written: bytes, path: str = "//text:p | //text:h") -> list[str]:
    """Return what is in the paragraphs of a written file, without the names of namespaces and of spans."""
    elements = content(written).xpath(path, namespaces=ROOMS)
    strings = (etree.tostring(element, encoding="unicode", with_tail=False) for element in elements)
    return [re.sub(r' xmlns:\w+="[^"]*"|^<[^>]*>|</[^>]*>$| text:style-name', "", string) for string in strings]


BODY = """<text:tracked-changes><text:changed-region><text:deletion><text:p>Deleted words</text:p></text:deletion>
</text:changed-region></text:tracked-changes>
<text:h>My page</text:h>
<text:p>I see <text:span text:style-name="Bold">the </text:span><text:span text:style-name="BoldToo">red</text:span>
 house<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>A note</text:p></text:note-body>
</text:note>.</text:p>
<text:p>A <text:change-start text:change-id="a"/>new<text:change-end text:change-id="a"/> word<office:annotation>
<dc:creator>Ann Lee</dc:creator><dc:date>2024-01-01</dc:date><text:p>A comment</text:p></office:annotation></text:p>
<text:list><text:list-item><text:p>An item</text:p></text:list-item></text:list>
<table:table><table:table-row><table:table-cell><text:p>A cell</text:p></table:table-cell></table:table-row>
</table:table>
<text:p><draw:frame><draw:text-box><text:p>In a box</text:p></draw:text-box><svg:title>A picture</svg:title>
<svg:desc>What it shows</svg:desc></draw:frame>12</text:p>
<text:p><text:span text:style-name="Bold">All of it is bold.</text:span></text:p>"""
TEXTS = [
    "My page", "I see <g1>the red</g1> house<g2/>.", "A note", "A <g1/>new<g2/> word", "A comment", "An item", "A cell",
    "In a box", "A picture", "What it shows", "All of it is bold.", "A header", "My title",
]  # fmt: skip
SHEET = """<table:content-validations><table:content-validation table:name="v"
 table:condition="of:cell-content-is-in-list(&quot;Open&quot;;&quot;Closed&quot;)"/></table:content-validations>
<table:table table:name="Prices"><table:table-row>{names}</table:table-row>
<table:table-row table:number-rows-repeated="3">{first}</table:table-row>
<table:table-row>{second}</table:table-row></table:table>
<table:table table:name="Copy"><table:table-source/><table:table-row>{copy}</table:table-row></table:table>"""


def cell(text: str, formula: str = "", repeated: int = 1) -> str:
    attributes = f' table:formula="{formula}" office:string-value="{text}"' if formula else ""
    times = f' table:number-columns-repeated="{repeated}"' * (repeated > 1)
    return f'<table:table-cell office:value-type="string"{attributes}{times}><text:p>{text}</text:p></table:table-cell>'


NUMBER = '<table:table-cell office:value-type="float" office:value="1.5"><text:p>1.5 litres</text:p></table:table-cell>'
FORMULA = "of:=IF([.B2]=&quot;Red wine&quot;;[.A2];&quot;none&quot;)"
CELLS = SHEET.format(
    names=cell("Name") + cell("Kind") + cell("Note"),
    first=cell("The dog") + cell("Red wine") + NUMBER + cell("Old result", FORMULA),
    second=cell("A cat", repeated=2) + cell("Open") + cell("It sleeps."),
    copy=cell("A copy"),
)


def test_every_paragraph_is_a_text_and_spans_of_one_format_are_one(tmp_path: Path) -> None:
    assert read(odt(tmp_path, BODY)).texts == TEXTS


@pytest.mark.parametrize(("kind", "body"), [("text", BODY), ("spreadsheet", CELLS)])
def test_a_document_whose_texts_stay_has_the_same_parts_in_their_order(tmp_path: Path, kind: str, body: str) -> None:
    path = odt(tmp_path, body, kind)
    document = read(path)
    with zipfile.ZipFile(path) as before, zipfile.ZipFile(io.BytesIO(document.translated(document.texts))) as after:
        assert after.namelist() == before.namelist()
        for part in before.infolist():
            assert after.read(part.filename) == before.read(part.filename)
            copy = after.getinfo(part.filename)
            assert (copy.compress_type, copy.date_time) == (part.compress_type, part.date_time)
        assert after.infolist()[0].filename == "mimetype"
    assert document.translated(document.texts) == document.translated(document.texts)


@pytest.mark.parametrize(("kind", "body"), [("text", BODY), ("spreadsheet", CELLS)])
def test_a_translated_document_has_the_same_elements_and_other_words(tmp_path: Path, kind: str, body: str) -> None:
    path = odt(tmp_path, body, kind)
    document = read(path)
    marked = [re.sub(r"[^<>{}]+(?![^<>]*>)", lambda words: words[0].upper(), text) for text in document.texts]
    written = document.translated(marked)
    before = content(path.read_bytes())
    (path.parent / path.name).write_bytes(written)
    assert [text.upper() for text in read(path).texts] == [text.upper() for text in document.texts]
    after = content(written)
    for words in ("Deleted words", "Ann Lee", "1.5 litres"):
        assert (words in "".join(before.itertext())) == (words in "".join(after.itertext()))
    kept = [element.tag for element in after.iter() if not element.tag.endswith("}span")]
    assert kept == [element.tag for element in before.iter() if not element.tag.endswith("}span")]


def test_formats_and_notes_are_where_the_tags_of_a_translation_are(tmp_path: Path) -> None:
    document = read(odt(tmp_path, BODY))
    translations = [*document.texts]
    translations[1] = "Vedo la casa<g2/> <g1>rossa</g1>."
    translations[2], translations[-3] = "Una nota", "Tutto è grassetto."
    _, _, seen, note, *_, bold = inside(document.translated(translations))
    assert re.sub("<text:note>.*</text:note>", "#", seen, flags=re.DOTALL) == (
        'Vedo la casa# <text:span="Bold">rossa</text:span>.'
    )
    assert note == "Una nota"
    assert bold == '<text:span="Bold">Tutto è grassetto.</text:span>'


@pytest.mark.parametrize(
    ("inner", "text"),
    [
        ('one <text:span text:style-name="Edited">wo</text:span>rd', "one word"),
        (
            '<text:span text:style-name="Bold">a<text:span text:style-name="Edited">b</text:span></text:span>c d',
            "<g1>ab</g1>c d",
        ),
        ('a <text:span text:style-name="Code">b</text:span> word', "a <g1>b</g1> word"),
        (
            "see <text:a>this <text:span text:style-name='Bold'>page</text:span></text:a> now",
            "see <g1>this <g2>page</g2></g1> now",
        ),
        ("a<text:bookmark text:name='x'/>b word", "ab<g1/> word"),
        ("<text:span text:style-name='Bold'>red</text:span><text:bookmark/> word", "<g1>red</g1><g2/> word"),
        (
            "<text:span text:style-name='Bold'>my <text:bookmark/>red</text:span> words of it",
            "<g1>my <g2/>red</g1> words of it",
        ),
        ("a<text:bookmark-start text:name='x'/>b word<text:bookmark-end text:name='x'/> c", "<g1/>ab word<g2/> c"),
        ("a wo<text:soft-page-break/>rd", "a word<g1/>"),
        ("on page <text:page-number>3</text:page-number> of it", "on page {{1}} of it"),
        ("by <text:user-field-get text:name='x'>Ann Lee</text:user-field-get> now", "by {{1}} now"),
        ("I see the<text:line-break/>red cat.", 'I see the<br id="1"/>red cat.'),
        ("two.  \n Words", "two. Words"),
        ("two. <text:s/>Words", "two. <g1/>Words"),
        ("two<text:s/>words", "two words"),
        (
            "an <text:ruby><text:ruby-base>old</text:ruby-base><text:ruby-text>x</text:ruby-text></text:ruby> word",
            "an {{1}} word",
        ),
        ("a <text:span text:style-name='Hidden'>secret</text:span> word", "a <g1/> word"),
        ("<text:number>1.</text:number>a word", "a word"),
        ("a word <draw:frame><draw:image/></draw:frame> b", "a word <g1/> b"),
        ("a <text:meta>new</text:meta> word<!-- c -->", "a <g1>new</g1> word"),
    ],
)
def test_what_is_between_words_is_markup_at_its_place(tmp_path: Path, inner: str, text: str) -> None:
    path = odt(tmp_path, f"<text:p>{inner}</text:p>")
    document = read(path)
    assert document.texts[0] == text
    before = inside(path.read_bytes())[0]
    written = document.translated(
        [text.replace("word", "WORD").replace("see", "SEE") + "." * ("o" not in text) for text in document.texts]
    )
    kept = re.compile(r"<(?!/?text:span|text:s/)[^>]*>")
    assert sorted(kept.findall(inside(written)[0])) == sorted(kept.findall(before))


def test_tabs_and_wide_spaces_divide_texts(tmp_path: Path) -> None:
    document = read(odt(tmp_path, '<text:p>Name<text:tab/>Date<text:s text:c="9"/>Place<text:s text:c="2"/></text:p>'))
    assert document.texts[:3] == ["Name", "Date", "Place"]
    written = document.translated([text.upper() for text in document.texts])
    assert inside(written)[0] == 'NAME<text:tab/>DATE<text:s text:c="9"/>PLACE<text:s text:c="2"/>'


@pytest.mark.parametrize("sign", ["tab", "line-break"])
def test_words_after_a_span_without_a_format_are_beside_what_is_between(tmp_path: Path, sign: str) -> None:
    document = read(odt(tmp_path, f"<text:p><text:span>A cat</text:span><text:{sign}/>hello there</text:p>"))
    written = document.translated([text.replace("hello", "HELLO") for text in document.texts])
    words = "<text:span>{}</text:span>".format
    assert inside(written)[0] == f"{words('A cat')}<text:{sign}/>{words('HELLO there')}"


def test_a_paragraph_of_very_many_formats_is_written_in_seconds(tmp_path: Path) -> None:
    spans = '<text:span text:style-name="Bold">a </text:span>b ' * 20_000
    document = read(odt(tmp_path, f"<text:p>{spans}</text:p>"))
    began = time.process_time()
    document.translated([text.replace("b", "c") for text in document.texts])
    assert time.process_time() - began < 5


def test_a_link_over_a_tab_stays_a_link(tmp_path: Path) -> None:
    document = read(odt(tmp_path, "<text:p>See <text:a>my page<text:tab/>and mine</text:a> too.</text:p>"))
    written = document.translated([text.replace("mine", "yours") for text in document.texts])
    assert inside(written)[0] == "See <text:a>my page<text:tab/>and yours</text:a> too."


def test_words_that_stay_are_reported(tmp_path: Path) -> None:
    body = (
        "<text:p>A <text:span text:style-name='Hidden'>secret</text:span> word</text:p><text:p>Dear <text:placeholder "
        "text:placeholder-type='text'>your name</text:placeholder></text:p><text:p>An <text:alphabetical-index-mark "
        "text:string-value='entry'/>entry</text:p><office:forms><form:button form:label='Send it'/></office:forms>"
    )
    chart = f"<office:document-content {NAMES}><text:p>Sales</text:p></office:document-content>"
    chart_part = "Object 1/content.xml"
    document = read(odt(tmp_path, body, **{chart_part: chart, "META-INF/documentsignatures.xml": "<a/>"}))
    places = ["1", "2", "3", "0"]  # the button is in no paragraph
    assert [left.place for left in document.left] == [f"content.xml paragraph {n}" for n in places] + [chart_part]
    assert document.left[0].reason == "it is hidden"
    assert any("signature" in note for note in document.notes)


@pytest.mark.parametrize(
    ("target", "named", "asian"), [("it", "it-none", "zh-CN"), ("pt-BR", "pt-BR", "zh-CN"), ("ja", "en-US", "ja-none")]
)
def test_styles_and_titles_name_the_target_language(tmp_path: Path, target: str, named: str, asian: str) -> None:
    document = read_document(odt(tmp_path, BODY), ("en", target))
    written = document.translated([text.upper() for text in document.texts])
    default, code = content(written, "styles.xml").iter(f"{{{ROOMS['style']}}}text-properties")
    fo, style = f"{{{ROOMS['fo']}}}", f"{{{ROOMS['style']}}}"
    assert f"{default.get(fo + 'language')}-{default.get(fo + 'country')}" == named
    assert f"{default.get(style + 'language-asian')}-{default.get(style + 'country-asian')}" == asian
    assert code.get(fo + "language") == "zxx"
    title, creator, language = content(written, "meta.xml")[0]
    assert (title.text, creator.text, language.text) == ("MY TITLE", "Ann Lee", target)


def test_notes_and_footers_of_slides_are_translated(tmp_path: Path) -> None:
    body = (
        "<presentation:footer-decl>My footer</presentation:footer-decl><draw:page><draw:frame><draw:text-box><text:p>A "
        "slide</text:p></draw:text-box></draw:frame><presentation:notes><text:p>Say it</text:p></presentation:notes>"
        "</draw:page>"
    )
    document = read(odt(tmp_path, body, "presentation"))
    assert document.texts == ["My footer", "A slide", "Say it", "A header", "My title"]
    written = document.translated([text.upper() for text in document.texts])
    assert [*content(written).itertext()] == ["MY FOOTER", "A SLIDE".upper(), "SAY IT"]


def test_cells_stay_that_something_compares_with(tmp_path: Path) -> None:
    document = read(odt(tmp_path, CELLS, "spreadsheet"))
    assert document.texts == ["Name", "Kind", "Note", "The dog", "A cat", "It sleeps.", "A header", "My title"]
    assert [left.place for left in document.left] == ["cell Prices!B2", "cell Prices!C5"]
    assert [document.place(number) for number in (3, 4, 5)] == ["cell Prices!A2", "cell Prices!A5", "cell Prices!D5"]


@pytest.mark.parametrize(
    "rule",
    [
        '<style:map style:condition="cell-content()=&quot;Good day&quot;"/>',
        '<table:filter-condition table:value="good day" table:operator="="/>',
        '<table:filter-set-item table:value="Good day"/>',
        '<table:data-pilot-member table:name="Good day"/>',
        '<table:named-expression table:name="x" table:expression="[.A1]=&quot;Good day&quot;"/>',
        '<table:condition table:value="=&quot;Good day&quot;"/>',
        cell("1", "of:=COUNTIF([.A1:.A9];&quot;Good*&quot;)"),
        cell("1", "of:=IF(LEFT([.A1];4)=&quot;Good&quot;;1;2)"),
        cell("1", "of:=['It''s'.A1]=&quot;Good &quot;&amp;[.B1]"),
        f'<table:named-range table:name="Good_day"/>{cell("1", "of:=INDIRECT([.A1])")}',
    ],
)
def test_every_rule_of_a_sheet_may_compare(tmp_path: Path, rule: str) -> None:
    body = SHEET.format(names=cell("Good day") + cell("Good night"), first=rule, second="", copy="")
    document = read(odt(tmp_path, body, "spreadsheet"))
    assert document.left[0].place == "cell Prices!A1"
    assert "Good day" not in document.texts
    assert ("Good night" in document.texts) == ("Good*" not in rule and "LEFT" not in rule and "'It" not in rule)


def test_results_of_formulas_are_computed_again_and_repetitions_stay(tmp_path: Path) -> None:
    document = read(odt(tmp_path, CELLS, "spreadsheet"))
    written = content(document.translated([text.upper() for text in document.texts]))
    formula = written.find(f".//*[@{{{ROOMS['table']}}}formula]")
    assert [*formula.itertext()] == ["Old result"]
    assert [key.rpartition("}")[2] for key in formula.keys()] == ["formula"]  # noqa: SIM118
    counts = written.xpath("//@table:number-columns-repeated | //@table:number-rows-repeated", namespaces=ROOMS)
    assert counts == ["3", "2"]
    assert "1.5 litres" in [*written.itertext()]


def test_a_translated_cell_has_no_attribute_with_the_old_text(tmp_path: Path) -> None:
    cells = "".join(
        cell(text).replace(" office", f' office:string-value="{text}" office', 1) for text in ("A cat", "12")
    )
    document = read(odt(tmp_path, SHEET.format(names=cells, first="", second="", copy=""), "spreadsheet"))
    written = content(document.translated([text.upper() for text in document.texts]))
    assert written.xpath("//@office:string-value", namespaces=ROOMS) == ["12"]
    assert written.xpath("string(//table:table-cell)", namespaces=ROOMS) == "A CAT"


def test_only_some_columns_are_translated(tmp_path: Path) -> None:
    path = odt(tmp_path, CELLS, "spreadsheet")
    assert read(path, "Name").texts == ["The dog", "A cat"]
    with pytest.raises(DataError, match="no column or key 'Nam'"):
        read(path, "Nam")
    with pytest.raises(DataError, match="is no spreadsheet"):
        read(odt(tmp_path, BODY), "Name")


def test_the_names_of_columns_have_one_or_two_letters(tmp_path: Path) -> None:
    names = (25, "cat"), (25, "dog"), (650, "bird")
    row = "".join(f'<table:table-cell table:number-columns-repeated="{n}"/>{cell(f"A {name}")}' for n, name in names)
    document = read(
        odt(
            tmp_path,
            f'<table:table table:name="S"><table:table-row>{row}</table:table-row></table:table>',
            "spreadsheet",
        )
    )
    assert [document.place(number) for number in range(3)] == ["cell S!Z1", "cell S!AZ1", "cell S!AAA1"]


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :]


def hostile() -> dict[str, bytes]:
    """Return damaged files, and those that are made to take much time or memory."""
    parts, whole = parts_of(BODY), packed(parts_of(BODY))
    paragraph = "<text:p>A word</text:p>"
    bomb = '<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>' + parts_of("<text:p>&b;</text:p>")["content.xml"]
    outside = '<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]>' + parts_of("<text:p>&a;</text:p>")["content.xml"]
    names = [*parts]
    twice = io.BytesIO(whole)
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(twice, "a") as archive:
        archive.writestr("content.xml", parts["content.xml"])
    encrypted = parts["META-INF/manifest.xml"].replace("/>", "><manifest:encryption-data/></manifest:file-entry>")
    bodies = {
        "deep lists": "<text:list><text:list-item>" * 100 + paragraph + "</text:list-item></text:list>" * 100,
        "deeper lists": "<text:list>" * 100_000,
        "deep spans": "<text:p>" + "<text:span>" * 60 + "a word" + "</text:span>" * 60 + "</text:p>",
        "deep tables": '<table:table table:name="a"><table:table-row><table:table-cell>' * 80
        + paragraph * 2_000 + "</table:table-cell></table:table-row></table:table>" * 80,
        "deep notes": "<text:p>a word<text:note>" * 100 + "</text:note></text:p>" * 100,
        "many spans": "<text:p>" + '<text:span text:style-name="Bold">a </text:span>b ' * 5_000 + "</text:p>",
        "a long text": f"<text:p>{'word ' * 50_000}</text:p>",
        "huge counts": "<text:p>a word"
        + f'<text:s text:c="{"9" * 5_000}"/>b<text:s text:c="-1"/><text:s text:c="²"/></text:p>',
        "half a link": "<text:p>a <text:a>b word<text:tab/>c</text:a><text:a>d<text:tab/></text:a> e</text:p>",
    }  # fmt: skip
    sheet = CELLS.replace('repeated="3"', f'repeated="{"9" * 5_000}"').replace('repeated="2"', 'repeated="x"')
    return {
        **{f"a part is missing: {name}": packed({key: parts[key] for key in names if key != name}) for name in names},
        **{f"truncated to {share:.0%}": whole[: int(len(whole) * share)] for share in (0.1, 0.5, 0.9, 0.99)},
        **{f"a flipped bit at {place}": flipped(whole, place) for place in range(7, len(whole), len(whole) // 25)},
        **{name: packed(parts_of(body)) for name, body in bodies.items()},
        "an empty content": packed(parts | {"content.xml": ""}),
        "no XML": packed(parts | {"content.xml": "PK"}),
        "another root": packed(parts | {"content.xml": "<a/>", "styles.xml": "<a/>", "meta.xml": "<!-- a --><a/>"}),
        "an entity bomb": packed(parts | {"content.xml": bomb}),
        "an outer entity": packed(parts | {"content.xml": outside}),
        "a zip bomb": packed(parts | {"content.xml": parts_of("<text:p/>" * 2_000_000)["content.xml"]}),
        "a zip bomb of a picture": packed(parts | {"Pictures/a.png": "\0" * 20_000_000}),
        "absolute paths": packed(parts | {"/etc/content.xml": "<text:p>a</text:p>", "../../a": "a"}),
        "two parts of a name": twice.getvalue(),
        "encrypted": packed(parts | {"META-INF/manifest.xml": encrypted}),
        "a sheet with huge counts": packed(parts_of(sheet, "spreadsheet")),
        "a style alone": packed(parts | {"styles.xml": f'<style:style {NAMES} style:family="text"/>'}),
        "a style of itself": packed(parts | {"styles.xml": parts["styles.xml"].replace("Code", "Bold")}),
    }


HOSTILE = hostile()
REFUSED = {
    **dict.fromkeys(("deeper lists", "no XML", "an empty content"), "not well-formed"),
    **dict.fromkeys(("an entity bomb", "an outer entity"), "entity"),
    **dict.fromkeys(("a zip bomb", "a zip bomb of a picture"), "more than 128 MiB of memory"),
    **dict.fromkeys((name for name in HOSTILE if name.startswith("truncated")), "damaged"),
    "deep spans": "more than 50 formats", "a long text": "200,000 characters", "encrypted": "has a password",
    "a part is missing: content.xml": "is not an OpenDocument file",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_damaged_or_hostile_file_is_translated_or_refused_in_one_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.odt"
    path.write_bytes(HOSTILE[name])
    limits, refused = DocumentSettings(memory=2**27), ""
    try:
        document = read_document(path, ("en", "it"), settings=limits)
        written = document.translated([text.upper() for text in document.texts])
        assert zipfile.ZipFile(io.BytesIO(written)).testzip() is None
    except DataError as error:
        refused = str(error)
    assert "\n" not in refused
    if "flipped" not in name:
        assert bool(refused) == (name in REFUSED)
        assert REFUSED.get(name, "") in refused
