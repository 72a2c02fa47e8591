"""Whether the first row of a table names its columns, judged by what it says and by the rows below it.

`judge_header` judges pairs, `judge_label_header` labelled texts.

A row that names two languages, or a language and a role, is a header; a pair names one thing twice ("Polish, Polacco").
A row that only looks like a header is read as a pair, with a warning.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from dragoman.formats.column_names import meaning_of, role_of
from dragoman.languages import differing, is_code, language_of
from dragoman.text.column_statistics import LEAST_ROWS, LONG_WORDS, count_words, measure
from dragoman.text.columns import Naming
from dragoman.text.label_columns import LABELS, TEXTS

_FEW, _ENOUGH = 3, 20
# Words between a language and what is said about it.
_JOINTS = frozenset("in en of di de auf the language lang lingua langue sprache idioma lengua язык".split())
_WORD = re.compile(r"[^\W\d_]+")
_STOP = re.compile(r"[.!?…。！？][\"'»”’)]*$")
_NUMBER = re.compile(r"(?=.*\d)[-+]?[\d.,:/TZ +-]+%?")  # also a date, and a time


class Header(NamedTuple):
    """Whether the first row is a header, and why; `doubt` is the reason to think otherwise."""

    is_header: bool
    reason: str = ""
    doubt: str = ""


def judge_header(first: Sequence[str], rows: Sequence[Sequence[str]], naming: Naming) -> Header:
    """Judges the first row by itself, by what is known about the columns, and by the rows that follow.

    >>> judge_header(["English", "Français"], [["Good morning.", "Bonjour."]], Naming())
    Header(is_header=True, reason='it names en and fr', doubt='')
    >>> judge_header(["Polish", "Polacco"], [["Dutch", "Olandese"]], Naming()).is_header
    False
    """
    cells = [cell.strip() for cell in first]
    if (known := _known(cells, naming)) is not None:
        return known
    kinds = {kind: cell for cell in cells if (kind := meaning_of(cell))}
    below = _columns_below(first, rows)
    named = f"it names {' and '.join(kinds)}"
    is_short = all(_is_short(cell, column) for cell, column in zip(cells, below, strict=True) if cell)
    if len(kinds) >= 2 and all(map(is_code, kinds.values())):
        return _of_codes(cells, below, naming, named)
    if len(kinds) >= 2:
        sure = is_short or all(map(_is_name, kinds.values()))
        return Header(True, named) if sure else Header(False, doubt=named)
    if _numbered(cells) and not any(map(_returns, cells, below)):
        return Header(True, "its cells are numbered names")
    if len(kinds) == 1 and sum(meaning_of(cell) is not None for cell in cells) > 1:
        return Header(False)  # both sides of a pair name the same
    a_name = any(_is_name(cell) and not is_code(cell) for cell in kinds.values())
    if a_name and is_short:
        return Header(True, f"{named}, and is shorter than the rows below it")
    chosen = [int(column) - 1 for column in naming.columns if column] or range(len(cells))
    marks = [at for at in range(len(cells)) if measure(rows, at).are_no_texts] if len(cells) > 2 else []
    pairs = [(cells[at], below[at]) for at in chosen if at < len(cells) and cells[at] and at not in marks]
    looks = len(pairs) > 1 and all(_looks_like_a_name(cell, column) for cell, column in pairs)
    if looks and any(cells[at] and cells[at] not in below[at] for at in marks):
        return Header(True, "it is unlike the rows below it")
    return Header(False, doubt="it is shorter than the rows below it" if looks else "")


def judge_label_header(first: Sequence[str], rows: Sequence[Sequence[str]], naming: Naming) -> Header:
    """Whether the first row names a text and a label: by what is known about the columns, by names of texts or labels
    that do not return below, or by a label that is like none below.
    """
    cells = [cell.strip() for cell in first]
    if (known := _known(cells, naming)) is not None:
        return known
    named = [at for at, cell in enumerate(cells) if cell.casefold() in (*TEXTS, *LABELS)]
    if named:
        return Header(not any(row[at].strip() == cells[at] for at in named for row in rows if len(row) == len(cells)))
    return Header(_is_no_label(cells, rows) or judge_header(cells, rows, Naming()).is_header)


def _known(cells: Sequence[str], naming: Naming) -> Header | None:
    """Whether the first row is a header, where the user or the training text says so."""
    if naming.header is not None:
        return Header(naming.header, "as given" if naming.header else "")
    if any(column and not column.isdecimal() for column in naming.columns):
        return Header(True, "a column is given by its name")
    if naming.positions_of_trained(cells) and not all(map(str.isdecimal, naming.trained_columns or ())):
        return Header(True, "it has the columns of the training text")
    return None


def _is_no_label(cells: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether a first row of short cells stands above a column of labels that return, and is none of them."""
    if len(rows) < LEAST_ROWS or any(count_words(cell) > LONG_WORDS for cell in cells):
        return False
    below = [Counter(row[at].strip() for row in rows if len(row) == len(cells)) for at in range(len(cells))]
    return any(
        measure(rows, at).may_be_labels and cell not in counts and min(counts.values(), default=0) > 1
        for at, (cell, counts) in enumerate(zip(cells, below, strict=True))
    )


def _is_name(cell: str) -> bool:
    """Whether a cell is little more than a name: "Sentence in English" is, "I speak English" is not."""
    words = re.findall(r"[^\W\d_]+", cell)
    return " " not in cell or sum(not (role_of(word) or word.lower() in _JOINTS) for word in words) <= 1


def _columns_below(first: Sequence[str], rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the cells with text below each cell of the first row, which tables that were joined repeat."""
    whole = [row for row in rows if len(row) == len(first) and row != first]
    return [[text for row in whole if (text := row[column].strip())] for column in range(len(first))]


def _of_codes(cells: Sequence[str], below: Sequence[Sequence[str]], naming: Naming, named: str) -> Header:
    """Judges a row of bare codes, which may be words: "it, lo" in a list of pronouns, "no, si" among answers."""
    codes = [(cell, column) for cell, column in zip(cells, below, strict=True) if meaning_of(cell)]
    languages = [str(language_of(cell)) for cell, _ in codes]
    wanted = naming.wanted_languages
    if all(wanted) and all(len(differing([code] * 2, wanted)) == 2 for code in languages):
        return Header(False, doubt=named)
    if all(_returns(cell, column) for cell, column in codes):
        return Header(False, doubt="" if all(cell.istitle() for cell, _ in codes) else named)
    if all(cell.istitle() for cell, _ in codes) and not all(_is_short(cell, column) for cell, column in codes):
        return Header(False, doubt=named)
    return Header(True, named)


def _returns(cell: str, column: Sequence[str]) -> bool:
    words = {word.casefold() for word in _WORD.findall(cell)}
    return any(words & {word.casefold() for word in _WORD.findall(text)} for text in column)


def _numbered(cells: Sequence[str]) -> bool:
    """Whether the cells are one name with numbers, as in text_1 and text_2, or spelt like names in a program."""
    stems = [numbered[1] for cell in cells if (numbered := re.fullmatch(r"([^\W\d]+?)[ _-]?\d", cell))]
    if len(stems) == len(cells) > 1 and len(set(stems)) == 1:
        return True
    return all(re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)+", cell) for cell in cells)


def _is_short(cell: str, column: Sequence[str]) -> bool:
    """Whether a cell looks like a name above many others, and its words never return."""
    return len(column) >= _ENOUGH and not _returns(cell, column) and _looks_like_a_name(cell, column)


def _looks_like_a_name(cell: str, column: Sequence[str]) -> bool:
    """Whether a cell is a few words and no sentence, while most cells below it are sentences or far longer."""
    if len(column) < _FEW or len(cell.split()) > _FEW or _STOP.search(cell) or _NUMBER.fullmatch(cell):
        return False
    unlike = sum(len(text) >= 3 * len(cell) or _STOP.search(text) is not None for text in column)
    return unlike >= 0.8 * len(column)
