"""Memory that a document takes to read and write, in the worst case.

    python benchmarks/documents.py [--formats docx xlsx ...] [--out FILE]

Each case is a hostile file of one format: as many of the smallest pieces as fit into its size, unpacked. A process of
its own reads it and writes it with every text in capitals. Bytes per byte is the growth of the peak memory from the
smaller to the larger file, over the growth of the file. Bytes per sign is the rest of the growth after `BYTES_A_BYTE`
for each byte, over the signs that the format counts: at most its `bytes_a_sign`.
"""

import argparse
import io
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from command_line import markdown, new_parser, write_figures

from dragoman.errors import DataError
from dragoman.formats.reading import BYTES_A_BYTE, DocumentSettings, read_document
from dragoman.formats.registry import DOCUMENT_FORMATS
from dragoman.memory import peak_memory_bytes
from dragoman.system import describe

MEGABYTES = 0.5, 2
"""The sizes of the two files of a case."""
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OPEN = "urn:oasis:names:tc:opendocument:xmlns"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
RUNS = 99 * "<a:r><a:t>a</a:t></a:r><a:r><a:rPr b=''/><a:t>b</a:t></a:r>"
XLIFF = '<xliff version="1.2"><file source-language="en" target-language="it"><body>', "</body></file></xliff>"
UNIT = f'{XLIFF[0]}<trans-unit id="1"><source>', f"</source></trans-unit>{XLIFF[1]}"
RESOURCES = "<resources>", "</resources>"
CATALOGUE = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
CUE = "1\n00:00:01,000 --> 00:00:02,000\n"


class Case(NamedTuple):
    """A hostile file: a piece that is repeated, and the text before and after all of its copies."""

    format: str
    name: str
    piece: str
    before: str = ""
    after: str = ""


CASES = [
    Case("text", "lines of one letter", "a\n\n"),
    Case("text", "one paragraph", "word "),
    Case("html", "paragraphs of one letter", "<p>a"),
    Case("html", "inline tags", "<b>a</b> ", "<p>"),
    Case("html", "attributes", "<img alt=a>"),
    Case("html", "entities", "&amp;", "<p>a"),
    Case("html", "open comments", "<!--", "<p>a</p>"),
    Case("markdown", "paragraphs of one letter", "a\n\n"),
    Case("markdown", "underscores", "_a "),
    Case("markdown", "brackets", "["),
    Case("markdown", "images", "![a](b)"),
    Case("markdown", "cells", "a|", "a|b\n-|-\n"),
    Case("subtitles", "cues of one letter", f"{CUE}a\n\n"),
    Case("subtitles", "one cue", "word ", CUE),
    Case("subtitles", "tags in one cue", "<i>a</i>", CUE),
    Case("catalogue", "entries", 'msgid "a{}"\nmsgstr ""\n\n', CATALOGUE),
    Case("json", "values of one letter", '"a",', "[", '"a"]'),
    Case("json", "keys", '"a":"b",', "{", '"a":"b"}'),
    Case("xliff", "units", '<trans-unit id="1"><source>a</source></trans-unit>', *XLIFF),
    Case("xliff", "tags", "<g>a</g>", *UNIT),
    Case("json", "messages with branches", '"{n,plural,one{a}other{b}}",', "[", '"a"]'),
    Case("properties", "values of one letter", "a=b\n"),
    Case("strings", "values of one letter", '"a"="b";'),
    Case("yaml", "values of one letter", "b,", "a: [", "b]"),
    Case("app-xml", "strings of one letter", "<string>a</string>", *RESOURCES),
    Case("app-xml", "tags in one string", "<b>a</b>", f"{RESOURCES[0]}<string>", f"</string>{RESOURCES[1]}"),
    Case("app-xml", "escapes in one string", "\\n", f"{RESOURCES[0]}<string>", f"a</string>{RESOURCES[1]}"),
    Case("app-xml", "lines in one string", "a\\n", f"{RESOURCES[0]}<string>", f"</string>{RESOURCES[1]}"),
    Case("app-xml", "attributes", 'a{}="" ', "<resources><string ", f"/>{RESOURCES[1]}"),
    Case("app-xml", "plural forms", '<plurals><item quantity="other">a</item></plurals>', *RESOURCES),
    Case("app-xml", "messages", "<message><source>a</source></message>", "<TS><context>", "</context></TS>"),
    Case("csv", "cells of one letter", "a,", "a,b\n"),
    Case("csv", "rows of one letter", "a,b\n"),
    Case("docx", "empty paragraphs", "<w:p/>"),
    Case("docx", "paragraphs of one letter", "<w:p><w:r><w:t>a</w:t></w:r></w:p>"),
    Case("docx", "runs of one letter", "<w:r><w:rPr><w:b/></w:rPr><w:t>a</w:t></w:r>", "<w:p>", "</w:p>"),
    Case("pptx", "empty paragraphs", "<a:p/>"),
    Case("pptx", "paragraphs of one letter", "<a:p><a:r><a:t>a{}</a:t></a:r></a:p>"),
    Case("pptx", "runs of one letter", f"<a:p>{RUNS}</a:p>"),
    Case("pptx", "fields and line breaks", f"<a:p>{99 * '<a:r><a:t>a</a:t></a:r><a:fld/><a:br/>'}</a:p>"),
    Case("pptx", "tabs", "<a:p><a:r><a:t>" + 999 * "a\t" + "</a:t></a:r></a:p>"),
    Case("xlsx", "cells of one shared text", '<c r="A1" t="s"><v>0</v></c>', "<row>", "</row>"),
    Case("xlsx", "cells with a text each", '<c r="A1" t="inlineStr"><is><t>a</t></is></c>', "<row>", "</row>"),
    Case("xlsx", "empty rows", "<row/>"),
    Case("odf", "empty paragraphs", "<text:p/>"),
    Case("odf", "paragraphs of one letter", "<text:p>a</text:p>"),
    Case("odf", "spans of one letter", '<text:span text:style-name="B">a</text:span>b', "<text:p>", "</text:p>"),
    Case("odf", "bookmarks", "<text:bookmark/>", "<text:p>a", "</text:p>"),
    Case("odf", "cells", "<t:table-cell><text:p>a</text:p></t:table-cell>", "<t:table><t:table-row>"),
    Case("epub", "paragraphs of one letter", "<p>a</p>"),
    Case("epub", "inline tags", "<b>a</b> ", "<p>", "</p>"),
]  # fmt: skip
SUFFIXES = {"text": ".txt"}


def content(case: Case, megabytes: float) -> bytes:
    """Return the file of a case that unpacks to this size."""
    count = int(megabytes * 1e6 / len(case.piece))
    body = case.piece.replace("{}", "x" * 8) * count
    text = case.before + body + case.after
    if case.format == "docx":
        return word_document(text)
    if case.format == "pptx":
        return presentation(text)
    if case.format == "xlsx":
        return workbook(text)
    if case.format == "odf":
        is_sheet = case.name == "cells"
        return open_document(text + "</t:table-row></t:table>" * is_sheet, "spreadsheet" if is_sheet else "text")
    if case.format == "epub":
        return book(text)
    return text.encode()


def word_document(body: str) -> bytes:
    """Return a Word document with this body."""
    import docx

    empty = io.BytesIO()
    docx.Document().save(empty)
    return repacked(empty, {
        "word/document.xml": f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>',
    })  # fmt: skip


def presentation(paragraphs: str) -> bytes:
    """Return a presentation of one slide with these paragraphs."""
    empty, relationship = io.BytesIO(), '<Relationship Id="r1" Type="x/{}" Target="{}"/>'
    zipfile.ZipFile(empty, "w").close()
    return repacked(empty, {
        "_rels/.rels": f"<x>{relationship.format('officeDocument', 'ppt/presentation.xml')}</x>",
        "ppt/_rels/presentation.xml.rels": f"<x>{relationship.format('slide', 'slide1.xml')}</x>",
        "ppt/presentation.xml": '<p:presentation xmlns:p="p"><p:sldIdLst><p:sldId r:id="r1" xmlns:r="r"/></p:sldIdLst>'
        "</p:presentation>",
        "ppt/slide1.xml": f'<p:sld xmlns:p="p" xmlns:a="{DRAWING}">{paragraphs}</p:sld>',
    })  # fmt: skip


def workbook(rows: str) -> bytes:
    """Return an Excel workbook with these rows."""
    import openpyxl

    empty = io.BytesIO()
    openpyxl.Workbook().save(empty)
    return repacked(empty, {
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{SHEET}"><sheetData>{rows}</sheetData></worksheet>',
        "xl/sharedStrings.xml": f'<sst xmlns="{SHEET}"><si><t>a text that is shared</t></si></sst>',
    })  # fmt: skip


def open_document(body: str, kind: str) -> bytes:
    """Return an OpenDocument file of this kind with this body."""
    names = " ".join(f'xmlns:{name}="{OPEN}:{name}:1.0"' for name in ("office", "text"))
    with zipfile.ZipFile(empty := io.BytesIO(), "w"):
        pass
    return repacked(empty, {
        "content.xml": f'<office:document-content {names} xmlns:t="{OPEN}:table:1.0"><office:body><office:{kind}>{body}'
        f"</office:{kind}></office:body></office:document-content>",
    })  # fmt: skip


def book(body: str) -> bytes:
    """Return a book with one page."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        archive.writestr("META-INF/container.xml", '<c><rootfiles><rootfile full-path="a.opf"/></rootfiles></c>')
        item = '<item id="a" href="a.xhtml" media-type="application/xhtml+xml"/>'
        archive.writestr("a.opf", f'<p><manifest>{item}</manifest><spine><itemref idref="a"/></spine></p>')
        archive.writestr("a.xhtml", f'<html xmlns="http://www.w3.org/1999/xhtml"><body>{body}</body></html>')
    return written.getvalue()


def repacked(archive: io.BytesIO, texts: dict[str, str]) -> bytes:
    """Return an archive with other texts as some of its files."""
    written = io.BytesIO()
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as new:
        contents = {part: old.read(part) for part in old.namelist()} | texts
        for part, content in contents.items():
            new.writestr(part, content)
    return written.getvalue()


def measure(path: Path, document_format: str) -> None:
    """Read and write one file, and print the peak memory in bytes."""
    try:
        limits = DocumentSettings(memory=2**36, texts=10**10)
        document = read_document(path, ("en", "it"), document_format, settings=limits)
        document.translated([text.upper() for text in document.texts])
        refused = ""
    except DataError as error:
        refused = str(error)
    print(json.dumps({"bytes": peak_memory_bytes(), "refused": refused}))


def measure_apart(case: Case, megabytes: float, folder: Path) -> dict[str, float | str]:
    """Return the memory of one file of a case in a process of its own."""
    suffix = SUFFIXES.get(case.format) or DOCUMENT_FORMATS[case.format].document_suffixes[0]
    path = folder / f"case{suffix}"
    path.write_bytes(content(case, megabytes))
    command = [sys.executable, __file__, "--measure", str(path), case.format]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--formats", nargs="+", choices=[*DOCUMENT_FORMATS], default=[*DOCUMENT_FORMATS])
    parser.add_argument("--measure", nargs=2, metavar=("FILE", "FORMAT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(Path(options.measure[0]), options.measure[1])
        return
    rows = []
    for case in (case for case in CASES if case.format in options.formats):
        with TemporaryDirectory() as folder:
            small, large = (measure_apart(case, size, Path(folder)) for size in MEGABYTES)
        growth = (MEGABYTES[1] - MEGABYTES[0]) * 1e6
        memory, kind = (float(large["bytes"]) - float(small["bytes"])) / growth, DOCUMENT_FORMATS[case.format]
        signs = len(re.findall(kind.sign, case.piece.encode())) / len(case.piece.encode())
        rows.append({
            "format": case.format,
            "case": case.name,
            "bytes per byte": round(memory, 1),
            "bytes per sign": round((memory - BYTES_A_BYTE) / signs) if signs else 0,
            "allowed": kind.bytes_a_sign,
            "refused": large["refused"],
        })  # fmt: skip
        print(*rows[-1].values(), sep=" | ", flush=True)
    print(markdown([*rows[0]], [[*map(str, row.values())] for row in rows]), f"\n{describe()}")
    write_figures(options.out, rows=rows)


if __name__ == "__main__":
    main()
