"""Word documents (DOCX): paragraphs of text, tables, boxes, headers, footers, notes, comments, with their formats, and
descriptions of pictures and tables. Charts and diagrams are translated as in presentations.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from copy import deepcopy
from io import BytesIO
from itertools import accumulate, chain, islice, repeat
from pathlib import Path
from typing import Any, Literal
from zipfile import ZipFile

from dragoman.errors import DataError, Error, optional
from dragoman.formats.cancelling import check_cancelled
from dragoman.formats.document import Document, Left, lines_in, with_lines
from dragoman.formats.drawing import NAMES_LEFT, drawn_texts, names_in_chart, translate_drawing
from dragoman.formats.formatted import LANGUAGE_KINDS, Format, Paragraph, TextMarkup, children
from dragoman.formats.inline import InlinePart, refers_to_note
from dragoman.formats.xml import xml_bytes, xml_tree
from dragoman.languages import base_language
from dragoman.surface.sentences import has_words

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_BREAKS = frozenset((f"{_W}br", f"{_W}tab"))
_AROUND = frozenset(f"{_W}{name}" for name in "bdo customXml dir fldSimple hyperlink ins moveTo sdt smartTag".split())
_DROPPED = frozenset(f"{_W}{name}" for name in ("proofErr", "lastRenderedPageBreak"))
_UNSEEN = re.compile(rf"{re.escape(_W)}(?:(\w+Start)|\w+End|annotationRef|commentReference|del|moveFrom)")
"""Elements that take no space on the page; those that match the group begin something."""
_MAIN = "openxmlformats-officedocument.wordprocessingml.template ms-word.document.macroEnabled".split()
"""Kinds of templates and documents with macros, which python-docx does not know."""
_HYPHENS = {f"{_W}noBreakHyphen": "\u2011", f"{_W}softHyphen": "\u00ad"}
_MOST_FORMATS = 1_000  # of a run, because they are copied for each piece of a paragraph
_NOTES = ("footnotes+xml", "endnotes+xml", "comments+xml")
_DESCRIBED = (
    "{*}docPr",
    "{*}hlinkClick",
    "{urn:schemas-microsoft-com:vml}*",
    *(f"{_W}{name}" for name in ("hyperlink", "tblCaption", "tblDescription")),
)
_DESCRIPTIONS = ("alt", "descr", "string", "title", "tooltip", f"{_W}tooltip", f"{_W}val")
"""Elements with descriptions of pictures, links and tables, or drawn words, and the attributes that hold them."""
_DRAWN = re.compile(r"/word/(?:charts/chart|diagrams/data|diagrams/drawing|drawings/drawing)[^/]*\.xml")
_LANGUAGE_KINDS = {"asian": "eastAsia", "complex": "bidi"}
_OF_FIELDS = "comboBox ddList dropDownList fldChar fldSimple instrText noBreakHyphen softHyphen t".split()
_COPIED = re.compile(
    r"\s*(?:ADDRESSBLOCK|DATE|FORMDROPDOWN|GREETINGLINE|MERGEFIELD|NUMPAGES|PAGE|(?:NOTE|PAGE|STYLE)?REF|SEQ|TIME)\b",
    re.IGNORECASE,
)
_READABLE = re.compile(
    r"\A\s*(?:ASK|FILLIN|HYPERLINK\b.*\\o|IF|MACROBUTTON|QUOTE|SET|TC|XE)\b(.*)", re.IGNORECASE | re.DOTALL
)
"""Instructions of fields whose result is copied, and of those that hold texts for readers."""


class Docx(Document):
    """A Word document."""

    def __init__(self, document: Any, path: Path, language: str) -> None:
        super().__init__()
        self._document, self._path, self._language = document, path, language
        parts = [*document.part.package.iter_parts()]
        known = {part for part in parts if hasattr(part, "element")}  # the library knows notes only as bytes
        self._notes = {
            part: xml_tree(part.blob, path)
            for part in parts
            if part not in known and part.content_type.endswith(_NOTES)
        }
        roots = [part.element for part in parts if part in known]
        roots += [tree.getroot() for tree in self._notes.values()]
        numbers = {paragraph: at for at, paragraph in enumerate((p for root in roots for p in root.iter(f"{_W}p")), 1)}
        styles = {style.get(f"{_W}styleId"): style for root in roots for style in root.iter(f"{_W}style")}
        stays = dict[Any, str]()
        for paragraph in numbers:
            check_cancelled()
            runs = {run: _is_hidden(run, styles) for run in _runs(paragraph) if _words(run).strip()}
            hidden = [run for run, is_hidden in runs.items() if is_hidden and not all(runs.values())]
            stays |= {run: "it is hidden" * has_words(_words(run)) for run in hidden}
        stays |= chain.from_iterable(map(_fixed, roots))
        reported = dict.fromkeys(zip(map(_above, stays), stays.values(), strict=True))
        self.left = [Left(why, f"paragraph {numbers.get(paragraph, 0):,}") for paragraph, why in reported if why]
        self._drawn = {part: xml_tree(part.blob, path) for part in parts if _DRAWN.fullmatch(str(part.partname))}
        drawn = [(part, tree.getroot()) for part, tree in self._drawn.items()]
        self.left += [Left(NAMES_LEFT, str(part.partname)) for part, root in drawn for _ in names_in_chart(root)]
        read = (
            (number, Paragraph.from_parts(element, _fields(_parts(element, stays.keys()))))
            for element, number in numbers.items()
        )
        numbered = [(number, paragraph) for number, paragraph in read if paragraph]
        self._paragraphs = [paragraph for _, paragraph in numbered]
        self._styles = next((root for root in roots if root.tag == f"{_W}styles"), None)
        described = ((node, name) for root in roots for node in root.iter(*_DESCRIBED) for name in _DESCRIPTIONS)
        self._descriptions = [(node, name) for node, name in described if has_words(node.get(name, ""))]
        self.texts = [text for paragraph in self._paragraphs for text in paragraph.content.texts]
        self._places = [f"paragraph {number:,}" for number, paragraph in numbered for _ in paragraph.content.texts]
        for node, name in self._descriptions:
            lines = lines_in(node.get(name))
            self.texts += lines
            self._places += [f"paragraph {numbers.get(_above(node), 0):,}"] * len(lines)
        places = dict[str, str]()  # equal texts in drawings are one
        for part, root in drawn:
            for _, text in drawn_texts(root):
                places.setdefault(text, str(part.partname))
        self.texts += places
        self._places += places.values()

    def place(self, number: int) -> str:
        return self._places[number]

    def translated(self, translations: Sequence[str]) -> bytes:
        following = iter(translations)
        texts = [[*islice(following, len(paragraph.content.texts))] for paragraph in self._paragraphs]
        # Backwards: a text box is in a paragraph, and moves with it when its own paragraphs are translated.
        for paragraph, written in reversed([*zip(self._paragraphs, texts, strict=True)]):
            check_cancelled()
            if written != paragraph.content.texts:
                paragraph.fill(written, _write, _content)
        for node, name in self._descriptions:
            node.set(name, with_lines(node.get(name), following))
        by_text = dict(zip(self.texts, translations, strict=True))
        for part, tree in self._drawn.items():
            if translate_drawing(tree.getroot(), by_text, self._language):
                part._blob = xml_bytes(tree)
        if self._styles is not None:
            _set_language(self._styles, self._language)
        for part, tree in self._notes.items():
            part._blob = xml_bytes(tree)
        written = BytesIO()
        with _with_library(self._path):
            self._document.save(written)
        return written.getvalue()


def _above(node: Any) -> Any:
    """Return the paragraph around an element, or None."""
    return next(node.iterancestors(f"{_W}p"), None)


def _set_language(styles: Any, language: str) -> None:
    """Name the language of the text, which programs use to check its spelling."""
    for lang in styles.iter(f"{_W}lang"):
        for kind in {"val", _LANGUAGE_KINDS.get(LANGUAGE_KINDS.get(base_language(language), ""), "val")}:
            lang.set(f"{_W}{kind}", language)


def _words(run: Any) -> str:
    return "".join(text.text or "" for text in run.findall(f"{_W}t"))


def _is_hidden(element: Any, styles: Mapping[str, Any], depth: int = 20) -> bool:
    """Return True if the format of a run or style, or the style that it names, hides words."""
    vanish = element.find(f"{_W}rPr/{_W}vanish")
    if vanish is not None:
        return vanish.get(f"{_W}val") not in ("0", "false", "off")
    named = element.find(f"{_W}basedOn" if element.tag == f"{_W}style" else f"{_W}rPr/{_W}rStyle")
    style = None if named is None else styles.get(named.get(f"{_W}val"))
    return style is not None and depth > 0 and _is_hidden(style, styles, depth - 1)


def _fixed(root: Any) -> Iterator[tuple[Any, str]]:
    """Yield the texts that fields and lists of choices keep, each with the reason if a reader would miss it."""
    nodes, begins = list[Any](), list[int]()
    for node in root.iter(*(f"{_W}{name}" for name in _OF_FIELDS)):
        check_cancelled()
        kind, says = node.get(f"{_W}fldCharType"), node.get(f"{_W}instr", "")
        if kind == "begin":
            begins.append(len(nodes))
        elif kind and begins:
            begin = begins.pop()
            says = "".join(run.text or "" for run in nodes[begin:] if run.tag == f"{_W}instrText")
            yield from zip(nodes[begin:], repeat(_reason(_READABLE.findall(says))), strict=False)
            del nodes[begin:]
            if kind == "separate":
                begins.append(begin if _COPIED.match(says) else sys.maxsize)
        elif says:
            yield from ((text, "") for text in node.iter(f"{_W}t") if _COPIED.match(says))
            yield node, _reason(_READABLE.findall(says))
        elif node.tag.endswith(("List", "Box")):
            shown = node.getparent().getparent().iter(f"{_W}t", f"{_W}fldChar")
            yield from zip(shown, repeat(_reason(word for item in node for word in item.attrib.values())), strict=False)
        else:
            nodes.append(node)


def _reason(words: Iterable[str]) -> str:
    return "it is in the instruction of a field or in a list of choices" * any(map(has_words, words))


def _format(run: Any) -> Format:
    """Return the format of a run, as text by which it can be compared, and as an element."""
    format = run.find(f"{_W}rPr")
    if format is None:
        return "", None
    if len(format.findall(".//*")) > _MOST_FORMATS:
        raise DataError(f"the document is damaged: a run has more than {_MOST_FORMATS:,} formats")
    format = deepcopy(format)
    for name in ("lang", "noProof"):
        for node in format.findall(f"{_W}{name}"):
            format.remove(node)
    return "".join(sorted(f"{node.tag}{sorted(node.attrib.items())}" for node in format)), format


def _content(element: Any) -> Any:
    """Return the element that holds the runs of a content control, link or the like."""
    return element.find(f"{_W}sdtContent") if element.tag == f"{_W}sdt" else element


def _runs(element: Any) -> Iterator[Any]:
    """Yield the runs of a paragraph, but not those of boxes in it, nor deleted ones."""
    for child in children(element):
        if child.tag == f"{_W}r":
            yield child
        elif child.tag in _AROUND and _content(child) is not None:
            yield from _runs(_content(child))


def _parts(element: Any, hidden: Set[Any]) -> Iterator[InlinePart[TextMarkup]]:
    for child in children(element):
        if child.tag in _DROPPED:
            continue
        if child.tag in _AROUND and _content(child) is not None:
            if (texts := [*child.iter(f"{_W}t")]) and hidden >= {*texts}:
                yield InlinePart("value", TextMarkup("alone", child))
                continue
            yield InlinePart("open", TextMarkup("around", child))
            yield from _parts(_content(child), hidden)
            yield InlinePart("close", TextMarkup("end"))
        elif child.tag == f"{_W}r" and child not in hidden:
            yield from _run(child, hidden)
        else:
            yield InlinePart("after" if child in hidden else _kind(child), TextMarkup("alone", child))


def _kind(element: Any) -> Literal["single", "before", "after"]:
    """Return the kind of part for an element that holds no words of the paragraph."""
    unseen = _UNSEEN.fullmatch(str(element.tag))
    return "single" if unseen is None else "before" if unseen[1] else "after"


def _run(run: Any, fixed: Set[Any]) -> Iterator[InlinePart[TextMarkup]]:
    format = _format(run)
    raised, previous = run.find(f"{_W}rPr/{_W}vertAlign[@{_W}val='superscript']"), run.getprevious()
    if raised is not None and refers_to_note(_words(run).strip(), "" if previous is None else _words(previous)):
        yield InlinePart("single", TextMarkup("alone", run))
        return
    for child in children(run):
        if (child.tag == f"{_W}t" or child.tag in _HYPHENS) and child not in fixed:
            yield InlinePart("words", TextMarkup("words", format=format), _HYPHENS.get(child.tag, child.text or ""))
        elif child.tag in (f"{_W}br", f"{_W}cr") and child.get(f"{_W}type", "textWrapping") == "textWrapping":
            yield InlinePart("break", TextMarkup("alone", child))
        elif child.tag not in _DROPPED:
            yield InlinePart(_kind(child), TextMarkup("break" if child.tag in _BREAKS else "alone", child))


def _fields(parts: Iterator[InlinePart[TextMarkup]]) -> Sequence[InlinePart[TextMarkup]]:
    """Return the parts with each field as a pair of markup around its result, of which the first is its instruction."""
    collected, begins = list[InlinePart[TextMarkup]](), list[list[int]]()
    for part in parts:
        check_cancelled()
        collected.append(part)
        kind = part.piece.element.get(f"{_W}fldCharType") if part.piece.kind == "alone" else None
        if kind == "begin":
            begins.append([len(collected) - 1])
        elif kind == "separate" and begins:
            begins[-1].append(len(collected))
        elif kind == "end" and begins:
            begin, middle, *_ = *begins.pop(), len(collected) - 1
            collected[begin:] = _as_pair(collected[begin:middle], collected[middle:-1], part)
    return collected


def _as_pair(
    instruction: Sequence[InlinePart[TextMarkup]],
    result: Sequence[InlinePart[TextMarkup]],
    end: InlinePart[TextMarkup],
) -> Sequence[InlinePart[TextMarkup]]:
    """Return a field as a pair of markup around its result, or as one piece if that shows no words."""
    depths = [*accumulate({"open": 1, "close": -1}.get(part.kind, 0) for part in result), 0]
    is_whole = min(depths) == depths[-2 if result else 0] == 0
    # It stays as it is if its instruction holds words, or its result only one half of other markup.
    if not is_whole or any(part.kind in ("words", "open", "close") for part in instruction):
        return [*instruction, *result, end]
    shows_words = any(part.kind in ("words", "open") for part in result)
    held = instruction if shows_words else [*instruction, *result, end]
    elements = [element for part in held for element in part.piece.elements or (part.piece.element,)]
    field = TextMarkup("field", elements=elements)
    if shows_words:
        return [InlinePart("open", field), *result, end._replace(kind="close")]
    return [InlinePart("value" if result else "after", field)]


def _write(container: Any, format: Any, piece: Any) -> None:
    """Add words in a format, or an element, which is moved in a run like its own, because a box has paragraphs."""
    content = piece
    if isinstance(piece, str):
        content = container.makeelement(f"{_W}t", {_SPACE: "preserve"})
        content.text = piece
    elif piece.getparent() is None or piece.getparent().tag != f"{_W}r":
        return container.append(piece)
    else:
        first = piece.getparent()[0]
        format = first if first.tag == f"{_W}rPr" else None
    run = container.makeelement(f"{_W}r")
    run.extend([content] if format is None else [deepcopy(format), content])
    return container.append(run)


@contextmanager
def _with_library(path: Path) -> Iterator[None]:
    """Raise `DataError` for whatever the library raises, which a broken part leads to."""
    try:
        yield
    except Error:
        raise
    except Exception as error:
        raise DataError(f"{path} is not a Word document (DOCX), or is damaged: {str(error)[:200]}") from None


def read(content: bytes, path: Path, languages: tuple[str, str]) -> Docx:
    """Read a Word document and its paragraphs.

    Raises:
        DataError: it is damaged or no Word document.
        MissingExtra: python-docx is not installed.
    """
    with optional("python-docx", "documents"):
        from docx.opc.package import OpcPackage
        from docx.opc.part import PartFactory
        from docx.parts.document import DocumentPart
    for kind in (*_MAIN, "ms-word.template.macroEnabledTemplate"):
        PartFactory.part_type_for[f"application/vnd.{kind}.main+xml"] = DocumentPart
    with _with_library(path):
        archive = ZipFile(BytesIO(content))
        if not any(name.startswith("word/") for name in archive.namelist()):
            raise DataError(f"{path} is not a Word document (DOCX): it has no part named word/")
        for name in ("_rels/.rels", "word/document.xml"):
            if name in archive.namelist() and b"http://purl.oclc.org/ooxml/" in archive.open(name).read(4_000):
                raise DataError(f"{path} is a Strict Open XML document; save it as an ordinary Word document (*.docx)")
        main: Any = OpcPackage.open(BytesIO(content)).main_document_part
        return Docx(main.document, path, languages[1])
