"""Labelled text in, as `Example`s: tables of texts with a label each, or lines that begin with their label.

`open_source` opens files for a task; words with a label each are read by `conll`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from dragoman.errors import DataError
from dragoman.formats.rows import Table
from dragoman.text.checks import repair
from dragoman.text.columns import Naming, position_of
from dragoman.text.conll import are_tagged_words, open_words
from dragoman.text.header import judge_label_header
from dragoman.text.label_columns import JOINED, choose_label_columns
from dragoman.text.labels import Example, Source, Task, shortened
from dragoman.text.settings import DataSettings
from dragoman.text.tables import NamedTable, TextFile, name_columns

SAMPLED_ROWS = 1_000
"""Rows by which the columns are chosen."""
FASTTEXT = "__label__"
"""The prefix of a label in files of fastText."""


def open_source(
    files: Sequence[Path], settings: DataSettings, task: Task, trained_columns: tuple[str, str] | None = None
) -> Source:
    """Open files that are read one after another; `trained_columns` are those of the training text."""
    sources: list[Source] = []
    for file in files:
        columns = sources[0].columns if sources else trained_columns
        sources.append(open_words(file, settings) if task == "tag" else _open_texts(file, settings, columns))
    reason = sources[0].reason + (f"; the first of {len(files)} files" if len(files) > 1 else "")

    def read(repairs: Counter[str]) -> Iterator[Example]:
        return chain.from_iterable(source.read(repairs) for source in sources)

    return replace(sources[0], reason=reason, read=read)


def name_label_columns(table: Table, naming: Naming) -> NamedTable:
    """Name the columns of a table of labelled texts."""
    return name_columns(table, lambda first, rows: judge_label_header(first, rows, naming), SAMPLED_ROWS, False)


def _open_texts(path: Path, settings: DataSettings, trained_columns: tuple[str, str] | None) -> Source:
    file = TextFile.at(path, settings.format, settings.encoding_errors, settings.quoted)
    if file.format in ("plain", "tsv") and are_tagged_words(file.first_lines(SAMPLED_ROWS)):
        raise DataError(f"{path} holds a word and its label on each line, from which a tagger learns: the task is tag")
    if file.format == "plain":
        if settings.text_column or settings.label_column:
            raise DataError(
                f"{path} has no columns, because its lines begin with their label; leave data.text_column and "
                "data.label_column out, or say which format it has: --set data.format=tsv"
            )
        read = partial(_labelled_lines, file, settings.label_depth)
        return Source(str(path), f"{file.reason}: lines of a label and a text", read)
    naming = settings.label_naming._replace(trained_columns=trained_columns)
    named = name_label_columns(file.table(), naming)
    columns = choose_label_columns(named.names, named.sample, naming, str(path))
    texts, label = [columns.positions[0]], columns.positions[1]
    header = f"the first row ({named.shown}) is a header" if named.header.is_header else "no header"
    keys = "keys of JSON" if named.kind == "an object" else "items of JSON"
    reason = f"{file.format}, {named.table.reason}; {keys if named.kind else header}; {columns.reason}"
    if names := settings.joined_columns:
        texts = [position_of(name, named.names, str(path)) for name in names]
        reason += f"; the texts of {' and '.join(map(repr, names))} are joined by {JOINED!r}"
    read = partial(_examples, path, named, (*texts, label), settings.label_depth)
    return Source(str(path), reason, read, columns[:2])


def _examples(
    path: Path, named: NamedTable, positions: Sequence[int], depth: int | None, repairs: Counter[str]
) -> Iterator[Example]:
    for number, cells in named.rows(positions, repairs, only_texts=False):
        if isinstance(cells, str):
            quotes = "" if named.table.has_records else "; a cell that holds the delimiter needs quotes"
            raise DataError(f"{cells}{quotes}; fix the row")
        if cells:
            yield _example(path, number, JOINED.join(cells[:-1]), cells[-1], depth, repairs)


def _labelled_lines(file: TextFile, depth: int | None, repairs: Counter[str]) -> Iterator[Example]:
    for number, line in file.lines(repairs):
        if not line.strip():
            continue
        label, *rest = line.split(maxsplit=1)
        text = "".join(rest)
        if label.startswith(FASTTEXT) and (second := re.search(rf"(?<!\S){FASTTEXT}\S+", text)):
            raise DataError(f"{file.path}:{number} has two labels, {label} and {second[0]}; a text has one: remove one")
        yield _example(file.path, number, text, label.removeprefix(FASTTEXT), depth, repairs)


def _example(path: Path, number: int, text: str, label: str, depth: int | None, repairs: Counter[str]) -> Example:
    label = shortened(label.strip(), depth)
    if not label:
        raise DataError(f"{path}:{number} has no label; every row needs a text and a label: fix the row, or remove it")
    return Example((repair(text, repairs),), (label,), path.name, (number,))
