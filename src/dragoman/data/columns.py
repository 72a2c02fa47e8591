"""Which two columns hold the pair, and in which languages: named by the user, or guessed, always with the reason.

A column here is whatever names one side of a pair: a header of a table, a key of a JSON row, the ending of one of two
aligned files. Knows nothing of how they are read.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from dragoman.data.languages import UNKNOWN_LANGUAGE, language_of, languages_in, same_language
from dragoman.errors import DataError

SOURCE, TARGET, TEXT = "source", "target", "text"

_SIDES = (SOURCE, TARGET)


class Naming(NamedTuple):
    """What is known of the columns before the text is opened; None is left to the guess.

    A column is named by its header or key (`translation.en` for one inside another), or by its number, from 1. What the
    user says (the first five) wins over everything else.
    """

    source_column: str | None = None
    target_column: str | None = None
    source_language: str | None = None
    target_language: str | None = None
    header: bool | None = None
    """Whether the first row of a table names the columns."""
    expected: tuple[str, str] | None = None
    """The languages that the text must be in: those of a model, or of the training text that it stands beside."""
    owner: str = "the model"
    """Who expects them."""
    seen: tuple[str, str] | None = None
    """The columns of the text that the model learnt from; taken where both are there."""

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
    """The two columns chosen, and why."""

    source: str
    target: str
    reason: str


class Languages(NamedTuple):
    """The languages of the two columns, and why; `named` is what the names say, whatever the user says."""

    source: str
    target: str
    reason: str
    named: tuple[str | None, str | None]


def choose_columns(names: Sequence[str], naming: Naming, where: str, file_name: str = "") -> Columns:
    """The source and target column among `names`; the name of the file may tell the direction.

    >>> choose_columns(["id", "en", "it"], Naming(), "corpus.csv")
    Columns(source='en', target='it', reason='columns named for languages')
    >>> choose_columns(["id", "en", "it"], Naming(source_language="it", target_language="en"), "corpus.csv").source
    'it'

    Raises:
        DataError: none or several pairs of columns would do; lists them.
    """
    wanted = naming.wanted if any(naming.wanted) else languages_in(file_name) or naming.wanted
    found = _named(names, naming, where) or _seen(names, naming) or _by_language(names, wanted) or _by_role(names)
    if found:
        return found
    if len(names) == 2:
        return Columns(names[0], names[1], "there are two columns, and the first is the source")
    if len(names) < 2:
        raise DataError(f"{where} has one column{listed(names)}; a pair needs a source and a target")
    raise DataError(
        f"{where} has {len(names)} columns{listed(names)}; say which are the pair, by name or number from 1: "
        "--set data.source_column=NAME --set data.target_column=NAME"
    )


def languages(columns: Columns, naming: Naming, file_name: str) -> Languages:
    """The languages of the chosen columns; `und` where nothing tells.

    >>> languages(Columns("English", "Italiano", ""), Naming(), "x.csv").named
    ('en', 'it')
    """
    named = (language_of(columns.source), language_of(columns.target))
    reason = f"from the names {columns.source} and {columns.target}" if any(named) else ""
    if not any(named) and (found := languages_in(file_name)):
        turned = columns.source.isdecimal() and columns.target.isdecimal() and int(columns.source) > int(columns.target)
        named, reason = (found[1], found[0]) if turned else found, f"from the name {file_name}"
    sides = [given or told or known for given, told, known in zip(naming.given, named, naming.wanted, strict=True)]
    if all(naming.given):
        reason = "as given"
    elif not any(named):
        reason = f"those of {naming.owner}"
    if None in sides:
        reason = "no name tells; --set data.source_language=en --set data.target_language=it says so"
    return Languages(sides[0] or UNKNOWN_LANGUAGE, sides[1] or UNKNOWN_LANGUAGE, reason, named)


def differing(named: Sequence[str | None], wanted: Sequence[str | None]) -> list[int]:
    """The sides (0 source, 1 target) of which both are known, and are different languages."""
    return [
        side
        for side, (one, other) in enumerate(zip(named, wanted, strict=True))
        if one and other and UNKNOWN_LANGUAGE not in (one, other) and not same_language(one, other)
    ]


def check_languages(names: Sequence[str], columns: Columns, found: Languages, naming: Naming, where: str) -> None:
    """Refuses columns whose names say other languages than are expected, unless the user chose them.

    Raises:
        DataError: names the columns that there are, and how to choose among them.
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


def role_of(name: str) -> str | None:
    """What a column is called for, if it is no language: source, target, or text of either side.

    >>> [role_of(name) for name in ("src", "Übersetzung", "sentence", "target_text", "en")]
    ['source', 'target', 'text', 'target', None]
    """
    roles = {_ROLES.get(word) for word in re.split(r"[\W_]+", name.strip().lower())}
    sides = roles - {TEXT}
    return None if None in roles or len(sides) > 1 else (sides or roles).pop()


def listed(names: Sequence[str]) -> str:
    """Some names in brackets, for a message."""
    shown = ", ".join(repr(name if len(name) <= 40 else f"{name[:39]}…") for name in names[:8])
    return f" ({shown}{', …' if len(names) > 8 else ''})" if names else ""


def _named(names: Sequence[str], naming: Naming, where: str) -> Columns | None:
    if naming.columns == (None, None):
        return None
    found = [name and _resolve(name, names, where) for name in naming.columns]
    if None in found:
        rest = [name for name in names if name not in found]
        if len(rest) != 1:
            raise DataError(f"{where}: give both data.source_column and data.target_column; columns{listed(names)}")
        found = [name or rest[0] for name in found]
    if found[0] == found[1]:
        raise DataError(f"{where}: data.source_column and data.target_column are the same column, {found[0]!r}")
    return Columns(str(found[0]), str(found[1]), "as given")


def _resolve(name: str, names: Sequence[str], where: str) -> str:
    if name in names:
        return name
    if name.isdecimal() and 1 <= int(name) <= len(names):
        return names[int(name) - 1]
    raise DataError(f"{where} has no column {name!r}; columns{listed(names)}")


def _seen(names: Sequence[str], naming: Naming) -> Columns | None:
    if naming.seen is None or not set(naming.seen) <= set(names):
        return None
    return Columns(*naming.seen, "the columns of the training text")


def _by_language(names: Sequence[str], wanted: Sequence[str | None]) -> Columns | None:
    named: dict[str, str] = {}
    for name in names:
        if language := language_of(name):
            named.setdefault(language, name)
    if len(named) > 2 and "id" in named:
        del named["id"]  # among others, a number of the row
    source, target = (language and _column_in(language, named) for language in wanted)
    if not (source and target):
        candidates = list(names) if len(names) == 2 else list(named.values())
        if len(candidates) != 2 or not named:
            return None
        if source or target:
            other = next(name for name in candidates if name not in (source, target))
            source, target = source or other, target or other
        elif len(named) == 2:
            source, target = named.values()
        else:
            return None
    return Columns(str(source), str(target), "columns named for languages")


def _column_in(language: str, named: dict[str, str]) -> str | None:
    """The column that is named for a language: for just this one, or for it without region or script."""
    near = (name for code, name in named.items() if same_language(code, language))
    return named.get(language) or next(near, None)


def _by_role(names: Sequence[str]) -> Columns | None:
    roles = {role: name for name in reversed(names) if (role := role_of(name)) in _SIDES}
    if len(roles) == 1:  # the other column, or the one that is named for a language, has the other role
        (role, name), *_ = roles.items()
        others = [
            other
            for other in names
            if other != name and (len(names) == 2 or role_of(other) == TEXT or language_of(other) not in (None, "id"))
        ]
        if len(others) == 1:
            roles[TARGET if role == SOURCE else SOURCE] = others[0]
    if len(roles) < 2:
        return None
    return Columns(roles[SOURCE], roles[TARGET], "columns named for their roles")


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
        (TEXT, "text texte testo texto sentence sentences satz frase frases phrase oración предложение фраза текст 文"),
    )
    for name in names.split()
}
