"""What a file is whose bytes are not the text that is wanted, by how it begins, whatever it is called."""

import re
import zipfile
from contextlib import suppress
from pathlib import Path

ZIP, PARQUET = b"PK\x03\x04", b"PAR1"

_BINARY = {
    b"%PDF-": "a PDF document",
    b"SQLite format 3\0": "an SQLite database",
    b"\x89PNG": "a picture (PNG)",
    b"\xff\xd8\xff": "a picture (JPEG)",
    b"GIF8": "a picture (GIF)",
    b"II*\0": "a picture (TIFF)",
    b"MM\0*": "a picture (TIFF)",
    b"RIFF": "a picture, sound or film (RIFF)",
    b"ID3": "sound (MP3)",
    b"OggS": "sound (Ogg)",
    b"\x93NUMPY": "a NumPy array",
    b"\x89HDF": "an HDF5 file",
    PARQUET: "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"\xff\xff\xff\xff": "a part of a data set in Arrow form",
    b"\xd0\xcf\x11\xe0": "an old Word or Excel document",
    b"{\\rtf": "an RTF document",
    b"7z\xbc\xaf": "a 7z archive",
    b"Rar!\x1a": "a RAR archive",
    b"\x7fELF": "a program",
}
_IN_ZIP = {
    "word/": "a Word document",
    "xl/": "an Excel workbook",
    "ppt/": "a PowerPoint presentation",
    "META-INF/container.xml": "an e-book (EPUB)",
    "content.xml": "an OpenDocument file",
}
# What may stand before the first mark of a text.
_BEFORE_MARKUP = re.compile(r"(?:\s|#[^\n]*\n|<\?.*?\?>|<!--.*?-->|<!DOCTYPE (?!html).*?>)*", re.DOTALL | re.IGNORECASE)
_MARKUP = {
    r"<tmx\b": "a translation memory (TMX)",
    r"<xliff\b": "a file of a translation tool (XLIFF)",
    r"<TS\b": "a file of translations for Qt (TS)",
    r"<dataset\b": "a test set of WMT in XML",
    r"<(!doctype )?html\b": "a web page (HTML)",
    r'msgid "|msgctxt "': "a catalogue of a program's messages (PO)",
    r"WEBVTT\b": "a file of subtitles (WebVTT)",
    r"\d+\s*\n\d\d:\d\d:\d\d[,.]\d{3} -->": "a file of subtitles (SRT)",
    r"\[Script Info\]": "a file of subtitles (ASS)",
    r"\\documentclass\b": "a LaTeX document",
}
_ADVICE = "save its text as plain text, or its pairs as TSV or CSV, in UTF-8"


def refusal(head: bytes, path: Path) -> str:
    """Why a file that begins with `head` is no text; empty if it may be."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return f"{path} is UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)"
    for order, bytes_of_ascii in (("LE", head[1:64:2]), ("BE", head[:64:2])):
        if len(head) >= 16 and not any(bytes_of_ascii) and any(head):
            return f"{path} is UTF-16; convert it to UTF-8 (iconv -f UTF-16{order} -t UTF-8)"
    if head.startswith(ZIP):
        return f"{path} is {_kind_of_zip(path)}"
    kinds = (kind for magic, kind in _BINARY.items() if head.startswith(magic))
    kind = next(kinds, "") if not head[:4].isalnum() or b"\0" in head else ""
    if head[257:262] == b"ustar":
        kind = "a tar archive"
    elif re.match(rb"\x80[\x02-\x05]", head):
        kind = "a Python pickle"
    return f"{path} is {kind}; {_ADVICE}" if kind else ""


def refusal_of_markup(head: bytes, path: Path) -> str:
    """Why a text that begins with `head` holds neither sentences nor rows; empty if it may."""
    text = head.decode("utf-8-sig", "replace")
    before = _BEFORE_MARKUP.match(text)
    begin = before.end() if before else 0
    kinds = (kind for mark, kind in _MARKUP.items() if re.compile(mark, re.IGNORECASE).match(text, begin))
    kind = next(kinds, "an XML file" if text.startswith("<?xml") else "")
    return f"{path} is {kind}; {_ADVICE}" if kind else ""


def texts_in(path: Path) -> list[str]:
    """The names of the files in a ZIP archive; none if it is a document, or no archive."""
    names = _names_in(path)
    return [] if _document(names) else [name for name in names if not name.endswith("/") and "__MACOSX" not in name]


def _kind_of_zip(path: Path) -> str:
    names = _names_in(path)
    if kind := _document(names):
        return f"{kind}; {_ADVICE}"
    listed = ", ".join(map(repr, names[:5])) + ", …" * (len(names) > 5)
    return f"a ZIP archive ({listed}); unpack it, and name a file" if names else "a damaged ZIP archive; fetch it again"


def _document(names: list[str]) -> str:
    if names and all(name.endswith(".npy") for name in names):
        return "a file of NumPy arrays"
    return next((kind for begin, kind in _IN_ZIP.items() if any(name.startswith(begin) for name in names)), "")


def _names_in(path: Path) -> list[str]:
    if path.is_file():  # a pipe would wait
        with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
            return archive.namelist()
    return []
