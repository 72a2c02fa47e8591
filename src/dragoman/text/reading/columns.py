"""Which two columns hold the pair, and in which languages: as the user says, or guessed, always with the reason.

A column is whatever names one side of a pair: a header of a table, a key of a JSON row, the ending of one of two
aligned files. Knows nothing of how they are read.
"""

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from dragoman.errors import DataError
from dragoman.text.reading.languages import UNKNOWN_LANGUAGE, differing, languages_in
from dragoman.text.reading.likeliest import likeliest
from dragoman.text.reading.roles import SOURCE, TARGET, language_beside


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
