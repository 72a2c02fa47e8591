"""XLIFF 1.2 and 2, also of CAT tools: translated units for training, those not translated yet for translating.

A unit that is translated here says in its state that a person should look at it.
"""

import re
from codecs import BOM_UTF8
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dragoman.errors import DataError
from dragoman.formats import cat_tools
from dragoman.formats.cancelling import check_cancelled
from dragoman.formats.column_names import language_column
from dragoman.formats.document import ALTERNATIVES, Document, Left
from dragoman.formats.inline import InlinePart, InlineTexts, divided
from dragoman.formats.lines import EncodingErrors
from dragoman.formats.reading import check_languages
from dragoman.formats.rows import NOT_TO_TRANSLATE, UNTRANSLATED, Texts
from dragoman.formats.values import is_code
from dragoman.formats.xml import segment_text, stream_texts, xml_bytes, xml_tree
from dragoman.surface.sentences import BRANCHES, has_words

UNFINISHED = "entries in a state before translation or review left out"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_NEW = ("new", "initial", "needs-translation")
"""States of a unit whose target may be a copy of its source, which many tools write."""
_AROUND = frozenset("g mrk pc".split())
"""Elements around words that are translated; all others represent something else."""
_HALVES: Mapping[str, Literal["open", "close"]] = {
    **dict.fromkeys(("bpt", "bx", "sc", "sm", "START"), "open"),
    **dict.fromkeys(("ept", "ex", "ec", "em", "CLOSE"), "close"),
}
"""The half of a pair that an element represents, by its name or the beginning of its id."""


def rows(path: Path, _encoding_errors: EncodingErrors, repairs: Counter[str]) -> Iterator[tuple[int, Texts]]:
    """Yield source and target of the units of XLIFF 1.2, or of the segments of XLIFF 2. The parts of a segmented target
    are paired with those of its `seg-source`; proposals (`alt-trans`) are not read.

    Raises:
        DataError, MissingExtra: as in `stream_texts`.
    """

    def texts_of(unit: Any) -> Iterator[Texts]:
        source, target = unit.find("{*}source"), unit.find("{*}target")
        above = [unit, *unit.iterancestors()]
        state = (unit if target is None else target).get("state") or unit.get("state") or ""
        if next((node.get("translate") for node in above if node.get("translate")), "") == "no":
            repairs[NOT_TO_TRANSLATE] += 1
        elif source is None or target is None or not "".join(target.itertext()).strip():
            repairs[UNTRANSLATED] += 1
        elif state in ("new", "initial") or state.startswith("needs-"):
            repairs[UNFINISHED] += 1
        else:
            names = _language_of(above, "source-language", "srcLang"), _language_of(above, "target-language", "trgLang")
            if not all(names) or names[0] == names[1]:
                names = "source", "target"
            source_parts, target_parts = _segments_by_id(unit.find("{*}seg-source")), _segments_by_id(target)
            pairs = [(source, target)]
            if source_parts and source_parts.keys() == target_parts.keys():
                pairs = [(source_parts[key], target_parts[key]) for key in source_parts]
            for pair in pairs:
                yield dict(zip(names, (segment_text(side, path) for side in pair), strict=True))

    return stream_texts(path, ("{*}trans-unit", "{*}segment"), texts_of, repairs)


def _segments_by_id(element: Any) -> dict[str, Any]:
    marks = [] if element is None else element.iterfind(".//{*}mrk[@mtype='seg']")
    return {mark.get("mid", ""): mark for mark in marks}


def _language_of(nodes: Sequence[Any], *names: str) -> str:
    """Return the column of the language that the first of these attributes names."""
    return language_column(next((value for node in nodes for name in names if (value := node.get(name))), ""))


class ElementEnd(NamedTuple):
    """One end of an element, or all of it if it has no other end."""

    kind: str
    element: Any


class Unit(NamedTuple):
    """A source, or a segment of it, and what it is translated into."""

    element: Any
    target: Any
    """A copy of the source until its words are replaced."""
    content: InlineTexts[str | ElementEnd]
    """The words and elements of the source."""
    definition: Any
    """The element in which a tool describes a segment, if it has its own."""


class Xliff(Document):
    """An XLIFF file, of version 1.2 or 2."""

    def __init__(self, tree: Any, target: str, line_end: str, mark: bytes) -> None:
        super().__init__()
        self._tree, self._target, self._line_end, self._mark = tree, target, line_end, mark
        elements = [*tree.iter("{*}trans-unit", "{*}segment")]
        self._units = [unit for element in elements for unit in self._units_of(element)]
        self.texts = [text for unit in self._units for text in unit.content.texts]
        self._places = [unit for unit in self._units for _ in unit.content.texts]

    def place(self, number: int) -> str:
        unit = self._places[number]
        segment = f", segment {unit.target.get('mid')}" if unit.definition is not None else ""
        return f"line {unit.element.sourceline:,}{segment}"

    def translated(self, translations: Sequence[str]) -> bytes:
        following, self.texts = iter(translations), list[str]()
        for unit in self._units:
            check_cancelled()
            texts = [*islice(following, len(unit.content.texts))]
            _fill(unit.target, unit.content.pieces(texts))
            limit = _above(unit.element, "maxwidth") if _above(unit.element, "size-unit") == "char" else ""
            if limit.isdecimal() and len(_text(unit.element.find("{*}target"))) > int(limit[:9]):
                self.left.append(
                    Left("the translation is longer than its maxwidth", f"line {unit.element.sourceline:,}")
                )
                _fill(unit.target, unit.content.pieces(unit.content.texts))
                unit.element.find("{*}target").set("state", "needs-translation")
                continue
            self.texts += unit.content.texts
            if texts == unit.content.texts and BRANCHES.search("".join(texts)):  # it could not be divided
                unit.element.find("{*}target").set("state", "needs-translation")
                continue
            if cat_tools.mark(unit.element, unit.definition, self.needs_review):
                continue
            if unit.element.tag.endswith("trans-unit"):
                state = "needs-review-translation" if self.needs_review else "translated"
                unit.element.find("{*}target").set("state", state)
                unit.element.find("{*}target").set("state-qualifier", "mt-suggestion")
            else:
                unit.element.set("state", "translated")
        name = "trgLang" if self._tree.getroot().get("srcLang") else "target-language"
        for element in [self._tree.getroot()] if name == "trgLang" else self._tree.iter("{*}file"):
            if not element.get(name):
                element.set(name, self._target)
        encoding = self._tree.docinfo.encoding or "UTF-8"
        written = f"{xml_bytes(self._tree).decode(encoding)}\n".replace("\n", self._line_end).encode(encoding)
        return self._mark + written

    def _units_of(self, element: Any) -> Iterator[Unit]:
        """Yield the units to translate in an element: its source, or each segment of it that has no translation."""
        check_cancelled()
        source, target = element.find("{*}source"), element.find("{*}target")
        is_kept = _above(element, "translate") == "no" or cat_tools.is_held(element)
        if source is None or not has_words(_text(source)) or is_kept:
            return
        segmented = element.find("{*}seg-source")
        basis = segmented if _segments(segmented) else source
        definitions = cat_tools.definitions(element)
        held = {name for name, definition in definitions.items() if cat_tools.is_held(definition)}
        is_new = target is not None and (target.get("state") or element.get("state")) in _NEW
        is_new = is_new or cat_tools.is_untouched(element)
        is_begun = bool(_text(target)) and not (is_new and _text(target) == _text(source))
        if is_begun and len(_translated_segments(target)) in (0, len(_translated_segments(basis))):
            return
        if reason := _reason(source, basis):
            self.left.append(Left(reason, f"line {element.sourceline:,}"))
            return
        if target is None:
            attributes = {name: value for name, value in source.items() if name == _SPACE}
            target = source.makeelement(source.tag.replace("source", "target"), attributes)
            target.tail = source.tail
            (source if segmented is None else segmented).addnext(target)
        for node in self._new_segments(element, basis, target, is_begun, held):
            parts, definition = [*_parts(node, element)], definitions.get(node.get("mid", ""))
            if definition is not None or any(has_words(part.words) for part in parts):
                content = InlineTexts(_lines(parts, _above(source, _SPACE) == "preserve"))
                yield Unit(element, node, content, definition)

    def _new_segments(self, element: Any, basis: Any, target: Any, is_begun: bool, held: set[str]) -> Iterator[Any]:
        """Yield the segments of a target that have no translation, or all of it, with the words of the source."""
        old = defaultdict[str, list[Any]](list)
        for node in _segments(target):
            old[node.get("mid", "")].append(node)
        if not is_begun:
            target[:], target.text = deepcopy(basis)[:], basis.text
            yield from () if _segments(basis) else [target]
        for segment, node in zip(_segments(basis), _segments(basis if is_begun else target), strict=True):
            name = segment.get("mid", "")
            if is_begun and len(old[name]) != 1:
                self.left.append(Left("its translation lacks a segment", f"line {element.sourceline:,}"))
            elif not is_begun and name not in held:
                yield node
            elif not is_begun:
                node[:], node.text = [*next(iter(old[name]), ())], None
            elif name not in held and _text(segment) and not _text(old[name][0]):
                old[name][0][:], old[name][0].text = deepcopy(segment)[:], segment.text
                yield old[name][0]


def _reason(source: Any, basis: Any) -> str:
    """Return why a source cannot be translated, or nothing."""
    if any(has_words(_text(part)) for part in source.iter("{*}sub")):
        return "it has a text in a code (<sub>)"
    if " " not in _text(source) and is_code(_text(source)):
        return "it is a key or another name of a program"
    outside = basis.xpath(".//text()[not(ancestor::*[@mtype='seg'])]") if _segments(basis) else ()
    return "some of its words are in no segment" if has_words("".join(outside)) else ""


def _above(element: Any, name: str) -> str:
    """Return an attribute of an element or, if it has none, of the nearest element around it that has."""
    return next(filter(None, (node.get(name) for node in (element, *element.iterancestors()))), "")


def _segments(side: Any) -> list[Any]:
    return [] if side is None else side.xpath(".//*[@mtype='seg']")


def _translated_segments(side: Any) -> list[str]:
    return [*filter(None, map(_text, _segments(side)))]


def _text(side: Any) -> str:
    return "" if side is None else "".join(side.itertext()).strip()


def _parts(element: Any, unit: Any) -> Iterator[InlinePart[str | ElementEnd]]:
    """Yield the words and the elements in an element of a unit, in order."""
    yield from cat_tools.words(element.text, unit)
    for child in element:
        name = child.tag.rpartition("}")[2] if isinstance(child.tag, str) else ""
        if name in _AROUND and child.get("translate") != "no" and child.get("mtype") != "protected":
            yield InlinePart("open", ElementEnd("open", child))
            yield from _parts(child, unit)
            yield InlinePart("close", ElementEnd("close", child))
        else:
            half = _HALVES.get(name) or _HALVES.get((child.get("id") or "").partition("_")[0])
            yield InlinePart(half or ("after" if name in ("", "it") else "single"), ElementEnd("single", child))
        yield from cat_tools.words(child.tail, unit)


def _lines(
    parts: Sequence[InlinePart[str | ElementEnd]], keeps_lines: bool
) -> Iterator[Sequence[InlinePart[str | ElementEnd]]]:
    """Yield the forms of a message, and the pieces that tabs and the ends of sentences and lines divide if these must
    stay; also what divides them. A message with branches is one piece.
    """
    if BRANCHES.search("".join(part.words for part in parts)):
        yield parts
        return
    held = list[InlinePart[str | ElementEnd]]()
    dividing = rf"(\s*(?:{ALTERNATIVES}|[\n\t])\s*)" if keeps_lines else rf"(\s*{ALTERNATIVES}\s*)"
    for part in parts:
        for number, words in enumerate(re.split(dividing, part.words)):
            if number % 2 and words.strip(" \n"):
                yield from (*divided(held), [part._replace(words=words)])
                held = []
            elif number % 2:
                held.append(InlinePart("break", words))
            elif words or part.kind != "words":
                held.append(part._replace(words=words))
    yield from divided(held)


def _fill(target: Any, pieces: Iterable[str | ElementEnd]) -> None:
    """Give an element these words and elements as its content."""
    del target[:]
    target.text = None
    opened, last = [target], None
    for piece in pieces:
        if isinstance(piece, str):
            if last is None:
                opened[-1].text = (opened[-1].text or "") + piece
            else:
                last.tail = (last.tail or "") + piece
        elif piece.kind == "close":
            last = opened.pop()
        else:
            element = deepcopy(piece.element)
            element.tail = None
            opened[-1].append(element)
            last = element
            if piece.kind == "open":
                del element[:]
                element.text = last = None
                opened.append(element)


def read(content: bytes, path: Path, languages: tuple[str, str]) -> Xliff:
    """Read a file of XLIFF and its units.

    Raises:
        DataError: it is damaged or no XLIFF, declares entities, or is for other languages.
        MissingExtra: lxml is not installed.
    """
    tree = xml_tree(content, path)
    if not tree.getroot().tag.endswith("xliff"):
        raise DataError(f"{path} is XML, but no XLIFF: it is {tree.getroot().tag[:60]}")
    root = tree.getroot().get
    for file in tree.iter("{*}file"):
        source, target = root("srcLang", file.get("source-language")), root("trgLang", file.get("target-language"))
        check_languages(path, source, target, languages)
    line_end = "\r\n" if b"\r\n" in content.replace(b"\0", b"") else "\n"
    return Xliff(tree, languages[1], line_end, BOM_UTF8 if content.startswith(BOM_UTF8) else b"")
