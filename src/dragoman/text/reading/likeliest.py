"""Which two of several columns are most likely the pair, by the languages and roles in their names."""

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from dragoman.text.reading.languages import differing, language_of, languages_in, same_language
from dragoman.text.reading.roles import OUTPUTS, SOURCE, TARGET, TEXT, role_of, side_of

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
