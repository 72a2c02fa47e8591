"""The pairs of a table: from cells (TSV, CSV), below a header or not, or from records with keys (JSON lines, Parquet).

`open_cells` and `open_records` choose the columns or keys of the pair; rows that do not fit are counted, and too many
of them are an error.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

from dragoman.errors import DataError
from dragoman.text.reading.columns import Columns, Naming, choose_columns, listed
from dragoman.text.reading.header import ROWS, judge_header, numeric_columns
from dragoman.text.reading.pairs import Pair, Reading, RowTally, Table, count_line_breaks, make_reading
from dragoman.text.reading.tables import KeyPath, kind_of, text_at, text_paths

RAGGED = "not as many cells as the first row"
KEYLESS = "no text under the keys of the first row"


def open_cells(table: Table, naming: Naming) -> Reading:
    """Opens a table whose rows are cells; its first row may be a header.

    Raises:
        DataError: there are no rows, or nothing tells which columns are the pair.
    """
    rows = islice((cells for _, cells in table.rows(Counter()) if _filled(cells)), 1 + ROWS)
    first, below = next(rows, None), list(rows)
    if first is None:
        raise DataError(f"{table.name} holds only blank lines")
    header = judge_header(first, below, naming)
    shown = " | ".join(first)[:80]
    if header.found and not below:
        raise DataError(f"{table.name} has no rows below the header ({shown})")
    names = [cell.strip() for cell in first] if header.found else [str(number) for number in range(1, len(first) + 1)]
    is_told = naming.header is not None or any(naming.columns) or (naming.seen and set(naming.seen) <= set(names))
    if not header.found and len(names) > 2 and not is_told:
        raise DataError(
            f"{table.name} has {len(names)} columns. Is its first row ({shown}) a header? Then add "
            "--set data.header=true and name the columns: --set data.source_column=NAME --set data.target_column=NAME; "
            "otherwise name them by number: --set data.source_column=NUMBER --set data.target_column=NUMBER"
        )
    hint = Path(table.name).name
    numeric = numeric_columns(len(names), below)
    columns = choose_columns(names, naming, table.name, hint, numeric)
    if not all(naming.columns):
        _refuse_numbers(table.name, names, columns, numeric)
    reason = f"the first row ({shown}) is a header: {header.reason}" if header.found else "no header"
    if header.found and naming.header is None:
        reason += "; --set data.header=false says that it is a pair"
    columns = columns._replace(reason=f"{columns.reason}; {reason}")
    pairs = partial(_cell_pairs, table, len(names), columns.positions, header.found)
    reading = make_reading(table, naming, columns, names, hint, pairs)
    if header.doubt:
        doubt = (
            f"{table.name}: your first row looks like a header ({shown}): {header.doubt}; it is read as a pair; "
            "--set data.header=true if it is a header, data.header=false if it is not"
        )
        reading = replace(reading, doubts=(*reading.doubts, doubt))
    return reading


def _refuse_numbers(table: str, names: Sequence[str], columns: Columns, numeric: Sequence[int]) -> None:
    """Refuses columns of numbers, unless the user named both columns."""
    for side, position in zip(("source", "target"), columns.positions, strict=True):
        if position in numeric:
            others = [name for at, name in enumerate(names) if at not in numeric]
            source, target = (at + 1 for at in columns.positions)
            raise DataError(
                f"{table}: column {names[position]!r} holds only numbers; name the column of the {side}"
                f"{listed(others)}: --set data.{side}_column=NAME; or, if numbers are meant: "
                f"--set data.source_column={source} --set data.target_column={target}"
            )


def _cell_pairs(
    table: Table, width: int, positions: tuple[int, int], header: bool, repairs: Counter[str]
) -> Iterator[Pair]:
    name = Path(table.name).name
    source_at, target_at = positions
    tally = RowTally(table.name, RAGGED)
    for number, cells in table.rows(repairs):
        origin = f"{name}:{number}"
        if header and _filled(cells):
            header = False
            continue
        if not _filled(cells):
            yield tally.passed(Pair("", "", origin))
        elif len(cells) != width:
            columns = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
            yield tally.met(origin, f"{table.name}:{number} has {columns}, but the first row has {width}")
        else:
            yield tally.passed(count_line_breaks(Pair(cells[source_at], cells[target_at], origin), repairs))
    tally.judge()


def _filled(cells: list[str]) -> bool:
    return any(cell.strip() for cell in cells)


def open_records(table: Table, naming: Naming, hint: str | None = None) -> Reading:
    """Opens a table whose rows are JSON objects, nested or not, or lists of two texts.

    Raises:
        DataError: there are no rows, or nothing tells which keys are the pair.
    """
    hint = Path(table.name).name if hint is None else hint
    number, first = next(((number, row) for number, row in table.rows(Counter()) if row is not None), (0, None))
    if first is None:
        raise DataError(f"{table.name} holds {'only blank lines' if table.format == 'jsonl' else 'no rows'}")
    if not isinstance(first, (dict, list)):
        raise DataError(f"{table.name}:{number} is {kind_of(first)}, not an object or a list of two texts")
    paths = dict(text_paths(first))
    columns = choose_columns(list(paths), naming, table.name, hint)
    sides = (paths[columns.source], paths[columns.target])
    return make_reading(table, naming, columns, list(paths), hint, partial(_record_pairs, table, type(first), sides))


def _record_pairs(table: Table, kind: type, sides: tuple[KeyPath, KeyPath], repairs: Counter[str]) -> Iterator[Pair]:
    name = Path(table.name).name
    tally = RowTally(table.name, KEYLESS)
    for number, record in table.rows(repairs):
        origin, where = f"{name}:{number}", f"{table.name}:{number}"
        if record is None:
            yield tally.passed(Pair("", "", origin))
        elif not isinstance(record, kind) or (kind is list and len(record) != 2):
            expected = "an object" if kind is dict else "a list of two texts"
            yield tally.met(origin, f"{where} is {kind_of(record)}, but the first row is {expected}")
        else:
            try:
                source, target = (text_at(record, path, where) for path in sides)
            except DataError as error:
                yield tally.met(origin, str(error))
            else:
                yield tally.passed(count_line_breaks(Pair(source, target, origin), repairs))
    tally.judge()
