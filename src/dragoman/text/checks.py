"""Repairs of a pair, and the rules that it may break. Each repair and each rule has a name in the report.

`repair` corrects the line ends and the spaces around a side. `fault` judges one pair and never changes its text;
`alignment` judges many together, and `prepare_pairs` drops duplicates.
"""

import html
import re
from collections import Counter
from contextlib import suppress

from pydantic import Field

from dragoman.config import Settings
from dragoman.formats.lines import CARRIAGE_RETURNS

EMPTY = "empty side"
CONTROL = "control characters"
TOO_LONG = "too long"
RATIO = "length ratio"
COPY = "source copied to target"
SPREADSHEET = "spreadsheet error such as #N/A"
PLACEHOLDER = "one text for many that do not resemble each other, such as TODO"
MISREAD = "UTF-8 that was read in another encoding, such as perchÃ©"
HEADER = "names of the columns, repeated"
DUPLICATE = "duplicate of an earlier pair"
OTHER_LANGUAGE = "a side in another language than its column"

# Shorter sides count as this long, because "No." for "Assolutamente no." is a fair translation.
SHORT_CHARACTERS = 20

# Invisible characters that show that a text is damaged: control characters, carriage returns (those at line ends are
# gone), the Unicode line separators, byte order marks inside a text. Tab and line feed are text.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


# Errors that spreadsheets show in place of a value, in their many languages: #N/A, #REF!, #¿NOMBRE?, Err:502.
_SPREADSHEET = re.compile(r"#(?:N/\w|Н/Д|NV|GETTING_DATA|[¡¿]?(?=[^a-z]+$)\w[\w/]*[!?])|Err:\d{3}|#{3,}")


class CheckSettings(Settings):
    """Rules by which pairs are dropped from the training text. Separate dev and test sets keep every pair."""

    max_words: int | None = Field(default=250, ge=1)
    """The longest side kept, in words between spaces; left out for no limit."""
    max_characters: int | None = Field(default=2000, ge=1)
    """The longest side kept, in characters; the limit that matters in scripts without spaces."""
    max_ratio: float | None = Field(default=5.0, ge=1)
    """The most characters of the longer side for each of the shorter, which counts as 20 at least."""
    drop_copies: bool = True
    """Drop pairs whose two sides are the same text: they teach a model to copy."""
    drop_duplicates: bool = True
    """Keep only the first of pairs that are equal on both sides."""
    drop_placeholders: bool = True
    """Drop pairs with a text that has ten or more partners that do not resemble each other, such as TODO."""
    drop_other_languages: bool = True
    """Drop pairs with a side of four words or more in another language than the rest of its column."""


def fault(source: str, target: str, checks: CheckSettings) -> str | None:
    """Return the first rule that a pair breaks, or None.

    >>> fault("Good morning.", " ", CheckSettings())
    'empty side'
    >>> fault("Good morning.", "Buongiorno.", CheckSettings()) is None
    True
    """
    if not (source and target) or source.isspace() or target.isspace():
        return EMPTY
    if _has_control(source) or _has_control(target):
        return CONTROL
    if _SPREADSHEET.fullmatch(source) or _SPREADSHEET.fullmatch(target):
        return SPREADSHEET
    if _too_long(source, checks) or _too_long(target, checks):
        return TOO_LONG
    if checks.max_ratio is not None:
        short, long = sorted((len(source), len(target)))
        if long > checks.max_ratio * max(short, SHORT_CHARACTERS):
            return RATIO
    return COPY if checks.drop_copies and source == target else None


def _has_control(text: str) -> bool:
    return not text.isprintable() and _CONTROL.search(text) is not None


def _too_long(text: str, checks: CheckSettings) -> bool:
    length = len(text)
    if checks.max_characters is not None and length > checks.max_characters:
        return True
    # n words need n - 1 spaces, so most texts need not be split
    return checks.max_words is not None and length >= 2 * checks.max_words and len(text.split()) > checks.max_words


TRIMMED = "sides with spaces around them, trimmed"
JOINED = "line breaks inside a side, now spaces"
LINE_BREAKS = "rows with line breaks inside"

_BREAKS = re.compile(r"\s*\n\s*")
_ENTITY = re.compile("&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")


def repair(text: str, repairs: Counter[str]) -> str:
    """Return the text with plain line ends and no spaces around it."""
    if "\r\n" in text:
        repairs[CARRIAGE_RETURNS] += text.count("\r\n")
        text = text.replace("\r\n", "\n")
    trimmed = text.strip()
    if len(trimmed) != len(text):
        repairs[TRIMMED] += 1
    if "\n" in trimmed:  # in a model's output it would end the line
        trimmed, count = _BREAKS.subn(" ", trimmed)
        repairs[JOINED] += count
    return trimmed


def has_entity(text: str) -> bool:
    """Return True if a text holds an HTML entity.

    >>> has_entity("Rock &amp; Roll"), has_entity("AT&T; &copy 2020")
    (True, False)
    """
    return "&" in text and any(html.unescape(entity) != entity for entity in _ENTITY.findall(text))


def has_tag(text: str) -> bool:
    """Return True if a text holds a tag of HTML or XML, as `translate` takes them out."""
    if "<" not in text:
        return False
    from dragoman.surface.tags import without_tags  # here, because help reads settings without tokenizers

    return any(pair.tags[0].startswith("<") for pair in without_tags(text).pairs)


_OTHER_ENCODINGS = ("cp1252", "latin-1", "mac_roman", "cp850", "cp437")


def is_misread(text: str) -> bool:
    """Return True if a run of characters would be UTF-8 in another encoding, for one Latin letter or mark, or several.

    >>> [is_misread(text) for text in ("PerchÃ©", "Itâ€™s", "Perché «è»…", "„Spaß“")]
    [True, True, False, False]
    """
    for run in () if text.isascii() else re.findall(r"[^\0-\x7f]{2,}", text):
        for encoding in _OTHER_ENCODINGS:
            with suppress(UnicodeError):
                meant = run.encode(encoding).decode()
                if len(meant) > 1 or meant < "\u0180" or "\u2000" <= meant < "\u2300":
                    return True
    return False
