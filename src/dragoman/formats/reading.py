"""Reading a file of any format as a document, within limits of memory, and what the modules of formats share."""

import codecs
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path

import pydantic

from dragoman.config import Settings
from dragoman.errors import ConfigError, DataError
from dragoman.formats.archives import open_archive, opening
from dragoman.formats.branches import Branches
from dragoman.formats.document import Document
from dragoman.formats.encodings import advice
from dragoman.formats.foreign import OLE
from dragoman.formats.lines import open_bytes, without_packing
from dragoman.formats.registry import DOCUMENT_FORMATS, SELECTIVE, FileFormat
from dragoman.languages import UNKNOWN_LANGUAGE, base_language, english_name
from dragoman.surface.sentences import BRANCHES

BYTES_A_BYTE, BYTES_A_PACKED_BYTE, BYTES_A_PART = 8, 2, 4_000
"""Bytes of memory for each byte of a file, unpacked; for each byte of an archive; and for each file in one."""
PICTURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")
"""The beginnings of pictures (PNG, JPEG), which are copied and never read as text."""
_AT_ONCE = 1 << 20
_DECLARED = re.compile(rb"\b(?:charset|encoding)\s*=\s*[\"']?([\w-]{1,40})")


class DocumentTooLarge(DataError):
    """Refusal of a document that exceeds one of `DocumentSettings`, named by `limit`; `problem` says how."""

    def __init__(self, problem: str, limit: str, value: int) -> None:
        super().__init__(f"{problem}; divide it, or raise document.{limit} ({value:,})")
        self.problem, self.limit = problem, limit


class DocumentSettings(Settings):
    """The limits of one document, at the command line and in a server, and the form of its translation."""

    memory: int = pydantic.Field(default=2**30, ge=2**20, le=2**50)
    """Most bytes of memory that a document may take in the worst case, as its bytes and signs suggest."""
    texts: int = pydantic.Field(default=500_000, ge=1, le=10**10)
    """Most texts of a document."""
    needs_review: bool = True
    """Mark translations as such that a person should check, in formats with such a mark: catalogues and XLIFF."""

    def check_memory(self, content: bytes, path: Path, format: FileFormat) -> None:
        """Raise `DocumentTooLarge` if reading a file of this format may take too much memory."""
        needed = 0
        for size, pieces in _parts(content, is_archive=bool(format.archive)):
            if (needed := needed + BYTES_A_BYTE * size) <= self.memory:
                needed += sum(len(re.findall(format.sign, piece)) for piece in pieces) * format.bytes_a_sign
            if needed > self.memory:
                problem = f"{path} may take more than {self.memory >> 20:,} MiB of memory, too much for one document"
                raise DocumentTooLarge(problem, "memory", self.memory)


def _parts(content: bytes, is_archive: bool) -> Iterator[tuple[int, Iterable[bytes]]]:
    """Yield the size of a file, or of each file in an archive, and its content in pieces. What costs less counts as
    smaller: an archive itself, and pictures.
    """
    if not is_archive:
        yield len(content), (content[begin : begin + _AT_ONCE] for begin in range(0, len(content), _AT_ONCE))
        return
    yield len(content) * BYTES_A_PACKED_BYTE // BYTES_A_BYTE, ()
    with open_archive(content) as archive:
        yield len(archive.filelist) * BYTES_A_PART // BYTES_A_BYTE, ()
        for part in archive.filelist:
            with archive.open(part) as file:
                first = file.read(_AT_ONCE)
                if first.startswith(PICTURES):
                    yield part.file_size // BYTES_A_BYTE, ()
                else:
                    yield part.file_size, chain((first,), iter(partial(file.read, _AT_ONCE), b""))


def format_of(path: Path) -> str | None:
    """Return the format that a file's name says; None for a file of lines."""
    suffix = without_packing(path).suffix.lower()
    return next((name for name, format in DOCUMENT_FORMATS.items() if suffix in format.document_suffixes), None)


def read_document(
    path: Path,
    languages: tuple[str, str],
    document_format: str | None = None,
    only: Sequence[str] = (),
    settings: DocumentSettings | None = None,
) -> Document:
    """Read a file as the texts in it, which are translated from the first of these languages into the second. `only`
    are the columns of a table or the keys of JSON to translate, each a name or a pattern such as `*.title`.

    Raises:
        ConfigError: there is no such format, the name of the file says none, or it takes no `only`.
        DataError: the file cannot be read, or is damaged.
        DocumentTooLarge: it is over a limit of `settings`.
        MissingExtra: what reads the format is not installed.
    """
    name = document_format or format_of(path)
    if name not in DOCUMENT_FORMATS:
        raise ConfigError(
            f"{path}: {'no format is known by its name' if name is None else f'{name!r} is no format'}; "
            f"give one of {', '.join(DOCUMENT_FORMATS)}"
        )
    format = DOCUMENT_FORMATS[name]
    if only and not format.is_selective:
        raise ConfigError(f"only {' and '.join(SELECTIVE)} have columns or keys to choose from; {path} is {name}")
    settings, reader = settings or DocumentSettings(), import_module(f"dragoman.formats.{format.module or format.name}")
    with open_bytes(path) as file:
        pieces, room = list[bytes](), settings.memory // BYTES_A_PACKED_BYTE
        while room >= 0 and (piece := file.read(_AT_ONCE)):  # what has no room needs more memory than that
            pieces.append(piece)
            room -= len(piece)
    content = b"".join(pieces)
    if content.startswith(OLE) and format.archive:
        saved = format.document_suffixes[0]
        raise DataError(f"{path} has a password, or the format of old Office; save it as {saved} without a password")
    with opening(path, format.archive):
        settings.check_memory(content, path, format)
    document: Document = reader.read(content, path, languages, *([only] if only else []))
    document.needs_review = settings.needs_review
    if any(map(BRANCHES.search, document.texts)):
        document = Branches(document, languages)
    if (texts := len(document.texts)) > settings.texts:
        raise DocumentTooLarge(f"{path} has {texts:,} texts", "texts", settings.texts)
    return document


def check_languages(path: Path, source: str | None, target: str | None, languages: tuple[str, str]) -> None:
    """Raise `DataError` if a file says that it is in, or is translated into, another language than these."""
    for side, named, language in zip(("source", "target"), (source, target), languages, strict=True):
        if named_language := other_language(named, language):
            ours = english_name(language)
            raise DataError(
                f"{path} names {named_language} as {side} language, not {ours}; correct it, or take another model"
            )


def other_language(named: str | None, language: str) -> str:
    """Return in words the language that a file names, if it is not this one; regions do not count."""
    code = re.split("[.@]", named or "")[0].strip().replace("_", "-")
    is_known = code and UNKNOWN_LANGUAGE not in (code, language)
    return f"{english_name(code)} ({code})" if is_known and base_language(code) != base_language(language) else ""


def decoded(content: bytes, path: Path, declares: bool = False) -> tuple[str, str]:
    """Return the text of a file and its encoding: the one of its byte order mark, or that it `declares` itself, else
    UTF-8. Line ends and a byte order mark stay in the text.
    """
    encoding = "utf-8"
    if content.startswith(PICTURES):
        raise DataError(f"{path} is a picture")
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16-le" if content.startswith(codecs.BOM_UTF16_LE) else "utf-16-be"
    elif declares and not content.startswith(codecs.BOM_UTF8) and (declared := _DECLARED.search(content, 0, 2_000)):
        encoding = declared[1].decode("ascii")
        if encoding.lower().startswith("utf-16"):
            encoding = "utf-8"  # or else it could not have been read
    try:
        "é".encode(encoding, "xmlcharrefreplace")
        return content.decode(encoding), encoding
    except UnicodeDecodeError as error:
        what = advice(lambda: open_bytes(path)) if encoding == "utf-8" else "it says so itself, so fix it"
        raise DataError(f"{path} is not {encoding.upper()} at byte {error.start:,}; {what}") from None
    except (LookupError, UnicodeError):
        raise DataError(f"{path} says that it is {encoding}, an unknown encoding; convert it to UTF-8") from None
