"""The table of all file formats: their names, the endings of file names, and what can be done with a file of each.

The command line, the server, the settings and the pages docs/data.md and docs/runs.md read it. To add a format, add a
module to this room and a row to this table; if it is trained on, also a name to `Format`. It imports nothing heavy, so
that `dragoman --help` can read it.
"""

from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from typing import Literal, NamedTuple, get_args

Format = Literal["plain", "tsv", "csv", "jsonl", "parquet", "hub", "tmx", "xliff", "po", "xlsx"]
"""The name of a format in `data.format`."""


class FileFormat(NamedTuple):
    """A format, or a family of formats that one module reads."""

    name: str
    """The name in `data.format`, if it is trained on."""
    module: str = ""
    """The module of this room that reads it, by `rows` for training and by `read` for translating, if it has another
    name."""
    data_title: str = ""
    """The rows that are read for training and evaluating, in words; empty if it is not trained on."""
    data_suffixes: tuple[str, ...] = ()
    """Endings of the names of files for training."""
    holds_records: bool = False
    """Its rows are records with keys, not lists of cells."""
    holds_languages: bool = False
    """Its records hold a text for each of their languages, not all of them the same."""
    has_lines: bool = True
    """Its bytes are lines of text; if not, the module alone decides what they may be."""
    extra: str = ""
    """The extra of the package that installs what reads it."""
    packages: tuple[str, ...] = ()
    """Packages of this extra that reading and writing a document needs."""
    document: str = ""
    """The name in `--document-format`; empty if it is not translated as a document."""
    document_suffixes: tuple[str, ...] = ()
    """Endings of the names of documents."""
    document_title: str = ""
    """The kind of document, in words."""
    root: bytes = b""
    """A regular expression for the beginning of its documents, if other files have their suffixes too."""
    translated: str = ""
    """The parts of a document that are translated, and what else its readers should know."""
    archive: str = ""
    """Its kind in words, if a document of this format is a ZIP archive."""
    has_names: bool = False
    """Its texts have names, by which those of an earlier translation are found."""
    is_selective: bool = False
    """Only some of its columns or keys may be translated."""
    sign: bytes = b""
    """A regular expression for the signs that divide a document into pieces."""
    bytes_a_sign: int = 0
    """Bytes of memory that reading and writing a document may take for each sign, as benchmarks/documents.py measures
    it."""


FORMATS = (
    FileFormat(
        "html",
        document="html",
        document_suffixes=(".html", ".htm", ".xhtml"),
        document_title="HTML",
        translated="text, and `alt`, `title`, `placeholder`, `label`, `aria-label`, buttons, descriptions and drawings "
        "(SVG); not `code`, `pre`, scripts, the code of templates (PHP, ERB, Jinja, Handlebars), or what has "
        '`translate="no"`. An element whose `lang` is another language is left and reported. `lang` of the page '
        "becomes the target language. Without a declared encoding, letters beyond ASCII are written as references such "
        "as `&#232;`",
        sign=rb"[<&=]",
        bytes_a_sign=1_200,
    ),
    FileFormat(
        "markdown",
        document="markdown",
        document_suffixes=(".md", ".markdown", ".mdx"),
        document_title="Markdown: CommonMark with tables, footnotes, definition lists, admonitions, containers, "
        "directives, alerts, shortcodes and the components of MDX",
        translated="paragraphs, headings, items, cells, titles, the words for pictures, and what options and "
        "attributes show, such as `alt`, `caption` and `title`; not code and formulas. A paragraph becomes one line. "
        "Titles and descriptions in front matter, HTML blocks, texts of several words in expressions of MDX, drawn "
        "tables and unknown directives are left and reported. Links to headings whose generated identifiers change "
        "with the translation are noted",
        sign=rb"[!#-&*+/:<->@[-`{-~\n]|\r(?!\n)",
        bytes_a_sign=1_000,
    ),
    FileFormat(
        "subtitles",
        document="subtitles",
        document_suffixes=(".srt", ".vtt"),
        document_title="subtitles",
        translated="sentences, also those that continue over lines and cues; their translations are divided by the "
        "lengths of the source's lines, and a cue that no word is left for shows `…`. Times may have any usual form; "
        "one that cannot be read is refused with its line. A cue that begins with a capital letter, repeats a line or "
        "has no words begins a new sentence",
        sign=rb"[<\n]|\r(?!\n)",
        bytes_a_sign=800,
    ),
    FileFormat(
        "po",
        data_title="a catalogue of gettext (PO)",
        data_suffixes=(".po", ".pot"),
        holds_records=True,
        holds_languages=True,
        has_lines=False,
        extra="documents",
        packages=("polib", "babel"),
        document="catalogue",
        has_names=True,
        document_suffixes=(".po", ".pot"),
        document_title="catalogues of gettext",
        translated="messages that are not translated yet, with their plural forms; not those that are marked as fuzzy, "
        "as new translations are too. A template gets the header of its language; all other lines stay",
        sign=rb"[\n\\\x0b\x0c\x1c-\x1e]|\r(?!\n)|\xc2\x85|\xe2\x80[\xa8\xa9]",
        bytes_a_sign=700,
    ),
    FileFormat(
        "jsonl",
        module="json_files",
        data_title="JSON Lines, or a JSON array of objects",
        data_suffixes=(".jsonl", ".ndjson", ".json"),
        holds_records=True,
        document="json",
        has_names=True,
        document_suffixes=(".json", ".arb"),
        document_title="JSON",
        translated="values in natural language, line by line; not keys and descriptions for translators (ARB, Chrome "
        "extensions). `@@locale` of ARB becomes the target language",
        is_selective=True,
        sign=rb'["{]',
        bytes_a_sign=700,
    ),
    FileFormat(
        "yaml_files",
        extra="documents",
        packages=("ruamel", "babel"),
        document="yaml",
        has_names=True,
        document_suffixes=(".yml", ".yaml"),
        document_title="YAML",
        translated="values in natural language; below the name of the source language, as in Rails, all texts, with "
        "the plural forms of the target language, whose name replaces it. Aliases and values with tags stay",
        is_selective=True,
        sign=rb"[,:\n\\]",
        bytes_a_sign=1_800,
    ),
    FileFormat(
        "properties",
        document="properties",
        has_names=True,
        document_suffixes=(".properties",),
        document_title="Java properties",
        translated="values. In those with arguments (`{0}`), apostrophes are doubled; those with `choice` are left and "
        "reported",
        sign=rb"[\n\r\\]",
        bytes_a_sign=1_200,
    ),
    FileFormat(
        "apple_strings",
        document="strings",
        has_names=True,
        document_suffixes=(".strings",),
        document_title="strings of Apple's systems",
        translated="values; not property lists, which built apps hold",
        sign=rb"[=\\]",
        bytes_a_sign=1_200,
    ),
    FileFormat(
        "xliff",
        data_title="XLIFF 1.2 or 2",
        data_suffixes=(".xlf", ".xliff"),
        holds_records=True,
        holds_languages=True,
        has_lines=False,
        extra="documents",
        packages=("lxml",),
        document="xliff",
        document_suffixes=(".xlf", ".xliff", ".sdlxliff", ".mqxliff", ".mxliff"),
        document_title="XLIFF 1.2 and 2, also of Trados Studio, memoQ and Phrase",
        translated="units that are not translated yet, by their segments; their state says that a person should look "
        "at them. What a tool locks or confirms stays. Line breaks and tabs stay if the file says that spaces do",
        sign=rb"<",
        bytes_a_sign=900,
    ),
    FileFormat(
        "app_xml",
        extra="documents",
        packages=("lxml", "babel"),
        document="app-xml",
        has_names=True,
        document_suffixes=(".xml", ".stringsdict", ".resx", ".resw", ".ts"),
        root=rb"(?s)\A(?:\xef\xbb\xbf|\s|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>)*"
        rb"<(?:resources|plist|root|TS)\b",
        document_title="strings of apps in XML: Android, Apple's `.stringsdict`, .NET and Windows, Qt Linguist",
        translated="values in natural language, with their plural forms in the target language; not names, comments, "
        'references, what Android marks as `translatable="false"`, and values of .NET that are no strings. In files '
        "of Qt Linguist, messages without a translation, which stay unfinished for a person to check. A value whose "
        "translation changes an argument, such as `%1$s`, is left and reported",
        sign=rb"[<&\\\n\r\t\"]",
        bytes_a_sign=1_000,
    ),
    FileFormat(
        "docx",
        extra="documents",
        packages=("lxml", "docx"),
        document="docx",
        document_suffixes=(".docx", ".docm", ".dotx", ".dotm"),
        document_title="Word",
        archive="a Word document (DOCX)",
        translated="paragraphs of the text, tables, text boxes, headers, footers, notes and comments, with their "
        "formats and fields, diagrams, titles of charts, and the descriptions of pictures and tables; not what is "
        "marked as deleted. Hidden words next to visible ones, and names in the data of charts, are left and reported. "
        "Styles name the target language",
        sign=rb"<",
        bytes_a_sign=400,
    ),
    FileFormat(
        "xlsx",
        data_title="the first sheet of a workbook that has two columns; not packed",
        data_suffixes=(".xlsx",),
        has_lines=False,
        extra="documents",
        packages=("lxml",),
        document="xlsx",
        document_suffixes=(".xlsx", ".xlsm", ".xltx", ".xltm"),
        document_title="Excel",
        archive="an Excel workbook (XLSX)",
        translated="cells in natural language, comments, text boxes, titles of charts, descriptions of pictures, with "
        "their formats; equal lines are one text. Not formulas, numbers, dates and names of sheets. Prompts, headers "
        "and footers are left and reported",
        is_selective=True,
        sign=rb"<",
        bytes_a_sign=500,
    ),
    FileFormat(
        "odf",
        extra="documents",
        packages=("lxml",),
        document="odf",
        document_suffixes=(".odt", ".ods", ".odp", ".ott", ".ots", ".otp"),
        document_title="OpenDocument (LibreOffice): text, spreadsheets and presentations",
        archive="an OpenDocument file",
        translated="paragraphs of text, tables, boxes, slides, headers, footers, notes and comments, with their "
        "formats; cells as in Excel; descriptions of pictures; titles; not fields, nor what is marked as deleted. "
        "Hidden words, charts, entries of indexes and controls are left and reported. Styles name the target language",
        is_selective=True,
        sign=rb"<",
        bytes_a_sign=700,
    ),
    FileFormat(
        "pptx",
        extra="documents",
        packages=("lxml",),
        document="pptx",
        document_suffixes=(".pptx", ".pptm", ".potx", ".potm", ".ppsx", ".ppsm"),
        document_title="PowerPoint",
        archive="a presentation (PPTX)",
        translated="text of slides in their order, with tables, diagrams, titles of charts, notes, comments, and "
        "descriptions of pictures and links; equal texts are one. Fields, formulas, layouts and masters stay. Names in "
        "the data of charts, and embedded objects, are left and reported",
        sign=rb"[<&]|[^>\s]\s*[\t\n]",
        bytes_a_sign=400,
    ),
    FileFormat(
        "epub",
        extra="documents",
        packages=("lxml",),
        document="epub",
        document_suffixes=(".epub",),
        document_title="books (EPUB 2 and 3)",
        archive="a book (EPUB)",
        translated="pages in the order of reading, as HTML; titles, description and table of contents; not names and "
        "subjects. The book names the target language. Recorded speech and fixed layouts are noted; DRM is refused",
        sign=rb"[<&=]",
        bytes_a_sign=1_200,
    ),
    FileFormat(
        "csv",
        module="delimited",
        data_title="cells between commas, semicolons or tabs, with quotes where needed",
        data_suffixes=(".csv",),
        document="csv",
        document_suffixes=(".csv", ".tsv", ".tab"),
        document_title="tables",
        translated="cells in natural language, line by line, with the names of columns. A cell gets quotes if its "
        "translation needs them. `--raw` translates the lines instead",
        is_selective=True,
        sign=rb"[,;|\t\n]",
        bytes_a_sign=900,
    ),
    FileFormat(
        "tsv",
        module="delimited",
        data_title="cells between tabs",
        data_suffixes=(".tsv", ".tab"),
    ),
    FileFormat(
        "plain",
        data_title="lines, as of one of two aligned files, or SGM",
        document="text",
        document_title="plain text",
        translated="paragraphs",
        sign=rb"\n|\r(?!\n)",
        bytes_a_sign=500,
    ),
    FileFormat(
        "parquet",
        data_title="Parquet; not packed",
        data_suffixes=(".parquet",),
        holds_records=True,
        has_lines=False,
        extra="parquet",
    ),
    FileFormat(
        "tmx",
        data_title="a translation memory (TMX)",
        data_suffixes=(".tmx",),
        holds_records=True,
        holds_languages=True,
        has_lines=False,
        extra="documents",
    ),
    FileFormat(
        "hub",
        data_title="a data set of the Hugging Face hub, `hub:NAME:CONFIG`",
        holds_records=True,
        extra="hub",
    ),
)

DATA_FORMATS: dict[Format, FileFormat] = {
    name: next(format for format in FORMATS if format.name == name) for name in get_args(Format)
}
"""The formats that are trained on, by their names in `data.format`."""
DATA_FORMAT_OF_SUFFIX: dict[str, Format] = {
    suffix: name for name, format in DATA_FORMATS.items() for suffix in format.data_suffixes
}
DOCUMENT_FORMATS = {format.document: format for format in FORMATS if format.document}
"""The formats that are translated as documents, by their names in `--document-format`."""
SELECTIVE = tuple(name for name, format in DOCUMENT_FORMATS.items() if format.is_selective)
"""The documents of which only some keys or columns may be translated."""

DATA_SUFFIXES = " ".join(format.data_suffixes[0] for format in DATA_FORMATS.values() if format.data_suffixes)
"""Endings of the names of files for training, as help and messages list them: one for each format."""


@cache
def installed_suffixes() -> tuple[str, ...]:
    """Return the endings of the names of documents that can be translated with the packages that are installed."""
    formats = (format for format in DOCUMENT_FORMATS.values() if all(map(find_spec, format.packages)))
    return ".txt", *(suffix for format in formats for suffix in format.document_suffixes)


def listed(names: Iterable[str]) -> str:
    """Return names as a list in words.

    >>> listed(["csv", "json", "xlsx"])
    'csv, json or xlsx'
    """
    *first, last = names
    return f"{', '.join(first)} or {last}"
