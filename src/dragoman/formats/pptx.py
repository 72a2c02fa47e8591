"""Presentations (PPTX): the text of slides with their tables, charts and diagrams, of notes and of comments.

Slides come in the order in which they are shown. Equal texts are one, so that a diagram and the drawing of it that a
file also holds get the same translation. Layouts and masters stay, and so does the data of charts.
"""

import posixpath
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from zipfile import ZipFile

from dragoman.errors import DataError
from dragoman.formats.archives import open_archive, opening, with_parts
from dragoman.formats.cancelling import check_cancelled
from dragoman.formats.document import Document, Left
from dragoman.formats.drawing import NAMES_LEFT, drawn_texts, names_in_chart, translate_drawing
from dragoman.formats.xml import xml_bytes, xml_tree

_KIND = "a presentation (PPTX)"
_DRAWN = ("chart", "chartEx", "chartUserShapes", "diagramData", "diagramDrawing")
_PLACES = dict.fromkeys(_DRAWN, "{}") | {"notesSlide": "notes of {}", "comments": "comment on {}"}
"""The kinds of parts with texts that belong to a slide, in order, and their places."""
_EMBEDDED = ("oleObject", "package")


class Presentation(Document):
    """A presentation. Equal texts are one."""

    def __init__(self, archive: ZipFile, path: Path, language: str) -> None:
        super().__init__()
        self._archive, self._path, self._language = archive, path, language
        self._files = {name.casefold(): name for name in archive.namelist()}
        self._places, parts = dict[str, str](), dict[str, None]()
        for number, slide in enumerate(self._slides(), 1):
            waiting = deque([(slide, f"slide {number:,}")])
            while waiting:
                part, place = waiting.popleft()
                if part not in parts:
                    parts[part] = None
                    waiting += self._add(part, place)
        self._parts, self.texts = [*parts], [*self._places]

    def _slides(self) -> Iterator[str]:
        """Yield the parts of the slides in the order of the presentation."""
        main = dict(self._related("").values())["officeDocument"]
        root = self._tree(main).getroot()
        if not root.tag.endswith("}presentation"):
            raise DataError(f"{self._path} is not {_KIND}: it has no list of slides")
        related = self._related(main)
        for number, slide in enumerate(root.iterfind("{*}sldIdLst/{*}sldId"), 1):
            parts = [related[value][1] for name, value in slide.items() if name.endswith("}id") and value in related]
            if not parts:
                raise DataError(f"{self._path} is damaged: slide {number:,} of its list is not in the file")
            yield parts[0]

    def _add(self, part: str, place: str) -> list[tuple[str, str]]:
        """Add the texts of a part, and return the parts that belong to it, with their places."""
        root, related = self._tree(part).getroot(), [*self._related(part).values()]
        for _, text in drawn_texts(root):
            self._places.setdefault(text, place)
        self.left += [Left(NAMES_LEFT, place) for _ in names_in_chart(root)]
        if root.tag.endswith("}sld"):
            self.left += [Left("it is an embedded object", place) for kind, _ in related if kind in _EMBEDDED]
        return [(target, _PLACES[kind].format(place)) for name in _PLACES for kind, target in related if kind == name]

    def _tree(self, part: str) -> Any:
        check_cancelled()
        return xml_tree(self._archive.read(part), self._path / part)

    def _related(self, part: str) -> dict[str, tuple[str, str]]:
        """Return the kinds and names of the parts that a part refers to, by the identifiers of the relationships."""
        folder, name = posixpath.split(part)
        relations = self._files.get(posixpath.join(folder, "_rels", f"{name}.rels").casefold())
        related = dict[str, tuple[str, str]]()
        for relation in self._tree(relations).iter("{*}Relationship") if relations else ():
            path = posixpath.normpath(posixpath.join("/", folder, unquote(relation.get("Target", "")))).lstrip("/")
            if relation.get("TargetMode") != "External" and (target := self._files.get(path.casefold())):
                related[relation.get("Id", "")] = relation.get("Type", "").rpartition("/")[2], target
        return related

    def place(self, number: int) -> str:
        return self._places[self.texts[number]]

    def translated(self, translations: Sequence[str]) -> bytes:
        by_text, changed = dict(zip(self.texts, translations, strict=True)), dict[str, bytes]()
        for part in self._parts:
            tree = self._tree(part)
            if translate_drawing(tree.getroot(), by_text, self._language):
                changed[part] = xml_bytes(tree)
        return with_parts(self._archive, changed)


def read(content: bytes, path: Path, languages: tuple[str, str]) -> Presentation:
    """Read a presentation and the texts that its slides show.

    Raises:
        DataError: it is damaged or no presentation.
        MissingExtra: lxml is not installed.
    """
    with opening(path, _KIND):
        return Presentation(open_archive(content), path, languages[1])
