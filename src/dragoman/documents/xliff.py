"""XLIFF 1.2 and 2: units that are not translated yet. What is translated says that a person should look at it."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dragoman.documents.document import Document, check_cancelled
from dragoman.documents.inline import Inline, Part, trimmed
from dragoman.documents.json_texts import BRANCHES
from dragoman.documents.reading import check_languages, xml_bytes, xml_tree
from dragoman.errors import DataError
from dragoman.inference.sentences import has_words

_NEW = ("new", "initial", "needs-translation")
"""States of a unit whose target may be a copy of its source, as many tools write it."""
_AROUND = frozenset("g mrk pc".split())
"""Elements around words that are translated; all others stand for something."""
_HALVES: Mapping[str, Literal["open", "close"]] = {
    **dict.fromkeys(("bpt", "bx", "sc", "sm", "START"), "open"),
    **dict.fromkeys(("ept", "ex", "ec", "em", "CLOSE"), "close"),
}
"""What stands for one half of a pair, by the element's name or the beginning of its id."""


class Tag(NamedTuple):
    """One end of an element, or, alone, all of it."""

    kind: str
    element: Any


class Unit(NamedTuple):
    """A source and what it is translated into."""

    element: Any
    parts: Sequence[Part[Tag]]
    """Of the source."""
    trim: tuple[int, int]
    inline: Inline[Tag]


class Xliff(Document):
    """A file of a translation tool."""

    def __init__(self, tree: Any, target: str) -> None:
        super().__init__()
        self._tree, self._target = tree, target
        self._units = [unit for element in tree.iter("{*}trans-unit", "{*}segment") for unit in _units(element)]
        self.texts = [unit.inline.text for unit in self._units]

    def place(self, number: int) -> str:
        return f"line {self._units[number].element.sourceline:,}"

    def translated(self, translations: Sequence[str]) -> bytes:
        for unit, translation in zip(self._units, translations, strict=True):
            source, target = unit.element.find("{*}source"), unit.element.find("{*}target")
            if target is None:
                target = source.makeelement(source.tag.replace("source", "target"))
                target.tail = source.tail
                after = unit.element.find("{*}seg-source")
                (source if after is None else after).addnext(target)
            before, behind = unit.parts[: unit.trim[0]], unit.parts[unit.trim[1] :]
            outer = [[part.words if part.kind == "words" else part.piece for part in some] for some in (before, behind)]
            first, last = unit.parts[unit.trim[0]].words, unit.parts[unit.trim[1] - 1].words
            spaces = first[: len(first) - len(first.lstrip())], last[len(last.rstrip()) :]
            _fill(target, [*outer[0], spaces[0], *unit.inline.parts(translation), spaces[1], *outer[1]])
            if unit.element.tag.endswith("trans-unit"):
                target.set("state", "needs-review-translation")
                target.set("state-qualifier", "mt-suggestion")
            else:
                unit.element.set("state", "translated")
        name = "trgLang" if self._tree.getroot().get("srcLang") else "target-language"
        for element in [self._tree.getroot()] if name == "trgLang" else self._tree.iter("{*}file"):
            if not element.get(name):
                element.set(name, self._target)
        return xml_bytes(self._tree) + b"\n"


def _units(element: Any) -> Iterator[Unit]:
    """The unit of an element, if there is something to translate."""
    check_cancelled()
    source, target = element.find("{*}source"), element.find("{*}target")
    above = (node.get("translate") for node in (element, *element.iterancestors()))
    if source is None or next(filter(None, above), "") == "no":
        return
    words, written = ("" if side is None else "".join(side.itertext()).strip() for side in (source, target))
    is_new = target is not None and (target.get("state") or element.get("state")) in _NEW
    if BRANCHES.search(words) or (written and not (is_new and written == words)):
        return
    parts = [*_parts(source)]
    if any(part.kind == "words" and has_words(part.words) for part in parts):
        trim = trimmed(parts)
        yield Unit(element, parts, trim, Inline.of(parts[slice(*trim)]))


def _parts(element: Any) -> Iterator[Part[Tag]]:
    """The words and the elements in an element, in order."""
    nothing = Tag("words", None)
    if element.text:
        yield Part("words", nothing, element.text)
    for child in element:
        name = child.tag.rpartition("}")[2] if isinstance(child.tag, str) else ""
        if name in _AROUND and child.get("translate") != "no" and child.get("mtype") != "protected":
            yield Part("open", Tag("open", child))
            yield from _parts(child)
            yield Part("close", Tag("close", child))
        else:
            half = _HALVES.get(name) or _HALVES.get((child.get("id") or "").partition("_")[0])
            yield Part(half or ("after" if name in ("", "it") else "single"), Tag("single", child))
        if child.tail:
            yield Part("words", nothing, child.tail)


def _fill(target: Any, pieces: Sequence[str | Tag]) -> None:
    """Gives an element these words and elements as its content."""
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
    """A file of XLIFF and its units.

    Raises:
        DataError: it is damaged or no XLIFF, uses entities of its own, or is for other languages.
        MissingExtra: lxml is not installed.
    """
    tree = xml_tree(content, path)
    if not tree.getroot().tag.endswith("xliff"):
        raise DataError(f"{path} is XML, but no XLIFF: it is {tree.getroot().tag[:60]}")
    root = tree.getroot().get
    for file in tree.iter("{*}file"):
        source, target = root("srcLang", file.get("source-language")), root("trgLang", file.get("target-language"))
        check_languages(path, source, target, languages)
    return Xliff(tree, languages[1])
