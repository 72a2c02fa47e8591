"""Texts with a label each: tables (CSV, TSV, JSON lines, Parquet), or lines that begin with their label."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.errors import DataError
from dragoman.text.checks import mend
from dragoman.text.formats import (
    csv_delimiter,
    csv_rows,
    json_records,
    kind_of,
    parquet_records,
    tsv_rows,
)
from dragoman.text.labelled.columns import Chosen, are_tagged_words, choose, has_header
from dragoman.text.labels import Columns, Example, Source, shortened, written
from dragoman.text.lines import open_bytes, read_lines, without_gz
from dragoman.text.readers import ENDINGS, Format
from dragoman.text.settings import DataSettings

SAMPLED_ROWS = 1_000
"""Rows by which the columns are chosen."""

FASTTEXT = "__label__"
"""What fastText writes before a label."""

Row = tuple[int, list[str]]
"""The number of the line on which it begins, and its cells."""
Rows = Callable[[Counter[str], Sequence[int]], Iterator[Row]]
"""Yields rows, and counts what is mended. The columns at some positions are needed: no record may lack their keys."""


class Table(NamedTuple):
    """A table with named columns. Rows without any text are left out."""

    path: Path
    names: list[str]
    reason: str
    rows: Rows

    def sample(self) -> list[list[str]]:
        """The cells of the first rows."""
        return [cells for _, cells in islice(self.rows(Counter(), ()), SAMPLED_ROWS)]


def open_texts(path: Path, settings: DataSettings, seen: Columns | None = None) -> Source:
    """Opens a file of texts with a label each; `seen` are the columns of the training text.

    Raises:
        DataError: the file cannot be read, or nothing tells the label from the text.
    """
    format, reason = format_of(path, settings)
    if format in ("plain", "tsv"):
        _refuse_tagged_words(path)
    if format == "plain":
        if settings.text_column or settings.label_column:
            raise DataError(
                f"{path} has no columns, because its lines begin with their label; leave data.text_column and "
                "data.label_column out, or say which format it has: --set data.format=tsv"
            )
        return Source(str(path), f"{reason}: lines of a label and a text", partial(_labelled_lines, path, settings))
    table = open_table(path, format, settings, seen)
    given = (settings.text_column, settings.label_column)
    chosen = choose(table.names, table.sample(), given, seen, str(path))
    read = partial(_examples, table, chosen, settings)
    columns = table.names[chosen.text], table.names[chosen.label]
    return Source(str(path), f"{format}, {reason}; {table.reason}; {chosen.reason}", read, columns)


def _refuse_tagged_words(path: Path) -> None:
    if are_tagged_words(list(islice(read_lines(path, "replace"), SAMPLED_ROWS))):
        raise DataError(f"{path} holds a word and its label on each line, from which a tagger learns: the task is tag")


def format_of(path: Path, settings: DataSettings) -> tuple[Format, str]:
    """The format of a file, and why: as given, by its name, or by its first line."""
    open_bytes(path).close()  # refuses an unreadable file before anything is guessed from it
    if settings.format == "hub":
        raise DataError(f"{path}: only parallel text is read from the hub; leave data.format out")
    if settings.format:
        return settings.format, "as given"
    if known := ENDINGS.get(without_gz(path).suffix.lower()):
        return known, f"from the name {path.name}"
    first = next(read_lines(path, "replace"))
    if "\t" in first:
        return "tsv", "its first line holds a tab"
    if first.startswith(("{", "[")):
        return "jsonl", "its first line begins like JSON"
    return "plain", "its first line holds no tab"


def open_table(path: Path, format: Format, settings: DataSettings, seen: Columns | None) -> Table:
    """Opens a table, with the names of its header or keys, or numbers from 1.

    Raises:
        DataError: it cannot be read, or holds no rows.
    """
    if format in ("jsonl", "parquet"):
        return _keyed(path, format, settings)
    rows = _filled(partial(tsv_rows, path, settings.encoding_errors))
    if format == "csv":
        delimiter = csv_delimiter(path, settings.encoding_errors)
        rows = _filled(partial(csv_rows, path, delimiter, settings.encoding_errors))
    sample = [cells for _, cells in islice(rows(Counter(), ()), SAMPLED_ROWS)]
    if not sample:
        raise DataError(f"{path} holds only blank lines")
    first = sample[0]
    given = (settings.text_column, settings.label_column)
    header = settings.header
    if header is None:
        header = has_header(first, sample[1:], given, seen)
    if not header:
        return Table(path, [str(number + 1) for number in range(len(first))], "no header", rows)
    if len(sample) == 1:
        raise DataError(f"{path} has no rows below the header ({' | '.join(first)[:80]})")
    shown = " | ".join(first)[:80]
    return Table(path, [cell.strip() for cell in first], f"the first row ({shown}) is a header", _below(rows))


def _filled(rows: Callable[[Counter[str]], Iterator[Row]]) -> Rows:
    return lambda repairs, _needed: ((number, cells) for number, cells in rows(repairs) if any(map(str.strip, cells)))


def _below(rows: Rows) -> Rows:
    return lambda repairs, needed: islice(rows(repairs, needed), 1, None)


def _keyed(path: Path, format: Format, settings: DataSettings) -> Table:
    """A table whose rows are JSON objects, nested or not, or lists."""

    def records(repairs: Counter[str]) -> Iterator[tuple[int, Any]]:
        if format == "parquet":
            return parquet_records(path, repairs)
        return json_records(path, settings.encoding_errors, repairs)

    number, first = next(((number, row) for number, row in records(Counter()) if row is not None), (0, None))
    if first is None:
        raise DataError(f"{path} holds {'only blank lines' if format == 'jsonl' else 'no rows'}")
    if not isinstance(first, dict | list):
        raise DataError(f"{path}:{number} is {kind_of(first)}, not an object or a list of a text and a label")
    names = list(_cells(first))
    return Table(
        path, names, f"{'keys' if isinstance(first, dict) else 'items'} of JSON", partial(_rows, path, records, names)
    )


def _rows(
    path: Path,
    records: Callable[[Counter[str]], Iterator[tuple[int, Any]]],
    names: Sequence[str],
    repairs: Counter[str],
    needed: Sequence[int],
) -> Iterator[Row]:
    for number, record in records(repairs):
        if record is None:
            continue
        if not isinstance(record, dict | list):
            raise DataError(f"{path}:{number} is {kind_of(record)}, not an object or a list of a text and a label")
        cells = _cells(record)
        if missing := [names[at] for at in needed if names[at] not in cells]:
            raise DataError(f"{path}:{number} has no {missing[0]!r}, which the first row has; mend the row")
        yield number, [cells.get(name, "") for name in names]


def _cells(record: Any, above: str = "") -> Mapping[str, str]:
    """The texts, numbers and truths of a record by their dotted keys; items of a list are numbered from 1."""
    items = record.items() if isinstance(record, dict) else enumerate(record, 1)
    found: dict[str, str] = {}
    for key, value in items:
        name = f"{above}{key}"
        if isinstance(value, dict):
            found |= _cells(value, f"{name}.")
        elif not isinstance(value, list):
            found[name] = written(value)
    return found


def _examples(table: Table, chosen: Chosen, settings: DataSettings, repairs: Counter[str]) -> Iterator[Example]:
    for number, cells in table.rows(repairs, (chosen.text, chosen.label)):
        if len(cells) != len(table.names):
            count = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
            raise DataError(
                f"{table.path}:{number} has {count}, but the first row has {len(table.names)}; a cell that holds the "
                "delimiter needs quotes"
            )
        yield _example(table.path, number, cells[chosen.text], cells[chosen.label], settings, repairs)


def _labelled_lines(path: Path, settings: DataSettings, repairs: Counter[str]) -> Iterator[Example]:
    for number, line in enumerate(read_lines(path, settings.encoding_errors, repairs), 1):
        if not line.strip():
            continue
        label, *rest = line.split(maxsplit=1)
        text = "".join(rest)
        if label.startswith(FASTTEXT) and (second := re.search(rf"(?<!\S){FASTTEXT}\S+", text)):
            raise DataError(f"{path}:{number} has two labels, {label} and {second[0]}; a text has one: remove one")
        yield _example(path, number, text, label.removeprefix(FASTTEXT), settings, repairs)


def _example(path: Path, number: int, text: str, label: str, settings: DataSettings, repairs: Counter[str]) -> Example:
    label = shortened(label.strip(), settings.label_depth)
    if not label:
        raise DataError(f"{path}:{number} has no label; every row needs a text and a label: mend the row, or remove it")
    return Example((mend(text, settings.checks.decodes, repairs),), (label,), path.name, (number,))
