"""The lines of a text file, whatever its bytes hold: UTF-8, gzip'd or not, read in bounded memory.

Only `\n` ends a line, so NUL, form feed and the Unicode line separators never change the number of lines. Repairs (a
byte order mark, a carriage return, invalid UTF-8) are counted under the names below.
"""

import gzip
import io
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal

from dragoman.errors import DataError
from dragoman.files import nearest, same_file

EncodingErrors = Literal["strict", "replace"]

CARRIAGE_RETURNS = "carriage returns dropped at line ends"
BYTE_ORDER_MARKS = "byte order marks dropped"
REPLACED = "invalid characters replaced"

_BLOCK = 1 << 20
"""Characters of running text that are read at a time."""

# No line of text is so long. A binary file, or one whose lines end in \r alone, would otherwise fill the memory.
LONGEST_LINE_BYTES = 1 << 24


def read_lines(
    path: Path,
    encoding_errors: EncodingErrors | None = None,
    repairs: Counter[str] | None = None,
) -> Iterator[str]:
    """The lines of a file without their ends; a last line without `\\n` is a line too.

    Without `encoding_errors`, invalid UTF-8 is an error as with "strict", but the message does not name the setting.
    """
    with open_bytes(path) as file:
        yield from lines_of(file, str(path), encoding_errors, repairs)


def lines_of(
    file: IO[bytes],
    name: str,
    encoding_errors: EncodingErrors | None = None,
    repairs: Counter[str] | None = None,
) -> Iterator[str]:
    """The lines of an open file or of standard input, by the rules of `read_lines`.

    Raises:
        DataError: a line is longer than `LONGEST_LINE_BYTES`, is not UTF-8, or cannot be read.
    """
    repairs = Counter() if repairs is None else repairs
    offset = ends = returns = 0
    for number, raw in enumerate(_raw_lines(file, name), 1):
        start = 3 if number == 1 and raw.startswith(b"\xef\xbb\xbf") else 0
        repairs[BYTE_ORDER_MARKS] += start // 3
        try:
            line = raw[start:].decode() if start else raw.decode()
        except UnicodeDecodeError as error:
            if encoding_errors != "replace":
                byte = offset + start + error.start
                raise DataError(_undecodable(name, number, byte, raw, error, encoding_errors)) from None
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
    """The text of a file in pieces, in bounded memory however long its lines are: joined, they are what `read_lines`
    gives, each with a line end.

    Raises:
        DataError: the file cannot be read (see `open_bytes`), or is not UTF-8; names the line and byte offset.
    """
    held = last = ""  # a carriage return that may belong to a line end
    errors = "replace" if encoding_errors == "replace" else "strict"
    try:
        with _reading(str(path)), io.TextIOWrapper(open_bytes(path), "utf-8-sig", errors, newline="") as file:
            while piece := file.read(_BLOCK):
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


def open_bytes(path: Path) -> IO[bytes]:
    """Opens a regular file that is not empty, and unpacks it on the fly if its name ends in `.gz`.

    Raises:
        DataError: it is missing, a folder, a pipe, unreadable, empty, also standard output, or not the gzip that its
            name says.
    """
    try:
        if path.is_dir():
            raise DataError(f"{path} is a folder; name a file in it")
        if path.exists() and not path.is_file():
            raise DataError(f"{path} is not a regular file; save the text to a file first")
        if same_file(path, 1):  # as with >> FILE
            raise DataError(f"{path} is also standard output, and would grow as it is read; print to another file")
        packed = path.suffix == ".gz"
        file = io.BufferedReader(gzip.GzipFile(path, "rb"), 1 << 16) if packed else open(path, "rb")  # noqa: SIM115
    except FileNotFoundError:
        raise DataError(f"{path} does not exist{nearest(path)}") from None
    except PermissionError:
        raise DataError(f"{path} cannot be read: permission denied") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    with _reading(str(path)):
        if not file.peek(1):
            file.close()
            raise DataError(f"{path} is empty")
    return file


def without_gz(path: Path) -> Path:
    """The name of the unpacked file.

    >>> without_gz(Path("train.en.gz")).name
    'train.en'
    """
    return path.with_suffix("") if path.suffix == ".gz" else path


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Turns what can go wrong while bytes come in into `DataError`."""
    try:
        yield
    except EOFError:
        raise DataError(f"{name} ends in the middle: the gzip file was cut; fetch it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        if "Not a gzipped" in str(error):
            raise DataError(f"{name} ends in .gz but is not a gzip file; rename it") from None
        raise DataError(f"{name} is a damaged gzip file ({error}); fetch it again") from None
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror or error}") from None


def _raw_lines(file: IO[bytes], name: str) -> Iterator[bytes]:
    number = 0
    with _reading(name):
        while raw := file.readline(LONGEST_LINE_BYTES):
            number += 1
            if len(raw) == LONGEST_LINE_BYTES and not raw.endswith(b"\n"):
                size = f"{LONGEST_LINE_BYTES >> 20} MiB"
                raise DataError(f"{name}:{number} is longer than {size}; is it text? A line ends at \\n alone")
            yield raw


def _undecodable(
    name: str, number: int, offset: int, raw: bytes, error: UnicodeDecodeError, encoding_errors: EncodingErrors | None
) -> str:
    if number == 1 and raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return f"{name} is UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)"
    byte = error.object[error.start]
    return (
        f"{name}:{number} is not valid UTF-8 at byte {offset:,} (0x{byte:02x}); convert it to UTF-8 from the encoding "
        "it has, as iconv -f WINDOWS-1252 -t UTF-8 does"
        + (', or set data.encoding_errors = "replace"' * bool(encoding_errors))
    )
