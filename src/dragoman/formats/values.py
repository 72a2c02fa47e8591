"""Decides which values of tables, workbooks and JSON are translated. Those for programs, such as identifiers, dates
and file names, are copied, because a translation would break what reads them; a note names them.

The name of a column or key decides, with all of its values. In doubt a value is copied: the note shows that.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Hashable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from dragoman.errors import DataError
from dragoman.formats.cancelling import check_cancelled
from dragoman.surface.protected import Span, code_in, identifiers_in, replaced
from dragoman.surface.sentences import BRANCHES, has_words

WORDS = {
    "locale": r"[a-z]{2,3}[-_](?:[A-Z][a-z]{3}[-_])?[A-Z]{2}",
    "version": r"v?\d+(?:\.\d+)+[-+.]?[a-z][\w.+-]*",
    "coordinate": r"\d+\.\d+[NSEW]",
    "colour": r"#[\da-fA-F]{3,8}",
    "dotted key": r"(?:@[\w.]*:)?[a-z]\w+(?:\.[a-z]\w+)+",
    "camelCase": r"[a-z]{2,}(?:[A-Z][a-z\d]+)+",
}
"""Patterns of words that no language has. `code_in` and `identifiers_in` find more: addresses, paths, dates, hashes."""
_CSS_WORD = (
    "all|auto|black|blue|bold|both|bottom|center|dashed|dotted|ease(?:-in)?(?:-out)?|gr[ae]y|green|infinite|inset|italic|"
    "left|linear|none|normal|red|(?:no-)?repeat|right|solid|top|transparent|white"
)
_CSS_SIZE = r"-?[\d.]+(?:px|r?em|v[hw]|pt|fr|deg|m?s)"
_CSS_CALL = r"(?:rgba?|hsla?|var|calc|clamp|url|translate[XYZ]?|rotate|scale|[a-z-]+-gradient|cubic-bezier)\([^()]*\)"
WHOLES = {
    "time zone": r"(?:Africa|America|Asia|Atlantic|Australia|Etc|Europe|Indian|Pacific)/(?!Pacific\b)[A-Z][\w/+-]+",
    "formula": r"=[A-Z\d(+'\"-].*",
    "MIME type": r"(?:application|audio|font|image|multipart|text|video)/(?!image\b|video\b)[a-z\d][\w.+-]*(?:;.*)?",
    "CSS classes": r"(?:btn|fa[bdlrs]?|mdi|glyphicon|col|bg|navbar|m[btx]|p[btxy])\b(?=.*-)(?:[ -]+[a-z\d]+)*",
    "CSS": rf"(?=.*[\d(])(?:(?:{_CSS_WORD}|{_CSS_SIZE}|{_CSS_CALL}|#[\da-f]+|\d+%?)(?:,? +|\Z))++|.+, (?:sans-)?serif",
    "SQL": r"(?:SELECT\b.+\bFROM|INSERT INTO|UPDATE\b.+\bSET|DELETE FROM|(?:CREATE|ALTER|DROP) TABLE|(?i:SELECT) \*).*",
    "cron": r"(?=.*\*)(?:(?:[\d*?][\d*/,LW#-]*|[A-Z]{3}(?:[,-][A-Z]{3})*)(?: +|\Z)){5,7}+",
    "expression": r"\S+ (?:[<>!=]=|&&|\|\|) .*",
    "regular expression": r"\^\S+|\S*(?:\[\^?\w-\w|\\[dDsSwW][+*?{]|\(\?[:=!<a-z])\S*",
    "size": r"\d?X{1,4}[SL]|[SML]|x[sl]|sm|md|lg",
    "value of a program": r"true|false|null|undefined|TRUE|FALSE|NULL|NaN",
    "not available": r"[nN]/[aA]",
    "unit": r"[kmµ]g|[cdkm]m|[cdm]l|[km]?Wh?|[kMGT]i?B|[kMG]?Hz|[hk]?Pa|dB|mAh|km/h|m/s|[ckm]?m[²³]|°[CF]",
    "currency": "AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HUF|INR|JPY|KRW|MXN|NOK|NZD|PLN|RON|RUB|SEK|UAH|USD|ZAR",
}
"""Patterns of whole values that no language has."""
_WORD, _WHOLE = (re.compile("|".join(patterns.values()), re.DOTALL) for patterns in (WORDS, WHOLES))
_LINKED = re.compile(r"[a-z\d]+(?:-[a-z\d]+)+|[A-Z][a-z\d]+(?:[A-Z][a-z\d]+)+")  # a slug, PascalCase
_CAPITALS = r"[A-Z][A-Z\d]*(?:[-/.][A-Z\d]+)*|(?=[^\s\d]*\d)[A-Za-z\d.+-]+"
_FILE = r".{1,150}\.(?:csv|docx?|gif|html?|jpe?g|json|mp[34]|odt|pdf|png|pptx?|svg|txt|webp|xlsx?|xml|zip)"
_LIKE_CODE = re.compile("|".join((_LINKED.pattern, _CAPITALS, _FILE)))
_LANGUAGES = frozenset(
    "ar bg ca cs cy da de el en es et eu fa fi fr he hr hu it ja ko lt lv nl pl pt ru sv uk zh".split()
)
# How the names of columns end: of identifiers, of single words for programs, of the same if the name is not written for
# people, and of commands, which may also be below such a name.
_KEYS = frozenset("id uuid guid sku ean gtin upc isbn iban key msgid code slug identifier codice".split())
_KINDS = _KEYS | frozenset(
    "class type kind mime mimetype url uri href src path file filename ext lang locale currency unit uom icon hash "
    "token format enum timezone tz charset encoding namespace variable host domain license licence".split()
)
_CHOICES = frozenset(
    "action adapter algorithm align alignment app arch branch bucket cache color const container country cursor "
    "default dir direction display driver engine env environment event field flex image in interval justify "
    "justifycontent keyword language layout level login mapping method mode model module op operator order "
    "orientation os overflow package period permission placement platform policy position priority project protocol "
    "provider repo required role rounding runtime scheme scope service severity shell site size sort source stage "
    "state status strategy style target theme trigger user variant verb version visibility weight".split()
)
_COMMANDS = frozenset(
    "scripts script command cmd sql regex regexp xpath cron dependencies devdependencies engines browserslist "
    "compileroptions rel classname css selector expr expression".split()
)


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
    meant = {pattern: {name for name in names if fnmatchcase(f".{name}", f"*.{pattern}")} for pattern in only}
    for pattern, matches in meant.items():
        if not matches and pattern not in numbers:
            advice = "; if the first row is no header, give the number of a column, such as 2" if numbers else ""
            known = ", ".join(filter(None, names))[:500] or "none"
            raise DataError(f"{path} has no column or key {pattern!r}, only {known}{advice}")
    chosen, by_number = set[str]().union(*meant.values()), numbers.intersection(only)
    return [value.number in by_number or (value.name in chosen and not value.is_heading) for value in values], []


def natural(values: Sequence[Value]) -> tuple[list[bool], list[str]]:
    """Return for each value whether it is natural language, and a note on those for programs."""
    columns, listed = defaultdict[Hashable, list[Value]](list), list[str]()
    for value in values:
        if has_words(value.text):
            columns[value.column].append(value)
    names = {part for value in values if value.name == value.column for part in value.name.split(".")}  # of keys
    below = {column: [value.text for value in some if not value.is_heading] for column, some in columns.items()}
    for_programs = {column for column, texts in below.items() if holds_code(columns[column][0].name, texts, names)}
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
    check_cancelled()
    text = text.strip()[:1_001]
    words = re.split(r"[\s,;|]+", _without(text, code_in(text)))
    is_wordless = all(_WORD.fullmatch(word) or not has_words(_without(word, identifiers_in(word))) for word in words)
    return len(text) <= 1_000 and not BRANCHES.search(text) and (is_wordless or _WHOLE.fullmatch(text) is not None)


def _without(text: str, spans: Sequence[Span]) -> str:
    return replaced(text, spans, [" "] * len(spans))


def holds_code(name: str, texts: Sequence[str], names: Collection[str] = ()) -> bool:
    """Return True if all texts of a column or key are for programs, judged by its name, by all of them, and by the
    other names in the file, which may be referred to.

    >>> holds_code("colour", ["red", "Large"]), holds_code("status", ["active"]), holds_code("Status", ["active"])
    (False, True, False)
    """
    unsure, (*above, last) = {text.strip() for text in texts if not is_code(text)}, name.split(".")
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|[\W\d_]+", " ", last).lower().split() or [""]
    ends = {words[-1], words[-1].removesuffix("s"), "".join(words[-2:])}
    is_kind = bool(ends & _KINDS) or (bool(ends & _CHOICES) and not last.istitle())
    if not texts:
        return is_kind
    if last[:1] in ("$", "@") and last != "@value":
        return not any(" " in text for text in unsure)
    if ends & _KEYS and len({*texts}) == len(texts) > 1:
        return last in _KEYS or not any(" " in text for text in unsure)
    if _COMMANDS.intersection((*ends, *map(str.lower, above))):
        return not any(text[:1].isupper() and text[1:2].islower() for text in unsure)
    coded = {text for text in unsure if _LIKE_CODE.fullmatch(text)}
    small = {text for text in unsure if text.isalpha() and text.islower() and text != last.lower()}
    tokens = {text for text in unsure - {last.lower()} if not (" " in text or text.istitle())}  # words in no sentence
    if is_kind and unsure == coded | {text for text in tokens if text.isascii() or text.islower()}:
        return True
    if unsure == coded | (small if any("_" in text for text in texts) else set()) and len(unsure) < len({*texts}):
        return True
    if unsure <= _LANGUAGES or unsure <= {"True", "False", "None"} or (unsure == small and small.issubset(names)):
        return True
    has_one_length = len({*texts}) > 1 and len({*map(len, unsure)}) == 1  # as codes of countries have; YES and NO not
    if has_one_length and all(re.fullmatch("[A-Z]{2,3}", text) for text in unsure):
        return True
    is_package = last == "name" and "version" in names
    return (len(unsure) > 2 or is_package) and all(map(_LINKED.fullmatch, unsure))
