"""The lines of a text file, whatever its bytes hold: UTF-8, gzip'd or not, read in bounded memory.

A line ends at `\\n` alone, so NUL, form feed and the Unicode line separators never change how many lines there are.
What is mended on the way (a byte order mark, a carriage return, invalid UTF-8) is counted under the names below.
"""

import difflib
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal

from dragoman.errors import DataError

EncodingErrors = Literal["strict", "replace"]

CARRIAGE_RETURNS = "carriage returns dropped at line ends"
BYTE_ORDER_MARKS = "byte order marks dropped"
REPLACED = "invalid characters replaced"

# A text line is never this long; a binary file, or one whose lines end in \r alone, would otherwise fill the memory.
LONGEST_LINE_BYTES = 1 << 24


def read_lines(
    path: Path, encoding_errors: EncodingErrors = "strict", repairs: Counter[str] | None = None
) -> Iterator[str]:
    """The lines of a file without their ends; a last line without `\\n` is a line too.

    Raises:
        DataError: the file cannot be read (see `open_bytes`), or is not UTF-8: with line and byte offset.
    """
    repairs = Counter() if repairs is None else repairs
    offset = 0
    for number, raw in enumerate(_raw_lines(path), 1):
        start = 3 if number == 1 and raw.startswith(b"\xef\xbb\xbf") else 0
        repairs[BYTE_ORDER_MARKS] += start // 3
        try:
            line = raw[start:].decode() if start else raw.decode()
        except UnicodeDecodeError as error:
            if encoding_errors == "strict":
                raise DataError(_undecodable(path, number, offset + start + error.start, raw, error)) from None
            line = raw[start:].decode(errors="replace")
            repairs[REPLACED] += line.count("\ufffd") - raw.count(b"\xef\xbf\xbd")
        if line.endswith("\r\n"):
            repairs[CARRIAGE_RETURNS] += 1
            line = line[:-2]
        elif line.endswith("\n"):
            line = line[:-1]
        offset += len(raw)
        yield line


def open_bytes(path: Path) -> IO[bytes]:
    """A regular file with something in it, unpacked on the fly where its name ends in `.gz`.

    Raises:
        DataError: missing, a folder, a pipe, unreadable, empty, or not the gzip that its name says.
    """
    try:
        if path.is_dir():
            raise DataError(f"{path} is a folder; name a file in it")
        if path.exists() and not path.is_file():
            raise DataError(f"{path} is not a regular file; save the text to a file first")
        packed = path.suffix == ".gz"
        file = io.BufferedReader(gzip.GzipFile(path, "rb"), 1 << 16) if packed else open(path, "rb")  # noqa: SIM115
    except FileNotFoundError:
        raise DataError(f"{path} does not exist{_nearest(path)}") from None
    except PermissionError:
        raise DataError(f"{path} may not be read: permission denied") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    with _reading(path):
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
def _reading(path: Path) -> Iterator[None]:
    """What can go wrong while bytes come in, as `DataError`."""
    try:
        yield
    except EOFError:
        raise DataError(f"{path} ends in the middle: the gzip file was cut; fetch it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        if "Not a gzipped" in str(error):
            raise DataError(f"{path} ends in .gz but is not a gzip file; rename it") from None
        raise DataError(f"{path} is a damaged gzip file ({error}); fetch it again") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None


def _raw_lines(path: Path) -> Iterator[bytes]:
    with open_bytes(path) as file, _reading(path):
        number = 0
        while raw := file.readline(LONGEST_LINE_BYTES):
            number += 1
            if len(raw) == LONGEST_LINE_BYTES and not raw.endswith(b"\n"):
                size = f"{LONGEST_LINE_BYTES >> 20} MiB"
                raise DataError(f"{path}:{number} is longer than {size}; is it text? A line ends at \\n alone")
            yield raw


def _undecodable(path: Path, number: int, offset: int, raw: bytes, error: UnicodeDecodeError) -> str:
    if number == 1 and raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return f"{path} is UTF-16; save it as UTF-8 (iconv -f UTF-16 -t UTF-8)"
    byte = error.object[error.start]
    return (
        f"{path}:{number} is not valid UTF-8 at byte {offset:,} of the file (0x{byte:02x}); save it as UTF-8, "
        'or set data.encoding_errors = "replace"'
    )


def _nearest(path: Path) -> str:
    """A file beside `path` with nearly its name, as a question."""
    try:
        names = [file.name for file in path.parent.iterdir()]
    except OSError:
        return ""
    near = difflib.get_close_matches(path.name, names, n=1)
    return f"; did you mean {path.with_name(near[0])}?" if near else ""
