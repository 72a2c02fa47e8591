"""Books: pages, tables of contents and titles are translated, and all other files keep their bytes."""

import re
import time
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import pytest

from dragoman.errors import DataError
from dragoman.formats.document import Document
from dragoman.formats.reading import read_document

etree: Any = pytest.importorskip("lxml.etree", reason="the extra documents is not installed")

CONTAINER = """<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>"""
PACKAGE = """<?xml version="1.0" encoding="utf-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id" xml:lang="en">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:identifier id="id">The same id</dc:identifier>
<dc:title xml:lang="en">The old
  house</dc:title><dc:title xml:lang="fr">La maison</dc:title><dc:language>en-GB</dc:language>
<dc:creator xml:lang="en">Anne Green</dc:creator><dc:description>A story of cats.</dc:description></metadata>
<manifest>
<item id="n" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>
<item id="b" href="text/b%20two.xhtml" media-type="application/xhtml+xml"/>
<item id="a" href="text/a.xhtml#top" media-type="application/xhtml+xml"/>
<item id="t" href="toc.ncx" media-type="application/x-dtbncx+xml"/>
<item id="f" href="font.otf" media-type="font/otf"/>
</manifest><spine toc="t"><itemref idref="a"/><itemref idref="b"/></spine></package>"""
NCX = """<?xml version="1.0"?>
<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/" version="2005-1" xml:lang="en">
<docTitle><text>The old house</text></docTitle><docAuthor><text>Anne Green</text></docAuthor>
<navMap><navPoint id="p1"><navLabel><text>A dog</text></navLabel><content src="text/a.xhtml"/></navPoint></navMap>
<pageList><pageTarget id="q"><navLabel><text>Page 12</text></navLabel></pageTarget></pageList>
</ncx>"""


def page(body: str, before: str = "") -> str:
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n{before}'
        '<html xmlns="http://www.w3.org/1999/xhtml" lang="en" xml:lang="en"><head><title/></head>\n'
        f"<body>{body}</body></html>"
    )


FILES: Mapping[str, str | bytes] = {
    "mimetype": "application/epub+zip",
    "META-INF/container.xml": CONTAINER,
    "OEBPS/text/b two.xhtml": page("<p>The cat sleeps.</p>"),
    "OEBPS/text/a.xhtml": page('<h1>A dog</h1>\n<p><a id="p1"/>See <a href="#n1">the note</a> now<br/>.</p>'),
    "OEBPS/book.opf": PACKAGE,
    "OEBPS/nav.xhtml": page('<nav><ol><li><a href="text/a.xhtml">A dog</a></li></ol></nav>'),
    "OEBPS/toc.ncx": NCX,
    "OEBPS/font.otf": bytes(range(256)),
}


def packed(files: Mapping[str, str | bytes]) -> bytes:
    written = BytesIO()
    with ZipFile(written, "w") as archive:
        for number, (name, content) in enumerate(files.items()):
            info = ZipInfo(name, (2001, 2, 3, 4, 5, 2 * number))
            info.compress_type = ZIP_DEFLATED if number else ZIP_STORED
            archive.writestr(info, content)
    return written.getvalue()


def book(tmp_path: Path, **files: str | bytes) -> Document:
    """Read a book; each keyword replaces the file that ends so, with "_" for the last dot."""
    changed = {
        name: next((files[key] for key in files if name.endswith(key.replace("_", "."))), content)
        for name, content in FILES.items()
    }
    (tmp_path / "a.epub").write_bytes(packed(changed | {key: files[key] for key in files if "/" in key}))
    return read_document(tmp_path / "a.epub", ("en", "it"))


def parts(content: bytes) -> dict[str, bytes]:
    with ZipFile(BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def swapped(text: str) -> str:
    """Return the pieces between tags in upper case and in reverse order, with each pair around its words."""
    pieces = [piece[0] for piece in re.finditer(r"<g(\d+)>.*?</g\1>|<[^<>]+>|[^<>]+", text)]
    return "".join(re.sub(r"[^<>]+(?![^<>]*>)", lambda words: words[0].upper(), piece) for piece in reversed(pieces))


def test_pages_are_read_in_the_order_of_the_spine_and_others_after_them(tmp_path: Path) -> None:
    document = book(tmp_path)
    assert document.texts == [
        "The old house", "A story of cats.", "A dog", "See <g1>the note</g1> now", "The cat sleeps.", "A dog",
        "The old house", "A dog", "Page 12",
    ]  # fmt: skip
    assert [document.place(number) for number in (0, 1, 3, 4, 5, 7)] == [
        "book.opf, line 4", "book.opf, line 6", "a.xhtml, line 4", "b two.xhtml, line 3", "nav.xhtml, line 3",
        "toc.ncx, line 4",
    ]  # fmt: skip
    assert document.remarks == ["1 text left (first: book.opf, line 5): it is in another language"]


def test_copied_texts_leave_the_same_files_but_for_the_language(tmp_path: Path) -> None:
    document = book(tmp_path)
    written = document.translated(document.texts)
    before, after = parts((tmp_path / "a.epub").read_bytes()), parts(written)
    assert [*before] == [*after]
    with ZipFile(tmp_path / "a.epub") as old, ZipFile(BytesIO(written)) as new:
        kinds = [[(part.compress_type, part.date_time) for part in archive.infolist()] for archive in (old, new)]
        assert kinds[0] == kinds[1]
    for name, content in before.items():
        expected = content
        if name.endswith((".xhtml", ".opf", ".ncx")):
            expected = re.sub(rb'(<html [^<>]*lang=)"en" xml:lang="en"', rb'\1"it" xml:lang="it"', content)
        if name.endswith((".opf", ".ncx")):
            expected = re.sub(rb'(<(?:package|ncx|dc:title)[^<>]* xml:lang=)"en"', rb'\1"it"', content)
            expected = expected.replace(b"en-GB", b"it")
            assert etree.tostring(etree.fromstring(after[name]), method="c14n") == etree.tostring(
                etree.fromstring(expected), method="c14n"
            )
        else:
            assert after[name] == expected, name


def test_a_translated_book_is_well_formed(tmp_path: Path) -> None:
    document = book(tmp_path)
    after = parts(document.translated([swapped(text) for text in document.texts]))
    for name in after:
        if name.endswith((".xhtml", ".opf", ".ncx")):
            etree.fromstring(after[name])
    paragraph = etree.fromstring(after["OEBPS/text/a.xhtml"]).find(".//{*}p")
    assert [child.get("id") or child.get("href") for child in paragraph] == ["p1", "#n1", None]
    assert "".join(paragraph.itertext()).split() == ["NOWTHE", "NOTESEE", "."]
    assert b"<dc:description>A STORY OF CATS.</dc:description>" in after["OEBPS/book.opf"]
    assert after["OEBPS/toc.ncx"].count(b"Anne Green") == 1


@pytest.mark.parametrize("link", ['<a href="#n">a note<a id="x"/></a>', '<a id="x"/><a href="#n">a note</a>'])
def test_an_empty_tag_has_no_other_half(tmp_path: Path, link: str) -> None:
    document = book(tmp_path, a_xhtml=page(f"<p>Read {link} and <i>more</i>.</p>"))
    number = next(number for number, text in enumerate(document.texts) if text.startswith("Read"))
    texts = [*document.texts]
    texts[number] = swapped(texts[number])
    tree = etree.fromstring(parts(document.translated(texts))["OEBPS/text/a.xhtml"])
    assert [a.get("id") or a.get("href") for a in tree.iter("{*}a")] in (["x", "#n"], ["#n", "x"])


def test_entities_of_a_doctype_and_signs_of_markup_stay_legal(tmp_path: Path) -> None:
    doctype = '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "http://www.w3.org/TR/xhtml11/DTD/xhtml11.dtd">\n'
    document = book(tmp_path, a_xhtml=page("<p>Caf&eacute;s &amp; bars</p><p>12&nbsp;&lt; 13</p>", doctype))
    assert "Cafés &amp; bars" in document.texts
    texts = [text.replace("bars", 'bars & "<pubs>"') for text in document.texts]
    content = parts(document.translated(texts))["OEBPS/text/a.xhtml"]
    assert '<p>Cafés &amp; bars &amp; "&lt;pubs&gt;"</p><p>12&nbsp;&lt; 13</p>'.encode() in content


def test_what_a_reader_of_the_book_should_know_is_noted(tmp_path: Path) -> None:
    package = (
        PACKAGE.replace("en-GB", "de")
        .replace("</metadata>", '<meta property="rendition:layout">pre-paginated</meta></metadata>')
        .replace("<manifest>", '<manifest><item id="s" href="a.smil" media-type="application/smil+xml"/>')
        .replace("toc.ncx", "lost.ncx")
    )
    document = book(tmp_path, book_opf=package, a_xhtml=page("<p>A &e; dog</p>", '<!DOCTYPE html [<!ENTITY e "big">]>'))
    assert len(document.notes) == 3
    for words in ("says that it is in German", "recorded speech", "fixed layout"):
        assert words in " ".join(document.notes)
    left = dict(document.left)
    assert left["the book lacks the file"] == "lost.ncx" and left["the file declares entities"] == "a.xhtml"
    assert b"<p>A &e; dog</p>" in parts(document.translated(document.texts))["OEBPS/text/a.xhtml"]


ENCRYPTED = """<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container"
xmlns:enc="http://www.w3.org/2001/04/xmlenc#"><enc:EncryptedData><enc:EncryptionMethod Algorithm="{}"/>
<enc:CipherData><enc:CipherReference URI="OEBPS/font.otf"/></enc:CipherData></enc:EncryptedData></encryption>"""


def test_obfuscated_fonts_stay_and_other_encryption_is_refused(tmp_path: Path) -> None:
    name = "META-INF/encryption.xml"
    document = book(tmp_path, **{name: ENCRYPTED.format("http://www.idpf.org/2008/embedding")})
    assert parts(document.translated(document.texts))["OEBPS/font.otf"] == FILES["OEBPS/font.otf"]
    with pytest.raises(DataError, match=r"a\.epub is encrypted \(DRM\)"):
        book(tmp_path, **{name: ENCRYPTED.format("http://www.w3.org/2001/04/xmlenc#aes128-cbc")})


def without(*names: str) -> bytes:
    return packed({name: content for name, content in FILES.items() if name not in names})


def with_file(name: str, content: str | bytes) -> bytes:
    return packed({**FILES, name: content})


LAUGHS = "<!DOCTYPE a [" + "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12)) + "]>"
OPF, PAGE, BOX = "OEBPS/book.opf", "OEBPS/text/a.xhtml", "META-INF/container.xml"
WHOLE = packed(FILES)


def flipped(*places: int) -> bytes:
    content = bytearray(WHOLE)
    for place in places:
        content[place] ^= 0x55
    return bytes(content)


def password() -> bytes:
    content = bytearray(WHOLE)
    for sign, place in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        for header in re.finditer(sign, WHOLE):
            content[header.start() + place] |= 1
    return bytes(content)


HOSTILE: dict[str, bytes] = {
    "empty archive": packed({}),
    "half": WHOLE[: len(WHOLE) // 2],
    "no end": WHOLE[:-20],
    "no begin": WHOLE[30:],
    "flipped in a page": flipped(WHOLE.index(b"OEBPS/text/a.xhtml") + 60),
    "flipped in the directory": flipped(WHOLE.rindex(b"PK\x01\x02") + 20),
    "password": password(),
    "no container": without(BOX),
    "no package": without(OPF),
    "no page": without(PAGE),
    "empty container": with_file(BOX, ""),
    "container without package": with_file(BOX, "<container/>"),
    "package outside": with_file(BOX, CONTAINER.replace("OEBPS/book.opf", "../../../../etc/passwd")),
    "absolute package": with_file(BOX, CONTAINER.replace("OEBPS/book.opf", "/etc/passwd")),
    "container as package": with_file(BOX, CONTAINER.replace("OEBPS/book.opf", BOX)),
    "laughs in the package": with_file(OPF, LAUGHS + PACKAGE.partition("?>")[2].replace("Anne", "&l11;")),
    "laughs in a page": with_file(PAGE, page("<p>The &l11; dog</p>", LAUGHS)),
    "file in an entity": with_file(
        "OEBPS/toc.ncx",
        '<!DOCTYPE ncx [<!ENTITY e SYSTEM "file:///etc/passwd">]>' + NCX.partition("?>")[2].replace("A dog", "&e;"),
    ),
    "deep page": with_file(PAGE, page("<div>" * 20_000 + "The dog" + "</div>" * 20_000)),
    "deep package": with_file(OPF, "<package>" * 5_000 + "</package>" * 5_000),
    "page that lists itself": with_file(OPF, PACKAGE.replace('"text/b%20two.xhtml"', '"book.opf"')),
    "cyclic spine": with_file(OPF, PACKAGE.replace("<itemref", '<itemref idref="a"/><itemref idref="zz"/><itemref')),
    "links outside": with_file(OPF, PACKAGE.replace("text/a.xhtml", "../../../../etc/passwd")),
    "binary page": with_file(PAGE, bytes(range(256)) * 20),
    "page in another encoding": with_file(PAGE, page("<p>The dog</p>").replace("utf-8", "utf-7").encode()),
    "bomb": with_file("OEBPS/big.css", b"a" * 200_000_000),
    "bomb of a page": with_file(PAGE, "<p>a" * 2_000_000),
    "many files": packed({**FILES, **{f"x{number}": b"" for number in range(5_000)}}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_book_is_a_result_or_one_clear_error(tmp_path: Path, name: str) -> None:
    path, began, message = tmp_path / "a.epub", time.process_time(), "a.epub"
    path.write_bytes(HOSTILE[name])
    try:
        document = read_document(path, ("en", "it"))
        written = document.translated([text.upper() for text in document.texts])
        assert b"root:" not in written
        assert all(document.place(number) for number in range(len(document.texts)))
    except DataError as error:
        message = str(error)
    assert "a.epub" in message and "\n" not in message
    assert time.process_time() - began < 10


def test_a_page_whose_name_lacks_the_mark_of_utf_8_is_translated(tmp_path: Path) -> None:
    files = {name.replace("b two", "chapître"): content for name, content in FILES.items()}
    content = packed({**files, OPF: PACKAGE.replace("b%20two", "chapître")})
    (tmp_path / "a.epub").write_bytes(content.replace(b"\x14\0\0\x08", b"\x14\0\0\0"))  # a version, and the mark
    document = read_document(tmp_path / "a.epub", ("en", "it"))
    after = parts(document.translated([text.upper() for text in document.texts]))
    assert b"THE CAT SLEEPS." in after["OEBPS/text/chapître.xhtml"]
    assert "the book lacks the file" not in dict(document.left)


def test_of_two_files_with_one_name_the_last_counts(tmp_path: Path) -> None:
    written = BytesIO(packed({**FILES, PAGE: page("<p>The first</p>")}))
    with ZipFile(written, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr(PAGE, FILES[PAGE])
    (tmp_path / "a.epub").write_bytes(written.getvalue())
    document = read_document(tmp_path / "a.epub", ("en", "it"))
    with ZipFile(BytesIO(document.translated(document.texts))) as archive:
        assert sorted(archive.namelist()) == sorted(FILES)
        assert b"See <a" in archive.read(PAGE)
