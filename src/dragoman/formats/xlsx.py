"""Excel workbooks (XLSX): the rows of a sheet for training, and the text in cells for translating, line by line.

Rows come from openpyxl, which knows dates and the results of formulas. A document is read and written as XML, because
openpyxl would lose what it does not know. Only parts that change are written again. Formulas, numbers, dates and
pictures stay, and so do cells whose texts a formula, a list or a filter compares with. Comments, text boxes, titles of
charts and descriptions of pictures are translated too; prompts, headers and footers are left.
"""

import io
import posixpath
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from fnmatch import fnmatchcase
from itertools import chain, compress, islice
from operator import not_
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

from dragoman.errors import DataError, optional
from dragoman.formats.archives import open_archive, opening, with_parts
from dragoman.formats.cancelling import check_cancelled
from dragoman.formats.document import Document, Left
from dragoman.formats.drawing import drawn_texts, translate_drawing
from dragoman.formats.inline import check_length
from dragoman.formats.lines import EncodingErrors, open_bytes
from dragoman.formats.rich_text import has_formats, text_of, texts_in, translate_string
from dragoman.formats.rows import first_line, written
from dragoman.formats.values import Value, selected
from dragoman.formats.xml import xml_bytes, xml_tree
from dragoman.surface.sentences import has_words

TITLES = "rows with one cell above the table left out"
LARGEST_PART = 1 << 28
"""Bytes of a part of a workbook. Its shared texts are held in memory."""
_LARGEST_UNCHECKED_PART = 1 << 26
"""Bytes of a part up to which it may unpack to any multiple of its size."""
MOST_LETTERS = 50_000_000
"""Letters of all cells of a document, which may share texts."""
_ROWS_SAMPLED = 100
_SHEET = re.compile(r"xl/worksheets/[^/]+\.xml", re.IGNORECASE)
_PART = re.compile(r"xl/(?:workbook|(?:worksheets|tables|pivotCache)/[^/]+)\.xml", re.IGNORECASE)
_OTHERS_WITH_TEXT = re.compile(
    r"xl/(?:(?:charts|drawings)/(?:chart|drawing)[^/]*|comments/?[^/]*|threadedComments/[^/]+)\.xml", re.IGNORECASE
)
_PROMPTS = ("promptTitle", "prompt", "errorTitle", "error", "tooltip")
_CODE_OF_HEADER = re.compile(r"&(?:\"[^\"]*\"|K[\dA-F+-]{6}|\d+|.)")
_STRINGS, _WORKBOOK = "xl/sharedStrings.xml", "xl/workbook.xml"
_FORMULAS = ("f", "formula", "formula1", "definedName", "calculatedColumnFormula")
_ATTRIBUTES = {"filter": "val", "customFilter": "val", "s": "v", "cacheField": "name", "tableColumn": "name"}
_NAMED = ("sheet", "definedName")
"""The elements, some with their attribute, that hold formulas, texts with which cells are compared, and names."""
_OPERAND = re.compile(r"'(?:[^']|'')*+'|\"((?:[^\"]|\"\")*+)\"|[\w.$!:]++|\)")  # of a formula; in '…' it names a sheet
_JOINED = re.compile(rf"(?:{_OPERAND.pattern})(?:\s*+&\s*+(?:{_OPERAND.pattern}))*+")
_COMPARING = re.compile(r"[=<>]|(?:IFS?|LOOKUP|MATCH)\(", re.IGNORECASE)
_CUT = {"LEFT": "{}*", "RIGHT": "*{}", "MID": "*{}*"}
"""The pattern of a cell of which each function returns a part that is compared with a text."""
_OTHERS = r'(?:"[^"]{0,99}"|[^"&,()=<>]){0,99}+'
_ARGUMENTS = r"(?:[^()&]|\([^()&]{0,99}\)){0,500}+"
_JOINS = re.compile(rf"(?:[A-Z]IFS?|LOOKUP|MATCH)\({_ARGUMENTS}&|[=<>]{_OTHERS}&|&{_OTHERS}[=<>]", re.IGNORECASE)
_SEARCHED = re.compile(r"(?:SEARCH|FIND)B?\( ?\"((?:[^\"]|\"\")*+)\"", re.IGNORECASE)


def rows(path: Path, _encoding_errors: EncodingErrors, repairs: Counter[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of the first sheet of a workbook that has two columns, without a title above them. Cells hold the
    last results of formulas.

    Raises:
        DataError: it is packed or damaged, or needs too much memory.
        MissingExtra: openpyxl is not installed.
    """
    with _open_workbook(path) as (sheet, _):
        fullest, width = _shape(sheet)
        may_be_title = fullest > 1
        for number, values in enumerate(sheet.iter_rows(values_only=True), 1):
            cells = list(map(written, values))
            while cells and not cells[-1]:
                cells.pop()
            if cells and (may_be_title := may_be_title and sum(map(bool, cells)) == 1):
                repairs[TITLES] += 1
            elif cells:
                yield number, cells + [""] * (width - len(cells))


def describe_sheets(path: Path) -> str:
    """Return in words which of several sheets is read."""
    with _open_workbook(path) as (sheet, names):
        return f"; of its sheets ({', '.join(names)}), {sheet.title} is read" if len(names) > 1 else ""


@contextmanager
def _open_workbook(path: Path) -> Iterator[tuple[Any, list[str]]]:
    """Open the sheet of a workbook that is read, a row in memory at a time; yield it and the names of all sheets."""
    with optional("openpyxl", "documents"):
        import openpyxl
    with open_bytes(path) as file:
        if not isinstance(getattr(file, "raw", None), io.FileIO):  # it is read from its end
            raise DataError(f"{path} is a packed workbook; unpack it first, which costs little space")
        try:
            for part in ZipFile(file).infolist():
                most = max(_LARGEST_UNCHECKED_PART, 1000 * part.compress_size)
                if part.file_size > min(LARGEST_PART, most):
                    raise ValueError(f"{part.filename} unpacks to {part.file_size >> 20:,} MiB")
            with warnings.catch_warnings(action="ignore"):  # of styles that it does not know
                book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            sheets = [sheet for sheet in book.worksheets if _shape(sheet)[0] > 1] or book.worksheets
            if not sheets:
                raise ValueError("it has no sheet of cells")
            yield sheets[0], [sheet.title for sheet in book.worksheets]
        except DataError:
            raise
        except Exception as error:  # the library raises whatever a broken part leads to
            raise DataError(f"{path} is not a workbook (XLSX), or is damaged: {first_line(error)[:200]}") from None


def _shape(sheet: Any) -> tuple[int, int]:
    """Return the number of cells in the fullest of the first rows, and the number of columns of the widest."""
    sample = islice(sheet.iter_rows(values_only=True), _ROWS_SAMPLED)
    filled = [[0, *(column for column, value in enumerate(row, 1) if value is not None)] for row in sample] or [[0]]
    return max(map(len, filled)) - 1, max(row[-1] for row in filled)


class SheetCell(NamedTuple):
    """A cell with text."""

    element: Any
    text: str
    string: Any
    """The element that holds the text, which many cells may share."""
    part: str
    """The file of the sheet."""
    name: str
    """The name of that file and the cell, as in "sheet1!B3"."""

    @property
    def key(self) -> Any:
        """The text, or the element that holds it in several formats: equal for cells with the same texts."""
        return self.string if has_formats(self.string) else self.text


class Comparisons:
    """The texts in formulas, filters, lists of choices, tables and the like, which are compared with those of cells."""

    def __init__(self) -> None:
        self.has_formulas = self._refers = False
        self.texts, self._patterns, self.names, self.joining = set[str](), set[str](), set[str](), ""

    def add_formula(self, formula: str, is_list: bool = False, computes: bool = True) -> None:
        """Add the texts of a formula, which divides them by commas if it is a list, and may only have a name."""
        check_length(len(formula))
        strings, cuts = [*_strings(formula)], [_CUT[name] for name in _CUT if f"{name}(" in formula.upper()]
        patterns = [cut.format(text) for cut in cuts if _COMPARING.search(formula) for text in strings]
        self.joining = self.joining or (formula if _JOINS.search(formula) else "")
        for text in (*strings, *patterns, *(f"*{text}*" for text in _SEARCHED.findall(formula))):
            for item in text.split(",") if is_list else (text,):
                self.add_text(item.replace('""', '"'), True)
        self.has_formulas |= computes
        self._refers |= "INDIRECT(" in formula.upper()

    def add_text(self, text: str, is_criterion: bool) -> None:
        """Add a text, or a criterion such as `<>open*`."""
        text = (re.sub(r"^(?:<>|[<>]=?|=)", "", text) if is_criterion else text).strip().casefold()
        if has_words(text):
            self.texts.add(text)
            if is_criterion and ("*" in text or "?" in text):
                pattern = re.sub(r"~([*?~])|\[", lambda sign: f"[{sign[1] or sign[0]}]", text)
                self._patterns.add(pattern if len(self._patterns) < 500 else "*")  # too many: all texts stay

    def __contains__(self, text: str) -> bool:
        check_cancelled()
        text = text.strip().casefold()
        is_name = self._refers and not self.names.isdisjoint((text, text.replace(" ", "_")))
        return is_name or text in self.texts or any(fnmatchcase(text, pattern) for pattern in self._patterns)


def _strings(formula: str) -> Iterator[str]:
    """Yield the strings of a formula; of those that & joins with values, as in "a "&B1, a pattern if it compares."""
    for joined in _JOINED.finditer(formula):
        strings = [operand[1] for operand in _OPERAND.finditer(joined[0])]
        if None not in strings or (_COMPARING.search(formula) and re.search(r"\w\w", "".join(filter(None, strings)))):
            yield "".join("*" if string is None else string for string in strings)


def translatable(
    sheets: Sequence[Sequence[Sequence[SheetCell]]], comparisons: Comparisons, only: Sequence[str], path: Path
) -> tuple[list[SheetCell], list[Left], list[str]]:
    """Return the cells to translate of all sheets, which are rows of cells with text; those that are left because
    something compares with them; and notes. `only` are the columns to translate.
    """
    cells = [*chain.from_iterable(chain.from_iterable(sheets))]
    if (letters := sum(len(cell.text) for cell in cells)) > MOST_LETTERS:
        raise DataError(f"{path} shows {letters:,} letters, too many for one document (at most {MOST_LETTERS:,})")
    wanted, notes = selected([*chain.from_iterable(map(_values, sheets))], only, path)
    notes.append("formulas and the names of sheets stay")
    if joining := comparisons.joining:
        notes.append(f"check the results of formulas that join cells to compare them: {joining[:100]}")
    if comparisons.has_formulas:  # which may also compare cells with those that stay
        comparisons.texts.update(cell.text.strip().casefold() for cell in compress(cells, map(not_, wanted)))
    chosen = [*compress(cells, wanted)]
    compared = {text for text in {cell.text for cell in chosen} if text in comparisons}
    reason = "a formula, filter, list, table or cell that stays has the same text"
    left = [Left(reason, f"cell {cell.name}") for cell in chosen if cell.text in compared]
    return [cell for cell in chosen if cell.text not in compared], left, notes


class Workbook(Document):
    """A workbook. Equal lines are one text."""

    def __init__(self, archive: ZipFile, path: Path, language: str, only: Sequence[str]) -> None:
        super().__init__()
        self._archive, self._language, comparisons = archive, language, Comparisons()
        self._trees, self._drawn = dict[str, Any](), dict[str, Any]()
        names = archive.namelist()
        has_strings = _STRINGS in names
        strings = xml_tree(archive.read(_STRINGS), path).getroot().findall("{*}si") if has_strings else []
        shared = [(text_of(string), string) for string in strings]
        sheets = list[list[list[SheetCell]]]()
        for name in filter(_PART.fullmatch, names):
            self._trees[name] = xml_tree(archive.read(name), path)
            _compare(self._trees[name].getroot(), comparisons)
            sheets.append([[*_cells(row, name, shared, path)] for row in self._trees[name].iter("{*}row")])
        self._cells, self.left, self.notes = translatable(sheets, comparisons, only, path)
        self._texts = {cell.key: texts_in(cell.string) for cell in self._cells}
        lines = [(line, f"cell {cell.name}") for cell in self._cells for line in self._texts[cell.key]]
        for name in names if not only else ():
            lines += self._others(name, path)
        self.texts, self._places = [*dict.fromkeys(line for line, _ in lines)], dict(reversed(lines))

    def _others(self, part: str, path: Path) -> Iterator[tuple[str, str]]:
        """Yield the texts of a part that are in no cell, as in comments, drawings and charts, with their places."""
        name = posixpath.basename(part).removesuffix(".xml")
        if _SHEET.fullmatch(part):
            for prompt in self._trees[part].iter("{*}dataValidation", "{*}hyperlink"):
                texts = filter(has_words, (prompt.get(kind, "") for kind in _PROMPTS))
                place = f"{name}!{prompt.get('sqref') or prompt.get('ref', '')}"
                self.left += [Left("it is a prompt of cells or links", place) for _ in texts]
            headers = (header for some in self._trees[part].iter("{*}headerFooter") for header in some.itertext())
            shown = filter(has_words, (_CODE_OF_HEADER.sub(" ", header) for header in headers))
            self.left += [Left("it is a header or footer", name) for _ in shown]
        elif _OTHERS_WITH_TEXT.fullmatch(part):
            self._drawn[part] = xml_tree(self._archive.read(part), path)
            for mentions in self._drawn[part].iter("{*}mentions"):
                place = f"comment {name}!{mentions.xpath('string(../@ref)')}"
                self.left.append(Left("it mentions a person", place))
            for element, text in drawn_texts(self._drawn[part].getroot()):
                ref = element.xpath("string(../@ref)")
                yield text, f"comment {name}!{ref}" if ref else f"drawing {name}"

    def place(self, number: int) -> str:
        return self._places[self.texts[number]]

    def translated(self, translations: Sequence[str]) -> bytes:
        by_line = dict(zip(self.texts, translations, strict=True))
        changed = [cell for cell in self._cells if any(by_line[line] != line for line in self._texts[cell.key])]
        for cell in changed:
            check_cancelled()
            _fill(cell, by_line, self._language)
        parts = {cell.part for cell in changed}
        drawn = {
            part: xml_bytes(tree)
            for part, tree in self._drawn.items()
            if translate_drawing(tree.getroot(), by_line, self._language)
        }
        if changed and _WORKBOOK in self._trees:
            workbook = self._trees[_WORKBOOK].getroot()
            settings = workbook.find("{*}calcPr")
            if settings is None:
                settings = workbook.makeelement(workbook.tag.removesuffix("workbook") + "calcPr")
                before = ("{*}sheets", "{*}functionGroups", "{*}externalReferences", "{*}definedNames")
                workbook.insert(max((*map(workbook.index, workbook.iterchildren(*before)), -1)) + 1, settings)
            settings.set("fullCalcOnLoad", "1")  # computes all formulas again, because their results show old texts
            parts.add(_WORKBOOK)
        return with_parts(self._archive, drawn | {part: xml_bytes(self._trees[part]) for part in parts})


def _values(rows: Sequence[Sequence[SheetCell]]) -> Iterator[Value]:
    """Yield a value for each cell of a sheet, whose first row with more than one text names the columns."""
    head = next((at for at, row in enumerate(rows) if len(row) > 1), 0)  # a title may be above it
    names = {cell.name.rstrip("0123456789"): cell.text for row in rows[head : head + 1] for cell in row}
    for at, row in enumerate(rows):
        for cell in row:
            column = cell.name.rstrip("0123456789")
            yield Value(column, names.get(column, column), cell.text, at <= head)


def _compare(root: Any, comparisons: Comparisons) -> None:
    """Add the formulas, the names and the texts that cells are compared with of a part of the workbook."""
    for element in root.iter(*(f"{{*}}{tag}" for tag in (*_FORMULAS, *_ATTRIBUTES, *_NAMED))):
        check_cancelled()
        tag, formula = element.tag.rpartition("}")[2], "".join(element.itertext())
        if tag in _NAMED:
            comparisons.names.add(element.get("name", "").casefold())
        if tag in _ATTRIBUTES:
            comparisons.add_text(element.get(_ATTRIBUTES[tag], "").replace("_x000a_", "\n"), tag == "customFilter")
        if tag in _FORMULAS:
            comparisons.add_formula(formula, is_list=tag == "formula1", computes=tag != "definedName")


def _cells(row: Any, part: str, shared: Sequence[tuple[Any, str]], path: Path) -> Iterator[SheetCell]:
    """Yield the cells of a row that contain text and no formula."""
    for element in row.iter("{*}c"):
        check_cancelled()
        name = f"{posixpath.basename(part).removesuffix('.xml')}!{element.get('r', '')}"
        if element.find("{*}f") is not None:
            continue
        if element.get("t") == "inlineStr" and (string := element.find("{*}is")) is not None:
            yield SheetCell(element, text_of(string), string, part, name)
        elif element.get("t") == "str" and (value := element.find("{*}v")) is not None:
            yield SheetCell(element, value.text or "", value, part, name)
        elif element.get("t") == "s" and (number := element.findtext("{*}v")):
            if not (number.isdecimal() and len(number) < 10 and int(number) < len(shared)):
                raise DataError(f"{path} is damaged: its cell {element.get('r')} has a text that is not in the file")
            yield SheetCell(element, *shared[int(number)], part, name)


def _fill(cell: SheetCell, translations: Mapping[str, str], language: str) -> None:
    """Give a cell its translated texts, which it shares with no other cell."""
    element, string = cell.element, cell.string
    if element.get("t") != "str":
        string = deepcopy(string)
        for child in (*element.findall("{*}v"), *element.findall("{*}is")):
            element.remove(child)
        string.tag = element.tag[:-1] + "is"
        element.append(string)
        element.set("t", "inlineStr")
    translate_string(string, translations, language)


def read(content: bytes, path: Path, languages: tuple[str, str], only: Sequence[str] = ()) -> Workbook:
    """Read a workbook and the text in its cells; `only` are the columns to translate, by the names in the first row of
    each sheet with more than one text. Other sheets stay as they are.

    Raises:
        DataError: it is damaged or no workbook, or no sheet has such a column.
        MissingExtra: lxml is not installed.
    """
    with opening(path, "an Excel workbook (XLSX)"):
        archive = open_archive(content)
        if not any(map(_SHEET.fullmatch, archive.namelist())):
            raise DataError(f"{path} is no Excel workbook (XLSX): it has no sheets")
        return Workbook(archive, path, languages[1], only)
