"""XLIFF of CAT tools: the state of a segment in files of Trados Studio (SDLXLIFF), memoQ (MQXLIFF) and Phrase (MXLIFF).

A tool is known by its namespace, whatever the name of the file.
"""

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from dragoman.formats.inline import InlinePart

_STUDIO, _MEMOQ = "{http://sdl.com/FileTypes/SdlXliff/1.0}", "{MQXliff}"
_PHRASE = "{http://www.memsource.com/mxlf/2.0}"
_OF_MATCH = ("percent", "struct-match", "text-match")
_CODE = re.compile(r"(\{(?:\d{1,4}|[biu_^]{1,9})>|<(?:\d{1,4}|[biu_^]{1,9})\}|\{(?:\d{1,4}|j)\})")
"""Codes in texts of Phrase, as in "{1>a {b>bold<b} word<1} {2}"; the unit describes the markup of each number."""


def is_held(element: Any) -> bool:
    """Return True if a unit, or a definition of a segment, says that it is locked or that a person has finished it."""
    locks = (element.get(name, "no") for name in ("locked", f"{_MEMOQ}locked", f"{_PHRASE}locked"))
    is_finished = (
        element.get("conf", "Draft") not in ("Draft", "Unspecified")
        or element.get(f"{_PHRASE}confirmed", "0") != "0"
        or element.get(f"{_MEMOQ}status", "").endswith(("Confirmed", "Proofread", "Rejected"))
    )
    return is_finished or any(lock not in ("no", "false") for lock in locks)


def is_untouched(unit: Any) -> bool:
    """Return True if memoQ says that no one has begun to translate a unit."""
    return unit.get(f"{_MEMOQ}status") == "NotStarted"


def definitions(unit: Any) -> dict[str, Any]:
    """Return the elements in which Studio describes the segments of a unit, by their `mid`."""
    return {segment.get("id", ""): segment for segment in unit.iterfind(f"{_STUDIO}seg-defs/{_STUDIO}seg")}


def mark(unit: Any, definition: Any, needs_review: bool) -> bool:
    """Set the state of a unit, or of a segment with a `definition`, to translated by machine; return False if no tool
    has written the unit.
    """
    if definition is not None:
        for name in _OF_MATCH:
            definition.attrib.pop(name, None)
        definition.attrib.update({"conf": "Draft" if needs_review else "Translated", "origin": "mt"})
        definition.set("origin-system", "Dragoman")
    elif unit.get(f"{_MEMOQ}status"):
        unit.set(f"{_MEMOQ}status", "MachineTranslated" if needs_review else "ManuallyConfirmed")
    elif _is_of_phrase(unit):
        level = unit.getroottree().getroot().get(f"{_PHRASE}level", "1")
        unit.attrib.update({f"{_PHRASE}confirmed": "0" if needs_review else level, f"{_PHRASE}trans-origin": "mt"})
        codes, others = (unit.find(f"{_PHRASE}tunit-{name}metadata") for name in ("", "target-"))
        if codes is not None and others is not None and not len(others):
            others[:] = deepcopy(codes)[:]
    else:
        return False
    return True


def words(text: str | None, unit: Any) -> Iterator[InlinePart[Any]]:
    """Yield the words of a unit, and Phrase's codes in them."""
    for number, piece in enumerate(_CODE.split(text or "") if _is_of_phrase(unit) else [text]):
        if number % 2 and piece:
            kind = "close" if piece.startswith("<") else "open" if piece.endswith(">") else "single"
            yield InlinePart(kind, piece)
        elif piece:
            yield InlinePart("words", piece, piece)


def _is_of_phrase(unit: Any) -> bool:
    return any(name.startswith(_PHRASE) for name in unit.attrib)
