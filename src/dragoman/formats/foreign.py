"""Files that are not the text that is wanted, whatever their names: recognised by how they begin, or by their lines."""

import codecs
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from dragoman.errors import DataError

ZIP, PARQUET, OLE = b"PK\x03\x04", b"PAR1", b"\xd0\xcf\x11\xe0"

_BINARY = {
    b"%PDF-": "a PDF document",
    OLE: "an old Word or Excel document, or one with a password",
    b"\x28\xb5\x2f\xfd": "packed by zstd, which is not read here",
    PARQUET: "a Parquet file",
}
_ADVICE = "save its text as plain text, or its pairs as TSV or CSV, in UTF-8"
_ALONE = "as pairs, it is one file alone, with a name that ends in"
_IN_ZIP = {
    "word/": f"a Word document; {_ADVICE}",
    "xl/": f"an Excel workbook; {_ALONE} .xlsx",
    "ppt/": f"a presentation (PowerPoint), translated as a whole by a name such as a.pptx; {_ADVICE}",
    "designmap.xml": f"a document of InDesign (IDML), which is not read; {_ADVICE}",
    "META-INF/container.xml": f"a book (EPUB), translated as a whole by a name such as a.epub; {_ADVICE}",
    "content.xml": f"an OpenDocument file (LibreOffice), translated as a whole by a name such as a.odt; {_ADVICE}",
}
"""The kind of an archive that has a file whose name begins so."""
# Anything that may come before the first mark of a text.
_BEFORE_MARKUP = re.compile(r"(?:\s|#[^\n]*\n|<\?.*?\?>|<!--.*?-->|<!DOCTYPE (?!html).*?>)*", re.DOTALL | re.IGNORECASE)
_MARKUP = {
    r"<tmx\b": f"a translation memory (TMX); {_ALONE} .tmx",
    r"<xliff\b": f"a file of a translation tool (XLIFF); {_ALONE} .xlf",
    r"<(!doctype )?html\b": f"a web page (HTML); {_ADVICE}",
    r'msgid "|msgctxt "': f"a catalogue of a program's messages (PO); {_ALONE} .po",
    r"WEBVTT\b|\d+\s*\n\d\d:\d\d:\d\d[,.]\d{3} -->": f"a file of subtitles; {_ADVICE}",
}


def refusal(head: bytes, path: Path) -> str:
    """Return the reason why a file that begins with `head` is no text; empty if it may be."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return f"{path} is UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)"
    for order, bytes_of_ascii in (("LE", head[1:64:2]), ("BE", head[:64:2])):
        if len(head) >= 16 and not any(bytes_of_ascii) and any(head):
            return f"{path} is UTF-16; convert it to UTF-8 (iconv -f UTF-16{order} -t UTF-8)"
    if head.startswith(ZIP):
        names = _names_in(path)
        listed = ", ".join(map(repr, names[:5])) + ", …" * (len(names) > 5)
        kind = (
            f"a ZIP archive ({listed}); unpack it, and name a file"
            if names
            else "a damaged ZIP archive; fetch it again"
        )
        return f"{path} is {_document(names) or kind}"
    kinds = (kind for magic, kind in _BINARY.items() if head.startswith(magic))
    kind = "a tar archive" if head[257:262] == b"ustar" else next(kinds, "")
    if not kind and b"\0" in head:
        with suppress(UnicodeDecodeError):
            codecs.getincrementaldecoder("utf-8")().decode(head)  # whose last character may be cut
            return ""
        kind = "a binary file, not text"
    return f"{path} is {kind}; {_ADVICE}" if kind else ""


def refusal_of_markup(head: bytes, path: Path) -> str:
    """Return the reason why a text that begins with `head` holds neither sentences nor rows; empty if it may."""
    text = head.decode("utf-8-sig", "replace")
    before = _BEFORE_MARKUP.match(text)
    begin = before.end() if before else 0
    kinds = (kind for mark, kind in _MARKUP.items() if re.compile(mark, re.IGNORECASE).match(text, begin))
    kind = next(kinds, f"an XML file; {_ADVICE}" if text.startswith("<?xml") else "")
    return f"{path} is {kind}" if kind else ""


def texts_in(path: Path) -> list[str]:
    """Return the names of the files in a ZIP archive; none if it is a document, or no archive."""
    names = _names_in(path)
    return [] if _document(names) else [name for name in names if not name.endswith("/") and "__MACOSX" not in name]


def _document(names: list[str]) -> str:
    return next((kind for begin, kind in _IN_ZIP.items() if any(name.startswith(begin) for name in names)), "")


def _names_in(path: Path) -> list[str]:
    if path.is_file():  # a pipe would wait
        with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
            return archive.namelist()
    return []


_LINES = 500
"""Number of lines, without blank ones, by which a file is judged."""
_INLINE = r"(?!/?(?:a|abbr|b|br|code|em|font|i|span|strong|sub|sup|u)\b)"
_KINDS: Mapping[str, tuple[float, str]] = {
    "markup, as in HTML and XML": (0.3, rf"\s*<{_INLINE}[!?/]?[a-zA-Z-][^<>]*(?:>|$)"),
    "marks of a wiki, as in MediaWiki": (0.3, r"[^'\[]*+(?:'{3}\w[^']*+'{3}|\[\[[^\[\]|]{1,100}\|)|== ?\w.*[^=]==$"),
    "commands, as in LaTeX": (0.5, r"\s*\\[a-zA-Z]+\*?\s*[\[{]"),
    "time codes, as in subtitles": (0.2, r"\s*\[?\d+:\d\d[:.,]\d+.*(?:-->|,|\])|Dialogue: \d,\d|\s*(?:\{\d+\}){2}"),
    "entries of a catalogue of messages": (0.3, r"msg(?:id|str|ctxt)\b|#[:,|~]"),
    "records, as in JSON": (0.6, r'\s*(?:[\[\]{}]+,?\s*$|[\[{][^"]*+".*[\]}],?$|"(?:[^"\\]|\\.)*"\s*(?::|,\s*$))'),
    "settings with their names": (
        0.6,
        r'\s*(?:[a-z][\w-]*\.[\w.-]+\s*[=:]|"[^"]*"\s*=|[a-z_][\w-]*\s*=.|[A-Z][\w.-]+=["\'A-Za-z])',
    ),
    "records of a log": (
        0.5,
        r"\[?\d{4}(?:-\d\d){2}[T ]\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d |\[(?:DEBUG|INFO|WARN|ERROR)|"
        r"[\d.:a-f]{7,40} \S{1,40} \S{1,40} \[\d\d/",
    ),
    "code of a program": (
        0.5,
        r"\s*+(?:[\w.]+\((?:[\"'].*)?\);?$|[^\s(]*+[^\"']*[)\w\"] ?\{$|[})\]]+[;,]?$|(?<=\s)[a-z-]+:[^;]*\S;$|"
        r".*[)\]}];$|[^=]*+=.*[\w\"'];$|(?:async )?def \w+\(.*:$|class \w+(?:\(.*\))?:$|import [\w.]+(?: as \w+)?;?$|"
        r"from [\w.]+ import |(?:const|let|var) \w+ ?=|#include |[\w.]+ = [\w.]*[(\[{]|"
        r"return [\w.]+(?: [-+*/%<=>]+ [\w.]+)*$|(?:SELECT\b.* FROM|INSERT INTO|CREATE|RUN|COPY|FROM [\w.:]+$)\b)",
    ),
}
"""Kinds of files: the share of lines that is enough, and the beginning of such a line."""
_FORMATS = {
    "YAML": (
        "yaml yml",
        r"\A(?:---\n)?[a-z]{2}(?:[-_][A-Z]{2})?:\n {1,8}[\w'\"-]+:"
        r"|\A---\n(?:[a-z][\w-]*:.*\n(?:(?: |#|- ).*\n)*+)++---$",
    ),
    "XML": ("dbk dita ditamap fb2 opml plist resw resx rss smi stringsdict svg ttml xml", r"\A<\?xml\b[^<>]*\?>$"),
    "records, as in JSON": ("arb geojson ipynb json5 jsonl ndjson webmanifest xcstrings", r"\A\{\"@@locale\""),
    "settings": ("cfg conf env ini properties strings toml", r"^\[[\w. \"-]+\]\n(?:[#;].*\n)*+[A-Za-z_\"][\w.\" -]*="),
    "code of a program": (
        "bash bat c cc cpp css go h hpp java js jsx kt less lua mjs php py r rb rs scala scss sh sql swift tsx vue",
        r"\A(?:#!/|<\?php|export default|module\.exports)\b|\Aimport [\w.]+\n(?:def|from) |\ASELECT .*[a-z*].*\n?FROM ",
    ),
    "a patch": ("diff patch", r"^@@ -\d|^diff --git |^--- \S+(?:\t.*)?\n\+{3} \S|\A[\d,]+[acd][\d,]+\n[<>] "),
    "a calendar or contacts": ("ics ifb vcard vcf", r"\ABEGIN:V[A-Z]+$"),
    "a page of a wiki": ("mediawiki wiki wikitext", r"\A'{3}\w.*?'{3}|^\[\[(?:Category|File|Image):"),
    "reStructuredText": ("rst", r"^ {0,8}\.\. [\w-]{1,60}::"),
    "AsciiDoc": ("adoc asciidoc", r"^\[source\b.*\]$|\A= .*\n:[\w-]{1,60}:"),
    "LaTeX": ("bib ltx sty tex texi", r"^ {0,8}\\(?:documentclass|begin)\b"),
    "rich text (RTF)": ("rtf", r"\A\{\\rtf\d"),
    "an e-mail with headers": (
        "eml mbox",
        r"\A(?:Delivered-To: .*@|MIME-Version: 1|Received: from|Return-Path: <|Subject: .*\n(?:From|To|Date|Sent): |"
        r"(?:(?:From|To|Cc|Date|Sent|Reply-To): .*\n){1,9}Subject: )",
    ),
    "another kind of subtitles": ("ass lrc sbv ssa sub", r"\A\[Script Info\]"),
    "XLIFF": ("", r"\A<xliff\b"),
}
"""Kinds of files that are refused: the endings of their names, none of which is a language's code, and a pattern for
a line of such a file."""
_NESTED = re.compile(r"^ *+(?:[a-z][\w-]*:|- [a-z][\w-]*:(?: .*)?)\n {1,40}[a-z][\w-]*:(?: |$)", re.MULTILINE)
_HEAD = re.compile(r"([a-z][\w-]*):(?= |$)( (?:[\"'\[{|>&*!\dA-Z]|true$|false$|null$)|$)?")
_QUOTED = re.compile(r'"(?:([\d.:/-]+)|[^"]*)"')
_NUMBER = re.compile(r"(?=.*\d)[\d.,:/TZ€$%+-]+")  # also a date or a time
_DELIMITERS = ("\t", ",", ";", "|")
_FEW = 4
"""Up to this many lines of prose may have the same number of commas, but no column of numbers."""


def refuse_document(path: Path, lines: Iterable[str]) -> None:
    """Refuse a file whose name or `lines` show keys, markup, time codes or records, which a translation would destroy.

    Raises:
        DataError: it is one, and says of what kind.
    """
    some = [*islice((line.rstrip() for line in lines if line.strip()), _LINES)]
    if kind := _kind(path.name.lower().removesuffix(".gz").rpartition(".")[2], some):
        raise DataError(
            f"{path} is no plain text: {kind}, and its names and signs would be translated too; convert it into a "
            "document that is read, such as HTML, Markdown, XLIFF, PO, JSON or SRT, or say what it is by "
            "--document-format, or give --raw to translate each line exactly as it is"
        )


def _kind(ending: str, lines: Sequence[str]) -> str:
    """Return the kind of a file by the ending of its name or by its lines; empty if it is plain text."""
    beginnings = "\n".join(line[:200] for line in lines)
    kinds = [f"it is {kind}" for kind, (endings, _) in _FORMATS.items() if ending in endings.split()]
    kinds += [f"it is {kind}" for kind, (_, sign) in _FORMATS.items() if re.search(sign, beginnings, re.MULTILINE)]
    for kind, (share, pattern) in _KINDS.items():
        if sum(re.match(pattern, line) is not None for line in lines) > share * len(lines):
            kinds.append(f"its lines are mostly {kind}")
    if not kinds and _is_yaml(lines):
        return "its lines are mostly names with their values, as in YAML"
    if not kinds and _is_table(lines, ending in ("csv", "tsv")):
        return "its lines are mostly cells of a table"
    return next(iter(kinds), "")


def _is_yaml(lines: Sequence[str]) -> bool:
    """Return True if unindented lines begin with different small names, one with names below or a program's value."""
    heads = [_HEAD.match(line) for line in lines if line[0] not in " \t#-"]
    names = {head[1] for head in heads if head}
    is_nested = _NESTED.search("\n".join(line[:200] for line in lines)) is not None
    return len(names) == len(heads) and (is_nested or (len(names) > 1 and any(head and head[2] for head in heads)))


def _is_table(lines: Sequence[str], is_named_table: bool) -> bool:
    """Return True if most lines have several cells; with commas or the like, at least three, and equally many."""
    bare = [_QUOTED.sub(r"\1", line).strip() for line in lines]
    for delimiter in _DELIMITERS:
        counts = [line.count(delimiter) for line in bare]
        if is_named_table or delimiter == "\t":
            is_table = sum(map(bool, counts)) > max(1, 0.6 * len(counts))
        else:
            usual, rows = max(Counter(counts).items(), key=lambda item: item[1], default=(0, 0))
            cells = (re.sub(r", |(?<=\d),(?=\d{3}\b)", "", line).split(delimiter) for line in bare[1:])
            has_numbers = rows > 2 and any(all(map(_NUMBER.fullmatch, column)) for column in zip(*cells, strict=False))
            is_table = usual > 1 and rows >= 0.9 * len(counts) and (rows > _FEW or has_numbers)
        if is_table:
            return True
    return False
