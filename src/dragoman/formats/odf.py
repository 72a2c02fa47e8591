"""OpenDocument: paragraphs of texts, presentations and spreadsheets with their formats, of headers, footers, notes,
comments and boxes, descriptions of pictures, and titles. Embedded objects stay, and cells of spreadsheets as in Excel.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from zipfile import ZipFile

from dragoman.errors import DataError
from dragoman.formats.archives import open_archive, opening, with_parts
from dragoman.formats.cancelling import check_cancelled
from dragoman.formats.document import Document, Left
from dragoman.formats.formatted import LANGUAGE_KINDS, Paragraph, TextMarkup
from dragoman.formats.inline import InlinePart
from dragoman.formats.xlsx import Comparisons, SheetCell, translatable
from dragoman.formats.xml import xml_bytes, xml_tree
from dragoman.languages import base_language
from dragoman.surface.sentences import has_words


def _names(names: str) -> tuple[str, ...]:
    """Return names of elements or attributes with their namespace, as lxml writes them."""
    pairs = (name.split(":") for name in names.split())
    return tuple(f"{{urn:oasis:names:tc:opendocument:xmlns:{room}:1.0}}{name}" for room, name in pairs)


_P, _SPAN, _SPACE, _COUNT, _SPAN_STYLE, _DISPLAY = _names("text:p text:span text:s text:c text:style-name text:display")
_STYLE, _FAMILY, _STYLE_NAME, _PARENT = _names("style:style style:family style:name style:parent-style-name")
_PROPERTIES, _LANGUAGE, _COUNTRY = _names("style:text-properties xsl-fo-compatible:language xsl-fo-compatible:country")
_TABLE, _ROW, _NAME, _SOURCE = _names("table:table table:table-row table:name table:table-source")
_FORMULA, _TYPE, _VALUE = _names("table:formula office:value-type office:string-value")
_REPEATED_ROWS, _REPEATED_COLUMNS = _names("table:number-rows-repeated table:number-columns-repeated")
_CELLS = _names("table:table-cell table:covered-table-cell")
_DC = "{http://purl.org/dc/elements/1.1/}"
_TEXTS = (
    *_names("text:p text:h text:index-title-template presentation:footer-decl presentation:header-decl"),
    *_names("svg-compatible:title svg-compatible:desc table:title table:desc"),
    *(f"{_DC}{name}" for name in ("title", "subject", "description")),
)
_UNSEEN = re.compile(
    r"(.*-start|number)|.*-end|annotation|bookmark|change|event-listeners|reference-mark|script|soft-page-break|span|"
    r"(?:alphabetical-index|toc|user-index)-mark"
)
"""Elements that take no space on the page; those that match the group begin something."""
_NO_FORMAT = re.compile(r"\}(?:rsid|paragraph-rsid|(?:rfc-language-tag|language|country|script)(?:-asian|-complex)?)$")
_STAYING = "conditional-text drop-down hidden-text placeholder ruby text-input toc-mark user-index-mark".split()
_STAYING += "alphabetical-index-mark button checkbox fixed-text frame option radio".split()
_SHOWN = re.compile(r"\}(?:label|string-value(?:-if-\w+)?)$")
"""Fields, marks and controls with words for readers, and the attributes that hold some of these."""
_OBJECT_TEXT = re.compile(rb"<text:(?:p|span)\b[^<>]*>[^<>]*[A-Za-z\xc2-\xf4]{2}")
_NAMED = frozenset("table named-range named-expression database-range".split())
_RULES = {"condition": "value", "content-validation": "condition", "map": "condition", "named-expression": "expression"}
_COMPARED = dict.fromkeys(("filter-condition", "filter-set-item"), "value") | {"data-pilot-member": "name"}
"""Elements of spreadsheets that hold names, formulas, and texts with which cells are compared, with the attribute."""
_SYNTAX = re.compile(r"(\"(?:[^\"]|\"\")*+\"|'(?:[^']|'')*+')|[\[\]]|(;)|^(?:\w+:)?=?")


class Odf(Document):
    """A document, in which equal texts are one text. `only` are the columns of a spreadsheet to translate."""

    def __init__(self, archive: ZipFile, path: Path, languages: tuple[str, str], only: Sequence[str]) -> None:
        super().__init__()
        self._archive, self._languages, names = archive, languages, archive.namelist()
        parts = [name for name in ("content.xml", "styles.xml", "meta.xml") if name in names]
        self._roots = {name: xml_tree(archive.read(name), path).getroot() for name in parts}
        sheets = self._roots["content.xml"].find("{*}body/{*}spreadsheet")
        if only and sheets is None:
            raise DataError(f"{path} is no spreadsheet, and has no columns to choose from")
        self._paragraphs, self._places, cells = list[Paragraph](), dict[str, str](), list[SheetCell]()
        stays = {
            p for root in self._roots.values() for old in root.iter("{*}tracked-changes") for p in old.iter(*_TEXTS)
        }
        if sheets is not None:
            cells, self.left, self.notes = _translatable(
                self._roots["content.xml"], sheets.iterchildren(_TABLE), only, path
            )
            stays.update(p for cell in sheets.iter(*_CELLS) for p in cell.iterchildren(_P))
        places = {p: f"cell {cell.name}" for cell in cells for p in cell.element.iterchildren(_P)}
        shared = dict(_formats(self._roots.get("styles.xml", self._roots["content.xml"])))
        for name, root in self._roots.items():
            formats = shared | dict(_formats(root))
            numbers = {p: number for number, p in enumerate(root.iter(*_TEXTS), 1)}
            for element, number in numbers.items():
                place = places.get(element, f"{name} paragraph {number:,}" * (element not in stays and not only))
                if place and (paragraph := Paragraph.from_parts(element, [*_parts(element, (), formats)])):
                    self._paragraphs.append(paragraph)
                    self._places |= {text: place for text in paragraph.content.texts if text not in self._places}
            for element, reason in () if only else _left(root, formats):
                above = next(element.iterancestors(*_TEXTS), None)
                if above not in stays:
                    self.left.append(Left(reason, f"{name} paragraph {numbers.get(above, 0):,}"))
        self.texts = [*self._places]
        objects = (part for part in names if part.endswith("/content.xml") and _OBJECT_TEXT.search(archive.read(part)))
        self.left += [Left("it is in a chart or another embedded object", part) for part in objects if not only]
        if "META-INF/documentsignatures.xml" in names:
            self.notes.append("the digital signature is of the original, and not valid for its translation")

    def place(self, number: int) -> str:
        return self._places[self.texts[number]]

    def translated(self, translations: Sequence[str]) -> bytes:
        by_text = dict(zip(self.texts, translations, strict=True))
        if all(text == translation for text, translation in by_text.items()):
            return with_parts(self._archive, {})
        for paragraph in self._paragraphs:
            check_cancelled()
            if (written := [by_text[text] for text in paragraph.content.texts]) != paragraph.content.texts:
                paragraph.fill(written, _write, _without_words)
                if (cell := paragraph.element.getparent()) is not None:
                    cell.attrib.pop(_VALUE, None)  # the old text, which programs would show
        for cell in self._roots["content.xml"].iter(*_CELLS):
            if cell.get(_FORMULA) and cell.get(_TYPE) == "string":  # programs then compute its text again
                for name in [name for name in cell.attrib if name.endswith(("}value-type", "}string-value"))]:
                    del cell.attrib[name]
        for root in self._roots.values():
            _set_language(root, *self._languages)
        return with_parts(self._archive, {name: xml_bytes(root.getroottree()) for name, root in self._roots.items()})


def _formats(root: Any) -> Iterator[tuple[str, str | None]]:
    """Yield the styles that give words a format, each with a text to compare it by; None if it hides them."""
    for style in root.iter(_STYLE):
        if style.get(_FAMILY) == "text":
            properties = [item for node in style.iterchildren(_PROPERTIES) for item in node.items()]
            values = [f"{key}={value}" for key, value in sorted(properties) if not _NO_FORMAT.search(key)]
            name, above = style.get(_STYLE_NAME, ""), getattr(style.getparent(), "tag", "")
            named = [style.get(_PARENT, ""), *values] if "automatic-styles" in above else [name]
            yield name, None if (_DISPLAY, "none") in properties else " ".join(filter(None, named))


def _left(root: Any, formats: Mapping[str, str | None]) -> Iterator[tuple[Any, str]]:
    """Yield the elements with words for readers that stay, each with the reason."""
    for element in root.iter(_SPAN, *(f"{{*}}{name}" for name in _STAYING)):
        check_cancelled()
        is_span, shown = element.tag == _SPAN, (value for key, value in element.items() if _SHOWN.search(key))
        is_seen = is_span and formats.get(element.get(_SPAN_STYLE), "") is not None
        if not is_seen and has_words(" ".join([*element.itertext(), *shown])):
            yield element, "it is hidden" if is_span else "it is in a field, a control, an entry of an index, or ruby"


def _parts(element: Any, spans: tuple[Any, ...], formats: Mapping[str, str | None]) -> Iterator[InlinePart[TextMarkup]]:
    """Yield the parts of an element that is in these spans."""
    check_cancelled()
    if len(spans) > 50:  # they are copied for each piece
        raise DataError("the document is damaged: a text has more than 50 formats in one another")
    format = " ".join(filter(None, (formats.get(span.get(_SPAN_STYLE), "") for span in spans))), spans
    words, before = TextMarkup("words", format=format), element.text or ""
    yield InlinePart("words", words, before)
    for child in element:
        name = str(child.tag).rpartition("}")[2]
        if child.tag == _SPAN and formats.get(child.get(_SPAN_STYLE), "") is not None:
            yield from _parts(child, (*spans, child), formats)
        elif name in ("a", "content-control", "meta"):
            yield InlinePart("open", TextMarkup("around", child))
            yield from _parts(child, spans, formats)
            yield InlinePart("close", TextMarkup("end"))
        elif child.tag == _SPACE and _count(child, _COUNT) == 1 and before[-1:].strip():
            yield InlinePart("words", words, " ")
        else:
            yield InlinePart(_kind(child), TextMarkup("break" if name == "tab" else "alone", child, format=format))
        before = child.tail or ""
        yield InlinePart("words", words, before)


def _kind(element: Any) -> Literal["single", "before", "after", "break", "value"]:
    """Return the kind of part for an element that holds no words of the paragraph."""
    namespace, _, name = str(element.tag).rpartition("}")
    if name == "line-break" or _count(element, _COUNT) > 1:
        return "break"
    if unseen := _UNSEEN.fullmatch(name):
        return "before" if unseen[1] else "after"
    is_field = namespace.endswith((":text:1.0", ":presentation:1.0")) and name not in ("note", "s", "tab")
    return "value" if is_field else "single"


def _without_words(element: Any) -> Any:
    element.text = None
    return element


def _write(container: Any, spans: Any, piece: Any) -> None:
    """Add words or an element at the end of a container, in these spans."""

    def last_child() -> Any:
        return next(container.iterchildren(reversed=True), None)  # `[-1]` searches from the first

    for span in spans or ():
        last = last_child()
        if last is None or last.tail or last.tag != span.tag or dict(last.attrib) != dict(span.attrib):
            last = container.makeelement(span.tag, span.attrib)
            container.append(last)
        container = last
    last = last_child()
    if not isinstance(piece, str):
        piece.tail = None
        container.append(piece)
    elif last is not None:
        last.tail = (last.tail or "") + piece
    else:
        container.text = (container.text or "") + piece


def _set_language(root: Any, source: str, target: str) -> None:
    """Name the target language where the source language is named."""
    (base, _, region), kind = target.partition("-"), LANGUAGE_KINDS.get(base_language(target))
    language, country = _names(f"style:language-{kind} style:country-{kind}") if kind else (_LANGUAGE, _COUNTRY)
    for properties in root.iter(_PROPERTIES):
        if base_language(properties.get(_LANGUAGE, "")) == base_language(source):
            properties.set(language, base)
            properties.set(country, region if len(region) == 2 else "none")
    for element in root.iter(f"{_DC}language"):
        element.text = target


def _count(element: Any, name: str) -> int:
    """Return how often an element is repeated, by this attribute."""
    value = element.get(name) or ""
    return int(value) if value.isdecimal() and len(value) < 8 else 1


def _translatable(
    root: Any, tables: Iterable[Any], only: Sequence[str], path: Path
) -> tuple[list[SheetCell], list[Left], list[str]]:
    """Return the cells of a spreadsheet to translate, those that are left, and notes."""
    comparisons = Comparisons()
    for element in root.iter(*(f"{{*}}{name}" for name in {*_NAMED, *_RULES, *_COMPARED}), *_CELLS):
        check_cancelled()
        room, _, name = element.tag.rpartition("}")
        if name in _NAMED:
            comparisons.names.add(element.get(_NAME, "").casefold())
        if name in _COMPARED:
            comparisons.add_text(element.get(f"{room}}}{_COMPARED[name]}", ""), name == "filter-condition")
        if formula := element.get(_FORMULA, element.get(f"{room}}}{_RULES.get(name)}")):
            in_excel = _SYNTAX.sub(lambda match: match[1] or ("," if match[2] else ""), formula)
            comparisons.add_formula(in_excel, computes=element.tag in _CELLS)
    sheets = [[*_rows(table)] for table in tables if table.find(_SOURCE) is None]  # the others are copies
    return translatable(sheets, comparisons, only, path)


def _rows(table: Any) -> Iterator[list[SheetCell]]:
    """Yield for each row of a sheet the cells that contain text and no formula."""
    row_number = 1
    for row in table.iter(_ROW):
        column, cells = 1, list[SheetCell]()
        for cell in row.iterchildren(*_CELLS):
            check_cancelled()
            texts = ["".join(paragraph.itertext()) for paragraph in cell.iterchildren(_P)]
            if texts and cell.get(_TYPE, "string") == "string" and not cell.get(_FORMULA):
                name = f"{table.get(_NAME)}!{_column_name(column)}{row_number}"
                cells.append(SheetCell(cell, "\n".join(texts), None, "", name))
            column += _count(cell, _REPEATED_COLUMNS)
        yield cells
        row_number += _count(row, _REPEATED_ROWS)


def _column_name(column: int) -> str:
    above, last = divmod(column - 1, 26)
    return (_column_name(above) if above else "") + chr(ord("A") + last)


def read(content: bytes, path: Path, languages: tuple[str, str], only: Sequence[str] = ()) -> Odf:
    """Read a document; `only` are the columns of a spreadsheet to translate, by their names at the top of each sheet.

    Raises:
        DataError: it is damaged, encrypted or no document, or no sheet has such a column.
        MissingExtra: lxml is not installed.
    """
    with opening(path, "an OpenDocument file"):
        archive = open_archive(content)
        names = archive.namelist()
        if "META-INF/manifest.xml" in names and b"encryption-data" in archive.read("META-INF/manifest.xml"):
            raise DataError(f"{path} has a password; save it without one")
        return Odf(archive, path, languages, only)
