"""Two columns of a table, and how they are named: by the user, by their header or key, or by the ending of a file.

`pair_columns` chooses the source and target of a pair, `label_columns` the text and label of an example. For both, the
user's choice comes first, then the columns of the training text, then the names. Knows nothing of how columns are read.
"""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NamedTuple

from dragoman.errors import DataError
from dragoman.formats.column_names import SOURCE, TARGET
from dragoman.languages import SEVERAL, UNKNOWN_LANGUAGE

WORD = re.compile(r"[^\W\d_]+")


class Naming(NamedTuple):
    """Facts about the columns that are known before the text is opened; None for what is to be guessed.

    A column is named by its header or key (`translation.en` for a nested one), or by its number, from 1. The first six
    fields are set by the user, and override everything else.
    """

    first_column: str | None = None
    """The column of the source, or of labelled text."""
    second_column: str | None = None
    """The column of the target, or of the label."""
    source_language: str | None = None
    target_language: str | None = None
    header: bool | None = None
    """True if the first row of a table names the columns."""
    quoted: bool | None = None
    """True if quotes around a cell belong to the format."""
    expected: tuple[str, str] | None = None
    """The languages that the text must have: those of a model, or of the training text of this set."""
    expected_by: str = "the model"
    """The owner of the expected languages, for messages."""
    trained_columns: tuple[str, str] | None = None
    """The columns of the text that the model was trained on, which are taken if both exist."""
    roles: tuple[str, str] = (SOURCE, TARGET)
    """The contents of the two columns."""
    tags: bool = False
    """True if a tag such as >>de<< before a source is the target language of its pair, and no text."""

    @property
    def columns(self) -> tuple[str | None, str | None]:
        """The columns that the user names."""
        return self.first_column, self.second_column

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """The languages that the user names."""
        return self.source_language, self.target_language

    @property
    def wanted_languages(self) -> tuple[str | None, str | None]:
        """The languages that the user names, or else the expected ones."""
        expected = self.expected or (UNKNOWN_LANGUAGE, UNKNOWN_LANGUAGE)
        source, target = (None if language in (UNKNOWN_LANGUAGE, SEVERAL) else language for language in expected)
        return self.source_language or source, self.target_language or target

    def for_other_sets(self, languages: tuple[str, str], columns: tuple[str, str]) -> "Naming":
        """Return what is known about dev and test sets, given the languages and columns of the training text."""
        return self._replace(expected=languages, expected_by="the training text", trained_columns=columns)

    def positions_of_trained(self, names: Sequence[str]) -> tuple[int, int] | None:
        """Return the positions of the training text's columns, found by their exact names, or else in another case."""
        for form in (str.strip, lambda name: name.strip().casefold()):
            (first, second), known = map(form, self.trained_columns or ("", "")), list(map(form, names))
            if self.trained_columns and known.count(first) == known.count(second) == 1:
                return known.index(first), known.index(second)
        return None


class Columns(NamedTuple):
    """The two chosen columns, the reason, and their positions, because several columns may have one name."""

    first: str
    second: str
    reason: str
    positions: tuple[int, int] = (0, 1)

    @classmethod
    def at(cls, names: Sequence[str], positions: tuple[int, int], reason: str) -> "Columns":
        return cls(names[positions[0]], names[positions[1]], reason, positions)


def chosen_positions(names: Sequence[str], naming: Naming, where: str) -> list[int | None]:
    """Return the positions of the two columns that the user names, None for one that is not named."""
    return [None if name is None else position_of(name, names, where) for name in naming.columns]


def chosen_columns(names: Sequence[str], positions: Sequence[int | None], naming: Naming, where: str) -> Columns:
    """Return the columns that the user chose; raise DataError if they are the same one."""
    first, second = (position or 0 for position in positions)
    if first == second:
        roles = " and ".join(f"data.{role}_column" for role in naming.roles)
        raise DataError(f"{where}: {roles} are the same column, {names[first]!r}")
    return Columns.at(names, (first, second), "as given")


def position_of(name: str, names: Sequence[str], where: str) -> int:
    """Return the position of the column that the user names: exactly, by its number, in another case, or, as
    in `en` for `en-GB`, by its language.

    Raises:
        DataError: there is none, or several in another case.
    """
    for positions in (
        [at for at, known in enumerate(names) if known == name],
        [int(name) - 1] if name.isdecimal() and 1 <= int(name) <= len(names) else [],
        [at for at, known in enumerate(names) if known.casefold() == name.casefold()],
        [at for at, known in enumerate(names) if known.casefold().startswith(f"{name.casefold()}-")],
    ):
        if len(positions) > 1:
            numbers = " and ".join(str(position + 1) for position in positions)
            raise DataError(f"{where}: columns {numbers} are both called {name!r}; name one by its number")
        if positions:
            return positions[0]
    lowered = {known.casefold(): known for known in names}
    near = get_close_matches(name.casefold(), lowered, n=1)
    meant = f"; did you mean {lowered[near[0]]!r}?" if near else ""
    raise DataError(f"{where} has no column {name!r}{meant}; columns{listed(names)}")


def named_column(names: Sequence[str], known: Sequence[str]) -> int | None:
    """Return the only column with the surest of the `known` names; a name of one word is surer than one of several."""
    plain = [name.strip().casefold() for name in names]
    for word in known:
        if plain.count(word) == 1:
            return plain.index(word)
    holding = [at for at, name in enumerate(plain) if not set(words_in(name)).isdisjoint(known)]
    return holding[0] if len(holding) == 1 else None


def words_in(name: str) -> list[str]:
    """Return the words of a name, in lower case."""
    return WORD.findall(name.casefold())


def listed(names: Sequence[str]) -> str:
    """Return some names in brackets, for a message."""
    shown = ", ".join(repr(name if len(name) <= 40 else f"{name[:39]}…") for name in names[:8])
    return f" ({shown}{', …' if len(names) > 8 else ''})" if names else ""
