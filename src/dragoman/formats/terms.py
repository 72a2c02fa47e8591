"""Files of terms: a source term and the forms of its translation in every row."""

from collections import Counter
from pathlib import Path

from dragoman.errors import DataError
from dragoman.formats.column_names import SOURCE, TARGET, names_columns, role_of
from dragoman.formats.rows import format_of, open_table

_COLUMNS = {"from": SOURCE, "term": SOURCE, "word": SOURCE, "termine": SOURCE, "to": TARGET, "forms": TARGET}


def read_terms(path: Path) -> list[tuple[str, ...]]:
    """Return the terms of a TSV or CSV file, a term a row: the source term and the forms of its translation. A first
    row that names two languages, or a source and a target, is a header.

    Raises:
        DataError: there is no such file, or a row of it is no term.
    """
    format, reason = format_of(path)
    if format not in ("tsv", "csv", "plain"):
        raise DataError(
            f"{path} is {format}; terms are read from a TSV or CSV file, a source term and its forms in each row"
        )
    table = open_table(path, "tsv" if format == "plain" else format, reason, "strict")
    terms: list[tuple[str, ...]] = []
    for number, row in table.rows(Counter()):
        cells = [cell.strip() for cell in row]
        roles = {_COLUMNS.get(cell.lower()) or role_of(cell.lower().removesuffix(" term")) for cell in cells}
        if not any(cells) or (not terms and (names_columns(cells) or roles >= {SOURCE, TARGET})):
            continue
        while len(cells) > 2 and not cells[-1]:
            cells.pop()  # shorter than the longest row of a spreadsheet
        if not all(cells):
            what = f"{cells[0]!r} has an empty form" if cells[0] else "the source term is empty"
            raise DataError(f"{path}:{number}: {what}; a term without forms, which stays as it is, has one column")
        terms.append(tuple(cells))
    if not terms:
        raise DataError(f"{path} holds no terms")
    return terms
