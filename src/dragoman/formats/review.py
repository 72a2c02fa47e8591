"""Tables for review (XLSX): every text of translated documents with its translation and flags.

A person corrects the translations in a spreadsheet. The next translation with the table takes what it holds, translates
only what is new, and writes the table again; what it was before is next to it, with `~` at the end of its name.
"""

import logging
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.errors import DataError, optional
from dragoman.files import new_file
from dragoman.formats.document import Document
from dragoman.formats.rows import first_line

log = logging.getLogger(__name__)

LONGEST_CELL = 32_767
"""Most characters of a cell in a workbook."""
MOST_ROWS = 1_000_000
_COLUMNS, _WIDTHS = ("file", "place", "source", "translation", "flags"), (24, 20, 70, 70, 20)
_NO_CELL = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that no cell can hold."""


class ReviewRow(NamedTuple):
    """A text of a document, as the columns of the table."""

    file: str
    place: str
    source: str
    translation: str
    flags: str
    """Flags of the translation, with a comma between them."""
    others: tuple[str, ...] = ()
    """The cells of columns that a person has added."""


class ReviewTable:
    """A table for review, which exists or will be written.

    Attributes:
        path: the file of the table.
        left_out: number of texts that no cell can hold, or that are more than a sheet has rows.
    """

    def __init__(self, path: Path, target: str) -> None:
        """Read the table, if it exists, of translations into the language `target`.

        Raises:
            DataError: the file is no table for review, is for another language, or cannot be written.
            MissingExtra: openpyxl is not installed.
        """
        if path.suffix.lower() != ".xlsx":
            raise DataError(f"{path} would be a workbook, so its name must end in .xlsx")
        self.path, self.left_out, self._others = path, 0, list[str]()
        self._columns = [*_COLUMNS[:3], f"translation ({target})", _COLUMNS[4]]
        self._rows = defaultdict[str, list[ReviewRow]](list)
        for row in self._read() if path.exists() else ():
            self._rows[row.file].append(row)
        everywhere = defaultdict[str, dict[str, ReviewRow]](dict)
        for row in (row for rows in self._rows.values() for row in rows if row.translation.strip()):
            everywhere[row.source][row.translation] = row
        self._only = {source: next(iter(rows.values())) for source, rows in everywhere.items() if len(rows) == 1}

    def rows_of(self, file: str) -> Sequence[ReviewRow]:
        """Return the rows of a document."""
        return self._rows.get(file, ())

    def known(self, file: str, document: Document) -> Mapping[int, ReviewRow]:
        """Return the rows that hold a translation for texts of a document, by the number of the text, from 0. If the
        table has several translations of a text, its second occurrence in the file gets the second, and so on.
        """
        here = defaultdict[str, list[ReviewRow]](list)
        for row in self.rows_of(file):
            here[row.source].append(row)
        occurrences, rows = Counter[str](), dict[int, ReviewRow]()
        for number, text in enumerate(document.texts):
            at = occurrences[text]
            row = here[text][at] if at < len(here[text]) else self._only.get(text)
            occurrences[text] += 1
            if row is not None and row.translation.strip():
                rows[number] = row
        return rows

    def set(self, file: str, rows: Iterable[ReviewRow]) -> None:
        """Replace the rows of a document; `write` writes them."""
        self._rows[file] = [*rows]

    def write(self) -> None:
        """Write the table; raise `DiskFull` if the disk is full."""
        with optional("openpyxl", "documents"):
            from openpyxl import Workbook
            from openpyxl.cell import WriteOnlyCell
        book = Workbook(write_only=True)
        sheet: Any = book.create_sheet("review")
        sheet.freeze_panes = "A2"
        for letter, width in zip("ABCDE", _WIDTHS, strict=True):
            sheet.column_dimensions[letter].width = width
        sheet.append([*self._columns, *self._others])
        self.left_out = written = 0
        for row in (row for file in sorted(self._rows) for row in self._rows[file]):
            texts = [*row[:-1], *row.others]
            if written >= MOST_ROWS or any(len(text) > LONGEST_CELL or _NO_CELL.search(text) for text in texts):
                self.left_out += 1
                continue
            cells = [WriteOnlyCell(sheet, text) for text in texts]
            for cell in cells:
                cell.data_type = "s"  # also a text that begins with =
            sheet.append(cells)
            written += 1
        if self.path.exists():
            shutil.copyfile(self.path, self.path.with_name(f"{self.path.name}~"))
        with new_file(self.path) as file:
            book.save(file)
        if self.left_out:
            log.warning("%s: texts left out, for which a cell or the sheet has no room: %s", self.path, self.left_out)

    def _read(self) -> Iterator[ReviewRow]:
        with optional("openpyxl", "documents"):
            import openpyxl
        try:
            book = openpyxl.load_workbook(self.path, read_only=True, data_only=True)
            cells = book.worksheets[0].iter_rows(values_only=True)
            head = [_cell(name) for name in next(cells, ())]
            if missing := [name for name in self._columns if name not in head]:
                raise DataError(
                    f"{self.path} has no column {missing[0]!r}, so it is no table for review of these translations; "
                    "name another file, which is then made"
                )
            columns = [head.index(name) for name in self._columns]
            others = [number for number, name in enumerate(head) if name and number not in columns]
            self._others = [head[number] for number in others]
            for row in cells:
                file, place, source, translation, flags = (_cell(row[column]) for column in columns)
                if source:
                    added = tuple(_cell(row[number]) for number in others)
                    yield ReviewRow(file, place, source, translation, flags, added)
            book.close()
        except DataError:
            raise
        except Exception as error:  # the library raises whatever a broken part leads to
            raise DataError(f"{self.path} is not a workbook (XLSX), or is damaged: {first_line(error)[:200]}") from None


def _cell(value: object) -> str:
    """Return the text of a cell in one line."""
    return "" if value is None else " ".join(f"{value}".split("\n"))
