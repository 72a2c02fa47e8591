"""Pairs as they are read, each with its place in the file, and the `Reading` that says how they are read and why."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dragoman.errors import DataError
from dragoman.text.reading.columns import Columns, Naming, check_languages, languages
from dragoman.text.reading.languages import differing

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
