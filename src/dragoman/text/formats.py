"""The rows of tables, one at a time: cells (TSV, CSV) or records with keys (JSON lines, Parquet, the hub).

Every reader yields a number and a row. The number is that of the line on which the row begins, or of the row itself if
there are no lines. `repairs` counts what is mended. `rows` chooses the cells of the pair.
"""

import csv
import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from dragoman.errors import DataError, missing_extra
from dragoman.text.header import names_columns
from dragoman.text.lines import CARRIAGE_RETURNS, EncodingErrors, open_bytes, read_lines

KeyPath = tuple[str | int, ...]
"""The keys that lead to a text inside a record."""

SURROGATES = "lone surrogates replaced"

_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")  # pairs of them, a whole character, among the hits
# Stands for a carriage return inside a CSV line, which the csv module would take for a line end. Decoded UTF-8 never
# holds a lone surrogate, so nothing else is changed back.
_CARRIAGE_RETURN = "\udc0d"
_ROWS_OF_DELIMITER = 100
LONGEST_CELL = 1 << 24
"""Characters of a CSV cell. A quote that is never closed would otherwise fill the memory. Python's csv module has one
limit for the whole process, by default 131,072; it is raised, and never lowered."""


def tsv_rows(path: Path, encoding_errors: EncodingErrors, repairs: Counter[str]) -> Iterator[tuple[int, list[str]]]:
    """Cells between tabs; quotes are text."""
    for number, line in enumerate(read_lines(path, encoding_errors, repairs), 1):
        yield number, line.split("\t")


def csv_rows(
    path: Path, delimiter: str, encoding_errors: EncodingErrors, repairs: Counter[str]
) -> Iterator[tuple[int, list[str]]]:
    """Cells of a CSV file (RFC 4180): a quoted cell may hold line breaks, and a quote in it is doubled.

    Carriage returns at line ends are not counted as repairs, because that is how the lines of CSV end.

    Raises:
        DataError: a quote is never closed, or not doubled; names the line where its row begins.
    """
    csv.field_size_limit(max(LONGEST_CELL, csv.field_size_limit()))
    taken, before = 0, repairs[CARRIAGE_RETURNS]

    def lines() -> Iterator[str]:
        nonlocal taken
        for line in read_lines(path, encoding_errors, repairs):
            taken += 1
            yield (line.replace("\r", _CARRIAGE_RETURN) if "\r" in line else line) + "\n"
        repairs[CARRIAGE_RETURNS] = before

    rows = csv.reader(lines(), delimiter=delimiter, strict=True)
    while True:
        number = taken + 1
        try:
            cells = next(rows, None)
        except csv.Error as error:
            raise DataError(_csv_complaint(path, number, taken, str(error))) from None
        if cells is None:
            return
        yield number, [cell.replace(_CARRIAGE_RETURN, "\r") if _CARRIAGE_RETURN in cell else cell for cell in cells]


def csv_delimiter(path: Path, encoding_errors: EncodingErrors) -> str:
    """The delimiter of cells: comma, semicolon or tab, whichever gives a header, or else rows of equal width."""
    fits: dict[str, tuple[bool, float, bool]] = {}
    for delimiter in ",;\t":
        sample: list[list[str]] = []
        with suppress(DataError):  # if this is the delimiter, reading will complain
            rows = csv_rows(path, delimiter, encoding_errors, Counter())
            sample.extend(islice((cells for _, cells in rows if any(cells)), _ROWS_OF_DELIMITER))
        first = sample[0] if sample else []
        alike = sum(len(cells) == len(first) > 1 for cells in sample) / max(1, len(sample))
        fits[delimiter] = (names_columns(first), alike, len(first) == 2)
    return max(fits, key=lambda delimiter: fits[delimiter])


def json_records(path: Path, encoding_errors: EncodingErrors, repairs: Counter[str]) -> Iterator[tuple[int, Any]]:
    """One JSON value a line; blank lines are None."""
    for number, line in enumerate(read_lines(path, encoding_errors, repairs), 1):
        if not line.strip():
            yield number, None
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(_json_complaint(path, number, line, error)) from None
        yield (
            number,
            _mend_surrogates(record, f"{path}:{number}", encoding_errors, repairs)
            if _SURROGATE_ESCAPE.search(line)
            else record,
        )


def parquet_records(path: Path, repairs: Counter[str]) -> Iterator[tuple[int, Any]]:
    """The rows of a Parquet file, a thousand in memory at a time."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise missing_extra("pyarrow", "parquet") from None
    with tempfile.TemporaryFile() as unpacked, open_bytes(path) as file:
        if path.suffix == ".gz":  # Parquet is read from its end, which gzip cannot seek to
            shutil.copyfileobj(file, unpacked)
            unpacked.seek(0)
        try:
            table = pyarrow.parquet.ParquetFile(unpacked if path.suffix == ".gz" else file)
            number = 0
            for batch in table.iter_batches(batch_size=1000):
                for record in batch.to_pylist():
                    number += 1
                    yield number, record
        except (pyarrow.ArrowException, ValueError, OSError) as error:
            raise DataError(f"{path} is not a Parquet file, or is damaged: {_first_line(error)}") from None


def hub_records(
    name: str, config: str | None, revision: str | None, repairs: Counter[str]
) -> Iterator[tuple[int, Any]]:
    """The training rows of a data set of the Hugging Face hub, or of a local folder laid out like one."""
    try:
        import datasets
    except ImportError:
        raise missing_extra("datasets", "hub") from None
    datasets.disable_progress_bars()  # only the command line draws
    try:
        rows = datasets.load_dataset(name, config, split="train", revision=revision)
    except Exception as error:  # the library raises dozens of kinds, network ones among them
        raise DataError(
            f"the data set {name} ({config or 'no configuration'}) could not be loaded: {_first_line(error)}"
        ) from None
    yield from enumerate(rows, 1)


def text_paths(record: Any, above: KeyPath = ()) -> Iterator[tuple[str, KeyPath]]:
    """Dotted name and path of every text of a record; list items are numbered from 1."""
    items = record.items() if isinstance(record, dict) else enumerate(record)
    for key, value in items:
        path = (*above, key)
        if isinstance(value, dict):
            yield from text_paths(value, path)
        elif value is None or isinstance(value, str):
            yield ".".join(str(part + 1 if isinstance(part, int) else part) for part in path), path


def text_at(record: Any, path: KeyPath, where: str) -> str:
    """The text of a record at a path of keys; null is the empty text.

    Raises:
        DataError: a key is missing, or what it leads to is no text.
    """
    value = record
    for key in path:
        value = _inside(value, key, where)
    if isinstance(value, str):
        return value
    if value is not None:
        raise DataError(f"{where}: {path[-1]!r} should be text, but is {kind_of(value)}")
    return ""


def _inside(value: Any, key: str | int, where: str) -> Any:
    """What stands under a key of an object, or at an index of a list."""
    container = "a list" if isinstance(key, int) else "an object"
    if not isinstance(value, list if isinstance(key, int) else dict):
        raise DataError(f"{where}: the key {key!r} should be in {container}, but this is {kind_of(value)}")
    if not isinstance(key, int) and key not in value:
        raise DataError(f"{where} has no key {key!r}; it has {', '.join(map(repr, value))}")
    return value[key]  # pyright: ignore[reportArgumentType, reportCallIssue] (the container fits the key)


def kind_of(value: object) -> str:
    """What a JSON value is, in words."""
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"the number {value}"
    return {dict: "an object", str: "a text", bool: "true or false"}.get(type(value), "null")


def _csv_complaint(path: Path, start: int, end: int, complaint: str) -> str:
    if "field larger" in complaint or "unexpected end" in complaint:
        how = "never closed" if "unexpected end" in complaint else f"not closed within {LONGEST_CELL:,} characters"
        return f"{path}:{start} opens a quote that is {how}; close it, or double a quote that is text"
    if "expected after" in complaint:
        lines = f"{path}:{end}" if start == end else f"{path}:{end} (in the row that begins on line {start})"
        return f"{lines} goes on after a closing quote; a quote that is text is doubled, and the cell quoted"
    return f"{path}:{start} is not CSV: {complaint}"


def _json_complaint(path: Path, number: int, line: str, error: Exception) -> str:
    if number == 1 and line.lstrip().startswith("["):
        return f"{path} looks like one JSON array; JSON lines are read: one object a line, no commas between"
    return f"{path}:{number} is not JSON: {error}"


def _mend_surrogates(record: Any, where: str, encoding_errors: EncodingErrors, repairs: Counter[str]) -> Any:
    """Replaces or refuses lone surrogates, which JSON escapes can spell and no file can hold."""
    if isinstance(record, dict):
        return {key: _mend_surrogates(value, where, encoding_errors, repairs) for key, value in record.items()}
    if isinstance(record, list):
        return [_mend_surrogates(value, where, encoding_errors, repairs) for value in record]
    if not isinstance(record, str) or not _SURROGATE.search(record):
        return record
    if encoding_errors == "strict":
        raise DataError(
            f'{where} holds a lone surrogate, half a character; mend it, or set data.encoding_errors = "replace"'
        )
    mended, count = _SURROGATE.subn("\ufffd", record)
    repairs[SURROGATES] += count
    return mended


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]
