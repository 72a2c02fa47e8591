"""Excel workbooks (XLSX): the text in their cells, line by line. Formulas, numbers, dates, pictures and charts stay.

Only sheets with text are written anew, straight into the archive: openpyxl would lose what it does not know.
"""

import posixpath
import re
import zlib
from collections.abc import Iterator, Sequence
from copy import copy
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile, ZipFile

from dragoman.documents.document import Document, lines_in, with_lines
from dragoman.documents.reading import MOST_PACKED, chosen, is_meant, xml_bytes, xml_tree
from dragoman.errors import DataError, optional

_NAME = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_SHEET = re.compile(r"xl/worksheets/[^/]+\.xml", re.IGNORECASE)
_STRINGS = "xl/sharedStrings.xml"
LARGEST_UNPACKED = 200_000_000
"""Most bytes of a workbook and its pictures."""


class Cell(NamedTuple):
    """A cell with text."""

    element: Any
    text: str
    string: Any
    """The element that holds the text, which many cells may share."""
    name: str
    """The sheet's file and the cell, as in "sheet1!B3"."""


class Workbook(Document):
    """A workbook. A text whose letters have several formats gets that of its longest piece."""

    def __init__(self, archive: ZipFile, path: Path, only: Sequence[str]) -> None:
        super().__init__()
        self._archive, self._trees = archive, dict[str, Any]()
        self._cells: list[Cell] = []
        headings: list[str] = []
        names = archive.namelist()
        shared = xml_tree(archive.read(_STRINGS), path).getroot().findall(f"{_NAME}si") if _STRINGS in names else []
        for name in filter(_SHEET.fullmatch, names):
            tree = xml_tree(archive.read(name), path)
            rows = [
                [*_cells(row, shared, path, posixpath.basename(name).removesuffix(".xml"))]
                for row in tree.iter(f"{_NAME}row")
            ]
            if only and rows:
                head = next((at for at, row in enumerate(rows) if len(row) > 1), 0)  # a title may stand above it
                headings += [cell.text for _, cell in rows[head]]
                columns = {column for column, cell in rows[head] if any(is_meant(cell.text, one) for one in only)}
                rows = [[one for one in row if one[0] in columns] for row in rows[head + 1 :]]
            heads = {*_heads_of_tables(archive, name, path)}
            texts = (cell for row in rows for _, cell in row if lines_in(cell.text))
            found = [cell for cell in texts if cell.element.get("r") not in heads]
            if found:
                self._trees[name] = tree
                self._cells += found
        chosen(headings, only, path)  # refuses what no sheet has
        lines = [(cell, line) for cell in self._cells for line in lines_in(cell.text)]
        self.texts, self._cell_of = [line for _, line in lines], [cell for cell, _ in lines]

    def place(self, number: int) -> str:
        return f"cell {self._cell_of[number].name}"

    def translated(self, translations: Sequence[str]) -> bytes:
        following = iter(translations)
        for cell in self._cells:
            if (translation := with_lines(cell.text, following)) != cell.text:
                _fill(cell, translation)
        written = BytesIO()
        with ZipFile(written, "w") as archive:
            for part in self._archive.infolist():
                tree = self._trees.get(part.filename)
                archive.writestr(part, self._archive.read(part) if tree is None else xml_bytes(tree))
        return written.getvalue()


def _cells(row: Any, shared: Sequence[Any], path: Path, sheet: str) -> Iterator[tuple[str, Cell]]:
    """The cells of a row with text, not those with formulas, and the letters of their columns."""
    for element in row.iter(f"{_NAME}c"):
        kind, string = element.get("t"), None
        if element.find(f"{_NAME}f") is not None:
            continue
        if kind == "inlineStr":
            string = element.find(f"{_NAME}is")
        elif kind == "s":
            number = element.findtext(f"{_NAME}v", "")
            if not (number.isdecimal() and len(number) < 10 and int(number) < len(shared)):
                raise DataError(f"{path} is damaged: its cell {element.get('r')} has a text that is not in the file")
            string = shared[int(number)]
        if string is not None:
            pieces = (*string.findall(f"{_NAME}t"), *string.findall(f"{_NAME}r/{_NAME}t"))
            name = element.get("r", "")
            text = "".join(piece.text or "" for piece in pieces)
            yield re.sub(r"\d", "", name), Cell(element, text, string, f"{sheet}!{name}")


def _heads_of_tables(archive: ZipFile, sheet: str, path: Path) -> Iterator[str]:
    """The names of the cells of a sheet that name the columns of a table in Excel's sense. Another part of the file
    holds the same names, and Excel takes the workbook for damaged if they differ.
    """
    folder, name = posixpath.split(sheet)
    links = f"{folder}/_rels/{name}.rels"
    if links not in archive.namelist():
        return
    with optional("openpyxl", "documents"):
        from openpyxl.utils import column_index_from_string, get_column_letter
    for link in xml_tree(archive.read(links), path).getroot():
        target = posixpath.normpath(posixpath.join("/", folder, link.get("Target", ""))).lstrip("/")
        if link.get("Type", "").endswith("/table") and target in archive.namelist():
            table = xml_tree(archive.read(target), path).getroot()
            found = re.fullmatch(r"([A-Z]{1,3})(\d+)(?::([A-Z]{1,3})\d+)?", table.get("ref", ""))
            if found and table.get("headerRowCount") != "0":
                first, last = map(column_index_from_string, (found[1], found[3] or found[1]))
                yield from (f"{get_column_letter(column)}{found[2]}" for column in range(first, last + 1))


def _fill(cell: Cell, translation: str) -> None:
    """Gives a cell a text of its own."""
    element, runs = cell.element, cell.string.findall(f"{_NAME}r")
    longest = max(runs, key=lambda run: len(run.findtext(f"{_NAME}t", "")), default=None)
    format = None if longest is None else longest.find(f"{_NAME}rPr")
    for child in (*element.findall(f"{_NAME}v"), *element.findall(f"{_NAME}is")):
        element.remove(child)
    element.set("t", "inlineStr")
    around = string = element.makeelement(f"{_NAME}is")
    if format is not None:
        around = element.makeelement(f"{_NAME}r")
        around.append(copy(format))
        string.append(around)
    text = element.makeelement(f"{_NAME}t", {_SPACE: "preserve"})
    text.text = translation
    around.append(text)
    element.append(string)


def read(content: bytes, path: Path, languages: tuple[str, str], only: Sequence[str] = ()) -> Workbook:
    """A workbook and the text in its cells; `only` are the columns that are translated, by the names in the first row
    of each sheet with more than one text. Other sheets stay as they are.

    Raises:
        DataError: it is damaged or no workbook, or no sheet has such a column.
        MissingExtra: lxml or openpyxl is not installed.
    """
    try:
        archive = ZipFile(BytesIO(content))
        size = sum(part.file_size for part in archive.infolist())
        if size > min(LARGEST_UNPACKED, MOST_PACKED * len(content)):
            raise DataError(f"{path} unpacks to {size // 1_000_000:,} MB, too much for one document")
        if damaged := archive.testzip():
            raise BadZipFile(f"its part {damaged}")
        if not any(map(_SHEET.fullmatch, archive.namelist())):
            raise DataError(f"{path} is no Excel workbook (XLSX): it has no sheets")
        return Workbook(archive, path, only)
    except (BadZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error) as error:  # RuntimeError: a password
        raise DataError(f"{path} is not an Excel workbook (XLSX), or is damaged: {str(error)[:200]}") from None
