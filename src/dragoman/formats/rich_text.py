"""Text in several formats, as in cells and comments of workbooks and in drawings of Office: runs (`r`), each with its
format (`rPr`) and its words (`t`).
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

from dragoman.formats.document import lines_in, with_lines
from dragoman.formats.inline import InlinePart, InlineTexts, divided

_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_OF_NO_FORMAT = ("altLang", "dirty", "err", "lang")
"""Attributes of a run that say nothing about its format."""


def _pieces(string: Any) -> list[Any]:
    """Return the elements that hold a text, without its pronunciation."""
    return [*string.findall("{*}t"), *string.findall("{*}r/{*}t")] or [string]


def text_of(string: Any) -> str:
    """Return all words of an element."""
    return "".join(piece.text or "" for piece in _pieces(string))


def texts_in(string: Any) -> list[str]:
    """Return the texts of an element: its lines, or its sentences with their formats as tags."""
    return RichText(string).content.texts if has_formats(string) else lines_in(text_of(string))


def set_texts(string: Any, texts: Sequence[str]) -> None:
    """Give an element these texts, without the pronunciation of the old ones."""
    for reading in string.findall("{*}rPh"):
        string.remove(reading)
    if has_formats(string):
        RichText(string).fill(texts)
    else:
        first, *others = _pieces(string)
        text = with_lines(text_of(string), texts)
        for piece in others:
            string.remove(piece if piece.getparent() is string else piece.getparent())
        _set_text(first, text)


def _set_text(element: Any, text: str) -> None:
    element.text = text
    if "spreadsheetml" in element.tag and element.tag.endswith("}t"):
        element.set(_SPACE, "preserve")


class RichText:
    """A text in several formats."""

    def __init__(self, string: Any) -> None:
        """Read the runs of an element; those in the format of most letters have no markup."""
        self._string, self._runs = string, string.findall("{*}r")
        words = [(run, _format(run), run.findtext("{*}t") or "") for run in self._runs]
        letters = Counter[str]()
        for _, format, text in words:
            letters[format] += len(text)
        usual = letters.most_common(1)[0][0]
        self._usual = next(run for run, format, _ in words if format == usual)
        self.content = InlineTexts(
            divided([part for run, format, text in words for part in _parts(text, None if format == usual else run)])
        )

    def fill(self, texts: Sequence[str]) -> None:
        """Give the element these texts, in the same formats."""
        opened, place = [self._usual], self._string.index(self._runs[0])
        for run in self._runs:
            self._string.remove(run)
        for piece in self.content.pieces(texts, lambda _: False):
            if piece is None:
                opened.pop()
            elif not isinstance(piece, str):
                opened.append(piece)
            elif piece:
                self._string.insert(place, deepcopy(opened[-1]))
                _set_text(self._string[place].find("{*}t"), piece)
                place += 1


def _parts(text: str, run: Any) -> Iterator[InlinePart[Any]]:
    """Yield the words and the line breaks of a run, which is None if its format is the usual one."""
    for number, words in enumerate(re.split(r"(\s*\n\s*)", text)):
        part = InlinePart("words", words, words)
        if number % 2:
            yield InlinePart("break", words)
        else:
            yield from (part,) if run is None else (InlinePart("open", run), part, InlinePart("close", None))


def has_formats(string: Any) -> bool:
    """Return True if the runs of an element have different formats."""
    return string.find("{*}r") is not None and len({*map(_format, string.findall("{*}r"))}) > 1


def _format(run: Any) -> str:
    """Return the format of a run, as text by which it can be compared."""
    nodes = (node for format in run.iterfind("{*}rPr") for node in format.iter())
    return "".join(f"{node.tag}{sorted((k, v) for k, v in node.items() if k not in _OF_NO_FORMAT)}" for node in nodes)
