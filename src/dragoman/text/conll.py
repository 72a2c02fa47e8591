"""Words with a label each: CoNLL columns, CoNLL-U (universaldependencies.org/format.html), or two lists in each row of
JSON lines or Parquet.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.errors import DataError
from dragoman.formats.lines import without_packing
from dragoman.formats.registry import DATA_FORMATS
from dragoman.formats.rows import Table, kind_of, written
from dragoman.text.column_statistics import LEAST_ROWS, MOST_LABELS
from dragoman.text.columns import named_column, position_of
from dragoman.text.labels import Example, Source, shortened
from dragoman.text.settings import DataSettings
from dragoman.text.tables import TextFile

CONLL_U = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
"""The columns of CoNLL-U."""
DOCUMENT = "-DOCSTART-"
"""The word that marks the beginning of a document."""
WORDS, LABELS = ("words", "tokens", "text", "1"), ("labels", "tags", "upos", "pos_tags", "ner_tags", "2")
"""Keys of a record, or numbers of items, under which lists of words and labels are looked for."""
WORD_NAMES = ("word", "words", "token", "tokens", "form")
TAG_NAMES = ("tag", "tags", "label", "labels", "ner", "entity", "upos", "pos")
"""Names of the columns of a table, the surest first."""


class ConllColumns(NamedTuple):
    """The columns of the lines of a file."""

    width: int
    """Columns of the first row."""
    delimiter: str | None
    """None for any white space."""
    universal: bool
    """True for CoNLL-U."""

    def is_comment(self, line: str) -> bool:
        """Return True if a line is no row. Outside CoNLL-U a word may be a hash, or begin with one."""
        return (
            line.startswith("#")
            if self.universal
            else _is_remark(line) and len(line.split(self.delimiter)) != self.width
        )

    def skips(self, cells: Sequence[str]) -> bool:
        """Return True if a row is no word: a range (1-2), an empty node (8.1), or a beginning of a document."""
        return not cells[0].isdecimal() if self.universal else cells[0] == DOCUMENT


def open_words(path: Path, settings: DataSettings) -> Source:
    """Open a file of words with a label each."""
    file = TextFile.at(path, settings.format, settings.encoding_errors, settings.quoted)
    if DATA_FORMATS[file.format].holds_records:
        table = file.table()
        number, first = table.first_record()
        lists = lists_in(first)
        word = _list(path, number, lists, settings.text_column, WORDS)
        label = _list(path, number, lists, settings.label_column, LABELS)
        reason = f"lists in each row; the words are {word!r} and the labels {label!r}"
        return Source(str(path), reason, partial(_lists, path, table, word, label, settings.label_depth))
    if file.format == "csv":
        raise DataError(
            f"{path} is a table; save it for a tagger as lines of a word, a tab and its label, with a blank line after "
            'each sentence, or as JSON lines: {"words": ["Rome", "sleeps"], "labels": ["PROPN", "VERB"]}; '
            "texts with one label each are for the task classify"
        )
    columns = _columns_of(file)
    names = CONLL_U[: columns.width] if columns.universal else [str(number + 1) for number in range(columns.width)]
    default = ("form", "upos") if "form" in names else (names[0], names[-1])
    word = position_of(settings.text_column or default[0], names, str(path))
    label = position_of(settings.label_column or default[1], names, str(path))
    if word == label:
        raise DataError(f"{path}: the word and the label are the same column, {word + 1}; give data.label_column")
    kind = "CoNLL-U" if columns.universal else f"{columns.width} CoNLL columns"
    reason = f"{kind}; the word is column {names[word]!r} and the label {names[label]!r}"
    return Source(str(path), reason, partial(_sentences, file, columns, (word, label), settings.label_depth))


def are_tagged_words(lines: Sequence[str]) -> bool:
    """Return True if lines are CoNLL columns: single words, the same number on each line, with blank lines between
    sentences, and few different ones in the last column.
    """
    lines = [line for line in lines if not line.startswith("# ")]
    delimiter = "\t" if any("\t" in line for line in lines) else None
    rows = [line.split(delimiter) for line in lines if line.strip()]
    if len(rows) < LEAST_ROWS or len(lines) - len(rows) < 2 or len({len(row) for row in rows}) > 1 or len(rows[0]) < 2:
        return False
    if any(len(cell.split()) > 1 for row in rows for cell in row):
        return False
    return len({row[-1] for row in rows}) <= max(3, MOST_LABELS * len(rows))


def lists_in(record: Any) -> list[str]:
    """Return the keys of the lists in a record, or their numbers from 1."""
    return [name for name, value in _items(record).items() if isinstance(value, list)]


def names_words(cells: Sequence[str]) -> bool:
    """Return True if the first row of a table names a column of words and one of their labels."""
    return None not in (named_column(cells, WORD_NAMES), named_column(cells, TAG_NAMES))


def _columns_of(file: TextFile) -> ConllColumns:
    named = without_packing(file.path).suffix.lower() == ".conllu"
    for number, line in file.lines(Counter()):
        if not line.strip() or _is_remark(line) or (named and line.startswith("#")):
            continue
        delimiter = "\t" if "\t" in line else None
        width = len(line.split(delimiter))
        if width > 1 or named:
            is_numbered = width == len(CONLL_U) and line.split(delimiter)[0].partition("-")[0].isdecimal()
            return ConllColumns(width, "\t" if named else delimiter, named or is_numbered)
        if line.split()[0] != DOCUMENT:
            raise DataError(
                f"{file.path}:{number} has one column; a tagger learns from a word and its label on each line, between "
                "tabs or spaces, and a blank line after each sentence"
            )
    raise DataError(f"{file.path} holds only blank lines")


def _is_remark(line: str) -> bool:
    return line.startswith("# ") or line.strip() == "#"


def _sentences(
    file: TextFile, columns: ConllColumns, positions: tuple[int, int], depth: int | None, repairs: Counter[str]
) -> Iterator[Example]:
    words: list[tuple[str, str, int]] = []
    for number, line in file.lines(repairs):
        if not line.strip():
            yield from _sentence(file.path, words)
            words = []
        elif not columns.is_comment(line):
            cells = line.split(columns.delimiter)
            if not columns.skips(cells) and not (number == 1 and names_words(cells)):
                words.append((*_word(f"{file.path}:{number}", cells, columns.width, positions, depth), number))
    yield from _sentence(file.path, words)


def _sentence(path: Path, rows: Sequence[tuple[str, str, int]]) -> Iterator[Example]:
    if rows:
        words, labels, lines = zip(*rows, strict=True)
        yield Example(words, labels, path.name, lines)


def _word(
    where: str, cells: Sequence[str], width: int, positions: tuple[int, int], depth: int | None
) -> tuple[str, str]:
    """Return the word and the label of a row."""
    if len(cells) != width:
        count = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
        raise DataError(
            f"{where} has {count}, but the first row has {width}; fix the row, or leave a blank line between "
            "sentences; texts with one label each are for the task classify"
        )
    word, label = (cells[at].strip() for at in positions)
    label = shortened(label, depth)
    if not word or not label:
        raise DataError(f"{where} has no {'label' if word else 'word'}; every row needs a word and its label")
    return word, label


def _items(record: Any) -> dict[str, Any]:
    if isinstance(record, dict):
        return record
    return {str(number): item for number, item in enumerate(record, 1)} if isinstance(record, list) else {}


def _list(path: Path, number: int, lists: Sequence[str], column: str | None, known: Sequence[str]) -> str:
    if column is not None:
        return lists[position_of(column, lists, f"{path}:{number}")]
    if (at := named_column(lists, known)) is not None:
        return lists[at]
    raise DataError(
        f"{path}:{number} has no list of {known[0]}; a tagger learns from two lists, of words and of labels, as in "
        '{"words": ["Rome", "sleeps"], "labels": ["PROPN", "VERB"]}'
    )


def _lists(
    path: Path, table: Table, word: str, label: str, depth: int | None, repairs: Counter[str]
) -> Iterator[Example]:
    for number, record in table.rows(repairs):
        if record is None:
            continue
        where, items = f"{path}:{number}", _items(record)
        words, labels = items.get(word), items.get(label)
        if not isinstance(words, list) or not isinstance(labels, list):
            raise DataError(f"{where} is {kind_of(record)} without the lists {word!r} and {label!r}")
        if len(words) != len(labels):
            raise DataError(f"{where} has {len(words)} words but {len(labels)} labels; every word needs its label")
        pairs = [
            (written(text).strip(), shortened(written(name), depth)) for text, name in zip(words, labels, strict=True)
        ]
        if not all(text and name for text, name in pairs):
            raise DataError(f"{where} has an empty word or label; every word needs its label")
        yield from _sentence(path, [(text, name, number) for text, name in pairs])
