"""Words with a label each: CoNLL columns, CoNLL-U (universaldependencies.org/format.html), a CSV table of words or of
sentences, or two lists in each row of JSON lines or Parquet.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.errors import DataError
from dragoman.text.columns import LEAST_ROWS, MOST_LABELS, Naming, listed, named_column, position_of
from dragoman.text.formats import Table, format_of, holds_records, kind_of, open_table
from dragoman.text.header import Header, judge_label_header
from dragoman.text.labels import Example, Source, shortened, written
from dragoman.text.lines import read_lines, without_packing
from dragoman.text.readers import ROWS, is_filled, name_columns
from dragoman.text.settings import DataSettings

CONLL_U = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
"""The columns of CoNLL-U."""
DOCUMENT = "-DOCSTART-"
"""The word that stands for the beginning of a document."""
WORDS, LABELS = ("words", "tokens", "text", "1"), ("labels", "tags", "upos", "pos_tags", "ner_tags", "2")
"""Keys of a record, or numbers of items, under which lists of words and labels are looked for."""
WORD_NAMES = ("word", "words", "token", "tokens", "form")
TAG_NAMES = ("tag", "tags", "label", "labels", "ner", "entity", "upos", "pos")
SENTENCE_NAMES = ("sentence", "sentences", "sent", "text")
"""Names of the columns of a table, the surest first."""
_ITEM = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^\s,\[\]]+)""")


class Rows(NamedTuple):
    """How the lines of a file become rows of columns."""

    width: int
    """Columns of the first row."""
    delimiter: str | None
    """None for any white space."""
    universal: bool
    """Whether it is CoNLL-U."""

    def cells(self, line: str) -> list[str]:
        return line.split(self.delimiter)

    def is_comment(self, line: str) -> bool:
        """Whether a line is no row. Outside CoNLL-U a word may be a hash, or begin with one."""
        return line.startswith("#") if self.universal else _is_remark(line) and len(self.cells(line)) != self.width

    def skips(self, cells: Sequence[str]) -> bool:
        """Whether a row is no word: a range such as 1-2, an empty node such as 8.1, or a beginning of a document."""
        return not cells[0].isdecimal() if self.universal else cells[0] == DOCUMENT


def open_words(path: Path, settings: DataSettings) -> Source:
    """Opens a file of words with a label each."""
    format, reason = format_of(path, settings.format)
    if holds_records(format):
        return _open_lists(path, open_table(path, format, reason, settings.encoding_errors, settings.quoted), settings)
    if format == "csv" or (format == "tsv" and _names_words(next(read_lines(path, "replace")).split("\t"))):
        return _open_cells(path, open_table(path, format, reason, settings.encoding_errors, settings.quoted), settings)
    rows = _rows_of(path, settings)
    word, label = _positions(path, rows, settings)
    names = CONLL_U if rows.universal else [str(number + 1) for number in range(rows.width)]
    kind = "CoNLL-U" if rows.universal else f"{rows.width} CoNLL columns"
    reason = f"{kind}; the word is column {names[word]!r} and the label {names[label]!r}"
    return Source(str(path), reason, partial(_sentences, path, rows, word, label, settings))


def are_tagged_words(lines: Sequence[str]) -> bool:
    """Whether lines are CoNLL columns: single words, equally many on each line, with blank lines between sentences, and
    few different ones in the last column.
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
    """The keys of the lists in a record, or their numbers from 1."""
    return [name for name, value in _items(record).items() if isinstance(value, list)]


def is_word_table(table: Table) -> bool:
    """Whether the first row of a table names words and their labels, and rows are sentences or numbered by them."""
    rows = [cells for _, cells in islice(table.rows(Counter()), ROWS)]
    if not rows or not _names_words(rows[0]):
        return False
    _, label, sentence = _named_columns(rows[0])
    return sentence is not None or not all(map(is_filled, rows)) or _are_sentences(rows[1:], label)


def _rows_of(path: Path, settings: DataSettings) -> Rows:
    """Judges the columns of a file by its name and its first row."""
    named = without_packing(path).suffix.lower() == ".conllu"
    for number, line in enumerate(read_lines(path, settings.encoding_errors), 1):
        if not line.strip() or _is_remark(line) or (named and line.startswith("#")):
            continue
        delimiter = "\t" if "\t" in line else None
        width = len(line.split(delimiter))
        if width > 1 or named:
            is_numbered = width == len(CONLL_U) and line.split(delimiter)[0].partition("-")[0].isdecimal()
            return Rows(width, "\t" if named else delimiter, named or is_numbered)
        if line.split()[0] != DOCUMENT:
            raise DataError(
                f"{path}:{number} has one column; a tagger learns from a word and its label on each line, between tabs "
                "or spaces, and a blank line after each sentence"
            )
    raise DataError(f"{path} holds only blank lines")


def _is_remark(line: str) -> bool:
    return line.startswith("# ") or line.strip() == "#"


def _positions(path: Path, rows: Rows, settings: DataSettings) -> tuple[int, int]:
    """The columns of the word and of the label."""
    if rows.universal:
        names = settings.text_column or "form", settings.label_column or "upos"
        word, label = (position_of(name.lower(), CONLL_U, str(path)) for name in names)
        if max(word, label) >= rows.width:
            raise DataError(
                f"{path} has {rows.width} columns in its first row, but CoNLL-U has {len(CONLL_U)}, between tabs; "
                "write them all, or name the file .conll and give the columns of word and label by number"
            )
    else:
        columns = [str(number + 1) for number in range(rows.width)]
        for name in (settings.text_column, settings.label_column):
            if name is not None and name not in columns:
                raise DataError(
                    f"{path} has no column {name!r}; its {rows.width} columns have no names: give a number from 1 "
                    f"to {rows.width}"
                )
        word = int(settings.text_column or 1) - 1
        label = int(settings.label_column or rows.width) - 1
    if word == label:
        raise DataError(f"{path}: the word and the label are the same column, {word + 1}; give data.label_column")
    return word, label


def _sentences(
    path: Path, rows: Rows, word: int, label: int, settings: DataSettings, repairs: Counter[str]
) -> Iterator[Example]:
    words: list[tuple[str, str, int]] = []
    for number, line in enumerate(read_lines(path, settings.encoding_errors, repairs), 1):
        if not line.strip():
            yield from _sentence(path, words)
            words = []
        elif not rows.is_comment(line):
            cells = rows.cells(line)
            if not rows.skips(cells):
                words.append((*_pair(path, number, cells, rows.width, (word, label), settings), number))
    yield from _sentence(path, words)


def _sentence(path: Path, rows: Sequence[tuple[str, str, int]]) -> Iterator[Example]:
    if rows:
        words, labels, lines = zip(*rows, strict=True)
        yield Example(words, labels, path.name, lines)


def _pair(
    path: Path, number: int, cells: Sequence[str], width: int, positions: tuple[int, int], settings: DataSettings
) -> tuple[str, str]:
    if len(cells) != width:
        count = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
        raise DataError(
            f"{path}:{number} has {count}, but the first row has {width}; mend the row, or leave a blank line between "
            "sentences; texts with one label each are for the task classify"
        )
    word, label = (cells[at].strip() for at in positions)
    label = shortened(label, settings.label_depth)
    if not word or not label:
        raise DataError(f"{path}:{number} has no {'label' if word else 'word'}; every row needs a word and its label")
    return word, label


def _named_columns(names: Sequence[str]) -> tuple[int | None, int | None, int | None]:
    """Where words, labels, and the numbers of sentences stand, as far as names say."""
    word = named_column(names, WORD_NAMES)
    word = named_column(names, SENTENCE_NAMES) if word is None else word
    others = ["" if at == word else name for at, name in enumerate(names)]
    return word, named_column(others, TAG_NAMES), named_column(others, SENTENCE_NAMES)


def _names_words(names: Sequence[str]) -> bool:
    """Whether names are those of a column of words and of one of their labels."""
    return None not in (named_column(names, WORD_NAMES), named_column(names, TAG_NAMES))


def _are_sentences(rows: Sequence[Sequence[str]], label: int | None) -> bool:
    """Whether most rows hold the labels of several words."""
    cells = [row[label] for row in rows if label is not None and label < len(row)]
    return 2 * sum(len(_items_in(cell)) > 1 for cell in cells) > len(cells)


def _items_in(cell: str) -> list[str]:
    """The items of a cell: between spaces, or of a list as Python writes it.

    >>> _items_in("B-PER O"), _items_in("['B-PER', 'O']")
    (['B-PER', 'O'], ['B-PER', 'O'])
    """
    if not cell.strip().startswith("["):
        return cell.split()
    return ["".join(found) for found in _ITEM.findall(cell)]


def _open_cells(path: Path, table: Table, settings: DataSettings) -> Source:
    """Opens a table with a word and its label in each row, or with those of a whole sentence."""
    naming = Naming(settings.text_column, settings.label_column, header=settings.header)

    def judge(first: Sequence[str], below: Sequence[Sequence[str]]) -> Header:
        return Header((naming.header is not False and _names_words(first)) or judge_label_header(first, below, naming))

    names, sample, header, _ = name_columns(table, judge, ROWS)
    *named, sentence = _named_columns(names)
    named = named if header.is_header else [0, len(names) - 1]
    given = [None if name is None else position_of(name, names, str(path)) for name in naming.columns]
    word, label = (at if other is None else other for at, other in zip(named, given, strict=True))
    if word is None or label is None or word == label:
        raise DataError(
            f"{path}: which column holds the words and which their labels? Columns{listed(names)}; name them: "
            "--set data.text_column=NAME --set data.label_column=NAME"
        )
    whole, sentence = _are_sentences(sample, label), None if sentence in (word, label) else sentence
    if not whole and sentence is None and all(is_filled(cells) for _, cells in table.rows(Counter())):
        raise DataError(
            f"{path} has a word in each row, and nothing that tells where a sentence ends; add a column named "
            "sentence with its number, or an empty row after each sentence"
        )

    def read(repairs: Counter[str]) -> Iterator[Example]:
        words: list[tuple[str, str, int]] = []
        to_skip, last = header.is_header, ""
        for number, cells in table.rows(repairs):
            begins = is_filled(cells) and sentence is not None and sentence < len(cells) and cells[sentence].strip()
            if not is_filled(cells) or (begins and begins != last):  # its number stands once, or in each row
                yield from _sentence(path, words)
                words, last = [], begins
            if is_filled(cells) and to_skip:
                to_skip = False
            elif is_filled(cells):
                pair = _pair(path, number, cells, len(names), (word, label), settings)
                if whole:
                    yield from _listed(path, number, _items_in(cells[word]), _items_in(cells[label]), settings)
                else:
                    words.append((*pair, number))
        yield from _sentence(path, words)

    what = "words of a sentence" if whole else "one word"
    reason = f"{table.format}, {what} in each row; the words are {names[word]!r} and the labels {names[label]!r}"
    return Source(str(path), reason, read)


def _open_lists(path: Path, table: Table, settings: DataSettings) -> Source:
    number, first = table.first_record("an object or a list of two lists, of words and of labels")
    lists = lists_in(first)
    word = _list(path, number, lists, settings.text_column, WORDS)
    label = _list(path, number, lists, settings.label_column, LABELS)
    reason = f"lists in each row; the words are {word!r} and the labels {label!r}"
    return Source(str(path), reason, partial(_lists, path, table, word, label, settings))


def _items(record: Any) -> dict[str, Any]:
    if isinstance(record, dict):
        return record
    return {str(number): item for number, item in enumerate(record, 1)} if isinstance(record, list) else {}


def _list(path: Path, number: int, lists: Sequence[str], column: str | None, known: Sequence[str]) -> str:
    if column is not None:
        return lists[position_of(column, lists, f"{path}:{number}")]
    for name in known:
        if name in lists:
            return name
    raise DataError(
        f"{path}:{number} has no list of {known[0]}; a tagger learns from two lists, of words and of labels, as in "
        '{"words": ["Rome", "sleeps"], "labels": ["PROPN", "VERB"]}'
    )


def _lists(
    path: Path, table: Table, word: str, label: str, settings: DataSettings, repairs: Counter[str]
) -> Iterator[Example]:
    for number, record in table.rows(repairs):
        if record is None:
            continue
        items = _items(record)
        words, labels = items.get(word), items.get(label)
        if not isinstance(words, list) or not isinstance(labels, list):
            raise DataError(f"{path}:{number} is {kind_of(record)} without the lists {word!r} and {label!r}")
        yield from _listed(path, number, words, labels, settings)


def _listed(
    path: Path, number: int, words: Sequence[Any], labels: Sequence[Any], settings: DataSettings
) -> Iterator[Example]:
    if len(words) != len(labels):
        raise DataError(f"{path}:{number} has {len(words)} words but {len(labels)} labels; every word needs its label")
    pairs = [
        (written(text).strip(), shortened(written(name), settings.label_depth))
        for text, name in zip(words, labels, strict=True)
    ]
    if not all(text and name for text, name in pairs):
        raise DataError(f"{path}:{number} has an empty word or label; every word needs its label")
    yield from _sentence(path, [(text, name, number) for text, name in pairs])
