"""Which two of several columns are the likeliest pair, by what their names tell of languages and roles."""

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from dragoman.text.reading.languages import differing, language_of, languages_in, same_language
from dragoman.text.reading.roles import OUTPUTS, SOURCE, TARGET, TEXT, role_of, side_of

_ONE_LANGUAGE, _LANGUAGES, _ONE_ROLE, _BOTH_ROLES, _EXPECTED = range(1, 6)
"""What speaks for a pair, from the weakest to the strongest."""
_REASONS = dict.fromkeys((_ONE_LANGUAGE, _LANGUAGES, _EXPECTED), "columns named for languages") | dict.fromkeys(
    (_ONE_ROLE, _BOTH_ROLES), "columns named for their roles"
)


class Candidate(NamedTuple):
    """Two columns, by their positions, and why they may be the pair."""

    source: int
    target: int
    reason: str


class _Column(NamedTuple):
    """A column, and what its name tells."""

    position: int
    name: str
    language: str | None
    side: str | None
    is_bare: bool
    """Whether the name is one word, a language or a role, with nothing added to it."""


def likeliest(
    names: Sequence[str],
    expected: Sequence[str | None],
    given: Sequence[int | None],
    file_name: str,
    numeric: Collection[int],
) -> list[Candidate]:
    """The pairs for which most speaks: none, one, or several of which none is likelier than another.

    The languages of the pair are `expected`, as far as they are known, or the name of the file tells them. The columns
    `given` by the user are settled; those that are `numeric` hold only numbers.
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
        # Where a pair would do either way round, the first column is the source.
        best = [pair for pair in best if pair[0].position < pair[1].position or pair[::-1] not in best]
        if len(best) == 1 or not first:
            first = [(grade, pair) for pair in best]
        if len(best) == 1 or grade != _ONE_ROLE:
            break  # a role alone may say where a text comes from: "source, en, it"
    return [Candidate(source.position, target.position, _REASONS[grade]) for grade, (source, target) in first]


def _described(names: Sequence[str], left_out: Collection[int]) -> list[_Column]:
    """The columns that may be of the pair, with what their names tell beside each other."""
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
    if "id" in languages and (len(languages) > 2 or sides):  # among others, a number of the row
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
    """What speaks for a pair, as a number; 0 where nothing does, or a name speaks against it."""
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
    """What distinguishes two pairs for which the same speaks: the wanted languages, and then names without addition."""
    both = (source.language, target.language)
    exact = sum(language is not None and language == code for language, code in zip(both, wanted, strict=True))
    return _fits(both, wanted), exact, source.is_bare + target.is_bare


def _fits(languages: Sequence[str | None], wanted: Sequence[str | None]) -> int:
    """How many of two languages are the wanted ones, whatever region or script is said."""
    return sum(bool(one and other and same_language(one, other)) for one, other in zip(languages, wanted, strict=True))
