"""Files of text, and tables whose columns have names: from the header, from the keys of records, or numbers from 1."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from dragoman.errors import DataError
from dragoman.formats.lines import EncodingErrors, read_lines
from dragoman.formats.registry import DATA_FORMATS, Format
from dragoman.formats.rows import LACKING, KeyPath, Table, format_of, kind_of, open_table, text_at, values_of, written
from dragoman.text.column_statistics import Statistics, measure
from dragoman.text.header import Header

Cells = tuple[str, ...]


class TextFile(NamedTuple):
    """A file of lines or rows: its format and the reason, and how it is read."""

    path: Path
    format: Format
    reason: str
    encoding_errors: EncodingErrors
    quoted: bool | None

    @classmethod
    def at(
        cls, path: Path, format: Format | None, encoding_errors: EncodingErrors, quoted: bool | None = None
    ) -> "TextFile":
        """Return the file at a path, or the data set of the hub at an address."""
        return cls(path, *format_of(path, format), encoding_errors, quoted)

    def lines(self, repairs: Counter[str]) -> Iterator[tuple[int, str]]:
        """Yield the lines with their numbers, from 1."""
        return enumerate(read_lines(self.path, self.encoding_errors, repairs), 1)

    def first_lines(self, count: int) -> list[str]:
        """Return the first lines, whatever their bytes."""
        return list(islice(read_lines(self.path, "replace"), count))

    def table(self) -> Table:
        return open_table(self.path, self.format, self.reason, self.encoding_errors, self.quoted)


class NamedTable(NamedTuple):
    """A table, the names of its columns, and some of its rows."""

    table: Table
    names: list[str]
    sample: list[list[str]]
    """The cells of the first rows, without the header."""
    header: Header
    shown: str = ""
    """The first row, for a message."""
    paths: Sequence[KeyPath] = ()
    """The keys that lead to each column of records."""
    kind: str = ""
    """The kind of the first record, in words."""

    def measured(self) -> list[Statistics]:
        """Return the statistics of each column."""
        return [measure(self.sample, at) for at in range(len(self.names))]

    def rows(
        self, positions: Sequence[int], repairs: Counter[str], only_texts: bool = True
    ) -> Iterator[tuple[int, Cells | str | None]]:
        """Yield the number of each row below the header, and its cells at some positions, or the reason why it has
        none, or None if it is blank. With `only_texts`, values of records that are no texts are a reason; without, they
        are written as texts.
        """
        if self.table.has_records:
            yield from self._records([self.paths[at] for at in positions], repairs, only_texts)
            return
        width, at_positions, to_skip = len(self.names), itemgetter(*positions), self.header.is_header
        for number, cells in self.table.rows(repairs):
            if not is_filled(cells):
                yield number, None
            elif to_skip:
                to_skip = False
            elif len(cells) != width:
                columns = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
                yield number, f"{self.table.name}:{number} has {columns}, but the first row has {width}"
            else:
                yield number, at_positions(cells)

    def _records(
        self, paths: Sequence[KeyPath], repairs: Counter[str], only_texts: bool
    ) -> Iterator[tuple[int, Cells | str | None]]:
        for number, record in self.table.rows(repairs):
            where = f"{self.table.name}:{number}"
            if record is None:
                yield number, None
            elif DATA_FORMATS[self.table.format].holds_languages and any(path[0] not in record for path in paths):
                repairs[LACKING] += 1
            elif kind_of(record) != self.kind:
                yield number, f"{where} is {kind_of(record)}, but the first row is {self.kind}"
            else:
                try:
                    yield number, tuple(text_at(record, path, where, only_texts) for path in paths)
                except DataError as error:
                    yield number, str(error)


def name_columns(
    table: Table, judge: Callable[[list[str], list[list[str]]], Header], rows: int, only_texts: bool
) -> NamedTable:
    """Name the columns of a table by looking at some `rows`; `judge` decides if the first one is a header. With
    `only_texts`, columns of records that hold no texts are left out.

    Raises:
        DataError: it has no rows.
    """
    if table.has_records:
        return _name_records(table, rows, only_texts)
    sample = list(islice((cells for _, cells in table.rows(Counter()) if is_filled(cells)), 1 + rows))
    if not sample:
        raise DataError(f"{table.name} holds only blank lines")
    first, *below = sample
    header, shown = judge(first, below), " | ".join(first)[:80]
    if not header.is_header:
        return NamedTable(table, [str(number) for number in range(1, len(first) + 1)], sample, header, shown)
    if not below:
        raise DataError(f"{table.name} has no rows below the header ({shown})")
    return NamedTable(table, [cell.strip() for cell in first], below, header, shown)


def is_filled(cells: list[str]) -> bool:
    return any(cell.strip() for cell in cells)


def _name_records(table: Table, rows: int, only_texts: bool) -> NamedTable:
    _, first = table.first_record()
    records = (record for _, record in islice(table.rows(Counter()), rows) if isinstance(record, type(first)))
    sampled = [{name: (path, value) for name, path, value in values_of(record, lists=only_texts)} for record in records]
    naming = sampled if only_texts and isinstance(first, dict) else sampled[:1]
    paths = {name: path for record in naming for name, (path, _) in record.items()}
    columns = {name: [record[name][1] if name in record else None for record in sampled] for name in paths}

    def holds_texts(name: str) -> bool:
        return any(isinstance(value, str) for value in columns[name]) or columns[name].count(None) == len(sampled)

    names = [name for name in paths if not only_texts or holds_texts(name)]
    sample = [[written(columns[name][at]) for name in names] for at in range(len(sampled))]
    return NamedTable(table, names, sample, Header(False), paths=[paths[name] for name in names], kind=kind_of(first))
