"""Which two columns hold the pair, and in which languages: named by the user, or guessed, always with the reason.

A column here is whatever names one side of a pair: a header of a table, a key of a JSON row, the ending of one of two
aligned files. Knows nothing of how they are read.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from dragoman.errors import DataError

UNKNOWN_LANGUAGE = "und"  # BCP 47: undetermined


class Naming(NamedTuple):
    """What the user, or a file's name, says of the columns; None is left to the guess.

    A column is named by its header or key (`translation.en` for one inside another), or by its number, from 1.
    """

    source_column: str | None = None
    target_column: str | None = None
    source_language: str | None = None
    target_language: str | None = None


class Columns(NamedTuple):
    """The two columns chosen, and why."""

    source: str
    target: str
    reason: str


def choose_columns(names: Sequence[str], naming: Naming, where: str) -> Columns:
    """The source and target column among `names`.

    >>> choose_columns(["id", "en", "it"], Naming(), "corpus.csv")
    Columns(source='en', target='it', reason='columns named for languages')
    >>> choose_columns(["id", "en", "it"], Naming(source_language="it", target_language="en"), "corpus.csv").source
    'it'

    Raises:
        DataError: none or several pairs of columns would do; lists them.
    """
    for rule in (_named, _by_language, _by_role):
        if found := rule(names, naming, where):
            return found
    if len(names) == 2:
        return Columns(names[0], names[1], "there are two columns, and the first is the source")
    if len(names) < 2:
        raise DataError(f"{where} has one column{_list(names)}; a pair needs a source and a target")
    raise DataError(
        f"{where} has {len(names)} columns{_list(names)}; say which are the pair, by name or number from 1: "
        "--set data.source_column=NAME --set data.target_column=NAME"
    )


def is_header(cells: Sequence[str]) -> bool:
    """Whether the first row of a table names its columns: at least two cells are languages or roles.

    >>> is_header(["English", "Italian"]), is_header(["No.", "No."]), is_header(["source", "target", "id"])
    (True, False, True)
    """
    return len({_role(cell) or language_of(cell) for cell in cells} - {None}) >= 2


def languages(columns: Columns, naming: Naming, file_name: str) -> tuple[str, str, str]:
    """Source language, target language, and where they come from; `und` where nothing tells."""
    guessed = (language_of(columns.source), language_of(columns.target))
    reason = f"from the names {columns.source} and {columns.target}" if all(guessed) else ""
    if not reason and (found := languages_in(file_name)):
        guessed, reason = found, f"from the name {file_name}"
    source, target = naming.source_language or guessed[0], naming.target_language or guessed[1]
    if naming.source_language and naming.target_language:
        reason = "as given"
    if not (source and target):
        reason = "no name tells; --set data.source_language=en --set data.target_language=it says so"
    return source or UNKNOWN_LANGUAGE, target or UNKNOWN_LANGUAGE, reason


def language_of(name: str) -> str | None:
    """The language that a column or file ending is named for.

    >>> [language_of(name) for name in ("en", "English", "text_it", "pt-BR", "deu", "id", "target")]
    ['en', 'en', 'it', 'pt-BR', 'de', 'id', None]
    """
    name = name.strip()
    whole = name.lower()
    if whole in _CODES or whole in _NAMES:
        return _NAMES.get(whole, whole)
    if (region := re.fullmatch(r"([a-z]{2,3})[-_]([A-Z]{2}|[A-Z][a-z]{3}|\d{3})", name)) and language_of(region[1]):
        return name.replace("_", "-")
    if (piece := re.fullmatch(r".*[a-z][._-]([a-z]{2})", whole)) and piece[1] in _CODES and piece[1] != "id":
        return piece[1]  # "row_id" is no Indonesian
    if re.fullmatch(r"[\w ]{1,40}", name) and (word := re.split(r"[\W_]", whole, maxsplit=1)[0]) in _NAMES:
        return _NAMES[word] if len(word) > 3 else None
    return None


def languages_in(file_name: str) -> tuple[str, str] | None:
    """The two languages in the name of a file or a configuration.

    >>> languages_in("books.en-it.tsv"), languages_in("en_it"), languages_in("train.tsv")
    (('en', 'it'), ('en', 'it'), None)
    """
    pieces = re.split(r"[._-]", Path(file_name).name)
    for one, other in reversed(list(pairwise(pieces))):
        if one != other and one in _CODES and other in _CODES:
            return one, other
    return None


def _named(names: Sequence[str], naming: Naming, where: str) -> Columns | None:
    given = (naming.source_column, naming.target_column)
    if given == (None, None):
        return None
    found = [name and _resolve(name, names, where) for name in given]
    if None in found:
        rest = [name for name in names if name not in found]
        if len(rest) != 1:
            raise DataError(f"{where}: give both data.source_column and data.target_column; columns{_list(names)}")
        found = [name or rest[0] for name in found]
    if found[0] == found[1]:
        raise DataError(f"{where}: data.source_column and data.target_column are the same column, {found[0]!r}")
    return Columns(str(found[0]), str(found[1]), "as given")


def _resolve(name: str, names: Sequence[str], where: str) -> str:
    if name in names:
        return name
    if name.isdecimal() and 1 <= int(name) <= len(names):
        return names[int(name) - 1]
    raise DataError(f"{where} has no column {name!r}; columns{_list(names)}")


def _by_language(names: Sequence[str], naming: Naming, where: str) -> Columns | None:
    columns: dict[str, str] = {}
    for name in names:
        if language := language_of(name):
            columns.setdefault(language, name)
    if len(columns) > 2 and "id" in columns:
        del columns["id"]  # among others, a number of the row
    wanted = [naming.source_language, naming.target_language]
    if len(columns) == 2 and None in wanted:
        one, other = columns
        wanted = [other, one] if one == wanted[1] or other == wanted[0] else [one, other]
    elif len(columns) == 2 and not columns.keys() & set(wanted):
        wanted = list(columns)  # the languages given are called otherwise here
    if None not in wanted and all(language in columns for language in wanted):
        source, target = (columns[str(language)] for language in wanted)
        return Columns(source, target, "columns named for languages")
    return None


def _by_role(names: Sequence[str], naming: Naming, where: str) -> Columns | None:
    roles: dict[str, str] = {}
    for name in names:
        if role := _role(name):
            roles.setdefault(role, name)
    if len(roles) < 2:
        return None
    return Columns(roles["source"], roles["target"], "columns named for their roles")


def _role(name: str) -> str | None:
    return _ROLES.get(name.strip().lower())


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name if len(name) <= 40 else f"{name[:39]}…") for name in names[:8])
    return f" ({shown}{', …' if len(names) > 8 else ''})" if names else ""


_ROLES = {
    name: role
    for role, names in (("source", "source src source_text input"), ("target", "target tgt trg target_text output"))
    for name in names.split()
}

# ISO 639-1, and for the languages most met in parallel text their ISO 639-3 codes and English names.
_CODES = frozenset(
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en "
    "eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv "
    "ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne "
    "ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st "
    "su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu".split()
)
_NAMES = {
    name: names.split()[0]
    for names in (
        "ar ara arabic|bg bul bulgarian|ca cat catalan|cs ces czech|da dan danish|de deu german|el ell greek|"
        "en eng english|es spa spanish|et est estonian|fa fas persian|fi fin finnish|fr fra french|he heb hebrew|"
        "hi hin hindi|hr hrv croatian|hu hun hungarian|id ind indonesian|it ita italian|ja jpn japanese|ko kor korean|"
        "la lat latin|lt lit lithuanian|lv lav latvian|nl nld dutch|no nor norwegian|pl pol polish|pt por portuguese|"
        "ro ron romanian|ru rus russian|sk slk slovak|sl slv slovenian|sr srp serbian|sv swe swedish|sw swa swahili|"
        "ta tam tamil|th tha thai|tr tur turkish|uk ukr ukrainian|ur urd urdu|vi vie vietnamese|zh zho chinese"
    ).split("|")
    for name in names.split()[1:]
}
