"""A file as a table of numbered rows: cells (TSV, CSV, workbooks) or records with keys (JSON lines, Parquet, the hub,
XLIFF, translation memories and catalogues).

The module of each format has a function `rows` that yields a number and a row, one at a time. The number is that of the
line on which the row begins, or of the row itself if there are no lines. `repairs` counts what is changed or left out.
`readers` and `examples` choose the cells that are wanted.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.errors import DataError
from dragoman.formats.addresses import HUB
from dragoman.formats.foreign import PARQUET, refusal_of_markup
from dragoman.formats.lines import EncodingErrors, open_bytes, open_text, read_lines, without_packing
from dragoman.formats.plain import is_sgm
from dragoman.formats.registry import DATA_FORMAT_OF_SUFFIX, DATA_FORMATS, Format

Row = tuple[int, Any]
"""A number, and cells or a record. A blank line of JSON lines is the record None."""
KeyPath = tuple[str | int, ...]
"""The keys that lead to a text inside a record."""
Texts = dict[str, str]
"""A record of a memory: language -> text."""

LACKING = "entries that lack a language left out"
UNTRANSLATED = "untranslated entries left out"
NOT_TO_TRANSLATE = "entries marked as not to be translated left out"
"""Kinds of entries of memories that are no training text, under which they are counted and reported."""
_LONGEST_LIST = 4  # of texts inside a record; longer ones hold words or whole rows


class Untranslated(DataError):
    """Error for a file without a translated entry."""

    @classmethod
    def from_counts(cls, path: Path, left_out: Counter[str]) -> "Untranslated":
        """Return the error for a file in which these kinds of entries were left out."""
        counts = ", ".join(f"{count:,} {kind}" for kind, count in left_out.items())
        return cls(f"{path} holds no translated entries{f' ({counts})' if counts else ''}")


class Table(NamedTuple):
    """Numbered rows that can be read several times, and how they are read and why."""

    name: str
    files: tuple[Path, ...]
    format: Format
    reason: str
    rows: Callable[[Counter[str]], Iterator[Row]]

    @property
    def has_records(self) -> bool:
        """True if a row is a record with keys, not a list of cells."""
        return DATA_FORMATS[self.format].holds_records

    def first_record(self) -> Row:
        """Return the first record that is not blank, and its number.

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
    """Return the format of a file, and the reason: as given, by its name, or by its first line.

    Raises:
        DataError: the file cannot be read, or `format` is "hub", which has no files.
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
    known = DATA_FORMAT_OF_SUFFIX.get(without_packing(path).suffix.lower())
    if known is None or DATA_FORMATS[known].has_lines:
        refuse_markup(path)
    if known:
        return known, f"from the name {path.name}"
    first = next(read_lines(path, "replace"))
    if "\t" in first:
        return "tsv", "its first line holds a tab"
    if first.startswith("{") or is_json_list(first):
        return "jsonl", "its first line begins like JSON"
    return "plain", "its first line holds no tab"


def open_table(
    path: Path, format: Format, reason: str, encoding_errors: EncodingErrors, quoted: bool | None = None
) -> Table:
    """Open the rows of a file or data set, whose format is known for this `reason`. `quoted` says whether quotes around
    cells of a CSV or TSV file belong to the format.
    """
    module = import_module(f"dragoman.formats.{DATA_FORMATS[format].module or format}")  # which may import this one
    if format == "hub":
        return module.open_hub(path.as_posix())
    if format in ("tsv", "csv"):
        rows, remark = module.choose_rows(path, format == "tsv", encoding_errors, quoted)
    else:
        rows = partial(module.rows, path, encoding_errors)
        remark = module.describe_sheets(path) if format == "xlsx" else ""
    return Table(str(path), (path,), format, reason + remark, rows)


def is_json_list(line: str) -> bool:
    """Return True if a line is a list of JSON."""
    with suppress(ValueError, RecursionError):
        return isinstance(json.loads(line), list)
    return False


def refuse_markup(path: Path) -> None:
    """Refuse a file that is no text, or whose text is neither sentences nor rows; SGM is read (see `side_lines`)."""
    with open_text(path) as file:
        complaint = refusal_of_markup(file.peek(1), path)
    if complaint and not is_sgm(path):
        raise DataError(complaint)


def by_language(record: Any) -> Any:
    """Return a record in which texts are keyed by their languages; the datasets library gives two parallel lists.

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


def values_of(record: Any, above: KeyPath = (), lists: bool = False) -> Iterator[tuple[str, KeyPath, Any]]:
    """Yield dotted name, path and value of everything in a record, in short lists only with `lists`. Items of a list
    are numbered from 1.

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
    """Return the text of a record at a path of keys; null is the empty text, and other values are written as texts.

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
    """Return the kind of a JSON value, in words."""
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"the number {value}"
    return {dict: "an object", str: "a text", bool: "true or false"}.get(type(value), "null")


def first_line(error: Exception) -> str:
    """Return the kind of an error and the first line of its message."""
    return f"{type(error).__name__}: {error}".partition("\n")[0]
