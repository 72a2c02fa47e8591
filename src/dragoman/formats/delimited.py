"""CSV and TSV: the rows of a table for training, and the text in its cells for translating, line by line.

Rows stream through the csv module in bounded memory. A document needs the offsets of its cells, so it reads them itself
and writes all but their text as it was, to the byte.
"""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, compress, islice
from pathlib import Path
from typing import NamedTuple

from dragoman.errors import DataError
from dragoman.formats.cancelling import check_cancelled
from dragoman.formats.column_names import names_columns
from dragoman.formats.document import Document, Where, lines_in, with_lines
from dragoman.formats.lines import CARRIAGE_RETURNS, EncodingErrors, read_lines, read_running
from dragoman.formats.reading import decoded
from dragoman.formats.values import Value, selected

CellRow = tuple[int, list[str]]
"""The number of the line on which a row begins, and its cells."""

LONGEST_CELL = 1 << 24
"""Characters of a CSV cell. A quote that is never closed would otherwise fill the memory. Python's csv module has one
limit for the whole process, by default 131,072; it is raised, and never lowered."""
_GIVEN_DELIMITER = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
# Replaces a carriage return inside a CSV line, which the csv module would take for a line end. Decoded UTF-8 never
# holds a lone surrogate, so nothing else is changed back.
_CARRIAGE_RETURN = "\udc0d"
_ROWS_SAMPLED = 100
_PIECES_SAMPLED = 256
"""Pieces of about a quarter of a million characters whose quotes are counted."""
# A cell between tabs or line ends that is quoted as a whole, or else holds a quote.
_CELL_WITH_QUOTES = re.compile(r'(?<![^\t\n])(?:"([^"]*(?:""[^"]*)*)"(?=[\t\n]|\Z)|[^\t\n"]*"[^\t\n]*)')
_UNQUOTED = "; if all quotes are text: --set data.quoted=false"


def choose_rows(
    path: Path, is_tsv: bool, encoding_errors: EncodingErrors, quoted: bool | None
) -> tuple[Callable[[Counter[str]], Iterator[CellRow]], str]:
    """Return the function that reads a TSV or CSV file, and a remark on what was assumed. `quoted` says whether quotes
    around cells belong to the format; None: they do in CSV, and in TSV if most of its quotes look like those of CSV.
    """
    remark = ""
    if is_tsv and quoted is None and (count := quoted_cells(path, encoding_errors)):
        remark = (
            f"; {count:,} cells are quoted as in CSV, and their quotes are not taken for text "
            "(--set data.quoted=false takes them for text)"
        )
        quoted = True
    if is_tsv and not quoted:

        def tsv_rows(repairs: Counter[str]) -> Iterator[CellRow]:
            lines = enumerate(read_lines(path, encoding_errors, repairs), 1)
            return ((number, line.split("\t")) for number, line in lines)

        return tsv_rows, remark
    quoted = quoted is not False
    delimiter = "\t" if is_tsv else csv_delimiter(path, encoding_errors, quoted)
    if not is_tsv and delimiter != ",":
        remark = f", with {delimiter!r} between the cells"
    return partial(csv_rows, path, encoding_errors, delimiter=delimiter, quoted=quoted), remark


def quoted_cells(path: Path, encoding_errors: EncodingErrors) -> int:
    """Return the number of cells of a TSV file whose quotes belong to the format; 0 if quotes are text.

    The format quotes a cell that holds quotes, which it doubles, or line breaks; other cells never, or a whole column
    of them. In text, quotes are anywhere.
    """
    needed = text = lines = 0
    needless = Counter[bool]()  # whether the cell is the last of its line
    for piece in islice(read_running(path, encoding_errors), _PIECES_SAMPLED):
        lines += piece.count("\n")
        for cell in _CELL_WITH_QUOTES.finditer(piece) if '"' in piece else ():
            inside = cell[1]
            if inside is None or "\t" in inside:
                text += 1
            elif '""' in inside or "\n" in inside:
                needed += 1
            else:
                needless[piece.startswith("\n", cell.end())] += 1
    is_column = not text and max(needless.values(), default=0) >= 0.9 * lines
    return needed + needless.total() if needed > text or is_column else 0


def csv_rows(
    path: Path, encoding_errors: EncodingErrors, repairs: Counter[str], delimiter: str = ",", quoted: bool = True
) -> Iterator[CellRow]:
    """Yield the cells of a CSV file (RFC 4180): a quoted cell may hold line breaks, and a quote in it is doubled.

    Carriage returns at line ends are not counted as repairs, because that is how the lines of CSV end.

    Raises:
        DataError: a quote is never closed, or not doubled; names the line where its row begins.
    """
    csv.field_size_limit(max(LONGEST_CELL, csv.field_size_limit()))
    lines_read, before = 0, repairs[CARRIAGE_RETURNS]

    def lines() -> Iterator[str]:
        nonlocal lines_read
        for line in read_lines(path, encoding_errors, repairs):
            lines_read += 1
            yield (line.replace("\r", _CARRIAGE_RETURN) if "\r" in line else line) + "\n"
        repairs[CARRIAGE_RETURNS] = before

    quoting = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    source = lines()
    if _given_delimiter(path, encoding_errors):
        next(source)
    reader = csv.reader(source, delimiter=delimiter, quoting=quoting, strict=True)
    while True:
        number = lines_read + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise DataError(_complaint(path, number, lines_read, str(error))) from None
        if cells is None:
            return
        yield number, [cell.replace(_CARRIAGE_RETURN, "\r") if _CARRIAGE_RETURN in cell else cell for cell in cells]


def csv_delimiter(path: Path, encoding_errors: EncodingErrors, quoted: bool = True) -> str:
    """Return the delimiter of cells: comma, semicolon or tab, whichever gives a header, or else rows of equal width."""
    if delimiter := _given_delimiter(path, encoding_errors):
        return delimiter
    fits: dict[str, tuple[bool, float, bool]] = {}
    for delimiter in ",;\t":
        sample: list[list[str]] = []
        with suppress(DataError):  # if this is the delimiter, reading will complain
            rows = csv_rows(path, encoding_errors, Counter(), delimiter, quoted)
            sample.extend(islice((cells for _, cells in rows if any(cells)), _ROWS_SAMPLED))
        first = sample[0] if sample else []
        equally_wide = sum(len(cells) == len(first) > 1 for cells in sample) / max(1, len(sample))
        fits[delimiter] = (names_columns(first), equally_wide, len(first) == 2)
    return max(fits, key=lambda delimiter: fits[delimiter])


def _given_delimiter(path: Path, encoding_errors: EncodingErrors) -> str | None:
    """Return the delimiter that the first line names for a spreadsheet, as in `sep=;`."""
    first = _GIVEN_DELIMITER.fullmatch(next(read_lines(path, encoding_errors)))
    return first[1] if first else None


def _complaint(path: Path, start: int, end: int, complaint: str) -> str:
    if "field larger" in complaint or "unexpected end" in complaint:
        how = "never closed" if "unexpected end" in complaint else f"not closed within {LONGEST_CELL:,} characters"
        return f"{path}:{start} opens a quote that is {how}; close it, or double a quote that is text{_UNQUOTED}"
    if "expected after" in complaint:
        lines = f"{path}:{end}" if start == end else f"{path}:{end} (in the row that begins on line {start})"
        return f"{lines} goes on after a closing quote; a quote that is text is doubled, and the cell quoted{_UNQUOTED}"
    return f"{path}:{start} is not CSV: {complaint}"


class TableCell(NamedTuple):
    """A cell, without the quotes around it."""

    where: Where
    is_quoted: bool
    text: str
    column: int  # from 1


class DelimitedTable(Document):
    """A table. All but the text of its cells stays as it is, to the byte."""

    def __init__(
        self, content: str, encoding: str, delimiter: str, has_quotes: bool, path: Path, only: Sequence[str]
    ) -> None:
        """Find the cells to translate; `has_quotes` says whether quotes around a cell belong to the format."""
        super().__init__()
        self._content, self._encoding, self._delimiter, self._has_quotes = content, encoding, delimiter, has_quotes
        rows = self._rows(path)
        first = next(rows, [])
        names = {cell.column: cell.text.strip() for cell in first}
        head = first[-1].where if first else (0, 0)
        cells = [cell for row in chain([first], rows) for cell in row if lines_in(cell.text)]
        values = [
            Value(number, names.get(number) or f"column {number}", text, where <= head, str(number))
            for where, _, text, number in cells
        ]
        wanted, self.notes = selected(values, only, path)
        self._cells = [*compress(cells, wanted)]
        lines = [(cell, line) for cell in self._cells for line in lines_in(cell.text)]
        self.texts, self._cell_of = [line for _, line in lines], [cell for cell, _ in lines]

    def place(self, number: int) -> str:
        return self.line_of(self._content, self._cell_of[number].where)

    def translated(self, translations: Sequence[str]) -> bytes:
        following = iter(translations)
        parts, end = list[str](), 0
        for cell in self._cells:
            check_cancelled()
            translation = with_lines(cell.text, following)
            if translation != cell.text:
                parts += [self._content[end : cell.where[0]], self._written(translation, cell.is_quoted)]
                end = cell.where[1]
        return "".join([*parts, self._content[end:]]).encode(self._encoding)

    def _rows(self, path: Path) -> Iterator[list[TableCell]]:
        """Yield the cells of each row."""
        content, between = self._content, re.escape(self._delimiter)
        quoted = r'"([^"]*+(?:""[^"]*+)*+)"|(?!")' if self._has_quotes else "((?!))|"
        pattern = re.compile(rf"(?:{quoted}((?:[^{between}\r\n]|\r(?!\n))*+))({between}|\r?\n|\Z)")
        row, place = list[TableCell](), int(content.startswith("\ufeff"))
        end = content.find("\n") + 1 or len(content)
        if _GIVEN_DELIMITER.fullmatch(content[place:end].rstrip("\r\n")):
            place = end
        while place < len(content) or row:
            check_cancelled()
            cell = pattern.match(content, place)
            if cell is None:
                number = content.count("\n", 0, place) + 1
                raise DataError(
                    f"{path}:{number} has a cell whose quote is never closed, or with text after a closing quote; put "
                    "all of a cell in quotes, and double those in it"
                )
            is_quoted = cell[1] is not None
            text = cell[1].replace('""', '"') if is_quoted else cell[2]
            row.append(TableCell(cell.span(1 if is_quoted else 2), is_quoted, text, len(row) + 1))
            place = cell.end()
            if cell[3] != self._delimiter:
                yield row
                row = []

    def _written(self, text: str, is_quoted: bool) -> str:
        """Return a text as a cell that was quoted or not; with quotes, if it needs them now."""
        if not self._has_quotes:
            return re.sub(r"[\t\r\n]", " ", text)
        doubled = text.replace('"', '""')
        needs_quotes = not is_quoted and any(sign in text for sign in (self._delimiter, '"', "\r", "\n"))
        return f'"{doubled}"' if needs_quotes else doubled


def read(content: bytes, path: Path, languages: tuple[str, str], only: Sequence[str] = ()) -> DelimitedTable:
    """Read a table and the text in its cells; `only` are the columns to translate, by the names in the first row, which
    then stays, or by their numbers.

    Raises:
        DataError: it is damaged, or has no such column.
    """
    is_tsv = path.suffix.lower() in (".tsv", ".tab")
    delimiter = "\t" if is_tsv else csv_delimiter(path, "strict")
    has_quotes = delimiter != "\t" or quoted_cells(path, "strict") > 0
    return DelimitedTable(*decoded(content, path), delimiter, has_quotes, path, only)
