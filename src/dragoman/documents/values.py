"""Which values of tables, workbooks and JSON are translated. Those for programs, such as identifiers, dates and file
names, are copied, because a translation would break whatever reads them; a note names them.
"""

import re
from collections import defaultdict
from collections.abc import Hashable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from dragoman.errors import DataError
from dragoman.inference.sentences import has_words
from dragoman.text.protected import code_in

WORDS = {
    "GUID": r"\{?[\da-fA-F]{8}(?:-[\da-fA-F]{4}){3}-[\da-fA-F]{12}\}?",
    "date and time": r"\d{4}-?\d\d-?\d\dT[\d:.]{2,15}(?:Z|[+-]\d\d:?\d\d)?",
    "article number, IBAN, coordinate": r"(?=\D*\d)[A-Z\d]+(?:[-./:][A-Z\d]+)*",
    "hash": r"(?=[A-Za-z]*\d+[A-Za-z]+\d|\d*[A-Za-z]+\d+[A-Za-z])[A-Za-z\d]{7,}={0,2}",
    "locale": r"[a-z]{2,3}[-_](?:[A-Z][a-z]{3}[-_])?[A-Z]{2}",
    "version": r"v\d+(?:\.\d+)*(?:[-+.][a-z\d]+)*|\d+(?:\.\d+)+[-+.]?[a-z]+[\w.+-]*",
    "colour": r"#[\da-fA-F]{3,8}",
    "dotted key": r"(?:@[\w.]*:)?[a-z]\w+(?:\.[a-z]\w+)+",
    "camelCase": r"[a-z]{2,}(?:[A-Z][a-z\d]+)+",
}
"""Patterns of words that no language has. `code_in` finds more: addresses, paths, variables, names with underscores."""
WHOLES = {
    "time zone": r"(?:Africa|America|Asia|Atlantic|Australia|Etc|Europe|Indian|Pacific)/(?!Pacific\b)[A-Z][\w/+-]+",
    "formula": r"=[A-Z\d(+'\"-].*",
    "MIME type": r"(?:application|audio|font|image|multipart|text|video)/(?!image\b|video\b)[a-z\d][\w.+-]*(?:;.*)?",
    "CSS classes": r"(?:btn|fa[bdlrs]?|mdi|glyphicon|col|bg|navbar|m[btx]|p[btxy])\b(?=.*-)(?:[ -]+[a-z\d]+)*",
    "value of a program": r"true|false|null|undefined|TRUE|FALSE|NULL|NaN",
    "unit": r"[kmµ]g|[cdkm]m|[cdm]l|[km]?Wh?|[kMGT]i?B|[kMG]?Hz|[hk]?Pa|dB|mAh|km/h|m/s|[ckm]?m[²³]|°[CF]",
    "currency": "AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HUF|INR|JPY|KRW|MXN|NOK|NZD|PLN|RON|RUB|SEK|UAH|USD|ZAR",
}
"""Patterns of whole values that no language has."""
_WORD, _WHOLE = (re.compile("|".join(patterns.values()), re.DOTALL) for patterns in (WORDS, WHOLES))
_LINKED = re.compile(r"[a-z\d]+(?:-[a-z\d]+)+|[A-Z][a-z\d]+(?:[A-Z][a-z\d]+)+")  # a slug, PascalCase
_CAPITALS = r"[A-Z][A-Z\d]*(?:[-/.][A-Z\d]+)*|[A-Za-z]+\d+"
_FILE = r".{1,150}\.(?:csv|docx?|gif|html?|jpe?g|json|mp[34]|odt|pdf|png|pptx?|svg|txt|webp|xlsx?|xml|zip)"
_LIKE_CODE = re.compile("|".join((_LINKED.pattern, _CAPITALS, _FILE)))
_LANGUAGES = frozenset(
    "ar bg ca cs cy da de el en es et eu fa fi fr he hr hu it ja ko lt lv nl pl pt ru sv uk zh".split()
)
# How the names of columns end: of identifiers, of words for programs, and of words in capitals for programs.
_KEYS = frozenset("id uuid guid sku ean gtin upc isbn iban key msgid code slug identifier codice".split())
_KINDS = _KEYS | frozenset(
    "class classname css type kind mime mimetype url uri href src path file filename ext lang locale currency unit uom "
    "icon hash token format enum selector rel timezone tz charset encoding namespace variable host domain".split()
)
_STATES = _KINDS | frozenset("status state country language level role priority mode event method action".split())


class Value(NamedTuple):
    """A value in a column of a table or workbook, or of a key of JSON."""

    column: Hashable
    name: str  # of a key with those above it and dots between
    text: str
    is_heading: bool = False
    number: str = ""  # of a column that may be chosen by it


def selected(values: Sequence[Value], only: Sequence[str], path: Path) -> tuple[list[bool], list[str]]:
    """Return for each value whether it is translated, and a note on those for programs. `only` are patterns of names,
    or numbers of columns; without any, all natural language is translated.

    Raises:
        DataError: there is no such column or key.
    """
    if not only:
        return natural(values)
    names = dict.fromkeys(value.name for value in values)
    numbers = {value.number for value in values} - {"", *names}
    meant = {one: {name for name in names if fnmatchcase(f".{name}", f"*.{one}")} for one in only}
    for pattern, found in meant.items():
        if not found and pattern not in numbers:
            advice = "; if the first row is no header, give the number of a column, such as 2" if numbers else ""
            known = ", ".join(filter(None, names))[:500] or "none"
            raise DataError(f"{path} has no column or key {pattern!r}, only {known}{advice}")
    chosen, by_number = set[str]().union(*meant.values()), numbers.intersection(only)
    return [one.number in by_number or (one.name in chosen and not one.is_heading) for one in values], []


def natural(values: Sequence[Value]) -> tuple[list[bool], list[str]]:
    """Return for each value whether it is natural language, and a note on those for programs."""
    columns, listed = defaultdict[Hashable, list[Value]](list), list[str]()
    for value in values:
        if has_words(value.text):
            columns[value.column].append(value)
    below = {column: [one.text for one in some if not one.is_heading] for column, some in columns.items()}
    for_programs = {column for column, texts in below.items() if texts and holds_code(columns[column][0].name, texts)}
    code = {text for text in {value.text for value in values} if is_code(text)}

    def is_natural(value: Value) -> bool:
        is_label = value.is_heading and (value.text.istitle() or " " in value.text)
        return value.text not in code and (is_label or value.column not in for_programs)

    for some in columns.values():
        if kept := [value.text for value in some if not is_natural(value)]:
            listed.append(f"{some[0].name!r} ({len(kept):,}, such as {kept[-1][:50]!r})")
    names = ", ".join(listed if len(listed) <= 50 else [*listed[:49], f"{len(listed) - 49:,} more"])
    notes = [f"values for programs stay, unless --only names their column or key: {names}"] if listed else []
    return [*map(is_natural, values)], notes


def is_code(text: str) -> bool:
    """Return True if a text holds no word of a language, whatever its column."""
    rest = text = text.strip()[:1_001]
    for span in code_in(text):
        rest = rest[: span.begin] + " " * (span.end - span.begin) + rest[span.end :]
    words = filter(has_words, re.split(r"[\s,;|]+", rest))
    return len(text) <= 1_000 and (_WHOLE.fullmatch(text) is not None or all(map(_WORD.fullmatch, words)))


def holds_code(name: str, texts: Sequence[str]) -> bool:
    """Return True if all texts of a column or key are for programs, judged by its name and by all of them.

    >>> holds_code("colour", ["red", "Large"]), holds_code("status", ["active"]), holds_code("status", ["SOLD", "NEW"])
    (False, False, True)
    """
    unsure, last = {text.strip() for text in texts if not is_code(text)}, name.rpartition(".")[2]
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|[\W\d_]+", " ", last).lower().split() or [""]
    ends = {words[-1], words[-1].removesuffix("s"), "".join(words[-2:])}
    if ends & _KEYS and len({*texts}) == len(texts) > 1:
        return last in _KEYS or not any(" " in text for text in unsure)
    coded = {text for text in unsure if _LIKE_CODE.fullmatch(text)}
    if coded == unsure and (ends & _STATES or len(unsure) < len({*texts})):
        return True
    if unsure <= _LANGUAGES or unsure <= {"True", "False", "None"}:
        return True
    if len(unsure) > 2 and all(map(_LINKED.fullmatch, unsure)):
        return True
    small = {text for text in unsure if text.isalpha() and text.islower() and text != last.lower()}
    return bool(ends & _KINDS) and unsure == coded | small
