"""Which two columns of a table are wanted: source and target of a pair, or a text (or words) and its label (or labels).

A column is whatever names one of the two: a header of a table, a key of a JSON row, the ending of one of two aligned
files. What the user says wins, then the columns of the training text, then what the names say. For labelled text, what
the columns hold says the rest. Every choice has its reason. Knows nothing of how columns are read.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from itertools import permutations
from statistics import mean
from typing import NamedTuple

from dragoman.errors import DataError
from dragoman.formats.column_names import SOURCE, TARGET, TEXT, role_of, side_of
from dragoman.languages import (
    SPACELESS_CHARACTER,
    UNKNOWN_LANGUAGE,
    differing,
    language_of,
    languages_in,
    same_language,
)

LABEL = "label"

TEXTS = (
    "text sentence question review utterance comment tweet message query content document body passage headline "
    "title description txt testo texte texto satz frase phrase domanda recensione"
).split()
"""Names of a column of labelled texts, the surest first."""
LABELS = (
    "label labels class category target sentiment topic intent tag polarity rating stars score y etichetta classe "
    "categoria klasse kategorie etiqueta"
).split()
"""Names of a column of labels, the surest first."""
OUTPUTS = frozenset("mt ref reference hyp hypothesis".split())
"""Names of translations beside a source, where no other name says target."""
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

_ONE_LANGUAGE, _LANGUAGES, _ONE_ROLE, _BOTH_ROLES, _EXPECTED = range(1, 6)
"""The evidence for a pair, from the weakest to the strongest."""
_WORD = re.compile(r"[^\W\d_]+")


class Naming(NamedTuple):
    """What is known about the columns before the text is opened; None where it is to be guessed.

    A column is named by its header or key (`translation.en` for a nested one), or by its number, from 1. The first six
    fields are what the user says, which wins over everything else.
    """

    first_column: str | None = None
    """Of the source, or of labelled text."""
    second_column: str | None = None
    """Of the target, or of the label."""
    source_language: str | None = None
    target_language: str | None = None
    header: bool | None = None
    """Whether the first row of a table names the columns."""
    quoted: bool | None = None
    """Whether quotes around a cell belong to the format."""
    expected: tuple[str, str] | None = None
    """The languages that the text must have: those of a model, or of the training text beside it."""
    owner: str = "the model"
    """Who expects them."""
    seen: tuple[str, str] | None = None
    """The columns of the text that the model learnt from, which are taken if both exist."""
    roles: tuple[str, str] = (SOURCE, TARGET)
    """What the two columns hold."""

    @property
    def columns(self) -> tuple[str | None, str | None]:
        return self.first_column, self.second_column

    @property
    def given(self) -> tuple[str | None, str | None]:
        """The languages as the user says."""
        return self.source_language, self.target_language

    @property
    def wanted(self) -> tuple[str | None, str | None]:
        """The languages as the user says, else as expected."""
        expected = self.expected or (UNKNOWN_LANGUAGE, UNKNOWN_LANGUAGE)
        source, target = (None if language == UNKNOWN_LANGUAGE else language for language in expected)
        return self.source_language or source, self.target_language or target

    def seen_in(self, names: Sequence[str]) -> tuple[int, int] | None:
        """Where the columns of the training text stand: by their exact names, or else in another case."""
        for form in (str.strip, lambda name: name.strip().casefold()):
            (first, second), known = map(form, self.seen or ("", "")), list(map(form, names))
            if self.seen and known.count(first) == known.count(second) == 1:
                return known.index(first), known.index(second)
        return None


class Columns(NamedTuple):
    """The two columns chosen, why, and their positions, because several columns may have one name."""

    first: str
    second: str
    reason: str
    positions: tuple[int, int] = (0, 1)

    @classmethod
    def at(cls, names: Sequence[str], positions: tuple[int, int], reason: str) -> "Columns":
        return cls(names[positions[0]], names[positions[1]], reason, positions)


class Languages(NamedTuple):
    """The languages of the two columns, and why. `named` is what the names say, whatever the user says."""

    source: str
    target: str
    reason: str
    named: tuple[str | None, str | None]


def choose_columns(
    names: Sequence[str],
    naming: Naming,
    where: str,
    file_name: str = "",
    cells: Sequence["Statistics"] = (),
) -> Columns:
    """Chooses the source and target column among `names`; the name of the file may give the direction.

    Columns whose `cells` are only numbers are taken only if the user names them. Where names do not decide, it does
    that only two columns hold texts.

    >>> choose_columns(["id", "en", "it"], Naming(), "corpus.csv")[:3]
    ('en', 'it', 'columns named for languages')
    >>> choose_columns(["id", "en", "it"], Naming(source_language="it", target_language="en"), "corpus.csv").first
    'it'
    >>> choose_columns(["German translation", "English source"], Naming(), "corpus.csv").first
    'English source'

    Raises:
        DataError: no pair of columns fits, or several do; lists them.
    """
    chosen = [None if name is None else position_of(name, names, where) for name in naming.columns]
    if None not in chosen:
        return _as_given(names, chosen, naming, where)
    if chosen == [None, None] and (seen := naming.seen_in(names)):
        return Columns.at(names, seen, "the columns of the training text")
    numeric = [at for at, column in enumerate(cells) if column.are_numbers]
    likely = _likeliest(names, naming.wanted, chosen, file_name, numeric)
    if len(likely) == 1:
        return likely[0]
    if chosen != [None, None]:
        return _as_given(names, _completed(chosen, names, where), naming, where)
    texts = [at for at, column in enumerate(cells) if not column.are_marks]
    fitting = [columns.positions for columns in likely if {*columns.positions} == {*texts}]
    if len(texts) == 2 < len(names) and (fitting or not likely):
        positions = fitting[0] if fitting else (texts[0], texts[1])
        return Columns.at(names, positions, "the other columns hold no texts")
    if likely:
        raise DataError(f"{where}: {_choices(likely)}")
    if len(names) == 2:
        return Columns.at(names, (0, 1), "there are two columns, and the first is the source")
    if len(names) < 2:
        raise DataError(f"{where} has one column{listed(names)}; a pair needs a source and a target")
    raise DataError(
        f"{where} has {len(names)} columns{listed(names)}; say which are the pair, by name or number from 1: "
        "--set data.source_column=NAME --set data.target_column=NAME"
    )


def languages(columns: Columns, naming: Naming, file_name: str) -> Languages:
    """The languages of the chosen columns; `und` where they are unknown.

    >>> languages(Columns("English", "Italiano", ""), Naming(), "x.csv").named
    ('en', 'it')
    """
    named = (_language_beside(columns.first, columns.second), _language_beside(columns.second, columns.first))
    reason = f"from the names {columns.first} and {columns.second}" if any(named) else ""
    if not any(named) and (of_file := languages_in(file_name)):
        turned = columns.first.isdecimal() and columns.second.isdecimal() and int(columns.first) > int(columns.second)
        named, reason = (of_file[1], of_file[0]) if turned else of_file, f"from the name {file_name}"
    sides = [given or told or known for given, told, known in zip(naming.given, named, naming.wanted, strict=True)]
    if all(naming.given):
        reason = "as data.source_language and data.target_language say"
    elif not any(named):
        reason = f"those of {naming.owner}"
    if None in sides:
        unknown = [side for side, code in zip(naming.roles, sides, strict=True) if not code]
        advice = " ".join(f"--set data.{side}_language=CODE" for side in unknown)
        reason = f"no name tells that of the {' and the '.join(unknown)}; give {advice}"
    return Languages(sides[0] or UNKNOWN_LANGUAGE, sides[1] or UNKNOWN_LANGUAGE, reason, named)


def check_languages(names: Sequence[str], columns: Columns, of_columns: Languages, naming: Naming, where: str) -> None:
    """Refuses columns whose names say other languages than are expected, unless the user chose them.

    Raises:
        DataError: lists the columns, and says how to choose among them.
    """
    if naming.expected is None or any(naming.columns) or any(naming.given):
        return
    if not differing(of_columns.named, naming.expected):
        return
    named = " and ".join(
        f"{name!r} ({language})" if language else repr(name)
        for name, language in zip(columns[:2], of_columns.named, strict=True)
    )
    turned = not differing(of_columns.named[::-1], naming.expected)
    source, target = (columns.second, columns.first) if turned else ("NAME", "NAME")
    advice = f"--set data.source_column={source} --set data.target_column={target}"
    if not turned:
        codes = [language or "CODE" for language in of_columns.named]
        advice += (
            f"; or, if these are meant: --set data.source_language={codes[0]} --set data.target_language={codes[1]}"
        )
    raise DataError(
        f"{where}: source and target would be {named}, {of_columns.reason}, but {naming.owner} goes "
        f"from {naming.expected[0]} to {naming.expected[1]}; say which columns to take{listed(names)}: {advice}"
    )


def listed(names: Sequence[str]) -> str:
    """Some names in brackets, for a message."""
    shown = ", ".join(repr(name if len(name) <= 40 else f"{name[:39]}…") for name in names[:8])
    return f" ({shown}{', …' if len(names) > 8 else ''})" if names else ""


def position_of(name: str, names: Sequence[str], where: str) -> int:
    """The position of the column that the user names: exactly, by its number, in another case, or, as
    in `en` for `en-GB`, by its language.

    Raises:
        DataError: there is none, or several in another case.
    """
    for positions in (
        [position for position, other in enumerate(names) if other == name],
        [int(name) - 1] if name.isdecimal() and 1 <= int(name) <= len(names) else [],
        [position for position, other in enumerate(names) if other.casefold() == name.casefold()],
        [position for position, other in enumerate(names) if other.casefold().startswith(f"{name.casefold()}-")],
    ):
        if len(positions) > 1:
            numbers = " and ".join(str(position + 1) for position in positions)
            raise DataError(f"{where}: columns {numbers} are both called {name!r}; name one by its number")
        if positions:
            return positions[0]
    lowered = {other.casefold(): other for other in names}
    near = get_close_matches(name.casefold(), lowered, n=1)
    meant = f"; did you mean {lowered[near[0]]!r}?" if near else ""
    raise DataError(f"{where} has no column {name!r}{meant}; columns{listed(names)}")


def _language_beside(name: str, other: str) -> str | None:
    """The language of a name beside another; "mt" beside a source is a machine's translation, not Maltese."""
    return None if name.lower() in OUTPUTS and side_of(other) == SOURCE else language_of(name)


def _as_given(names: Sequence[str], positions: Sequence[int | None], naming: Naming, where: str) -> Columns:
    first, second = (position or 0 for position in positions)
    if first == second:
        one, other = naming.roles
        raise DataError(f"{where}: data.{one}_column and data.{other}_column are the same column, {names[first]!r}")
    return Columns.at(names, (first, second), "as given")


def _completed(chosen: Sequence[int | None], names: Sequence[str], where: str) -> list[int]:
    """The column that the user names, and the only other one."""
    rest = [position for position in range(len(names)) if position not in chosen]
    if len(rest) != 1:
        raise DataError(f"{where}: give both data.source_column and data.target_column; columns{listed(names)}")
    return [rest[0] if position is None else position for position in chosen]


def _choices(likely: Sequence[Columns]) -> str:
    """Why none of several pairs was taken, and how to choose one."""
    numbers = [tuple(at + 1 for at in columns.positions) for columns in likely]
    pairs = [
        f"{columns.first!r} and {columns.second!r} (columns {source} and {target})"
        for columns, (source, target) in zip(likely, numbers, strict=True)
    ]
    return (
        f"several columns may be the pair: {'; '.join(pairs[:6])}{'; …' * (len(pairs) > 6)}; say which, by name or "
        f"number, as in --set data.source_column={numbers[0][0]} --set data.target_column={numbers[0][1]}"
    )


class _Column(NamedTuple):
    """A column, and what its name says."""

    position: int
    name: str
    language: str | None
    side: str | None
    is_bare: bool
    """Whether the name is a single word, a language or a role."""


def _likeliest(
    names: Sequence[str],
    expected: Sequence[str | None],
    chosen: Sequence[int | None],
    file_name: str,
    numeric: Collection[int],
) -> list[Columns]:
    """The pairs with the most evidence: none, one, or several that are equally likely.

    The pair has the `expected` languages, as far as they are known, or those in the name of the file. Columns `chosen`
    by the user are fixed; `numeric` ones hold only numbers.
    """
    columns = _described(names, [] if len(names) == 2 else [at for at in numeric if at not in chosen])
    wanted = expected if any(expected) else languages_in(file_name) or expected
    found = [
        (grade, _weight(*pair, wanted), pair)
        for pair in permutations(columns, 2)
        if all(at in (None, column.position) for at, column in zip(chosen, pair, strict=True))
        and (grade := _grade(*pair, expected, wanted, len(columns)))
    ]
    first: list[tuple[int, tuple[_Column, ...]]] = []
    for grade in sorted({grade for grade, _, _ in found}, reverse=True):
        heaviest = max(weight for other, weight, _ in found if other == grade)
        best = [pair for other, weight, pair in found if (other, weight) == (grade, heaviest)]
        # If a pair fits either way round, the first column is the source.
        best = [pair for pair in best if pair[0].position < pair[1].position or pair[::-1] not in best]
        if len(best) == 1 or not first:
            first = [(grade, pair) for pair in best]
        if len(best) == 1 or grade != _ONE_ROLE:
            break  # a single role may say where a text comes from: "source, en, it"
    reasons = {_ONE_ROLE: "columns named for their roles", _BOTH_ROLES: "columns named for their roles"}
    return [
        Columns.at(names, (source.position, target.position), reasons.get(grade, "columns named for languages"))
        for grade, (source, target) in first
    ]


def _described(names: Sequence[str], left_out: Collection[int]) -> list[_Column]:
    """The columns that may be of the pair, with what their names say beside each other."""
    columns = [
        _Column(
            at, name, language_of(name), side_of(name), re.fullmatch(r"[^\W_]+", name.rpartition(".")[2]) is not None
        )
        for at, name in enumerate(names)
        if at not in left_out
    ]
    sides = [column.side for column in columns if column.side]
    if SOURCE in sides and TARGET not in sides:
        columns = [
            column._replace(side=TARGET, language=None) if column.name.lower() in OUTPUTS else column
            for column in columns
        ]
    languages = {column.language for column in columns if column.language}
    if "id" in languages and (len(languages) > 2 or sides):  # beside other languages it is the number of a row
        columns = [column._replace(language=None) if column.language == "id" else column for column in columns]
    if len(set(sides)) == 1 and len({column.language for column in columns if column.side and column.language}) > 1:
        return [column._replace(side=None) for column in columns]  # translation.en, translation.it
    return columns


def _grade(
    source: _Column,
    target: _Column,
    expected: Sequence[str | None],
    wanted: Sequence[str | None],
    count: int,
) -> int:
    """The evidence for a pair; 0 if there is none, or a name speaks against it."""
    both = (source.language, target.language)
    if all(expected) and _fits(both, expected) == 2:
        return _EXPECTED
    if source.side == TARGET or target.side == SOURCE:
        return 0
    if source.side and target.side:
        return _BOTH_ROLES
    if all(both) and not differing(both[:1], both[1:]):
        return 0
    if source.side or target.side:
        other = target if source.side else source
        return _ONE_ROLE if other.language or role_of(other.name) == TEXT or count == 2 else 0
    if all(both):
        return _LANGUAGES
    return _ONE_LANGUAGE if count == 2 and _fits(both, wanted) else 0


def _weight(source: _Column, target: _Column, wanted: Sequence[str | None]) -> tuple[int, ...]:
    """What decides between pairs with the same evidence: first the wanted languages, then names of a single word."""
    both = (source.language, target.language)
    exact = sum(language is not None and language == code for language, code in zip(both, wanted, strict=True))
    return _fits(both, wanted), exact, source.is_bare + target.is_bare


def _fits(languages: Sequence[str | None], wanted: Sequence[str | None]) -> int:
    """How many of two languages are the wanted ones, whatever their region or script."""
    return sum(bool(one and other and same_language(one, other)) for one, other in zip(languages, wanted, strict=True))


JOINED = " ||| "
"""What stands between the texts of columns that are joined."""


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
    def are_numbers(self) -> bool:
        """Whether there are at least three cells, all numeric."""
        return self.rows > 2 and self.is_numeric

    @property
    def are_marks(self) -> bool:
        """Whether the cells are numbers, dates, ids, addresses or few different values, or none, and so no texts."""
        names = sum(" " not in cell and re.search(r"[\d/_]", cell) is not None for cell in self.counts)
        few = self.rows > 2 and self.distinct <= max(1, MOST_LABELS * self.rows)
        return self.is_numeric or few or names >= 0.9 * self.distinct

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

    def may_stand_beside(self, text: "Statistics") -> bool:
        """Whether these, too, are texts to learn from: of words, not of dates, and mostly not the same ones."""
        visible = "".join("".join(self.counts).split())
        letters = sum(map(str.isalpha, visible))
        return (
            2 * self.words > min(text.words, 2 * LONG_WORDS)
            and self.distinct > MOST_LABELS * self.rows
            and self.words > 1
            and 2 * letters > len(visible)
        )


def choose_label_columns(names: Sequence[str], rows: Sequence[Sequence[str]], naming: Naming, where: str) -> Columns:
    """Chooses the columns of the text and the label: as the user says, as in the training text, by their names, or else
    by what some rows hold. The text is long, and a label has few different values.

    >>> rows = [["1", "I like it.", "good"], ["2", "I hate it so.", "bad"], ["3", "Never again.", "bad"]]
    >>> choose_label_columns(["id", "what", "why"], rows, Naming(), "table.csv")[:3]
    ('what', 'why', "columns 'what' and 'why', by the longest texts and few different values")
    """
    if not any(naming.columns) and (seen := naming.seen_in(names)):
        return Columns.at(names, seen, "the columns of the training text")
    chosen = [None if name is None else position_of(name, names, where) for name in naming.columns]
    if None not in chosen:
        return _as_given(names, chosen, naming, where)._replace(reason="columns as given")
    if len(names) < 2:
        raise DataError(f"{where} has one column{listed(names)}; an example needs a text and a label")
    named = [
        named_column(names, known) if at is None else at for at, known in zip(chosen, (TEXTS, LABELS), strict=True)
    ]
    text, label = chosen if named[0] == named[1] else named
    columns = [measure(rows, at) for at in range(len(names))]
    reasons = ["the longest texts"] * (text is None) + ["few different values"] * (label is None)
    text = _longest(columns, label, names, where) if text is None else text
    label = _few_values(columns, text, names, where) if label is None else label
    reason = f"columns {names[text]!r} and {names[label]!r}, by " + (" and ".join(reasons) or "their names")
    left_out = "" if chosen[0] is not None else _left_out(columns, (text, label), names, where)
    return Columns.at(names, (text, label), reason + left_out)


def _longest(columns: Sequence[Statistics], label: int | None, names: Sequence[str], where: str) -> int:
    texts = [at for at, column in enumerate(columns) if at != label and not column.is_numeric]
    if not texts:
        raise DataError(f"{where}: no column holds texts, only numbers; {_name_it(names, TEXT)}")
    return max(texts, key=lambda at: (columns[at].words, columns[at].characters))


def _few_values(columns: Sequence[Statistics], text: int, names: Sequence[str], where: str) -> int:
    fitting = [at for at, column in enumerate(columns) if at != text and column.may_be_labels]
    if len(fitting) == 1:
        return fitting[0]
    advice = _name_it(names, LABEL)
    if fitting:
        raise DataError(f"{where}: several columns may be the label{listed([names[at] for at in fitting])}; {advice}")
    if sum(column.are_texts for column in columns) > 1:
        advice += "; two columns of texts are parallel text, which trains a translator: leave the task out"
    raise DataError(f"{where}: no column has few different values, as labels do; {advice}")


def _name_it(names: Sequence[str], role: str) -> str:
    return f"columns{listed(names)}; name it, or give its number from 1: --set data.{role}_column=NAME"


def _left_out(columns: Sequence[Statistics], taken: tuple[int, int], names: Sequence[str], where: str) -> str:
    """What to say of other columns of texts, if the chosen one is the only one that is named for texts.

    Raises:
        DataError: another one may be meant as well.
    """
    text = taken[0]
    others = [at for at, column in enumerate(columns) if at not in taken and column.may_stand_beside(columns[text])]
    if not others:
        return ""
    named = [at for at in (text, *others) if not set(_WORD.findall(names[at].casefold())).isdisjoint(TEXTS)]
    joined = "--set data.text_column=" + "+".join(names[at] for at in sorted([text, others[0]]))
    if named == [text]:
        return f"; also of texts, but left out{listed([names[at] for at in others])}: {joined} joins two columns"
    several = listed([names[at] for at in sorted([text, *others])])
    raise DataError(
        f"{where}: several columns hold texts{several}; say which one to read, as in --set "
        f"data.text_column={names[text]}, or join them: {joined}"
    )


def marks_among(width: int, rows: Sequence[Sequence[str]]) -> list[int]:
    """The positions of columns that hold no texts, from 0.

    >>> marks_among(4, [["7", "Good morning.", "Buongiorno.", "ok"], ["8", "Good night.", "Buona notte.", "ok"]] * 2)
    [0, 3]
    """
    return [at for at in range(width) if measure(rows, at).are_marks]


def measure(rows: Sequence[Sequence[str]], at: int) -> Statistics:
    cells = [text for row in rows if at < len(row) and (text := row[at].strip())] or [""]
    return Statistics(Counter(filter(None, cells)), mean(map(count_words, cells)), mean(map(len, cells)))


def count_words(text: str) -> float:
    """How many words a text has. In scripts without spaces, two characters count as one.

    >>> count_words("I like it."), count_words("我喜欢寿司")
    (3.0, 2.5)
    """
    spaced, characters = SPACELESS_CHARACTER.subn(" ", text)
    return len(spaced.split()) + characters / 2


def few_single(counts: Counter[str], in_any_case: int = FEW_ROWS) -> bool:
    """Whether few rows have a value of their own, as labels demand.

    >>> few_single(Counter(spam=5_000, rare=1)), few_single(Counter(f"label {row}" for row in range(100)))
    (True, False)
    """
    single = sum(count == 1 for count in counts.values())
    return single <= max(in_any_case, MOST_SINGLE * counts.total())


def named_column(names: Sequence[str], known: Sequence[str]) -> int | None:
    """The only column with the surest of the `known` names; a name of one word is surer than one among several."""
    plain = [name.strip().casefold() for name in names]
    for word in known:
        if plain.count(word) == 1:
            return plain.index(word)
    holding = [at for at, name in enumerate(plain) if set(_WORD.findall(name)) & set(known)]
    return holding[0] if len(holding) == 1 else None
