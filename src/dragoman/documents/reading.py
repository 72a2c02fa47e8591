"""Which formats there are, and a file of one of them as its texts."""

import codecs
import re
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from dragoman.documents.document import Document
from dragoman.errors import ConfigError, DataError
from dragoman.text.encodings import advice
from dragoman.text.lines import open_bytes

LARGEST = 100_000_000
"""Most bytes of a document, which is read as a whole."""
_DECLARED = re.compile(rb"\b(?:charset|encoding)\s*=\s*[\"']?([\w-]{1,40})")


class Format(NamedTuple):
    """A kind of document, and the module of this room that reads it: its `read(content, path, languages)`."""

    module: str
    suffixes: tuple[str, ...]


FORMATS = {
    "html": Format("html", (".html", ".htm", ".xhtml")),
    "markdown": Format("markdown", (".md", ".markdown")),
    "subtitles": Format("subtitles", (".srt", ".vtt")),
    "catalogue": Format("catalogue", (".po", ".pot")),
    "json": Format("json_texts", (".json",)),
    "xliff": Format("xliff", (".xlf", ".xliff")),
    "docx": Format("docx", (".docx",)),
    "csv": Format("table", (".csv", ".tsv", ".tab")),
}
"""By the name that `document_format` takes."""


def format_of(path: Path) -> str | None:
    """The format that a file's name tells; None for a file of lines."""
    return next((name for name, each in FORMATS.items() if path.suffix.lower() in each.suffixes), None)


def read_document(path: Path, languages: tuple[str, str], document_format: str | None = None) -> Document:
    """A file as the texts in it, which are translated from one of these languages into the other.

    Raises:
        ConfigError: there is no such format, or the name of the file tells none.
        DataError: the file cannot be read, is larger than `LARGEST` bytes or is damaged.
        MissingExtra: what reads the format is not installed.
    """
    name = document_format or format_of(path)
    if name not in FORMATS:
        raise ConfigError(
            f"{path}: {'no format is known by its name' if name is None else f'{name!r} is no format'}; "
            f"give one of {', '.join(FORMATS)}"
        )
    with open_bytes(path) as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise DataError(f"{path} has more than {LARGEST // 1_000_000} MB, too much for one document; divide it")
    return import_module(f"dragoman.documents.{FORMATS[name].module}").read(content, path, languages)


def decoded(content: bytes, path: Path, declares: bool = False) -> tuple[str, str]:
    """The text of a file and its encoding: what its first bytes are in, or it itself `declares`, else UTF-8. Line ends
    and a byte order mark stay in the text.
    """
    encoding = "utf-8"
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16-le" if content.startswith(codecs.BOM_UTF16_LE) else "utf-16-be"
    elif declares and not content.startswith(codecs.BOM_UTF8) and (found := _DECLARED.search(content, 0, 2_000)):
        encoding = found[1].decode("ascii")
        if encoding.lower().startswith("utf-16"):
            encoding = "utf-8"  # or else it could not have been read
    try:
        "é".encode(encoding, "xmlcharrefreplace")
        return content.decode(encoding), encoding
    except UnicodeDecodeError as error:
        what = advice(lambda: open_bytes(path)) if encoding == "utf-8" else "it says so itself, so mend it"
        raise DataError(f"{path} is not {encoding.upper()} at byte {error.start:,}; {what}") from None
    except (LookupError, UnicodeError):
        raise DataError(f"{path} says that it is {encoding}, an unknown encoding; convert it to UTF-8") from None
