"""Labelled text in, as `Example`s: tables of texts with a label each, or lines that begin with their label.

`open_source` opens files for a task; words with a label each are read by `conll`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from dragoman.errors import DataError
from dragoman.text.checks import mend
from dragoman.text.columns import JOINED, Naming, choose_label_columns, position_of
from dragoman.text.conll import are_tagged_words, open_words
from dragoman.text.formats import Table, format_of, kind_of, open_table, values_of
from dragoman.text.header import Header, judge_label_header
from dragoman.text.labels import Example, Source, Task, shortened, written
from dragoman.text.lines import read_lines
from dragoman.text.readers import is_filled, name_columns
from dragoman.text.settings import DataSettings

SAMPLED_ROWS = 1_000
"""Rows by which the columns are chosen."""
FASTTEXT = "__label__"
"""What fastText writes before a label."""
_EXPECTED = "an object or a list of a text and a label"


class LabelTable(NamedTuple):
    """A table whose columns have names, from its header or keys, or numbers from 1."""

    table: Table
    names: list[str]
    reason: str
    has_header: bool
    sample: list[list[str]]
    """The cells of the first rows."""

    def rows(self, repairs: Counter[str], needed: Sequence[int] = ()) -> Iterator[tuple[int, list[str]]]:
        """Numbered cells, without rows that hold no text. No record may lack the keys of the columns at the positions
        `needed`.
        """
        if self.table.has_records:
            return self._records(repairs, needed)
        rows = ((number, cells) for number, cells in self.table.rows(repairs) if is_filled(cells))
        return islice(rows, int(self.has_header), None)

    def _records(self, repairs: Counter[str], needed: Sequence[int]) -> Iterator[tuple[int, list[str]]]:
        for number, record in self.table.rows(repairs):
            if record is None:
                continue
            where = f"{self.table.name}:{number}"
            if not isinstance(record, dict | list):
                raise DataError(f"{where} is {kind_of(record)}, not {_EXPECTED}")
            cells = {name: written(value) for name, _, value in values_of(record)}
            if missing := [self.names[at] for at in needed if self.names[at] not in cells]:
                raise DataError(f"{where} has no {missing[0]!r}, which the first row has; mend the row")
            yield number, [cells.get(name, "") for name in self.names]


def open_source(
    files: Sequence[Path], settings: DataSettings, task: Task, seen: tuple[str, str] | None = None
) -> Source:
    """Opens files that are read one after another; `seen` are the columns of the training text."""
    first = open_words(files[0], settings) if task == "tag" else _open_texts(files[0], settings, seen)
    others = [
        open_words(file, settings) if task == "tag" else _open_texts(file, settings, first.columns)
        for file in files[1:]
    ]

    def read(repairs: Counter[str]) -> Iterator[Example]:
        for source in (first, *others):
            yield from source.read(repairs)

    reason = first.reason + (f"; the first of {len(files)} files" if others else "")
    return Source(first.name, reason, read, first.columns)


def open_label_table(table: Table, settings: DataSettings, seen: tuple[str, str] | None = None) -> LabelTable:
    """Names the columns of a table: by its header or keys, or by numbers from 1."""
    if table.has_records:
        _, first = table.first_record(_EXPECTED)
        names = [name for name, _, _ in values_of(first)]
        reason = f"{'keys' if isinstance(first, dict) else 'items'} of JSON"
        named = LabelTable(table, names, reason, False, [])
        return named._replace(sample=[cells for _, cells in islice(named.rows(Counter()), SAMPLED_ROWS)])
    naming = label_naming(settings, seen)

    def judge(first: Sequence[str], below: Sequence[Sequence[str]]) -> Header:
        return Header(judge_label_header(first, below, naming))

    names, sample, header, shown = name_columns(table, judge, SAMPLED_ROWS)
    reason = f"the first row ({shown}) is a header" if header.is_header else "no header"
    return LabelTable(table, names, reason, header.is_header, sample)


def label_naming(settings: DataSettings, seen: tuple[str, str] | None) -> Naming:
    """What is known about the columns of labelled text."""
    text = next(iter(_several(settings)), settings.text_column)
    return Naming(
        text,
        settings.label_column,
        header=settings.header,
        quoted=settings.quoted,
        seen=seen,
        roles=("text", "label"),
    )


def _open_texts(path: Path, settings: DataSettings, seen: tuple[str, str] | None) -> Source:
    """Opens a file of texts with a label each."""
    format, reason = format_of(path, settings.format)
    if format in ("plain", "tsv") and are_tagged_words(list(islice(read_lines(path, "replace"), SAMPLED_ROWS))):
        raise DataError(f"{path} holds a word and its label on each line, from which a tagger learns: the task is tag")
    if format == "plain":
        if settings.text_column or settings.label_column:
            raise DataError(
                f"{path} has no columns, because its lines begin with their label; leave data.text_column and "
                "data.label_column out, or say which format it has: --set data.format=tsv"
            )
        return Source(str(path), f"{reason}: lines of a label and a text", partial(_labelled_lines, path, settings))
    named = open_label_table(
        open_table(path, format, reason, settings.encoding_errors, settings.quoted), settings, seen
    )
    columns = choose_label_columns(named.names, named.sample, label_naming(settings, seen), str(path))
    texts, label = [columns.positions[0]], columns.positions[1]
    reason = f"{format}, {named.table.reason}; {named.reason}; {columns.reason}"
    if names := _several(settings):
        texts = [position_of(name, named.names, str(path)) for name in names]
        reason += f"; the texts of {' and '.join(map(repr, names))} are joined by {JOINED!r}"
    read = partial(_examples, path, named, texts, label, settings)
    return Source(str(path), reason, read, columns[:2])


def _several(settings: DataSettings) -> list[str]:
    """The names of columns whose texts are joined, as in question+answer."""
    names = (settings.text_column or "").split("+")
    return names if len(names) > 1 and all(names) else []


def _examples(
    path: Path, named: LabelTable, texts: Sequence[int], label: int, settings: DataSettings, repairs: Counter[str]
) -> Iterator[Example]:
    for number, cells in named.rows(repairs, (*texts, label)):
        if len(cells) != len(named.names):
            count = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
            raise DataError(
                f"{path}:{number} has {count}, but the first row has {len(named.names)}; a cell that holds the "
                "delimiter needs quotes"
            )
        yield _example(path, number, JOINED.join(cells[at] for at in texts), cells[label], settings, repairs)


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
