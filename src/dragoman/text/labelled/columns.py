"""Which column of a table holds the text and which the label: as the user says, or guessed, always with the reason."""

import re
from collections import Counter
from collections.abc import Sequence
from statistics import mean
from typing import NamedTuple

from dragoman.errors import DataError
from dragoman.text.columns import Naming, listed, position_of
from dragoman.text.header import judge_header
from dragoman.text.languages import SPACELESS

TEXTS = (
    "text sentence question review utterance comment tweet message query content document body passage headline "
    "title description txt testo texte texto satz frase phrase domanda recensione"
).split()
"""Names of a column of texts, the surest first."""
LABELS = (
    "label labels class category target sentiment topic intent tag polarity rating stars score y etichetta classe "
    "categoria klasse kategorie etiqueta"
).split()
"""Names of a column of labels, the surest first."""
LEAST_ROWS = 20
"""Fewer rows say nothing about what they are."""
MOST_LABELS = 0.1
"""The largest number of labels, as a share of the rows, where it is guessed that they are labels."""
MOST_SINGLE = 0.02
"""The largest share of rows with a value of their own, where values are labels. In running text, more lines begin with
a word that no other begins with."""
FEW_ROWS = 20
"""So many rows may have a label of their own in any case, because small sets have rare labels."""
LONG_WORDS = 3.0
"""A column with more words a cell, on average, holds texts; one with fewer may hold labels."""

_WORD = re.compile(r"[^\W\d_]+")
_SPACELESS_CHARACTER = re.compile(f"[{SPACELESS}]")


class Chosen(NamedTuple):
    """The positions of the columns, and why these."""

    text: int
    label: int
    reason: str


class Statistics(NamedTuple):
    """What some cells of a column have in common."""

    counts: Counter[str]
    """How many rows have each value; empty cells don't count."""
    words: float
    """In a cell, on average."""
    characters: float

    @property
    def rows(self) -> int:
        return self.counts.total()

    @property
    def distinct(self) -> int:
        return len(self.counts)

    @property
    def is_numeric(self) -> bool:
        """Whether every cell holds digits and no letters, as numbers, dates and times do."""
        return all(any(map(str.isdigit, cell)) and not any(map(str.isalpha, cell)) for cell in self.counts)

    @property
    def may_be_labels(self) -> bool:
        """Whether there are few different values, and short ones."""
        return self.distinct <= max(2, self.rows // 2) and self.words <= LONG_WORDS

    @property
    def are_phrases(self) -> bool:
        """Whether most values are different and hold several words, as texts, translations and titles do."""
        return self.words > 1 and 2 * self.distinct > self.rows and not self.is_numeric

    @property
    def are_texts(self) -> bool:
        return self.words > LONG_WORDS and self.are_phrases


def has_header(
    first: Sequence[str], rows: Sequence[Sequence[str]], given: Sequence[str | None], seen: Sequence[str] | None
) -> bool:
    """Whether the first row of a table names its columns: those that the user gives, those of the training text, any
    that are named for texts or labels and do not return below, or a label that is like none below.
    """
    cells = [cell.strip() for cell in first]
    if any(name and not name.isdecimal() for name in given):
        return True
    if seen and not all(map(str.isdecimal, seen)) and _positions(seen, cells):
        return True
    named = [at for at, cell in enumerate(cells) if cell.casefold() in (*TEXTS, *LABELS)]
    if named:
        return not any(row[at].strip() == cells[at] for at in named for row in rows if len(row) == len(cells))
    return _is_no_label(cells, rows) or judge_header(cells, rows, Naming()).found


def _is_no_label(cells: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether a first row of short cells stands above a column of labels that return, and is none of them."""
    if len(rows) < LEAST_ROWS or any(count_words(cell) > LONG_WORDS for cell in cells):
        return False
    below = [Counter(row[at].strip() for row in rows if len(row) == len(cells)) for at in range(len(cells))]
    return any(
        measure(rows, at).may_be_labels and cell not in counts and min(counts.values(), default=0) > 1
        for at, (cell, counts) in enumerate(zip(cells, below, strict=True))
    )


def choose(
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    given: Sequence[str | None],
    seen: Sequence[str] | None,
    where: str,
) -> Chosen:
    """Chooses the columns of the text and the label: as `given`, as in the training text, by their names, or else by
    what some rows hold. The text is long, and a label has few different values.

    >>> rows = [["1", "I like it.", "good"], ["2", "I hate it so.", "bad"], ["3", "Never again.", "bad"]]
    >>> choose(["id", "what", "why"], rows, (None, None), None, "table.csv")
    Chosen(text=1, label=2, reason="'what' holds the longest texts and 'why' few different values")

    Raises:
        DataError: nothing tells the label from the text, or several columns may be the label.
    """
    if not any(given) and seen and (positions := _positions(seen, names)):
        return Chosen(*positions, "the columns of the training text")
    told = [None if name is None else position_of(name, names, where) for name in given]
    named = [_named(names, known) for known in (TEXTS, LABELS)]
    text, label = (at if at is not None else name for at, name in zip(told, named, strict=True))
    if text is not None and text == label:
        text, label = told
    if text is not None and text == label:
        raise DataError(f"{where}: data.text_column and data.label_column are the same column, {names[text]!r}")
    columns = [measure(rows, at) for at in range(len(names))]
    by_name = [what for what, at in (("text", text), ("label", label)) if at is not None]
    if text is None:
        text = _longest(columns, label, names, where)
    if label is None:
        label = _label(columns, text, names, where)
    return Chosen(text, label, _reason(names, text, label, by_name, all(at is not None for at in told)))


def measure(rows: Sequence[Sequence[str]], at: int) -> Statistics:
    cells = [text for row in rows if at < len(row) and (text := row[at].strip())] or [""]
    return Statistics(Counter(filter(None, cells)), mean(map(count_words, cells)), mean(map(len, cells)))


def count_words(text: str) -> float:
    """How many words a text has. In scripts without spaces, two characters count as one.

    >>> count_words("I like it."), count_words("我喜欢寿司")
    (3.0, 2.5)
    """
    spaced, characters = _SPACELESS_CHARACTER.subn(" ", text)
    return len(spaced.split()) + characters / 2


def few_single(counts: Counter[str], in_any_case: int = FEW_ROWS) -> bool:
    """Whether few rows have a value of their own, as labels demand.

    >>> few_single(Counter(spam=5_000, rare=1)), few_single(Counter(f"label {row}" for row in range(100)))
    (True, False)
    """
    single = sum(count == 1 for count in counts.values())
    return single <= max(in_any_case, MOST_SINGLE * counts.total())


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


def _positions(seen: Sequence[str], names: Sequence[str]) -> tuple[int, int] | None:
    """Where the columns of the training text stand: by their exact names, or else in another case."""
    for form in (str.strip, lambda name: name.strip().casefold()):
        (text, label), found = map(form, seen), list(map(form, names))
        if found.count(text) == found.count(label) == 1:
            return found.index(text), found.index(label)
    return None


def named_label(names: Sequence[str]) -> int | None:
    """The position of the column that is named for labels."""
    return _named(names, LABELS)


def _named(names: Sequence[str], known: Sequence[str]) -> int | None:
    """The only column with the surest name; a name of one word is surer than one among several."""
    plain = [name.strip().casefold() for name in names]
    for word in known:
        if plain.count(word) == 1:
            return plain.index(word)
    holding = [at for at, name in enumerate(plain) if set(_WORD.findall(name)) & set(known)]
    return holding[0] if len(holding) == 1 else None


def _longest(columns: Sequence[Statistics], label: int | None, names: Sequence[str], where: str) -> int:
    others = [at for at in range(len(columns)) if at != label]
    if not others:
        raise DataError(f"{where} has one column{listed(names)}; an example needs a text and a label")
    texts = [at for at in others if not columns[at].is_numeric]
    if not texts:
        raise DataError(
            f"{where}: no column holds texts, only numbers; columns{listed(names)}; name it, or give its number from "
            "1: --set data.text_column=NAME"
        )
    return max(texts, key=lambda at: (columns[at].words, columns[at].characters))


def _label(columns: Sequence[Statistics], text: int, names: Sequence[str], where: str) -> int:
    fitting = [at for at, column in enumerate(columns) if at != text and column.may_be_labels]
    if len(fitting) == 1:
        return fitting[0]
    if len(columns) < 2:
        raise DataError(f"{where} has one column{listed(names)}; an example needs a text and a label")
    advice = f"columns{listed(names)}; name it, or give its number from 1: --set data.label_column=NAME"
    if fitting:
        raise DataError(f"{where}: several columns may be the label{listed([names[at] for at in fitting])}; {advice}")
    if sum(column.are_texts for column in columns) > 1:
        advice += "; two columns of texts are parallel text, which trains a translator: leave the task out"
    raise DataError(f"{where}: no column has few different values, as labels do; {advice}")


def _reason(names: Sequence[str], text: int, label: int, by_name: Sequence[str], as_given: bool) -> str:
    if as_given:
        return "columns as given"
    if len(by_name) == 2:
        return f"columns named {names[text]!r} and {names[label]!r}"
    if by_name == ["text"]:
        return f"{names[label]!r} holds few different values beside {names[text]!r}"
    if by_name == ["label"]:
        return f"{names[text]!r} holds the longest texts beside {names[label]!r}"
    return f"{names[text]!r} holds the longest texts and {names[label]!r} few different values"
