"""Chooses the columns of source and target among the columns of a table, or among files, and their languages.

The user's choice comes first, then the columns of the training text, then the names: each possible pair is judged by
rules, and has more or less `Evidence`. Every choice has its reason.
"""

import re
from collections.abc import Callable, Collection, Sequence
from enum import IntEnum
from itertools import permutations
from typing import NamedTuple

from dragoman.errors import DataError
from dragoman.formats.column_names import SOURCE, TARGET, TEXT, role_of, side_of
from dragoman.languages import UNKNOWN_LANGUAGE, differing, language_of, languages_in, same_language
from dragoman.text.column_statistics import Statistics
from dragoman.text.columns import Columns, Naming, chosen_columns, chosen_positions, listed

OUTPUTS = frozenset("mt ref reference hyp hypothesis".split())
"""Names of translations next to a source, where no other name says target."""


class Evidence(IntEnum):
    """The evidence that two columns are a pair, in this order; none if a name contradicts it."""

    NONE = 0
    ONE_LANGUAGE = 1
    TWO_LANGUAGES = 2
    ONE_SIDE = 3
    BOTH_SIDES = 4
    EXPECTED_LANGUAGES = 5

    @property
    def reason(self) -> str:
        is_of_sides = self in (Evidence.ONE_SIDE, Evidence.BOTH_SIDES)
        return "columns named for their roles" if is_of_sides else "columns named for languages"


class PairLanguages(NamedTuple):
    """The languages of the two columns, and the reason. `named` are what the names say, whatever the user says."""

    source: str
    target: str
    reason: str
    named: tuple[str | None, str | None]


def choose_columns(
    names: Sequence[str],
    naming: Naming,
    where: str,
    file_name: str = "",
    cells: Sequence[Statistics] = (),
) -> Columns:
    """Choose the source and target column among `names`; the name of the file may give the direction.

    Columns whose `cells` are only numbers are taken only if the user names them. Where names do not decide, the cells
    do if only two columns hold texts.

    >>> choose_columns(["id", "en", "it"], Naming(), "corpus.csv")[:3]
    ('en', 'it', 'columns named for languages')
    >>> choose_columns(["id", "en", "it"], Naming(source_language="it", target_language="en"), "corpus.csv").first
    'it'
    >>> choose_columns(["German translation", "English source"], Naming(), "corpus.csv").first
    'English source'

    Raises:
        DataError: no pair of columns fits, or several do; lists them.
    """
    chosen = chosen_positions(names, naming, where)
    if None not in chosen:
        return chosen_columns(names, chosen, naming, where)
    if chosen == [None, None] and (trained := naming.positions_of_trained(names)):
        return Columns.at(names, trained, "the columns of the training text")
    numeric = [at for at, column in enumerate(cells) if column.are_numbers and at not in chosen]
    likely = _likeliest(names, naming.wanted_languages, chosen, file_name, numeric)
    if len(likely) == 1:
        return likely[0]
    if chosen != [None, None]:
        rest = [position for position in range(len(names)) if position not in chosen]
        if len(rest) != 1:
            raise DataError(f"{where}: give both data.source_column and data.target_column; columns{listed(names)}")
        both = [rest[0] if position is None else position for position in chosen]
        return chosen_columns(names, both, naming, where)
    texts = [at for at, column in enumerate(cells) if not column.are_no_texts]
    fitting = [columns.positions for columns in likely if {*columns.positions} == {*texts}]
    if len(texts) == 2 < len(names) and (fitting or not likely):
        positions = fitting[0] if fitting else (texts[0], texts[1])
        return Columns.at(names, positions, "the other columns hold no texts")
    if likely:
        numbers = [tuple(at + 1 for at in columns.positions) for columns in likely]
        pairs = [
            f"{columns.first!r} and {columns.second!r} (columns {source} and {target})"
            for columns, (source, target) in zip(likely, numbers, strict=True)
        ]
        raise DataError(
            f"{where}: several columns may be the pair: {'; '.join(pairs[:6])}{'; …' * (len(pairs) > 6)}; say which, "
            f"by name or number, as in --set data.source_column={numbers[0][0]} "
            f"--set data.target_column={numbers[0][1]}; or train in several directions, as in --directions en-it,en-de"
        )
    if len(names) == 2:
        return Columns.at(names, (0, 1), "there are two columns, and the first is the source")
    if len(names) < 2:
        raise DataError(f"{where} has one column{listed(names)}; a pair needs a source and a target")
    raise DataError(
        f"{where} has {len(names)} columns{listed(names)}; say which are the pair, by name or number from 1: "
        "--set data.source_column=NAME --set data.target_column=NAME"
    )


def languages_of(columns: Columns, naming: Naming, file_name: str) -> PairLanguages:
    """Return the languages of the chosen columns; `und` where they are unknown.

    >>> languages_of(Columns("English", "Italiano", ""), Naming(), "x.csv").named
    ('en', 'it')
    """
    named = (_language_next_to(columns.first, columns.second), _language_next_to(columns.second, columns.first))
    reason = f"from the names {columns.first} and {columns.second}" if any(named) else ""
    if not any(named) and (of_file := languages_in(file_name)):
        are_numbers = columns.first.isdecimal() and columns.second.isdecimal()
        is_turned = are_numbers and int(columns.first) > int(columns.second)
        named, reason = (of_file[1], of_file[0]) if is_turned else of_file, f"from the name {file_name}"
    sides = [
        by_user or by_name or expected
        for by_user, by_name, expected in zip(naming.languages, named, naming.wanted_languages, strict=True)
    ]
    if all(naming.languages):
        reason = "as data.source_language and data.target_language say"
    elif not any(named):
        reason = f"those of {naming.expected_by}"
    if None in sides:
        unknown = [side for side, code in zip(naming.roles, sides, strict=True) if not code]
        advice = " ".join(f"--set data.{side}_language=CODE" for side in unknown)
        reason = f"no name gives the language of the {' and the '.join(unknown)}; give {advice}"
    return PairLanguages(sides[0] or UNKNOWN_LANGUAGE, sides[1] or UNKNOWN_LANGUAGE, reason, named)


def check_languages(
    names: Sequence[str], columns: Columns, languages: PairLanguages, naming: Naming, where: str
) -> None:
    """Refuse columns whose names say other languages than are expected, unless the user chose them.

    Raises:
        DataError: lists the columns, and says how to choose among them.
    """
    if naming.expected is None or any(naming.columns) or any(naming.languages):
        return
    if not differing(languages.named, naming.expected):
        return
    named = " and ".join(
        f"{name!r} ({language})" if language else repr(name)
        for name, language in zip(columns[:2], languages.named, strict=True)
    )
    is_turned = not differing(languages.named[::-1], naming.expected)
    source, target = (columns.second, columns.first) if is_turned else ("NAME", "NAME")
    advice = f"--set data.source_column={source} --set data.target_column={target}"
    if not is_turned:
        codes = [language or "CODE" for language in languages.named]
        advice += (
            f"; or, if these are meant: --set data.source_language={codes[0]} --set data.target_language={codes[1]}"
        )
    raise DataError(
        f"{where}: source and target would be {named}, {languages.reason}, but {naming.expected_by} goes "
        f"from {naming.expected[0]} to {naming.expected[1]}; say which columns to take{listed(names)}: {advice}"
    )


def _language_next_to(name: str, neighbour: str) -> str | None:
    """Return the language of a name next to another; "mt" next to a source is a machine's translation, not Maltese."""
    return None if name.lower() in OUTPUTS and side_of(neighbour) == SOURCE else language_of(name)


class _Column(NamedTuple):
    """A column, and what its name says."""

    position: int
    name: str
    language: str | None
    side: str | None

    @property
    def is_one_word(self) -> bool:
        """True if the name, or the last key of a nested one, is a single word."""
        return re.fullmatch(r"[^\W_]+", self.name.rpartition(".")[2]) is not None


class _ColumnPair(NamedTuple):
    """Two columns that may be source and target, and what is known about the table."""

    source: _Column
    target: _Column
    expected: Sequence[str | None]
    """The languages by the user or the model."""
    wanted: Sequence[str | None]
    """The expected languages, or else those in the name of the file."""
    has_no_others: bool
    """True if the table has only these two columns."""

    @property
    def languages(self) -> tuple[str | None, str | None]:
        return self.source.language, self.target.language

    @property
    def sides(self) -> tuple[str | None, str | None]:
        return self.source.side, self.target.side

    def fits(self, languages: Sequence[str | None]) -> int:
        """Return how many of the two languages are these, whatever their region or script."""
        pairs = zip(self.languages, languages, strict=True)
        return sum(bool(own and wanted and same_language(own, wanted)) for own, wanted in pairs)

    @property
    def evidence(self) -> Evidence:
        return next((evidence for applies, evidence in _RULES if applies(self)), Evidence.NONE)

    @property
    def weight(self) -> tuple[int, ...]:
        """Decides between pairs with the same evidence: first by the wanted languages, then by names of one word."""
        exact = sum(
            language is not None and language == code
            for language, code in zip(self.languages, self.wanted, strict=True)
        )
        return self.fits(self.wanted), exact, self.source.is_one_word + self.target.is_one_word

    @property
    def may_have_other_side(self) -> bool:
        """True if the column that is not named for a side may be the other side."""
        column = self.target if self.source.side else self.source
        return bool(column.language) or role_of(column.name) == TEXT or self.has_no_others


_RULES: tuple[tuple[Callable[[_ColumnPair], object], Evidence], ...] = (
    (lambda pair: all(pair.expected) and pair.fits(pair.expected) == 2, Evidence.EXPECTED_LANGUAGES),
    (lambda pair: pair.source.side == TARGET or pair.target.side == SOURCE, Evidence.NONE),
    (lambda pair: all(pair.sides), Evidence.BOTH_SIDES),
    (lambda pair: all(pair.languages) and not differing(pair.languages[:1], pair.languages[1:]), Evidence.NONE),
    (lambda pair: any(pair.sides) and pair.may_have_other_side, Evidence.ONE_SIDE),
    (lambda pair: any(pair.sides), Evidence.NONE),
    (lambda pair: all(pair.languages), Evidence.TWO_LANGUAGES),
    (lambda pair: pair.has_no_others and pair.fits(pair.wanted), Evidence.ONE_LANGUAGE),
)
"""The first rule that applies to a pair says its evidence."""


def _likeliest(
    names: Sequence[str],
    expected: Sequence[str | None],
    chosen: Sequence[int | None],
    file_name: str,
    numeric: Collection[int],
) -> list[Columns]:
    """Return the pairs with the most evidence: none, one, or several that are equally likely."""
    columns = _described(names, () if len(names) == 2 else numeric)
    wanted = expected if any(expected) else languages_in(file_name) or expected
    pairs: dict[Evidence, list[_ColumnPair]] = {}
    for source, target in permutations(columns, 2):
        pair = _ColumnPair(source, target, expected, wanted, len(columns) == 2)
        if chosen[0] in (None, source.position) and chosen[1] in (None, target.position):
            pairs.setdefault(pair.evidence, []).append(pair)
    pairs.pop(Evidence.NONE, None)
    if not pairs:
        return []
    strongest, *weaker = sorted(pairs, reverse=True)
    best, evidence = _heaviest(pairs[strongest]), strongest
    if strongest == Evidence.ONE_SIDE and len(best) > 1 and weaker:
        # a single role may say where a text comes from: "source, en, it"
        others = _heaviest(pairs[weaker[0]])
        best, evidence = (others, weaker[0]) if len(others) == 1 else (best, evidence)
    return [Columns.at(names, (pair.source.position, pair.target.position), evidence.reason) for pair in best]


def _heaviest(pairs: Sequence[_ColumnPair]) -> list[_ColumnPair]:
    """Return the pairs with the most weight. If one fits either way round, the first column is the source."""
    weights = [pair.weight for pair in pairs]
    best = [pair for pair, weight in zip(pairs, weights, strict=True) if weight == max(weights)]
    both = {(pair.source.position, pair.target.position) for pair in best}
    return [
        pair
        for pair in best
        if pair.source.position < pair.target.position or (pair.target.position, pair.source.position) not in both
    ]


def _described(names: Sequence[str], left_out: Collection[int]) -> list[_Column]:
    """Return the columns that may be of the pair, with what their names say next to each other."""
    columns = [
        _Column(at, name, language_of(name), side_of(name)) for at, name in enumerate(names) if at not in left_out
    ]
    sides = [column.side for column in columns if column.side]
    if SOURCE in sides and TARGET not in sides:
        columns = [
            column._replace(side=TARGET, language=None) if column.name.lower() in OUTPUTS else column
            for column in columns
        ]
    languages = {column.language for column in columns if column.language}
    if "id" in languages and (len(languages) > 2 or sides):  # next to other languages it is the number of a row
        columns = [column._replace(language=None) if column.language == "id" else column for column in columns]
    if len(set(sides)) == 1 and len({column.language for column in columns if column.side and column.language}) > 1:
        return [column._replace(side=None) for column in columns]  # translation.en, translation.it
    return columns
