"""Word documents (DOCX): paragraphs of text, tables, boxes, headers, footers, notes, comments, with their formats, and
descriptions of pictures and tables. Charts and diagrams stay.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from copy import deepcopy
from io import BytesIO
from itertools import accumulate, chain, groupby, islice, repeat
from pathlib import Path
from typing import Any, Literal, NamedTuple
from zipfile import ZipFile

from dragoman.errors import DataError, optional
from dragoman.formats.cancelling import check_cancelled
from dragoman.formats.document import Document, Left, lines_in, with_lines
from dragoman.formats.inline import InlinePart, InlineTexts, divided, refers_to_note
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
_DRAWN = re.compile(r"/word/(?:charts/chart|diagrams/data)[^/]*\.xml")
_DRAWN_TEXT = re.compile(rb"<(?:\w+:)?(?:t|v)(?: [^<>]*)?>([^<>]+)<")
_LANGUAGE_KINDS = {"ja": "eastAsia", "ko": "eastAsia", "zh": "eastAsia", "ar": "bidi", "fa": "bidi", "he": "bidi"}
_OF_FIELDS = "comboBox ddList dropDownList fldChar fldSimple instrText noBreakHyphen softHyphen t".split()
_COPIED = re.compile(
    r"\s*(?:ADDRESSBLOCK|DATE|FORMDROPDOWN|GREETINGLINE|MERGEFIELD|NUMPAGES|PAGE|(?:NOTE|PAGE|STYLE)?REF|SEQ|TIME)\b",
    re.IGNORECASE,
)
_READABLE = re.compile(
    r"\A\s*(?:ASK|FILLIN|HYPERLINK\b.*\\o|IF|MACROBUTTON|QUOTE|SET|TC|XE)\b(.*)", re.IGNORECASE | re.DOTALL
)
"""Instructions of fields whose result is copied, and of those that hold texts for readers."""


class DocxMarkup(NamedTuple):
    """Markup between words. Its kind is the beginning of a `run` in another format or of a link or the like (`around`),
    the `end` of one of them, the `break` of a page or column or a tab, a `field` with its instruction, or another
    element (`alone`).
    """

    kind: str
    element: Any = None
    elements: Sequence[Any] = ()
    """The elements of a field."""


class Paragraph(NamedTuple):
    """A paragraph, the format that most of its letters have, and its content."""

    element: Any
    format: Any
    content: InlineTexts[DocxMarkup]


class Docx(Document):
    """A Word document."""

    def __init__(self, document: Any, path: Path, language: str) -> None:
        super().__init__()
        self._document, self._language = document, language
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
        drawn = [part for part in parts if _DRAWN.fullmatch(str(part.partname))]
        shown = {
            part
            for part in drawn
            for text in _DRAWN_TEXT.findall(part.blob)
            if has_words(text.decode("utf-8", "replace"))
        }
        self.left += [Left("it is in a chart or diagram", str(part.partname)) for part in drawn if part in shown]
        read = ((number, _paragraph(element, stays.keys())) for element, number in numbers.items())
        numbered = [(number, paragraph) for number, paragraph in read if paragraph]
        self._paragraphs = [paragraph for _, paragraph in numbered]
        self._styles = next((root for root in roots if root.tag == f"{_W}styles"), None)
        described = ((node, name) for root in roots for node in root.iter(*_DESCRIBED) for name in _DESCRIPTIONS)
        self._descriptions = [(node, name) for node, name in described if has_words(node.get(name, ""))]
        self.texts = [text for paragraph in self._paragraphs for text in paragraph.content.texts]
        self._numbers = [number for number, paragraph in numbered for _ in paragraph.content.texts]
        for node, name in self._descriptions:
            lines = lines_in(node.get(name))
            self.texts += lines
            self._numbers += [numbers.get(_above(node), 0)] * len(lines)

    def place(self, number: int) -> str:
        return f"paragraph {self._numbers[number]:,}"

    def translated(self, translations: Sequence[str]) -> bytes:
        following = iter(translations)
        texts = [[*islice(following, len(paragraph.content.texts))] for paragraph in self._paragraphs]
        # Backwards: a text box is in a paragraph, and moves with it when its own paragraphs are translated.
        for paragraph, written in reversed([*zip(self._paragraphs, texts, strict=True)]):
            check_cancelled()
            if written != paragraph.content.texts:
                _fill(paragraph, written)
        for node, name in self._descriptions:
            node.set(name, with_lines(node.get(name), following))
        if self._styles is not None:
            _set_language(self._styles, self._language)
        for part, tree in self._notes.items():
            part._blob = xml_bytes(tree)
        written = BytesIO()
        self._document.save(written)
        return written.getvalue()


def _above(node: Any) -> Any:
    """Return the paragraph around an element, or None."""
    return next(node.iterancestors(f"{_W}p"), None)


def _set_language(styles: Any, language: str) -> None:
    """Name the language of the text, which programs use to check its spelling."""
    for lang in styles.iter(f"{_W}lang"):
        for kind in {"val", _LANGUAGE_KINDS.get(base_language(language), "val")}:
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


def _paragraph(element: Any, hidden: Set[Any]) -> Paragraph | None:
    """Return the texts of a paragraph and the rest of it; None if it has nothing to translate."""
    check_cancelled()
    letters = Counter[str]()
    formats: dict[str, Any] = {}
    for run in _runs(element):
        key, formats_of_run = _format(run)
        formats.setdefault(key, formats_of_run)
        letters[key] += len(_words(run)) * (run not in hidden)
    if not letters:
        return None
    usual = letters.most_common(1)[0][0]
    pieces = groupby(_merged(_fields(_parts(element, usual, hidden))), lambda part: part.piece.kind == "break")
    content = InlineTexts(chain.from_iterable(divided([*some]) for _, some in pieces))
    return Paragraph(element, formats[usual], content) if content.texts else None


def _format(run: Any) -> tuple[str, Any]:
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
    return _key(format), format


def _content(element: Any) -> Any:
    """Return the element that holds the runs of a content control, link or the like."""
    return element.find(f"{_W}sdtContent") if element.tag == f"{_W}sdt" else element


def _children(element: Any) -> list[Any]:
    """Return the children of an element, without its properties."""
    return [child for child in element if not str(child.tag).endswith("Pr")]


def _runs(element: Any) -> Iterator[Any]:
    """Yield the runs of a paragraph, but not those of boxes in it, nor deleted ones."""
    for child in _children(element):
        if child.tag == f"{_W}r":
            yield child
        elif child.tag in _AROUND and _content(child) is not None:
            yield from _runs(_content(child))


def _parts(element: Any, usual: str, hidden: Set[Any]) -> Iterator[InlinePart[DocxMarkup]]:
    for child in _children(element):
        if child.tag in _DROPPED:
            continue
        if child.tag in _AROUND and _content(child) is not None:
            if (texts := [*child.iter(f"{_W}t")]) and hidden >= {*texts}:
                yield InlinePart("value", DocxMarkup("alone", child))
                continue
            yield InlinePart("open", DocxMarkup("around", child))
            yield from _parts(_content(child), usual, hidden)
            yield InlinePart("close", DocxMarkup("end"))
        elif child.tag == f"{_W}r" and child not in hidden:
            yield from _run(child, usual, hidden)
        else:
            yield InlinePart("after" if child in hidden else _kind(child), DocxMarkup("alone", child))


def _kind(element: Any) -> Literal["single", "before", "after"]:
    """Return the kind of part for an element that holds no words of the paragraph."""
    unseen = _UNSEEN.fullmatch(str(element.tag))
    return "single" if unseen is None else "before" if unseen[1] else "after"


def _run(run: Any, usual: str, fixed: Set[Any]) -> Iterator[InlinePart[DocxMarkup]]:
    key, format = _format(run)
    raised, previous = run.find(f"{_W}rPr/{_W}vertAlign[@{_W}val='superscript']"), run.getprevious()
    if raised is not None and refers_to_note(_words(run).strip(), "" if previous is None else _words(previous)):
        yield InlinePart("single", DocxMarkup("alone", run))
        return
    for child in _children(run):
        if (child.tag == f"{_W}t" or child.tag in _HYPHENS) and child not in fixed:
            words = InlinePart("words", DocxMarkup("words"), _HYPHENS.get(child.tag, child.text or ""))
            around = InlinePart("open", DocxMarkup("run", format)), words, InlinePart("close", DocxMarkup("end"))
            yield from (words,) if key == usual else around
        elif child.tag in (f"{_W}br", f"{_W}cr") and child.get(f"{_W}type", "textWrapping") == "textWrapping":
            yield InlinePart("break", DocxMarkup("alone", child))
        elif child.tag not in _DROPPED:
            yield InlinePart(_kind(child), DocxMarkup("break" if child.tag in _BREAKS else "alone", child))


def _fields(parts: Iterator[InlinePart[DocxMarkup]]) -> Sequence[InlinePart[DocxMarkup]]:
    """Return the parts with each field as a pair of markup around its result, of which the first is its instruction."""
    collected, begins = list[InlinePart[DocxMarkup]](), list[list[int]]()
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
    instruction: Sequence[InlinePart[DocxMarkup]],
    result: Sequence[InlinePart[DocxMarkup]],
    end: InlinePart[DocxMarkup],
) -> Sequence[InlinePart[DocxMarkup]]:
    """Return a field as a pair of markup around its result, or as one piece if that shows no words."""
    depths = [*accumulate({"open": 1, "close": -1}.get(part.kind, 0) for part in result), 0]
    is_whole = min(depths) == depths[-2 if result else 0] == 0
    # It stays as it is if its instruction holds words, or its result only one half of other markup.
    if not is_whole or any(part.kind in ("words", "open", "close") for part in instruction):
        return [*instruction, *result, end]
    shows_words = any(part.kind in ("words", "open") for part in result)
    held = instruction if shows_words else [*instruction, *result, end]
    elements = [element for part in held for element in part.piece.elements or (part.piece.element,)]
    field = DocxMarkup("field", elements=elements)
    if shows_words:
        return [InlinePart("open", field), *result, end._replace(kind="close")]
    return [InlinePart("value" if result else "after", field)]


def _merged(parts: Iterable[InlinePart[DocxMarkup]]) -> Iterator[InlinePart[DocxMarkup]]:
    """Yield the parts without the ends of runs after which the same format begins again."""
    held: InlinePart[DocxMarkup] | None = None
    opened: list[DocxMarkup] = []
    ended = DocxMarkup("")
    for part in parts:
        if held is not None:
            if part.piece.kind == "run" == ended.kind and _key(part.piece.element) == _key(ended.element):
                opened.append(ended)
                held = None
                continue
            yield held
            held = None
        if part.kind == "open":
            opened.append(part.piece)
        elif part.kind == "close":
            ended, held = opened.pop(), part
            continue
        yield part
    if held is not None:
        yield held


def _key(format: Any) -> str:
    return "" if format is None else "".join(sorted(f"{node.tag}{sorted(node.attrib.items())}" for node in format))


def _fill(paragraph: Paragraph, translations: Sequence[str]) -> None:
    """Give a paragraph these words as its content, with its own markup and formats."""
    element = paragraph.element
    containers, formats, opened = [element], [paragraph.format], list[str]()
    _empty(element)
    for piece in paragraph.content.pieces(translations, lambda piece: piece.kind != "run"):
        check_cancelled()
        if isinstance(piece, str):
            if piece:
                containers[-1].append(_written(element, formats[-1], piece))
        elif piece.kind == "end":
            (formats if opened.pop() == "run" else containers).pop()
        elif piece.kind in ("alone", "break", "field"):
            for moved in piece.elements or (piece.element,):
                containers[-1].append(_alone(moved))
        else:
            opened.append(piece.kind)
            if piece.kind == "run":
                formats.append(piece.element)
            else:
                containers[-1].append(piece.element)
                containers.append(_content(piece.element))
                _empty(containers[-1])


def _empty(element: Any) -> None:
    for child in _children(element):
        element.remove(child)


def _alone(element: Any) -> Any:
    """Return an element for a paragraph, in a new run if it was in a run. It is moved, because a box has paragraphs."""
    run = element.getparent()
    if run is None or run.tag != f"{_W}r":
        return element
    alone, format = run.makeelement(run.tag), run.find(f"{_W}rPr")
    alone.extend([element] if format is None else [deepcopy(format), element])
    return alone


def _written(element: Any, format: Any, words: str) -> Any:
    """Return a run of these words."""
    run, text = element.makeelement(f"{_W}r"), element.makeelement(f"{_W}t")
    if format is not None:
        run.append(deepcopy(format))
    text.text = words
    text.set(_SPACE, "preserve")
    run.append(text)
    return run


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
    try:
        archive = ZipFile(BytesIO(content))
        if not any(name.startswith("word/") for name in archive.namelist()):
            raise DataError(f"{path} is not a Word document (DOCX): it has no part named word/")
        for name in ("_rels/.rels", "word/document.xml"):
            if name in archive.namelist() and b"http://purl.oclc.org/ooxml/" in archive.open(name).read(4_000):
                raise DataError(f"{path} is a Strict Open XML document; save it as an ordinary Word document (*.docx)")
        main: Any = OpcPackage.open(BytesIO(content)).main_document_part
        return Docx(main.document, path, languages[1])
    except DataError:
        raise
    except Exception as error:  # the library raises whatever a broken part leads to
        raise DataError(f"{path} is not a Word document (DOCX), or is damaged: {str(error)[:200]}") from None
