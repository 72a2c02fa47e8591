"""Judges if the first row of a table is a header, by what it says and by the rows below it.

`judge_header` judges pairs, `judge_label_header` labelled texts: the first rule that knows an answer gives it. A row
that names two languages, or a language and a role, is a header; a pair names one thing twice ("Polish, Polacco"). A
row that only looks like a header is read as a pair, with a warning.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from dragoman.formats.column_names import meaning_of, role_of
from dragoman.languages import differing, is_code, language_of
from dragoman.text.column_statistics import LEAST_ROWS, LONG_WORDS, count_words, measure
from dragoman.text.columns import WORD, Naming
from dragoman.text.label_columns import LABELS, TEXTS

_FEW, _ENOUGH = 3, 20
# Words between a language and what is said about it.
_JOINTS = frozenset("in en of di de auf the language lang lingua langue sprache idioma lengua язык".split())
_STOP = re.compile(r"[.!?…。！？][\"'»”’)]*$")
_NUMBER = re.compile(r"(?=.*\d)[-+]?[\d.,:/TZ +-]+%?")  # also a date, and a time


class Header(NamedTuple):
    """True if the first row is a header, and the reason; `doubt` is the reason to think otherwise."""

    is_header: bool
    reason: str = ""
    doubt: str = ""


def judge_header(first: Sequence[str], rows: Sequence[Sequence[str]], naming: Naming) -> Header:
    """Judge the first row of a table of pairs.

    >>> judge_header(["English", "Français"], [["Good morning.", "Bonjour."]], Naming())
    Header(is_header=True, reason='it names en and fr', doubt='')
    >>> judge_header(["Polish", "Polacco"], [["Dutch", "Olandese"]], Naming()).is_header
    False
    """
    return _judge(_RULES, first, rows, naming)


def judge_label_header(first: Sequence[str], rows: Sequence[Sequence[str]], naming: Naming) -> Header:
    """Judge the first row of a table of texts and labels."""
    return _judge(_LABEL_RULES, first, rows, naming)


@dataclass
class _FirstRow:
    """The first row, the rows after it, and what is known about the columns."""

    cells: Sequence[str]
    rows: Sequence[Sequence[str]]
    naming: Naming
    below: Sequence[Sequence[str]]
    """The texts below each cell."""

    @cached_property
    def meanings(self) -> dict[str, str]:
        """The languages and roles that the row names, each with the last cell that names it."""
        return {meaning: cell for cell in self.cells if (meaning := meaning_of(cell))}

    @property
    def names(self) -> str:
        """The reason that is given for the languages and roles."""
        return f"it names {' and '.join(self.meanings)}"

    @cached_property
    def is_short(self) -> bool:
        """True if all cells look like names above many others."""
        return all(_is_short(cell, column) for cell, column in zip(self.cells, self.below, strict=True) if cell)


def _known(row: _FirstRow) -> Header | None:
    """Judge by what the user or the training text says."""
    naming = row.naming
    if naming.header is not None:
        return Header(naming.header, "as given" if naming.header else "")
    if any(column and not column.isdecimal() for column in naming.columns):
        return Header(True, "a column is given by its name")
    if naming.positions_of_trained(row.cells) and not all(map(str.isdecimal, naming.trained_columns or ())):
        return Header(True, "it has the columns of the training text")
    return None


def _names_codes(row: _FirstRow) -> Header | None:
    """Judge a row of bare codes, which may be words: "it, lo" in a list of pronouns, "no, si" among answers."""
    if len(row.meanings) < 2 or not all(map(is_code, row.meanings.values())):
        return None
    codes = [(cell, column) for cell, column in zip(row.cells, row.below, strict=True) if meaning_of(cell)]
    wanted, are_titles = row.naming.wanted_languages, all(cell.istitle() for cell, _ in codes)
    if all(wanted) and all(len(differing([str(language_of(cell))] * 2, wanted)) == 2 for cell, _ in codes):
        return Header(False, doubt=row.names)
    if all(_returns(cell, column) for cell, column in codes):
        return Header(False, doubt="" if are_titles else row.names)
    if are_titles and not all(_is_short(cell, column) for cell, column in codes):
        return Header(False, doubt=row.names)
    return Header(True, row.names)


def _names_two(row: _FirstRow) -> Header | None:
    """Judge a row that names two languages or roles."""
    if len(row.meanings) < 2:
        return None
    is_sure = row.is_short or all(map(_is_name, row.meanings.values()))
    return Header(True, row.names) if is_sure else Header(False, doubt=row.names)


def _numbers_names(row: _FirstRow) -> Header | None:
    """Accept cells that are one name with numbers, as in text_1 and text_2, or spelt like names in a program."""
    stems = [numbered[1] for cell in row.cells if (numbered := re.fullmatch(r"([^\W\d]+?)[ _-]?\d", cell))]
    is_one_name = len(stems) == len(row.cells) > 1 and len(set(stems)) == 1
    if not (is_one_name or all(re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)+", cell) for cell in row.cells)):
        return None
    return None if any(map(_returns, row.cells, row.below)) else Header(True, "its cells are numbered names")


def _names_one(row: _FirstRow) -> Header | None:
    """Accept a short row with one name of a language or role. Refuse a row with several such names: it may be a pair,
    such as a language's name and its translation.
    """
    if sum(meaning_of(cell) is not None for cell in row.cells) > 1:
        return Header(False)
    is_name = any(_is_name(cell) and not is_code(cell) for cell in row.meanings.values())
    return Header(True, f"{row.names}, and is shorter than the rows below it") if is_name and row.is_short else None


def _looks_like_one(row: _FirstRow) -> Header | None:
    """Judge by the looks of the cells that may be the pair, and by numbers and codes that begin below the row."""
    cells, below = row.cells, row.below
    chosen = [int(column) - 1 for column in row.naming.columns if column] or range(len(cells))
    others = [at for at in range(len(cells)) if measure(row.rows, at).are_no_texts] if len(cells) > 2 else []
    pairs = [(cells[at], below[at]) for at in chosen if at < len(cells) and cells[at] and at not in others]
    if len(pairs) < 2 or not all(_looks_like_a_name(cell, column) for cell, column in pairs):
        return None
    if any(cells[at] and cells[at] not in below[at] for at in others):
        return Header(True, "it is unlike the rows below it")
    return Header(False, doubt="it is shorter than the rows below it")


def _names_labels(row: _FirstRow) -> Header | None:
    """Accept names of texts or labels that do not return below."""
    named = [at for at, cell in enumerate(row.cells) if cell.casefold() in (*TEXTS, *LABELS)]
    returns = any(below[at].strip() == row.cells[at] for at in named for below in _whole(row.rows, row.cells))
    return Header(not returns) if named else None


def _is_no_label(row: _FirstRow) -> Header | None:
    """Accept short cells of which one is not a label, but is above labels that all return."""
    if len(row.rows) < LEAST_ROWS or any(count_words(cell) > LONG_WORDS for cell in row.cells):
        return None
    for at, cell in enumerate(row.cells):
        counts = Counter(below[at].strip() for below in _whole(row.rows, row.cells))
        if measure(row.rows, at).may_be_labels and cell not in counts and min(counts.values(), default=0) > 1:
            return Header(True)
    return None


_Rule = Callable[[_FirstRow], Header | None]
_RULES: tuple[_Rule, ...] = (_known, _names_codes, _names_two, _numbers_names, _names_one, _looks_like_one)
_LABEL_RULES: tuple[_Rule, ...] = (
    _known,
    _names_labels,
    _is_no_label,
    lambda row: Header(judge_header(row.cells, row.rows, Naming()).is_header),
)


def _judge(rules: Sequence[_Rule], first: Sequence[str], rows: Sequence[Sequence[str]], naming: Naming) -> Header:
    # tables that were joined repeat the first row
    whole = [row for row in _whole(rows, first) if row != first]
    below = [[text for row in whole if (text := row[column].strip())] for column in range(len(first))]
    row = _FirstRow([cell.strip() for cell in first], rows, naming, below)
    return next((header for rule in rules if (header := rule(row)) is not None), Header(False))


def _whole(rows: Sequence[Sequence[str]], first: Sequence[str]) -> list[Sequence[str]]:
    """Return the rows that have the same number of cells as the first."""
    return [row for row in rows if len(row) == len(first)]


def _is_name(cell: str) -> bool:
    """Return True if a cell is little more than a name: "Sentence in English" is, "I speak English" is not."""
    return " " not in cell or sum(not (role_of(word) or word.lower() in _JOINTS) for word in WORD.findall(cell)) <= 1


def _returns(cell: str, column: Sequence[str]) -> bool:
    """Return True if a word of a cell occurs below it."""
    words = {word.casefold() for word in WORD.findall(cell)}
    return any(words & {word.casefold() for word in WORD.findall(text)} for text in column)


def _is_short(cell: str, column: Sequence[str]) -> bool:
    """Return True if a cell looks like a name above many others, and its words never return."""
    return len(column) >= _ENOUGH and not _returns(cell, column) and _looks_like_a_name(cell, column)


def _looks_like_a_name(cell: str, column: Sequence[str]) -> bool:
    """Return True if a cell is a few words and no sentence, while most cells below it are sentences or far longer."""
    if len(column) < _FEW or len(cell.split()) > _FEW or _STOP.search(cell) or _NUMBER.fullmatch(cell):
        return False
    unlike = sum(len(text) >= 3 * len(cell) or _STOP.search(text) is not None for text in column)
    return unlike >= 0.8 * len(column)
