"""Mends pairs before they are judged: line ends, spaces around a side, and HTML entities if asked to.

Every repair is counted under one of the names below.
"""

import html
import re
from collections import Counter
from html.entities import html5

from dragoman.text.reading.lines import CARRIAGE_RETURNS

TRIMMED = "sides with spaces around them, trimmed"
DECODED = "HTML entities decoded"

_ENTITY = re.compile("&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")


def mend(text: str, decode: bool, repairs: Counter[str]) -> str:
    """The text with plain line ends and no spaces around it; `decode` replaces HTML entities by characters."""
    if "\r\n" in text:
        repairs[CARRIAGE_RETURNS] += text.count("\r\n")
        text = text.replace("\r\n", "\n")
    if decode and "&" in text:
        text = _ENTITY.sub(lambda match: _decoded(match, repairs), text)
    trimmed = text.strip()
    if len(trimmed) != len(text):
        repairs[TRIMMED] += 1
    return trimmed


def has_entity(text: str) -> bool:
    """Whether a text holds an HTML entity.

    >>> has_entity("Rock &amp; Roll"), has_entity("AT&T; &copy 2020")
    (True, False)
    """
    return "&" in text and any(_character(match[0]) is not None for match in _ENTITY.finditer(text))


def _decoded(match: re.Match[str], repairs: Counter[str]) -> str:
    character = _character(match[0])
    repairs[DECODED] += character is not None
    return match[0] if character is None else character


def _character(entity: str) -> str | None:
    """The character that an entity stands for; None for a name or number that HTML does not know."""
    if entity[1] != "#":
        return html5.get(entity[1:])
    found = html.unescape(entity)
    return None if found in ("", "\ufffd") else found
