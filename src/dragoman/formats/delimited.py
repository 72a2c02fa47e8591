"""Tables, CSV and TSV: the text in their cells, line by line."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, compress
from pathlib import Path
from typing import NamedTuple

from dragoman.errors import DataError
from dragoman.formats.document import Document, Where, check_cancelled, line_of, lines_in, with_lines
from dragoman.formats.reading import decoded
from dragoman.formats.rows import DELIMITER_GIVEN, ENDINGS, csv_delimiter, quoted_cells
from dragoman.formats.values import Value, selected


class Cell(NamedTuple):
    """A cell, without the quotes around it."""

    where: Where
    is_quoted: bool
    text: str
    column: int  # from 1


class Table(Document):
    """A table. All but the text of its cells stays as it is, to the byte."""

    def __init__(
        self, content: str, encoding: str, delimiter: str, has_quotes: bool, path: Path, only: Sequence[str]
    ) -> None:
        """`has_quotes` says whether quotes around a cell are no text."""
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
        return line_of(self._content, self._cell_of[number].where)

    def translated(self, translations: Sequence[str]) -> bytes:
        following = iter(translations)
        parts, end = list[str](), 0
        for cell in self._cells:
            translation = with_lines(cell.text, following)
            if translation != cell.text:
                parts += [self._content[end : cell.where[0]], self._written(translation, cell.is_quoted)]
                end = cell.where[1]
        return "".join([*parts, self._content[end:]]).encode(self._encoding)

    def _rows(self, path: Path) -> Iterator[list[Cell]]:
        """The cells of each row.

        Raises:
            DataError: a quoted cell does not end as it should.
        """
        content, between = self._content, re.escape(self._delimiter)
        quoted = r'"([^"]*+(?:""[^"]*+)*+)"|(?!")' if self._has_quotes else "((?!))|"
        pattern = re.compile(rf"(?:{quoted}((?:[^{between}\r\n]|\r(?!\n))*+))({between}|\r?\n|\Z)")
        row, place = list[Cell](), int(content.startswith("\ufeff"))
        end = content.find("\n") + 1 or len(content)
        if DELIMITER_GIVEN.fullmatch(content[place:end].rstrip("\r\n")):
            place = end
        while place < len(content) or row:
            found = pattern.match(content, place)
            if found is None:
                number = content.count("\n", 0, place) + 1
                raise DataError(
                    f"{path}:{number} has a cell whose quote is never closed, or with text behind a closing quote; put "
                    "all of a cell in quotes, and double those in it"
                )
            is_quoted = found[1] is not None
            text = found[1].replace('""', '"') if is_quoted else found[2]
            row.append(Cell(found.span(1 if is_quoted else 2), is_quoted, text, len(row) + 1))
            place = found.end()
            if found[3] != self._delimiter:
                check_cancelled()
                yield row
                row = []

    def _written(self, text: str, is_quoted: bool) -> str:
        """A text as a cell that was quoted or not; with quotes, if it needs them now."""
        if not self._has_quotes:
            return re.sub(r"[\t\r\n]", " ", text)
        doubled = text.replace('"', '""')
        needs_quotes = not is_quoted and any(sign in text for sign in (self._delimiter, '"', "\r", "\n"))
        return f'"{doubled}"' if needs_quotes else doubled


def read(content: bytes, path: Path, languages: tuple[str, str], only: Sequence[str] = ()) -> Table:
    """A table and the text in its cells; `only` are the columns that are translated, by the names in the first row,
    which then stays, or by their numbers.

    Raises:
        DataError: it is damaged, or has no such column.
    """
    is_tsv = ENDINGS.get(path.suffix.lower()) == "tsv"
    delimiter = "\t" if is_tsv else csv_delimiter(path, "strict")
    has_quotes = delimiter != "\t" or quoted_cells(path, "strict") > 0
    return Table(*decoded(content, path), delimiter, has_quotes, path, only)
