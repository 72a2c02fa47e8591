"""Labelled text in, as `Example`s: tables of texts with a label each, or lines that begin with their label.

`open_source` opens files for a task; words with a label each are read by `conll`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from dragoman.errors import DataError
from dragoman.formats.lines import read_lines
from dragoman.formats.rows import Table, format_of, open_table
from dragoman.text.checks import mend
from dragoman.text.columns import Naming, position_of
from dragoman.text.conll import are_tagged_words, open_words
from dragoman.text.header import judge_label_header
from dragoman.text.label_columns import JOINED, choose_label_columns
from dragoman.text.labels import Example, Source, Task, shortened
from dragoman.text.settings import DataSettings
from dragoman.text.tables import NamedTable, name_columns

SAMPLED_ROWS = 1_000
"""Rows by which the columns are chosen."""
FASTTEXT = "__label__"
"""What fastText writes before a label."""


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


def open_label_table(table: Table, settings: DataSettings, seen: tuple[str, str] | None = None) -> NamedTable:
    """Names the columns of a table: by its header or keys, or by numbers from 1."""
    naming = label_naming(settings, seen)
    return name_columns(table, lambda first, rows: judge_label_header(first, rows, naming), SAMPLED_ROWS, False)


def label_naming(settings: DataSettings, seen: tuple[str, str] | None) -> Naming:
    """What is known about the columns of labelled text."""
    text = next(iter(_several(settings)), settings.text_column)
    return Naming(
        text,
        settings.label_column,
        header=settings.header,
        quoted=settings.quoted,
        trained_columns=seen,
        roles=("text", "label"),
    )


def _open_texts(path: Path, settings: DataSettings, seen: tuple[str, str] | None) -> Source:
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
    header = f"the first row ({named.shown}) is a header" if named.header.is_header else "no header"
    keys = "keys of JSON" if named.kind == "an object" else "items of JSON"
    reason = f"{format}, {named.table.reason}; {keys if named.kind else header}; {columns.reason}"
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
    path: Path, named: NamedTable, texts: Sequence[int], label: int, settings: DataSettings, repairs: Counter[str]
) -> Iterator[Example]:
    for number, cells in named.rows((*texts, label), repairs, only_texts=False):
        if isinstance(cells, str):
            quotes = "" if named.table.has_records else "; a cell that holds the delimiter needs quotes"
            raise DataError(f"{cells}{quotes}; mend the row")
        if cells:
            yield _example(path, number, JOINED.join(cells[:-1]), cells[-1], settings, repairs)


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
    return Example((mend(text, repairs),), (label,), path.name, (number,))
