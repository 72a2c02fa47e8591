"""A file as a table of numbered rows: cells (TSV, CSV, workbooks) or records with keys (JSON lines, Parquet, the hub,
and the formats of `memories`).

Each format is a function that yields a number and a row, one at a time. The number is that of the line on which the row
begins, or of the row itself if there are no lines. `repairs` counts what is mended. A new format is a word in `Format`,
one more such function, and its entries in `ENDINGS` and `ROWS_OF`. `readers` and `examples` choose the cells that are
wanted.
"""

import csv
import html
import io
import json
import logging
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from dragoman.errors import DataError, optional
from dragoman.formats.addresses import HUB
from dragoman.formats.column_names import names_columns
from dragoman.formats.foreign import PARQUET, refusal_of_markup
from dragoman.formats.lines import (
    CARRIAGE_RETURNS,
    EncodingErrors,
    open_bytes,
    open_text,
    read_lines,
    read_running,
    without_packing,
)
from dragoman.formats.memories import po_records, tmx_records, xliff_records

Format = Literal["plain", "tsv", "csv", "jsonl", "parquet", "hub", "tmx", "xliff", "po", "xlsx"]

Row = tuple[int, Any]
"""A number, and cells or a record. A blank line of JSON lines is the record None."""
KeyPath = tuple[str | int, ...]
"""The keys that lead to a text inside a record."""

ENDINGS: dict[str, Format] = {".tsv": "tsv", ".tab": "tsv", ".csv": "csv", ".parquet": "parquet"}
ENDINGS |= dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl")
ENDINGS |= {".tmx": "tmx", ".po": "po", ".pot": "po", ".xlsx": "xlsx", ".xlf": "xliff", ".xliff": "xliff"}
"""How the names of files of each format end."""

_HubParts = tuple[str, str, str, str]
"""The parts of `hub:NAME:CONFIG@REVISION#SPLIT`; empty where nothing is said."""

SURROGATES = "lone surrogates replaced"
TITLES = "rows with one cell above the table left out"

_LONGEST_LIST = 4  # of texts inside a record; longer ones hold words or whole rows
_JSON = json.JSONDecoder(parse_constant=lambda _: None)
_BETWEEN_ITEMS = re.compile(r"[\s,]*")
DELIMITER_GIVEN = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
_SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg>", re.IGNORECASE)
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")  # pairs of them, a whole character, among the hits
# Stands for a carriage return inside a CSV line, which the csv module would take for a line end. Decoded UTF-8 never
# holds a lone surrogate, so nothing else is changed back.
_CARRIAGE_RETURN = "\udc0d"
_ROWS_OF_DELIMITER = 100
_PIECES_JUDGED = 256
"""Pieces of about a quarter of a million characters whose quotes are judged."""
# A cell between tabs or line ends that is quoted as a whole, or else holds a quote.
_CELL_WITH_QUOTES = re.compile(r'(?<![^\t\n])(?:"([^"]*(?:""[^"]*)*)"(?=[\t\n]|\Z)|[^\t\n"]*"[^\t\n]*)')
_UNQUOTED = "; if all quotes are text: --set data.quoted=false"
ONE_OBJECT = "one JSON object that holds all rows; write an array of objects, or one object a line"
LONGEST_CELL = 1 << 24
"""Characters of a CSV cell. A quote that is never closed would otherwise fill the memory. Python's csv module has one
limit for the whole process, by default 131,072; it is raised, and never lowered."""


LARGEST_BLOCK = 1 << 26
"""Bytes of text that rows of a Parquet file may take at a time."""
LARGEST_PART = 1 << 28
"""Bytes of a part of a workbook. Its shared texts are held in memory."""


class Table(NamedTuple):
    """Numbered rows that can be read as often as wanted, and how they are read and why."""

    name: str
    files: tuple[Path, ...]
    format: Format
    reason: str
    rows: Callable[[Counter[str]], Iterator[Row]]

    @property
    def has_records(self) -> bool:
        """Whether a row is a record with keys, not a list of cells."""
        return self.format in HOLD_RECORDS

    def first_record(self) -> Row:
        """The first record that is not blank, and its number.

        Raises:
            DataError: there is none, or it is neither an object nor a list.
        """
        for number, record in self.rows(Counter()):
            if isinstance(record, dict | list):
                return number, record
            if record is not None:
                raise DataError(f"{self.name}:{number} is {kind_of(record)}, not an object or a list")
        raise DataError(f"{self.name} holds {'only blank lines' if self.format == 'jsonl' else 'no rows'}")


def format_of(path: Path, format: Format | None = None) -> tuple[Format, str]:
    """The format of a file, and why: as given, by its name, or by its first line.

    Raises:
        DataError: the file cannot be read, or is said to be of the hub, which has no files.
    """
    if path.as_posix().startswith(HUB):
        return "hub", "as its address says"
    if format == "hub":
        raise DataError(f"{path}: a data set of the hub is named hub:NAME:CONFIG; leave data.format out")
    with open_bytes(path) as file:  # refuses an unreadable file before anything is guessed from it
        is_parquet = file.peek(1).startswith(PARQUET)
    if format:
        return format, "as given"
    if is_parquet:
        return "parquet", "its first bytes are those of Parquet"
    known = ENDINGS.get(without_packing(path).suffix.lower())
    if known not in NO_LINES:
        refuse_markup(path)
    if known:
        return known, f"from the name {path.name}"
    first = next(read_lines(path, "replace"))
    if "\t" in first:
        return "tsv", "its first line holds a tab"
    if first.startswith("{") or _is_list(first):
        return "jsonl", "its first line begins like JSON"
    return "plain", "its first line holds no tab"


def open_table(
    path: Path, format: Format, reason: str, encoding_errors: EncodingErrors, quoted: bool | None = None
) -> Table:
    """The rows of a file of a format that is known, and why. `quoted` says whether quotes around cells are no text."""
    if format == "hub":
        return open_hub(path.as_posix())
    if format == "tsv" and quoted is None and (count := quoted_cells(path, encoding_errors)):
        reason += (
            f"; {count:,} cells are quoted as in CSV, and their quotes are not taken for text "
            "(--set data.quoted=false takes them for text)"
        )
        quoted = True
    if format == "csv" or (format == "tsv" and quoted):
        quoted = quoted is not False
        delimiter = "\t" if format == "tsv" else csv_delimiter(path, encoding_errors, quoted)
        reason += f", with {delimiter!r} between the cells" if format == "csv" and delimiter != "," else ""
        rows = partial(csv_rows, path, encoding_errors, delimiter=delimiter, quoted=quoted)
        return Table(str(path), (path,), format, reason, rows)
    if format == "xlsx":
        reason += workbook_sheets(path)
    return Table(str(path), (path,), format, reason, partial(ROWS_OF[format], path, encoding_errors))


def open_hub(address: str) -> Table:
    """The rows of one split of a data set of the hub, by default those for training."""
    name, config, revision, split = _parts_of(address)
    reason = f"revision {revision}" if revision else "no revision pinned: add @REVISION to read the same rows always"
    rows = partial(hub_records, (name, config, revision, split or "train"))
    return Table(address.replace(f"@{revision}", ""), (), "hub", reason, rows)


def hub_splits(address: str) -> list[str]:
    """The names of the splits of a data set of the hub."""
    return list(_load(*_parts_of(address)))


def _parts_of(address: str) -> _HubParts:
    address, _, split = address.removeprefix(HUB).partition("#")
    address, _, revision = address.partition("@")
    name, _, config = address.partition(":")
    return name, config, revision, split


def _is_list(line: str) -> bool:
    with suppress(ValueError, RecursionError):
        return isinstance(json.loads(line), list)
    return False


def tsv_rows(path: Path, encoding_errors: EncodingErrors, repairs: Counter[str]) -> Iterator[tuple[int, list[str]]]:
    """Cells between tabs, whose quotes are text."""
    for number, line in enumerate(read_lines(path, encoding_errors, repairs), 1):
        yield number, line.split("\t")


def quoted_cells(path: Path, encoding_errors: EncodingErrors) -> int:
    """How many cells of a TSV file stand in quotes that belong to the format; 0 if quotes are text.

    The format quotes a cell that holds quotes, which it doubles, or line breaks; other cells never, or a whole column
    of them. In text, quotes stand anywhere.
    """
    needed = text = lines = 0
    needless = Counter[bool]()  # whether the cell is the last of its line
    for piece in islice(read_running(path, encoding_errors), _PIECES_JUDGED):
        lines += piece.count("\n")
        for cell in _CELL_WITH_QUOTES.finditer(piece) if '"' in piece else ():
            inside = cell[1]
            if inside is None or "\t" in inside:
                text += 1
            elif '""' in inside or "\n" in inside:
                needed += 1
            else:
                needless[piece.startswith("\n", cell.end())] += 1
    is_column = not text and max(needless.values(), default=0) >= 0.9 * lines
    return needed + needless.total() if needed > text or is_column else 0


def csv_rows(
    path: Path, encoding_errors: EncodingErrors, repairs: Counter[str], delimiter: str = ",", quoted: bool = True
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

    quoting = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    source = lines()
    if _given_delimiter(path, encoding_errors):
        next(source)
    rows = csv.reader(source, delimiter=delimiter, quoting=quoting, strict=True)
    while True:
        number = taken + 1
        try:
            cells = next(rows, None)
        except csv.Error as error:
            raise DataError(_csv_complaint(path, number, taken, str(error))) from None
        if cells is None:
            return
        yield number, [cell.replace(_CARRIAGE_RETURN, "\r") if _CARRIAGE_RETURN in cell else cell for cell in cells]


def csv_delimiter(path: Path, encoding_errors: EncodingErrors, quoted: bool = True) -> str:
    """The delimiter of cells: comma, semicolon or tab, whichever gives a header, or else rows of equal width."""
    if given := _given_delimiter(path, encoding_errors):
        return given
    fits: dict[str, tuple[bool, float, bool]] = {}
    for delimiter in ",;\t":
        sample: list[list[str]] = []
        with suppress(DataError):  # if this is the delimiter, reading will complain
            rows = csv_rows(path, encoding_errors, Counter(), delimiter, quoted)
            sample.extend(islice((cells for _, cells in rows if any(cells)), _ROWS_OF_DELIMITER))
        first = sample[0] if sample else []
        alike = sum(len(cells) == len(first) > 1 for cells in sample) / max(1, len(sample))
        fits[delimiter] = (names_columns(first), alike, len(first) == 2)
    return max(fits, key=lambda delimiter: fits[delimiter])


def _given_delimiter(path: Path, encoding_errors: EncodingErrors) -> str | None:
    """The delimiter that the first line names for a spreadsheet, as in `sep=;`."""
    first = DELIMITER_GIVEN.fullmatch(next(read_lines(path, encoding_errors)))
    return first[1] if first else None


def json_records(path: Path, encoding_errors: EncodingErrors, repairs: Counter[str]) -> Iterator[Row]:
    """One JSON value a line, or the items of one array. Blank lines, and numbers that are none (NaN), are None."""
    if _begins_array(path, encoding_errors):
        yield from _items_of_array(path, encoding_errors, repairs)
        return
    for number, line in enumerate(read_lines(path, encoding_errors, repairs), 1):
        if not line.strip():
            yield number, None
            continue
        try:
            record = _JSON.decode(line)
        except (ValueError, RecursionError) as error:
            raise DataError(_json_complaint(path, number, line, error)) from None
        if _SURROGATE_ESCAPE.search(line):
            record = _mend_surrogates(record, f"{path}:{number}", encoding_errors, repairs)
        yield number, by_language(record)


def _begins_array(path: Path, encoding_errors: EncodingErrors) -> bool:
    """Whether a file is one array of records, and not a list on each line."""
    begin = next(read_running(path, encoding_errors)).lstrip()
    if not re.match(r"\[\s*[\[{]", begin):
        return False
    first, _, rest = begin.partition("\n")
    return not (first.startswith("[[") and _is_list(first) and rest.lstrip().startswith("["))


def _items_of_array(path: Path, encoding_errors: EncodingErrors, repairs: Counter[str]) -> Iterator[Row]:
    """The items of an array, with a piece of the file in memory. They are numbered from 1."""
    pieces = read_running(path, encoding_errors)
    text, number = next(pieces).lstrip().removeprefix("["), 1
    at = 0
    while True:
        between = _BETWEEN_ITEMS.match(text, at)
        at = between.end() if between else at
        try:
            record, end = _JSON.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            if text.startswith("]", at):
                return
            if len(text) - at > LONGEST_CELL or not (piece := next(pieces, "")):
                raise DataError(f"{path}: item {number} of its array is not JSON: {error}") from None
            text, at = text[at:] + piece, 0
            continue
        if _SURROGATE_ESCAPE.search(text, at, end):
            record = _mend_surrogates(record, f"{path}:{number}", encoding_errors, repairs)
        yield number, by_language(record)
        at, number = end, number + 1


def by_language(record: Any) -> Any:
    """A record whose parallel lists of languages and texts, as the datasets library has them, are keyed texts.

    >>> by_language({"translation": {"language": ["en", "it"], "text": ["Hi.", "Ciao."]}})
    {'translation': {'en': 'Hi.', 'it': 'Ciao.'}}
    """
    if not isinstance(record, dict):
        return record
    if record.keys() == {"language", "text"} and all(isinstance(value, list) for value in record.values()):
        return dict(zip(record["language"], record["text"], strict=False))
    if any(isinstance(value, dict) for value in record.values()):
        return {key: by_language(value) for key, value in record.items()}
    return record


def parquet_records(path: Path, _encoding_errors: EncodingErrors, _repairs: Counter[str]) -> Iterator[Row]:
    """The rows of a Parquet file, a thousand in memory at a time, or fewer where their texts are long."""
    with optional("pyarrow", "parquet"):
        import pyarrow
        import pyarrow.parquet
    with open_bytes(path) as file:
        if not isinstance(getattr(file, "raw", None), io.FileIO):  # it is read from its end
            raise DataError(f"{path} is a packed Parquet file; unpack it first, which costs little space")
        try:
            rows = _rows_at_a_time(file)
            number = 0
            for batch in pyarrow.parquet.ParquetFile(file).iter_batches(batch_size=rows):
                for record in batch.to_pylist():
                    number += 1
                    yield number, by_language(record)
        except (pyarrow.ArrowException, ValueError, OSError) as error:
            raise DataError(f"{path} is not a Parquet file, or is damaged: {_first_line(error)}") from None


def _rows_at_a_time(file: IO[bytes]) -> int:
    """How many rows of a Parquet file fit into memory, whatever they hold: a text that many rows repeat is kept once.

    Raises:
        ValueError: it unpacks to a thousand times its size, or a row holds lists of a thousand values.
    """
    import pyarrow.parquet

    metadata = pyarrow.parquet.read_metadata(file)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for column in map(group.column, range(group.num_columns)):
            if column.total_uncompressed_size > max(LARGEST_BLOCK, 1000 * column.total_compressed_size):
                raise ValueError(f"column {column.path_in_schema} unpacks to more than a thousand times its size")
            if column.num_values > 1000 * max(group.num_rows, 1000):
                raise ValueError(f"column {column.path_in_schema} holds lists of more than a thousand values")
    columns = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
    table = pyarrow.parquet.ParquetFile(file, read_dictionary=texts)
    longest = max((_longest(array) for batch in table.iter_batches(batch_size=1000) for array in batch), default=0)
    return max(1, min(1000, LARGEST_BLOCK // max(1, longest)))


def _longest(array: Any) -> int:
    """The bytes of the longest text in an array of Arrow."""
    import pyarrow.compute
    from pyarrow import types

    compute: Any = pyarrow.compute
    if types.is_dictionary(array.type):
        array = array.dictionary
    if types.is_string(array.type) or types.is_binary(array.type):
        return compute.max(compute.binary_length(array)).as_py() or 0
    if types.is_struct(array.type):
        return max(map(_longest, array.flatten()), default=0)
    return _longest(array.flatten()) if types.is_list(array.type) else 0


def xlsx_rows(path: Path, _encoding_errors: EncodingErrors, repairs: Counter[str]) -> Iterator[tuple[int, list[str]]]:
    """The rows of the first sheet of a workbook that has two columns, without a title above them. Cells hold what
    formulas last gave.
    """
    with _workbook(path) as (sheet, _):
        fullest, width = _shape(sheet)
        may_be_title = fullest > 1
        for number, values in enumerate(sheet.iter_rows(values_only=True), 1):
            cells = list(map(written, values))
            while cells and not cells[-1]:
                cells.pop()
            if cells and (may_be_title := may_be_title and sum(map(bool, cells)) == 1):
                repairs[TITLES] += 1
            elif cells:
                yield number, cells + [""] * (width - len(cells))


def workbook_sheets(path: Path) -> str:
    """Which of several sheets is read, in words."""
    with _workbook(path) as (sheet, names):
        return f"; of its sheets ({', '.join(names)}), {sheet.title} is read" if len(names) > 1 else ""


@contextmanager
def _workbook(path: Path) -> Iterator[tuple[Any, list[str]]]:
    """The sheet of a workbook that is read, a row in memory at a time, and the names of all."""
    with optional("openpyxl", "documents"):
        import openpyxl
    with open_bytes(path) as file:
        if not isinstance(getattr(file, "raw", None), io.FileIO):  # it is read from its end
            raise DataError(f"{path} is a packed workbook; unpack it first, which costs little space")
        try:
            for part in zipfile.ZipFile(file).infolist():
                if part.file_size > LARGEST_PART or part.file_size > max(LARGEST_BLOCK, 1000 * part.compress_size):
                    raise ValueError(f"{part.filename} unpacks to {part.file_size >> 20:,} MiB")
            with warnings.catch_warnings(action="ignore"):  # of styles that it does not know
                book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            sheets = [sheet for sheet in book.worksheets if _shape(sheet)[0] > 1] or book.worksheets
            if not sheets:
                raise ValueError("it has no sheet of cells")
            yield sheets[0], [sheet.title for sheet in book.worksheets]
        except DataError:
            raise
        except Exception as error:  # the library raises whatever a broken part leads to
            raise DataError(f"{path} is not a workbook (XLSX), or is damaged: {_first_line(error)[:200]}") from None


def _shape(sheet: Any) -> tuple[int, int]:
    """How many cells the fullest of the first rows holds, and how many columns the widest takes."""
    rows = islice(sheet.iter_rows(values_only=True), _ROWS_OF_DELIMITER)
    filled = [[0, *(column for column, value in enumerate(row, 1) if value is not None)] for row in rows] or [[0]]
    return max(map(len, filled)) - 1, max(row[-1] for row in filled)


def hub_records(parts: _HubParts, _repairs: Counter[str]) -> Iterator[Row]:
    """The rows of a split of a data set of the Hugging Face hub, or of a local folder laid out like one. Labels have
    names, not numbers; a hidden one is -1.
    """
    rows = _load(*parts)
    kinds = {key: getattr(kind, "feature", kind) for key, kind in (getattr(rows, "features", None) or {}).items()}
    labels = {key: kind.names for key, kind in kinds.items() if hasattr(kind, "names")}
    for number, record in enumerate(rows, 1):
        yield number, by_language({**record, **{key: _named(record[key], names) for key, names in labels.items()}})


def _named(label: Any, names: Sequence[str]) -> Any:
    if isinstance(label, list):
        return [_named(each, names) for each in label]
    return names[label] if isinstance(label, int) and label >= 0 else label


def _load(name: str, config: str, revision: str, split: str) -> Any:
    with optional("datasets", "hub"):
        import datasets
    datasets.disable_progress_bars()  # only the command line draws
    for library in ("datasets", "huggingface_hub"):
        logging.getLogger(library).setLevel(logging.ERROR)  # which is raised as well, in one line
    try:
        return datasets.load_dataset(name, config or None, split=split or None, revision=revision or None)
    except Exception as error:  # the library raises dozens of kinds, network ones among them
        raise DataError(
            f"the data set {name} ({config or 'no configuration'}) could not be loaded: {_first_line(error)}"
        ) from None


def refuse_markup(path: Path) -> None:
    """Refuses a file that is no text, or whose text is neither sentences nor rows; SGM is read (see `side_lines`)."""
    with open_text(path) as file:
        complaint = refusal_of_markup(file.peek(1), path)
    if complaint and not _is_sgm(path):
        raise DataError(complaint)


def _is_sgm(path: Path) -> bool:
    return without_packing(path).suffix.lower() in (".sgm", ".sgml")


def side_lines(path: Path, encoding_errors: EncodingErrors, repairs: Counter[str] | None = None) -> Iterator[str]:
    """The sentences of one of several aligned files: its lines, or the segments of SGM, as WMT has them."""
    lines = read_lines(path, encoding_errors, repairs)
    if not _is_sgm(path):
        yield from lines
        return
    held = ""
    for line in lines:
        held += f"{line} "
        yield from (html.unescape(segment).strip() for segment in _SEGMENT.findall(held))
        held = held.rpartition("</seg>")[2] if "<seg" in held else ""


ROWS_OF: dict[Format, Callable[[Path, EncodingErrors, Counter[str]], Iterator[Row]]] = {
    "tsv": tsv_rows,
    "csv": csv_rows,
    "jsonl": json_records,
    "parquet": parquet_records,
    "tmx": tmx_records,
    "xliff": xliff_records,
    "po": po_records,
    "xlsx": xlsx_rows,
}
MEMORIES = ("tmx", "xliff", "po")
"""The formats whose records hold a text for each of their languages, not all of them the same."""
NO_LINES = (*MEMORIES, "parquet", "xlsx")
"""The formats that have rules of their own for what their bytes may be."""
HOLD_RECORDS = ("jsonl", "parquet", "hub", *MEMORIES)
"""The formats whose rows are records with keys, not lists of cells."""


def values_of(record: Any, above: KeyPath = (), lists: bool = False) -> Iterator[tuple[str, KeyPath, Any]]:
    """Dotted name, path and value of everything in a record, in short `lists` only on request; items of a list are
    numbered from 1.

    >>> [(name, value) for name, _, value in values_of({"id": 7, "translation": {"en": "Hi.", "it": "Ciao."}})]
    [('id', 7), ('translation.en', 'Hi.'), ('translation.it', 'Ciao.')]
    """
    for key, value in record.items() if isinstance(record, dict) else enumerate(record):
        path = (*above, key)
        if isinstance(value, dict) or (lists and isinstance(value, list) and len(value) <= _LONGEST_LIST):
            yield from values_of(value, path, lists)
        elif not isinstance(value, list):
            yield ".".join(str(part + 1 if isinstance(part, int) else part) for part in path), path, value


def text_at(record: Any, path: KeyPath, where: str, only_texts: bool = True) -> str:
    """The text of a record at a path of keys; null is the empty text, and other values are written as texts.

    Raises:
        DataError: a key is missing, or what it leads to is no text, in records with `only_texts`.
    """
    value = record
    for key in path:
        container = "a list" if isinstance(key, int) else "an object"
        if not isinstance(value, list if isinstance(key, int) else dict):
            raise DataError(f"{where}: the key {key!r} should be in {container}, but this is {kind_of(value)}")
        if isinstance(value, dict) and key not in value:
            raise DataError(f"{where} has no key {key!r}; it has {', '.join(map(repr, value))}")
        if isinstance(value, list) and key >= len(value):  # pyright: ignore[reportOperatorIssue]
            raise DataError(f"{where} has {kind_of(value)}, where the first rows have more")
        value = value[key]  # pyright: ignore[reportArgumentType, reportCallIssue] (the container fits the key)
    if only_texts and not isinstance(value, str | None):
        raise DataError(f"{where}: {path[-1]!r} should be text, but is {kind_of(value)}")
    return written(value)


def written(value: object) -> str:
    """Return a JSON value as a cell of a table; null is empty.

    >>> written(True), written(3), written(None), written("good")
    ('true', '3', '', 'good')
    """
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


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
        return f"{path}:{start} opens a quote that is {how}; close it, or double a quote that is text{_UNQUOTED}"
    if "expected after" in complaint:
        lines = f"{path}:{end}" if start == end else f"{path}:{end} (in the row that begins on line {start})"
        return f"{lines} goes on after a closing quote; a quote that is text is doubled, and the cell quoted{_UNQUOTED}"
    return f"{path}:{start} is not CSV: {complaint}"


def _json_complaint(path: Path, number: int, line: str, error: Exception) -> str:
    if number == 1 and re.match(r'\s*\{\s*("[^"]*"\s*:\s*[\[{]?\s*)?$', line):
        return f"{path} is {ONE_OBJECT}"
    return f"{path}:{number} is not JSON: {error}"


def _mend_surrogates(record: Any, where: str, encoding_errors: EncodingErrors, repairs: Counter[str]) -> Any:
    """Replaces or refuses lone surrogates, which JSON escapes can spell and no file can hold."""
    mended, count = _SURROGATE.subn("\ufffd", json.dumps(record, ensure_ascii=False))
    if count and encoding_errors == "strict":
        raise DataError(
            f'{where} holds a lone surrogate, half a character; mend it, or set data.encoding_errors = "replace"'
        )
    repairs[SURROGATES] += count
    return json.loads(mended)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]
