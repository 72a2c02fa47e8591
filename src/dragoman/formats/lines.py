"""The lines of a text file, whatever its bytes hold: UTF-8, packed or not, read in bounded memory.

Only `\n` ends a line, so NUL, form feed and the Unicode line separators never change the number of lines. Repairs (a
byte order mark, a carriage return, invalid UTF-8) are counted under the names below.
"""

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal

from dragoman.errors import DataError
from dragoman.files import nearest, same_file
from dragoman.formats.encodings import advice
from dragoman.formats.foreign import refusal

EncodingErrors = Literal["strict", "replace"]

CARRIAGE_RETURNS = "carriage returns dropped at line ends"
BYTE_ORDER_MARKS = "byte order marks dropped"
REPLACED = "invalid characters replaced"

_PIECE = 1 << 18
"""Characters of running text that are read at a time."""
_PACKED = {".gz": b"\x1f\x8b", ".bz2": b"BZh", ".xz": b"\xfd7zXZ\0"}
"""Endings of the names of packed files, and the first bytes of such a file."""

# No line of text is this long. A binary file, or one whose lines end in \r alone, would otherwise fill the memory.
LONGEST_LINE_BYTES = 1 << 24


def read_lines(
    path: Path,
    encoding_errors: EncodingErrors | None = None,
    repairs: Counter[str] | None = None,
) -> Iterator[str]:
    """Yield the lines of a file without their ends; a last line without `\\n` is a line too.

    Without `encoding_errors`, invalid UTF-8 is an error as with "strict", but the message does not name the setting.
    """
    with open_text(path) as file:
        yield from lines_of(file, str(path), encoding_errors, repairs, partial(advice, partial(open_bytes, path)))


def lines_of(
    file: IO[bytes],
    name: str,
    encoding_errors: EncodingErrors | None = None,
    repairs: Counter[str] | None = None,
    advise: Callable[[], str] = lambda: "convert it to UTF-8",
) -> Iterator[str]:
    """Yield the lines of an open file or of standard input, by the rules of `read_lines`; `advise` returns advice for
    text that is not UTF-8.

    Raises:
        DataError: a line is longer than `LONGEST_LINE_BYTES`, is not UTF-8, or cannot be read.
    """
    repairs = Counter() if repairs is None else repairs
    offset = ends = returns = 0
    for number, raw in enumerate(_raw_lines(file, name), 1):
        if raw == b"\n":  # a fast path: files can have millions of empty lines
            ends, offset = ends + 1, offset + 1
            yield ""
            continue
        start = 3 if number == 1 and raw.startswith(b"\xef\xbb\xbf") else 0
        repairs[BYTE_ORDER_MARKS] += start // 3
        try:
            line = raw[start:].decode() if start else raw.decode()
        except UnicodeDecodeError as error:
            if encoding_errors != "replace":
                byte, place = error.object[error.start], offset + start + error.start
                setting = ' (data.encoding_errors = "replace" would put U+FFFD there)' if encoding_errors else ""
                raise DataError(
                    f"{name}:{number} is not valid UTF-8 at byte {place:,} (0x{byte:02x}){setting}; {advise()}"
                ) from None
            line = raw[start:].decode(errors="replace")
            repairs[REPLACED] += line.count("\ufffd") - raw.count(b"\xef\xbf\xbd")
        ends += line.endswith("\n")
        if line.endswith("\r\n"):
            returns += 1
            line = line[:-2]
        elif line.endswith("\n"):
            line = line[:-1]
        offset += len(raw)
        yield line
    if returns < ends:  # if all lines end so, it is how lines end in this file
        repairs[CARRIAGE_RETURNS] += returns


def read_running(path: Path, encoding_errors: EncodingErrors | None = None) -> Iterator[str]:
    """Yield the text of a file in pieces, in bounded memory however long its lines are: joined, they are the lines of
    `read_lines`, each with a line end.

    Raises:
        DataError: the file cannot be read (see `open_bytes`), or is not UTF-8; names the line and byte offset.
    """
    held = last = ""  # a carriage return that may belong to a line end
    errors = "replace" if encoding_errors == "replace" else "strict"
    try:
        with reading(str(path)), io.TextIOWrapper(open_text(path), "utf-8-sig", errors, newline="") as file:
            while piece := file.read(_PIECE):
                text = held + piece
                held = "\r" if text.endswith("\r") else ""
                if text := text[: len(text) - len(held)].replace("\r\n", "\n"):
                    yield text
                    last = text[-1]
    except UnicodeDecodeError:
        for _ in read_lines(path, encoding_errors):  # which raises too, and names the line and the byte
            pass
        raise
    if held or last != "\n":
        yield f"{held}\n"


def open_text(path: Path) -> Any:
    """Open a file of text.

    Raises:
        DataError: it cannot be read (see `open_bytes`), is no text but a picture, a document or the like, or has
            carriage returns instead of line ends.
    """
    file = open_bytes(path)
    head = file.peek(1)
    complaint = refusal(head, path)
    if not complaint and b"\r" in head[:-1] and b"\n" not in head and not _has_line_feed(path):
        complaint = (
            f"{path} ends its lines with carriage returns alone, as old Macs did; convert it: "
            f"tr '\\r' '\\n' < {path.name} > new-{path.name}"
        )
    if complaint:
        file.close()
        raise DataError(complaint)
    return file


def _has_line_feed(path: Path) -> bool:
    with open_bytes(path) as file, reading(str(path)):
        return file.readline(LONGEST_LINE_BYTES).endswith(b"\n")


def open_bytes(path: Path) -> Any:
    """Open a regular file that is not empty, or one inside a ZIP archive, and unpack it on the fly; `peek` shows its
    beginning.

    Raises:
        DataError: it is missing, a folder, a pipe, unreadable, empty, also standard output, or not packed as its name
            says.
    """
    try:
        if (archive := stored_in(path)) != path:
            with reading(str(archive)), zipfile.ZipFile(archive) as opened:
                try:
                    return opened.open(path.relative_to(archive).as_posix())
                except (RuntimeError, NotImplementedError) as error:
                    raise DataError(f"{path} cannot be unpacked: {error}") from None
        if path.is_dir():
            raise DataError(f"{path} is a folder; name a file in it")
        if path.exists() and not path.is_file():
            raise DataError(f"{path} is not a regular file; save the text to a file first")
        if same_file(path, 1):  # as with >> FILE
            raise DataError(f"{path} is also standard output, and would grow as it is read; print to another file")
        file = open(path, "rb")  # noqa: SIM115
        head = file.peek(1)
        packing = next((ending for ending, magic in _PACKED.items() if head.startswith(magic)), None)
        if packing:
            file.close()
            unpack: Any = {".gz": gzip.GzipFile, ".bz2": bz2.BZ2File, ".xz": lzma.LZMAFile}[packing]
            file = io.BufferedReader(unpack(path, "rb"), 1 << 16)
        elif head and path.suffix in _PACKED:
            file.close()
            raise DataError(f"{path} ends in {path.suffix} but is not packed so; rename it")
    except FileNotFoundError:
        raise DataError(f"{path} does not exist{nearest(path)}") from None
    except PermissionError:
        raise DataError(f"{path} cannot be read: permission denied") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    with reading(str(path)):
        if not file.peek(1):
            file.close()
            raise DataError(f"{path} is empty")
    return file


def stored_in(path: Path) -> Path:
    """Return the ZIP archive that holds a file, if its path goes through one; otherwise the file."""
    return next((parent for parent in path.parents if parent.is_file()), path)


def without_packing(path: Path) -> Path:
    """Return the name of the unpacked file.

    >>> without_packing(Path("train.en.gz")).name
    'train.en'
    """
    return path.with_suffix("") if path.suffix in _PACKED else path


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn errors of reading and unpacking a file within the block into `DataError`."""
    try:
        yield
    except EOFError:
        raise DataError(f"{name} ends in the middle: the packed file was cut; fetch it again") from None
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
        raise DataError(f"{name} is a damaged packed file ({error}); fetch it again") from None
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror or error}") from None


def _raw_lines(file: IO[bytes], name: str) -> Iterator[bytes]:
    number = 0
    with reading(name):
        while raw := file.readline(LONGEST_LINE_BYTES):
            number += 1
            if len(raw) == LONGEST_LINE_BYTES and not raw.endswith(b"\n"):
                size = f"{LONGEST_LINE_BYTES >> 20} MiB"
                raise DataError(f"{name}:{number} is longer than {size}; is it text? A line ends at \\n alone")
            yield raw
