"""Documents that are ZIP archives: their parts, and the archive again with some of them changed."""

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from io import BytesIO
from lzma import LZMAError
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from dragoman.errors import DataError


@contextmanager
def opening(path: Path, kind: str) -> Iterator[None]:
    """Raise `DataError` if an archive or a part of it cannot be read, as one with a password (`RuntimeError`); `kind`
    is what it should be.
    """
    try:
        yield
    except (BadZipFile, EOFError, KeyError, LZMAError, OSError, RuntimeError, ValueError, zlib.error) as error:
        raise DataError(f"{path} is not {kind}, or is damaged: {str(error)[:200]}") from None


def open_archive(content: bytes) -> ZipFile:
    """Open an archive. If all names can be UTF-8, those without its mark are too, because many tools omit it."""
    with suppress(UnicodeDecodeError):
        return ZipFile(BytesIO(content), metadata_encoding="utf-8")
    return ZipFile(BytesIO(content))


def with_parts(archive: ZipFile, parts: Mapping[str, bytes]) -> bytes:
    """Return the archive with these parts in place of those of their names; of two with one name, the last stays."""
    written = BytesIO()
    with ZipFile(written, "w") as new:
        new.comment = archive.comment
        for part in {part.filename: part for part in archive.infolist()}.values():
            new.writestr(copy(part), parts[part.filename] if part.filename in parts else archive.read(part))
    return written.getvalue()
