"""The HTML file of a record (`render_page`), which needs no network and shows a text's whole path through the model."""

import base64
import hashlib
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.errors import ConfigError

Facts = dict[str, Any]

ORDER = tuple("overview pieces generation alignment why attention layers positions search about".split())
"""Sections in the order of the page."""

_PARTS = Path(__file__).parent / "parts"
_UNSAFE = {character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
"""Characters that could end a script or a line of it; they occur only inside the strings of JSON."""
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""Python's names of numbers and JavaScript's."""
_PLACE = re.compile(r"\{\{(\w+)\}\}")


def render_page(facts: Facts, sections: Sequence[str] = ORDER) -> str:
    """Return the HTML of the page, from `record.facts(pack)`. They are data in it: no text can become markup or
    program.

    If the page has only some `sections`, they are unfolded.

    Raises:
        ConfigError: there is no such section.
    """
    if unknown := [name for name in sections if name not in ORDER]:
        raise ConfigError(f"{' and '.join(unknown)}: no such section; there are {', '.join(ORDER)}")
    shared = (_read(f"{name}.js") for name in ("core", "controls", "figures", "multiplication"))
    scopes = (f"(() => {{\n{_read(f'{name}.js')}\n}})();" for name in ORDER if name in sections)
    unfolded = "false" if len(sections) == len(ORDER) else "true"
    script = "\n".join(['"use strict";', *shared, *scopes, f"page.start({unfolded});"])
    filled = {
        "style": "\n".join(_read(name) for name in ("style.css", "figures.css")),
        "script": script,
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "record": as_json(facts),
    }
    return _PLACE.sub(lambda place: filled[place[1]], _read("shell.html"))


def pack(array: np.ndarray[Any, Any]) -> Facts:
    """Return the shape and the numbers of an array in row-major order: integers as a list, others as float32 in 3 of
    its 4 bytes and base64 (`f24`), which is far shorter than their digits.

    A packed number keeps its sign, its exponent and 15 bits of its fraction: its relative error is at most 2^-16, so
    the four digits that a page shows are right.

    >>> pack(np.array([[1.0, 2.0]], dtype=np.float32))
    {'shape': [1, 2], 'f24': 'AIA/AABA'}
    >>> pack(np.array([3, 4]))
    {'shape': [2], 'list': [3, 4]}
    """
    shape = list(array.shape)
    if np.issubdtype(array.dtype, np.integer):
        return {"shape": shape, "list": array.ravel().tolist()}
    # the upper three bytes of each float32, little-endian, after rounding to the nearest, ties to even
    floats = array.astype("<f4").ravel()
    words = floats.view("<u4")
    halfway = np.uint32(0x7F) + ((words >> np.uint32(8)) & np.uint32(1))
    rounded = np.where(np.isnan(floats), np.uint32(0x7FC00000), words + halfway).astype("<u4")
    upper = rounded.view(np.uint8).reshape(-1, 4)[:, 1:].tobytes()
    return {"shape": shape, "f24": base64.b64encode(upper).decode()}


def as_json(facts: Facts) -> str:
    """Return JSON for a script element: nothing in it ends the element."""
    text = json.dumps(_readable(facts), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character, escaped in _UNSAFE.items():  # much faster than str.translate on megabytes
        text = text.replace(character, escaped)
    return text


def _readable(value: Any) -> Any:
    """Round numbers to nine digits, which is the precision of float32. JSON has no numbers that are not finite:
    `core.js` reads them from {"number": "NaN"}.
    """
    if isinstance(value, float):
        return float(f"{value:.9g}") if math.isfinite(value) else {"number": _NOT_FINITE[str(value)]}
    if isinstance(value, dict):
        return {key: _readable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_readable(item) for item in value]
    return value


def _read(name: str) -> str:
    return (_PARTS / name).read_text(encoding="utf-8")
