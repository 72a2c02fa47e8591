"""A table whose columns have names: from its header, from the keys of its records, or else numbers from 1."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from dragoman.errors import DataError
from dragoman.formats.registry import DATA_FORMATS
from dragoman.formats.rows import LACKING, KeyPath, Table, kind_of, text_at, values_of, written
from dragoman.text.column_statistics import Statistics, measure
from dragoman.text.header import Header

Cells = tuple[str, ...]


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
    """What the first record is."""

    def measured(self) -> list[Statistics]:
        return [measure(self.sample, at) for at in range(len(self.names))]

    def rows(
        self, positions: Sequence[int], repairs: Counter[str], only_texts: bool = True
    ) -> Iterator[tuple[int, Cells | str | None]]:
        """The number of each row below the header, and its cells at some positions; the reason, if it has none; None,
        if it is blank. Values of records that are no texts are written as such, or with `only_texts` a reason.
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
    """Names the columns of a table by looking at some `rows`; `judge` says whether the first one is a header. Columns
    of records that hold no texts are left out with `only_texts`.

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
    found = [{name: (path, value) for name, path, value in values_of(record, lists=only_texts)} for record in records]
    naming = found if only_texts and isinstance(first, dict) else found[:1]
    paths = {name: path for record in naming for name, (path, _) in record.items()}
    columns = {name: [record[name][1] if name in record else None for record in found] for name in paths}

    def holds_texts(name: str) -> bool:
        return any(isinstance(value, str) for value in columns[name]) or columns[name].count(None) == len(found)

    names = [name for name in paths if not only_texts or holds_texts(name)]
    sample = [[written(columns[name][at]) for name in names] for at in range(len(found))]
    return NamedTable(table, names, sample, Header(False), paths=[paths[name] for name in names], kind=kind_of(first))
