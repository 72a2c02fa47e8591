"""Text in several formats, as in cells of workbooks and paragraphs of drawings (DrawingML): runs (`r`), each with its
format (`rPr`) and its words (`t`). In a paragraph, line breaks (`br`), fields (`fld`) and formulas are between them.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import chain, groupby
from typing import Any, Literal

from dragoman.errors import DataError
from dragoman.formats.document import lines_in, with_lines
from dragoman.formats.inline import InlinePart, InlineTexts, check_length, divided, refers_to_note

_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_OF_NO_FORMAT = frozenset("altLang dirty err kern lang noProof smtClean spc tooltip".split())
"""Attributes of a run that say nothing about its format; spaces between letters differ in each run of a former PDF."""
_RAISED = re.compile(r"'baseline', '[1-9]|'superscript'")
_MOST_FORMATS = 1_000  # of a run, because they are copied for each piece of a text
_LENGTH_OF_ELEMENT = 10
"""Characters that take as much memory as an element of a text."""
_STAYS = frozenset("endParaRPr pPr phoneticPr rPh".split())
_KINDS: dict[str, Literal["break", "value"]] = {"br": "break", "fld": "value"}


def _pieces(string: Any) -> list[Any]:
    """Return the elements that hold a text, without its pronunciation."""
    in_runs = (run.find("{*}t") for run in string.findall("{*}r"))
    return [*string.findall("{*}t"), *(piece for piece in in_runs if piece is not None)] or [string]


def text_of(string: Any) -> str:
    """Return all words of an element."""
    return "".join(piece.text or "" for piece in _pieces(string))


def texts_in(string: Any) -> list[str]:
    """Return the texts of an element: its lines, or its sentences with their formats as tags."""
    return RichText(string).content.texts if _has_markup(string) else lines_in(text_of(string))


def translate_string(string: Any, translations: Mapping[str, str], language: str) -> bool:
    """Replace the texts of an element by their translations into a language, and return True if one has changed."""
    rich = RichText(string) if _has_markup(string) else None
    texts = rich.content.texts if rich else lines_in(text_of(string))
    translated = [translations[text] for text in texts]
    if translated == texts:
        return False
    for reading in string.findall("{*}rPh"):  # the pronunciation of the old texts
        string.remove(reading)
    if rich:
        rich.fill(translated, language)
    else:
        first, *others = _pieces(string)
        text = with_lines(text_of(string), translated)
        for piece in others:
            string.remove(piece if piece.getparent() is string else piece.getparent())
        _set_text(first, text)
    return True


def _set_text(element: Any, text: str) -> None:
    element.text = text
    if "spreadsheetml" in element.tag and element.tag.endswith("}t"):
        element.set(_SPACE, "preserve")


class RichText:
    """A text in several formats."""

    def __init__(self, string: Any) -> None:
        """Read the content of an element; runs in the format of most letters have no markup."""
        self._string = string
        self._content = [child for child in string if isinstance(child.tag, str) and _name(child) not in _STAYS]
        words = {run: run.findtext("{*}t") for run in self._content if _name(run) == "r"}
        runs = {run: text for run, text in words.items() if text is not None}
        check_length(sum(map(len, runs.values())) + _LENGTH_OF_ELEMENT * len(self._content))
        formats = {
            run: format
            for (run, text), before in zip(runs.items(), ["", *runs.values()], strict=False)
            if not (_RAISED.search(format := _format(run)) and refers_to_note(text.strip(), before))
        }
        self._formats, letters = formats, Counter[str]()
        for run, format in formats.items():
            letters[format] += len(runs[run])
        usual = max(letters, key=letters.__getitem__, default="")
        self._usual = next((run for run, format in formats.items() if format == usual), None)
        parts = list[InlinePart[Any]]()
        for format, (first, *others) in groupby(self._content, lambda child: formats.get(child, child)):
            if format is first:
                parts.append(InlinePart(_KINDS.get(_name(first), "single"), first))
            else:
                parts += _parts("".join(runs[run] for run in (first, *others)), None if format == usual else first)
        between_tabs = groupby(parts, lambda part: part.piece == "\t")
        self.content = InlineTexts(chain.from_iterable(divided([*some]) for _, some in between_tabs))

    def fill(self, texts: Sequence[str], language: str) -> None:
        """Give the element these texts, in the same formats."""
        opened, place, written = [self._usual], self._string.index(self._content[0]), list[Any]()
        for child in self._content:
            self._string.remove(child)
        pieces = self.content.pieces(texts, lambda _: False)
        for is_words, some in groupby(pieces, lambda piece: isinstance(piece, str)):
            if is_words and (words := "".join(some)):
                written.append(_run(opened[-1], words, language))
            for piece in () if is_words else some:
                if piece is None:
                    opened.pop()
                elif piece in self._formats:
                    opened.append(piece)
                else:
                    written.append(piece)
        self._string[place:place] = written


def _run(run: Any, words: str, language: str) -> Any:
    """Return a copy of a run with other words, of which it is not known that they are misspelt."""
    copy = deepcopy(run)
    _set_text(copy.find("{*}t"), words)
    for format in copy.iterfind("{*}rPr[@lang]"):
        format.set("lang", language)
        format.attrib.pop("err", None)
    return copy


def _parts(text: str, run: Any) -> Iterator[InlinePart[Any]]:
    """Yield the words, line breaks and tabs of a run, which is None if its format is the usual one."""
    for number, words in enumerate(re.split(r"(\t|\s*\n\s*)", text)):
        part = InlinePart("words", words, words)
        if number % 2:
            yield InlinePart("break", words)
        elif words:
            yield from (part,) if run is None else (InlinePart("open", run), part, InlinePart("close", None))


def _has_markup(string: Any) -> bool:
    """Return True if an element is a paragraph of a drawing, or its runs have different formats."""
    return _name(string) == "p" or has_formats(string)


def has_formats(string: Any) -> bool:
    """Return True if the runs of an element have different formats."""
    return string.find("{*}r") is not None and len({*map(_format, string.findall("{*}r"))}) > 1


def _name(element: Any) -> str:
    return element.tag.rpartition("}")[2]


def _format(run: Any) -> str:
    """Return the format of a run, as text by which it can be compared."""
    nodes = [node for format in run.iterfind("{*}rPr") for node in format.iter()]
    if len(nodes) > _MOST_FORMATS:
        raise DataError(f"the document is damaged: a run has more than {_MOST_FORMATS:,} formats")
    described = [
        (node, sorted((k, v) for k, v in node.items() if k not in _OF_NO_FORMAT and (k, v) != ("baseline", "0")))
        for node in nodes
    ]
    return "".join(f"{node.tag}{attributes}" for node, attributes in described if attributes or node is not nodes[0])
