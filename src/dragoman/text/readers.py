"""Pairs as they are read, each with its place in the file, and the `Reading` that says how they are read and why.

The pairs of a table: from cells (TSV, CSV), below a header or not, or from records with keys (JSON lines, Parquet).

`open_cells` and `open_records` choose the columns or keys of the pair; rows that do not fit are counted, and too many
of them are an error.

Two files that are aligned line by line, one for each side.

Parallel text in, as `Pair`s: two aligned files, TSV, CSV, JSON lines, Parquet, or the Hugging Face hub.

`open_pairs` finds out what an address is and which columns hold the pair, and says why. Iterating over the `Reading`
that it returns streams the pairs in bounded memory, as often as wanted. `checks` judges them.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dragoman.errors import DataError
from dragoman.files import nearest
from dragoman.text.addresses import HUB, Address, matching
from dragoman.text.columns import Columns, Naming, check_languages, choose_columns, languages, listed
from dragoman.text.formats import (
    KeyPath,
    csv_delimiter,
    csv_rows,
    hub_records,
    json_records,
    kind_of,
    parquet_records,
    text_at,
    text_paths,
    tsv_rows,
)
from dragoman.text.header import ROWS, judge_header, numeric_columns
from dragoman.text.languages import differing
from dragoman.text.lines import EncodingErrors, open_bytes, read_lines, without_gz

Format = Literal["plain", "tsv", "csv", "jsonl", "parquet", "hub"]

LINE_BREAKS = "pairs with line breaks inside, kept"
MOST_BROKEN = 0.05
"""The largest share of rows that may be broken: where there are more, the table is read wrongly."""


class Pair(NamedTuple):
    """A sentence, its translation, and where they stood (`corpus.csv:17`)."""

    source: str
    target: str
    origin: str
    fault: str = ""
    """Why a row gave no pair; then both sides are empty."""


@dataclass(frozen=True)
class Reading:
    """Pairs that can be read, as often as wanted, and what was chosen to read them."""

    name: str
    files: tuple[Path, ...]
    """The files that are read; none for the hub."""
    format: Format
    columns: Columns
    languages: tuple[str, str]
    reasons: Mapping[str, str]
    """Why this format, these columns, these languages."""
    named: tuple[str | None, str | None]
    """The languages in the names of columns or files, whatever else is known."""
    doubts: tuple[str, ...]
    """Warnings about what may have been read wrongly."""
    pairs: Callable[[Counter[str]], Iterator[Pair]]
    repairs: Counter[str] = field(default_factory=Counter)
    """How often the latest pass over the pairs mended something, by kind."""

    def __iter__(self) -> Iterator[Pair]:
        self.repairs.clear()
        return self.pairs(self.repairs)


class Table(NamedTuple):
    """A table to open: its name and files, its format and why, and its numbered rows, which count repairs."""

    name: str
    files: tuple[Path, ...]
    format: Format
    reason: str
    rows: Callable[[Counter[str]], Iterator[tuple[int, Any]]]


def make_reading(
    table: Table,
    naming: Naming,
    columns: Columns,
    names: Sequence[str],
    hint: str,
    pairs: Callable[[Counter[str]], Iterator[Pair]],
) -> Reading:
    """The reading of a table's `pairs` from the chosen columns; `hint` is a name that may tell the languages.

    Raises:
        DataError: the names of the columns say other languages than are expected.
    """
    found = languages(columns, naming, hint)
    check_languages(names, columns, found, naming, table.name)
    doubts = [
        f"{table.name}: the {side} is {name!r}, which names {told}, but it is called {given} (data.{side}_language)"
        for side, name, told, given in zip(("source", "target"), columns[:2], found.named, naming.given, strict=True)
        if differing([told], [given])
    ]
    return Reading(
        name=table.name,
        files=table.files,
        format=table.format,
        columns=columns,
        languages=(found.source, found.target),
        reasons={"format": table.reason, "columns": columns.reason, "languages": found.reason},
        named=found.named,
        doubts=tuple(doubts),
        pairs=pairs,
    )


class RowTally:
    """Counts the rows that give no pair, and keeps the complaints about the first ones."""

    def __init__(self, table: str, fault: str) -> None:
        self._table, self._fault = table, fault
        self._rows = self._found = 0
        self._examples: list[str] = []

    def passed(self, pair: Pair) -> Pair:
        self._rows += 1
        return pair

    def met(self, origin: str, complaint: str) -> Pair:
        self._found += 1
        if len(self._examples) < 3:
            self._examples.append(complaint)
        return self.passed(Pair("", "", origin, self._fault))

    def judge(self) -> None:
        """Refuses a table with too many broken rows, because it is not what it was taken for.

        Raises:
            DataError: more than `MOST_BROKEN` of the rows are broken.
        """
        if self._found > MOST_BROKEN * self._rows:
            share = f"{self._found:,} of {self._rows:,} rows" if self._found > 1 else f"1 of {self._rows:,} rows"
            raise DataError(
                f"{'; '.join(self._examples)}{'; …' if self._found > len(self._examples) else ''} ({share} of "
                f"{self._table}: {self._fault}; up to {MOST_BROKEN:.0%} would be dropped): mend the rows; a cell that "
                "holds the delimiter needs quotes"
            )


def count_line_breaks(pair: Pair, repairs: Counter[str]) -> Pair:
    if "\n" in pair.source or "\n" in pair.target:
        repairs[LINE_BREAKS] += 1
    return pair


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


def open_aligned(paths: tuple[Path, Path], naming: Naming, reason: str, encoding_errors: EncodingErrors) -> Reading:
    for path in paths:
        open_bytes(path).close()
    source, target = (without_gz(path).suffix.lstrip(".") for path in paths)
    if source == target:  # en.txt and it.txt
        source, target = (without_gz(path).stem for path in paths)
    columns = Columns(source, target, "one file each")
    found = languages(columns, naming, paths[0].name)
    turned = differing(found.named, naming.expected or found.named) and not differing(
        found.named[::-1], naming.expected or found.named
    )
    if turned and not any(naming.given):
        assert naming.expected is not None
        raise DataError(
            f"{paths[0]} is named for {found.named[0]} and {paths[1]} for {found.named[1]}, but {naming.owner} "
            f"goes from {naming.expected[0]} to {naming.expected[1]}; give them in this order: {paths[1]} {paths[0]}"
        )
    table = Table(f"{paths[0]} and {paths[1].name}", paths, "plain", reason, lambda _: iter(()))
    pairs = partial(_plain_pairs, paths, encoding_errors)
    return make_reading(table, naming, columns, (source, target), paths[0].name, pairs)


def _plain_pairs(paths: tuple[Path, Path], encoding_errors: EncodingErrors, repairs: Counter[str]) -> Iterator[Pair]:
    sources, targets = (read_lines(path, encoding_errors, repairs) for path in paths)
    name = paths[0].name
    for number, (source, target) in enumerate(zip_longest(sources, targets), 1):
        if source is None or target is None:
            counts = [number - 1 if side is None else number for side in (source, target)]
            counts[0] += sum(1 for _ in sources)
            counts[1] += sum(1 for _ in targets)
            raise DataError(
                f"{paths[0]} has {counts[0]:,} lines but {paths[1]} {counts[1]:,}; "
                "the files must be aligned line by line"
            )
        yield Pair(source, target, f"{name}:{number}")


ENDINGS: dict[str, Format] = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}


def open_pairs(
    address: Address,
    naming: Naming = Naming(),  # noqa: B008 (immutable)
    format: Format | None = None,
    encoding_errors: EncodingErrors = "strict",
) -> Reading:
    """Finds out how to read `address`, from its name and its first row.

    Raises:
        DataError: nothing readable is there, or nothing tells which columns are the pair.
    """
    if several := matching(address):
        return _open_several(address, several, naming, format, encoding_errors)
    if not isinstance(address, str):
        return open_aligned((Path(address[0]), Path(address[1])), naming, "two files were given", encoding_errors)
    if address.startswith(HUB) or format == "hub":
        return _open_hub(address.removeprefix(HUB), naming)
    path = Path(address)
    if is_prefix(path):
        return _open_prefix(path, naming, format, encoding_errors)
    if not path.exists():
        raise DataError(f"{path} does not exist{nearest(path, prefixes=True)}")
    open_bytes(path).close()  # refuses an unreadable file before anything is guessed from it
    chosen, reason = (format, "as given") if format else _guess_format(path)
    if chosen == "plain":
        raise DataError(f"{path} is one side of a pair; give two files, or what their names begin with, as in train")
    if chosen in ("jsonl", "parquet"):
        return open_records(_table(path, chosen, reason, encoding_errors), naming)
    return open_cells(_table(path, chosen, reason, encoding_errors), naming)


def is_prefix(path: Path) -> bool:
    """Whether `path` is no file, but the beginning of the names of files, before a dot."""
    return not path.exists() and path.parent.is_dir() and any(_beginning_with(path))


def _open_several(
    address: Address, several: list[Address], naming: Naming, format: Format | None, encoding_errors: EncodingErrors
) -> Reading:
    """Reads files of one kind one after another."""
    readings = [open_pairs(each, naming, format, encoding_errors) for each in several]
    first = readings[0]
    for reading in readings[1:]:
        for what in ("format", "languages"):
            if getattr(reading, what) != getattr(first, what):
                raise DataError(
                    f"{reading.name} and {first.name} differ in their {what} ({getattr(reading, what)}, "
                    f"{getattr(first, what)}); files that one pattern names are of one kind"
                )
    reasons = {**first.reasons, "format": f"{first.reasons['format']}; the first of {len(readings)} files"}
    return replace(
        first,
        doubts=tuple(doubt for reading in readings for doubt in reading.doubts),
        name=address if isinstance(address, str) else " and ".join(address),
        files=tuple(file for reading in readings for file in reading.files),
        reasons=reasons,
        pairs=lambda repairs: chain.from_iterable(reading.pairs(repairs) for reading in readings),
        repairs=Counter(),
    )


def _beginning_with(path: Path) -> Iterator[Path]:
    return (file for file in sorted(path.parent.iterdir()) if file.name.startswith(f"{path.name}.") and file.is_file())


def _open_prefix(path: Path, naming: Naming, format: Format | None, encoding_errors: EncodingErrors) -> Reading:
    """Opens two files named for languages, or the only table whose name begins so."""
    files = {without_gz(file).name.removeprefix(f"{path.name}."): file for file in _beginning_with(path)}
    tables = [file for ending, file in files.items() if f".{ending}" in ENDINGS]
    sides = {ending: file for ending, file in files.items() if "." not in ending and file not in tables}
    if len(sides) >= 2:
        columns = choose_columns(list(sides), naming, f"{path}.*")
        pair = (sides[columns.source], sides[columns.target])
        return open_aligned(pair, naming, f"two files are named {path.name}.*", encoding_errors)
    if len(tables) == 1:
        return open_pairs(str(tables[0]), naming, format, encoding_errors)
    raise DataError(
        f"{path} does not exist, and of the files named {path.name}.* ({', '.join(files)}) no two are a pair; "
        "give two files, or one table"
    )


def _guess_format(path: Path) -> tuple[Format, str]:
    if known := ENDINGS.get(without_gz(path).suffix.lower()):
        return known, f"from the name {path.name}"
    first = next(read_lines(path, "replace"))
    if "\t" in first:
        return "tsv", "its first line holds a tab"
    if first.startswith("{"):
        return "jsonl", "its first line begins like JSON"
    return "plain", "its first line holds no tab"


def _table(path: Path, format: Format, reason: str, encoding_errors: EncodingErrors) -> Table:
    rows: Callable[[Counter[str]], Iterator[tuple[int, Any]]]
    if format == "parquet":
        rows = partial(parquet_records, path)
    elif format == "jsonl":
        rows = partial(json_records, path, encoding_errors)
    elif format == "tsv":
        rows = partial(tsv_rows, path, encoding_errors)
    else:
        delimiter = csv_delimiter(path, encoding_errors)
        rows = partial(csv_rows, path, delimiter, encoding_errors)
        reason += "" if delimiter == "," else f", with {delimiter!r} between the cells"
    return Table(str(path), (path,), format, reason, rows)


def _open_hub(address: str, naming: Naming) -> Reading:
    address, _, revision = address.partition("@")
    name, _, config = address.partition(":")
    note = f"revision {revision}" if revision else "no revision pinned: add @REVISION to read the same rows always"
    table = Table(f"{HUB}{address}", (), "hub", note, partial(hub_records, name, config or None, revision or None))
    return open_records(table, naming, config)
