"""Parallel text in, as `Pair`s: two aligned files, TSV, CSV, JSON lines, Parquet, or the Hugging Face hub.

`open_pairs` finds out what an address is and which columns hold the pair, and says why. Iterating over the `Reading`
that it returns streams the pairs in bounded memory, as often as wanted. `checks` judges them.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from dragoman.errors import DataError
from dragoman.files import nearest
from dragoman.text.reading.addresses import HUB, Address, matching
from dragoman.text.reading.aligned import open_aligned
from dragoman.text.reading.columns import Naming, choose_columns
from dragoman.text.reading.lines import EncodingErrors, open_bytes, read_lines, without_gz
from dragoman.text.reading.pairs import Format, Reading, Table
from dragoman.text.reading.rows import open_cells, open_records
from dragoman.text.reading.tables import (
    csv_delimiter,
    csv_rows,
    hub_records,
    json_records,
    parquet_records,
    tsv_rows,
)

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
