"""What a column is called for, besides its language: source, target, or text of either side, in many languages.

Which two of several columns are most likely the pair, by the languages and roles in their names.

Which two columns hold the pair, and in which languages: as the user says, or guessed, always with the reason.

A column is whatever names one side of a pair: a header of a table, a key of a JSON row, the ending of one of two
aligned files. Knows nothing of how they are read.
"""

import re
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from dragoman.errors import DataError
from dragoman.text.languages import UNKNOWN_LANGUAGE, differing, language_of, languages_in, same_language

SOURCE, TARGET, TEXT = "source", "target", "text"
OUTPUTS = frozenset("mt ref reference hyp hypothesis".split())
"""Names of translations beside a source, where no other name says target."""


def role_of(name: str) -> str | None:
    """The role that a name gives, if it names no language: source, target, or text of either side.

    >>> [role_of(name) for name in ("src", "Übersetzung", "sentence", "target_text", "en")]
    ['source', 'target', 'text', 'target', None]
    """
    roles = {_ROLES.get(word) for word in _words(name)} or {None}
    sides = roles - {TEXT}
    return None if None in roles or len(sides) > 1 else (sides or roles).pop()


def side_of(name: str) -> str | None:
    """The side that a name gives, even beside a language.

    >>> [side_of(name) for name in ("TgtTXT_IT", "Source (DE)", "German translation", "source_id", "text")]
    ['target', 'source', 'target', None, None]
    """
    sides = {_ROLES.get(word) for word in _words(name)} & {SOURCE, TARGET}
    return sides.pop() if len(sides) == 1 and (role_of(name) or language_of(name)) else None


def language_beside(name: str, other: str) -> str | None:
    """The language of a name beside another; "mt" beside a source is a machine's translation, not Maltese."""
    return None if name.lower() in OUTPUTS and side_of(other) == SOURCE else language_of(name)


def _words(name: str) -> list[str]:
    """The words of a name, even in srcText and TgtTXT_IT."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return [word for word in re.split(r"[\W_]+", apart.lower()) if word]


_ROLES = {
    name: role
    for role, names in (
        (SOURCE, "source src input original originale origine origen orig оригинал источник 原文 源文"),
        (SOURCE, "ausgangstext quelle quelltext sorgente fuente origem"),
        (
            TARGET,
            "target tgt trg output translation translated traduzione traduction traducción traduccion",
        ),
        (
            TARGET,
            "tradução traducao übersetzung uebersetzung zieltext ziel cible destino перевод 訳文 翻訳 译文 翻译 譯文",
        ),
        (
            TEXT,
            "text txt texte testo texto sentence sentences satz frase frases phrase oración предложение фраза текст 文",
        ),
    )
    for name in names.split()
}


_ONE_LANGUAGE, _LANGUAGES, _ONE_ROLE, _BOTH_ROLES, _EXPECTED = range(1, 6)
"""The evidence for a pair, from the weakest to the strongest."""
_REASONS = dict.fromkeys((_ONE_LANGUAGE, _LANGUAGES, _EXPECTED), "columns named for languages") | dict.fromkeys(
    (_ONE_ROLE, _BOTH_ROLES), "columns named for their roles"
)


class Candidate(NamedTuple):
    """Two columns, by their positions, and why they may be the pair."""

    source: int
    target: int
    reason: str


class _Column(NamedTuple):
    """A column, and what its name says."""

    position: int
    name: str
    language: str | None
    side: str | None
    is_bare: bool
    """Whether the name is a single word, a language or a role."""


def likeliest(
    names: Sequence[str],
    expected: Sequence[str | None],
    given: Sequence[int | None],
    file_name: str,
    numeric: Collection[int],
) -> list[Candidate]:
    """The pairs with the most evidence: none, one, or several that are equally likely.

    The pair has the `expected` languages, as far as they are known, or those in the name of the file. Columns `given`
    by the user are fixed; `numeric` ones hold only numbers.
    """
    columns = _described(names, [] if len(names) == 2 else [at for at in numeric if at not in given])
    wanted = expected if any(expected) else languages_in(file_name) or expected
    ranked: dict[int, dict[tuple[int, ...], list[tuple[_Column, _Column]]]] = {}
    for source in columns:
        for target in columns:
            if any(at not in (None, found.position) for at, found in zip(given, (source, target), strict=True)):
                continue
            grade = _grade(source, target, expected, wanted, len(columns))
            if grade and source.position != target.position:
                weight = _weight(source, target, wanted)
                ranked.setdefault(grade, {}).setdefault(weight, []).append((source, target))
    first: list[tuple[int, tuple[_Column, _Column]]] = []
    for grade in sorted(ranked, reverse=True):
        best = ranked[grade][max(ranked[grade])]
        # If a pair fits either way round, the first column is the source.
        best = [pair for pair in best if pair[0].position < pair[1].position or pair[::-1] not in best]
        if len(best) == 1 or not first:
            first = [(grade, pair) for pair in best]
        if len(best) == 1 or grade != _ONE_ROLE:
            break  # a single role may say where a text comes from: "source, en, it"
    return [Candidate(source.position, target.position, _REASONS[grade]) for grade, (source, target) in first]


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


class Naming(NamedTuple):
    """What is known about the columns before the text is opened; None where it is to be guessed.

    A column is named by its header or key (`translation.en` for a nested one), or by its number, from 1. The first five
    fields are what the user says, which wins over everything else.
    """

    source_column: str | None = None
    target_column: str | None = None
    source_language: str | None = None
    target_language: str | None = None
    header: bool | None = None
    """Whether the first row of a table names the columns."""
    expected: tuple[str, str] | None = None
    """The languages that the text must have: those of a model, or of the training text beside it."""
    owner: str = "the model"
    """Who expects them."""
    seen: tuple[str, str] | None = None
    """The columns of the text that the model learnt from, which are taken if both exist."""

    @property
    def columns(self) -> tuple[str | None, str | None]:
        return self.source_column, self.target_column

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


class Columns(NamedTuple):
    """The two columns chosen, why, and their positions, because several columns may have one name."""

    source: str
    target: str
    reason: str
    positions: tuple[int, int] = (0, 1)


class Languages(NamedTuple):
    """The languages of the two columns, and why. `named` is what the names say, whatever the user says."""

    source: str
    target: str
    reason: str
    named: tuple[str | None, str | None]


def choose_columns(
    names: Sequence[str], naming: Naming, where: str, file_name: str = "", numeric: Collection[int] = ()
) -> Columns:
    """Chooses the source and target column among `names`; the name of the file may give the direction.

    The columns at the positions `numeric` hold only numbers, and are taken only if the user names them.

    >>> choose_columns(["id", "en", "it"], Naming(), "corpus.csv")[:3]
    ('en', 'it', 'columns named for languages')
    >>> choose_columns(["id", "en", "it"], Naming(source_language="it", target_language="en"), "corpus.csv").source
    'it'
    >>> choose_columns(["German translation", "English source"], Naming(), "corpus.csv").source
    'English source'

    Raises:
        DataError: no pair of columns fits, or several do; lists them.
    """
    given = [None if name is None else position_of(name, names, where) for name in naming.columns]
    if None not in given:
        return _given_columns(names, given, where)
    if given == [None, None] and (seen := _seen(names, naming)):
        return seen
    found = [
        Columns(names[source], names[target], reason, (source, target))
        for source, target, reason in likeliest(names, naming.wanted, given, file_name, numeric)
    ]
    if len(found) == 1:
        return found[0]
    if given != [None, None]:
        return _given_columns(names, _completed(given, names, where), where)
    return _only_two(names, found, where)


def languages(columns: Columns, naming: Naming, file_name: str) -> Languages:
    """The languages of the chosen columns; `und` where they are unknown.

    >>> languages(Columns("English", "Italiano", ""), Naming(), "x.csv").named
    ('en', 'it')
    """
    named = (language_beside(columns.source, columns.target), language_beside(columns.target, columns.source))
    reason = f"from the names {columns.source} and {columns.target}" if any(named) else ""
    if not any(named) and (found := languages_in(file_name)):
        turned = columns.source.isdecimal() and columns.target.isdecimal() and int(columns.source) > int(columns.target)
        named, reason = (found[1], found[0]) if turned else found, f"from the name {file_name}"
    sides = [given or told or known for given, told, known in zip(naming.given, named, naming.wanted, strict=True)]
    if all(naming.given):
        reason = "as data.source_language and data.target_language say"
    elif not any(named):
        reason = f"those of {naming.owner}"
    if None in sides:
        known = " and ".join(
            f"the {side} is {code}" for side, code in zip((SOURCE, TARGET), sides, strict=True) if code
        )
        missing = [
            f"--set data.{side}_language=CODE" for side, code in zip((SOURCE, TARGET), sides, strict=True) if not code
        ]
        reason = (
            f"{known}; " * bool(known) + f"no name tells {'the other' if known else 'them'}; give {' '.join(missing)}"
        )
    return Languages(sides[0] or UNKNOWN_LANGUAGE, sides[1] or UNKNOWN_LANGUAGE, reason, named)


def check_languages(names: Sequence[str], columns: Columns, found: Languages, naming: Naming, where: str) -> None:
    """Refuses columns whose names say other languages than are expected, unless the user chose them.

    Raises:
        DataError: lists the columns, and says how to choose among them.
    """
    if naming.expected is None or any(naming.columns) or any(naming.given):
        return
    if not differing(found.named, naming.expected):
        return
    told = " and ".join(
        f"{name!r} ({language})" if language else repr(name)
        for name, language in zip(columns[:2], found.named, strict=True)
    )
    turned = not differing(found.named[::-1], naming.expected)
    source, target = (columns.target, columns.source) if turned else ("NAME", "NAME")
    source_language, target_language = (language or "CODE" for language in found.named)
    raise DataError(
        f"{where}: source and target would be {told}, {found.reason}, but {naming.owner} goes "
        f"from {naming.expected[0]} to {naming.expected[1]}; say which columns to take{listed(names)}: "
        f"--set data.source_column={source} --set data.target_column={target}"
        + (
            ""
            if turned
            else "; or, if these are meant: "
            f"--set data.source_language={source_language} --set data.target_language={target_language}"
        )
    )


def listed(names: Sequence[str]) -> str:
    """Some names in brackets, for a message."""
    shown = ", ".join(repr(name if len(name) <= 40 else f"{name[:39]}…") for name in names[:8])
    return f" ({shown}{', …' if len(names) > 8 else ''})" if names else ""


def _given_columns(names: Sequence[str], positions: Sequence[int | None], where: str) -> Columns:
    source, target = (position or 0 for position in positions)
    if source == target:
        raise DataError(f"{where}: data.source_column and data.target_column are the same column, {names[source]!r}")
    return Columns(names[source], names[target], "as given", (source, target))


def position_of(name: str, names: Sequence[str], where: str) -> int:
    """The position of the column that the user names: exactly, by its number, or in another case."""
    for found in (
        [position for position, other in enumerate(names) if other == name],
        [int(name) - 1] if name.isdecimal() and 1 <= int(name) <= len(names) else [],
        [position for position, other in enumerate(names) if other.casefold() == name.casefold()],
    ):
        if len(found) > 1:
            numbers = " and ".join(str(position + 1) for position in found)
            raise DataError(f"{where}: columns {numbers} are both called {name!r}; name one by its number")
        if found:
            return found[0]
    lowered = {other.casefold(): other for other in names}
    near = get_close_matches(name.casefold(), lowered, n=1)
    meant = f"; did you mean {lowered[near[0]]!r}?" if near else ""
    raise DataError(f"{where} has no column {name!r}{meant}; columns{listed(names)}")


def _seen(names: Sequence[str], naming: Naming) -> Columns | None:
    if naming.seen is None or any(names.count(name) != 1 for name in naming.seen):
        return None
    source, target = map(names.index, naming.seen)
    return Columns(*naming.seen, "the columns of the training text", (source, target))


def _completed(given: Sequence[int | None], names: Sequence[str], where: str) -> list[int]:
    """The column that the user names, and the only other one."""
    rest = [position for position in range(len(names)) if position not in given]
    if len(rest) != 1:
        raise DataError(f"{where}: give both data.source_column and data.target_column; columns{listed(names)}")
    return [rest[0] if position is None else position for position in given]


def _only_two(names: Sequence[str], found: Sequence[Columns], where: str) -> Columns:
    """Takes two columns whose names say nothing, in their order; refuses everything else."""
    if found:
        raise DataError(f"{where}: {_choices(found)}")
    if len(names) == 2:
        return Columns(names[0], names[1], "there are two columns, and the first is the source")
    if len(names) < 2:
        raise DataError(f"{where} has one column{listed(names)}; a pair needs a source and a target")
    raise DataError(
        f"{where} has {len(names)} columns{listed(names)}; say which are the pair, by name or number from 1: "
        "--set data.source_column=NAME --set data.target_column=NAME"
    )


def _choices(found: Sequence[Columns]) -> str:
    """Why none of several pairs was taken, and how to choose one."""
    numbers = [tuple(at + 1 for at in columns.positions) for columns in found]
    pairs = [
        f"{columns.source!r} and {columns.target!r} (columns {source} and {target})"
        for columns, (source, target) in zip(found, numbers, strict=True)
    ]
    return (
        f"several columns may be the pair: {'; '.join(pairs[:6])}{'; …' * (len(pairs) > 6)}; say which, by name or "
        f"number, as in --set data.source_column={numbers[0][0]} --set data.target_column={numbers[0][1]}"
    )
