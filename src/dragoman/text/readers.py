"""Reads parallel text as `Pair`s: two aligned files, a table, a memory or a catalogue, or the Hugging Face hub.

`open_pairs` finds out what an address is and which columns hold the pair, and gives the reasons. Iterating over the
`Reading` that it returns streams the pairs in bounded memory, any number of times. `checks` judges them. Rows that do
not fit are counted, and too many of them are an error.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain, islice, product, zip_longest
from pathlib import Path
from typing import NamedTuple

from dragoman.directions import TAG, Direction, direction_in
from dragoman.directions import named as named_directions
from dragoman.errors import DataError
from dragoman.formats.addresses import HUB, Address, beginning_with, is_prefix, matching, missing
from dragoman.formats.column_names import SOURCE, TARGET, TEXT, holds_language_of
from dragoman.formats.foreign import texts_in
from dragoman.formats.hub import open_hub
from dragoman.formats.json_files import ONE_OBJECT
from dragoman.formats.lines import EncodingErrors, stored_in, without_packing
from dragoman.formats.plain import side_lines
from dragoman.formats.registry import DATA_FORMAT_OF_SUFFIX, DATA_FORMATS, Format
from dragoman.formats.rows import UNTRANSLATED, Table, Untranslated, refuse_markup
from dragoman.languages import UNKNOWN_LANGUAGE, differing, language_of
from dragoman.text.columns import Columns, Naming, listed
from dragoman.text.header import judge_header
from dragoman.text.pair_columns import check_languages, choose_columns, languages_of
from dragoman.text.tables import NamedTable, TextFile, name_columns

RAGGED = "a different number of cells than in the first row"
KEYLESS = "no text under the keys of the first row"

MOST_BROKEN = 0.05
"""The largest share of rows that may be broken: where there are more, the table is read wrongly."""
_MOST_TEXTS = 50
"""Texts in a file of one record; more of them are rows."""
_SUBWORD_MARKS = ("@@ ", "▁", " ##", "￭")
ROWS = 300
"""The number of rows below the first by which a header and columns of numbers are judged."""


class Pair(NamedTuple):
    """A sentence, its translation, and their place (`corpus.csv:17`)."""

    source: str
    target: str
    origin: str
    fault: str = ""
    """The reason if a row gave no pair; then both sides are empty."""
    direction: Direction | None = None
    """The languages that the row itself names."""


@dataclass(frozen=True)
class Reading:
    """Pairs that can be read any number of times, and the choices by which they are read."""

    name: str
    files: tuple[Path, ...]
    """The files that are read; none for the hub."""
    format: Format
    columns: Columns
    languages: tuple[str, str]
    reasons: Mapping[str, str]
    """The reasons for the format, the columns, and the languages."""
    named: tuple[str | None, str | None]
    """The languages in the names of columns or files, whatever else is known."""
    doubts: tuple[str, ...]
    """Warnings about what may have been read wrongly."""
    pairs: Callable[[Counter[str]], Iterator[Pair]]
    repairs: Counter[str] = field(default_factory=Counter)
    """The number of repairs in the latest pass over the pairs, by kind."""

    def __iter__(self) -> Iterator[Pair]:
        self.repairs.clear()
        return self.pairs(self.repairs)


class SeveralDirections(DataError):
    """The rows of a table name several `directions`, and none is chosen. `reading(languages, directions)` returns the
    pairs in some directions, as pairs in these languages.
    """

    def __init__(
        self,
        message: str,
        directions: Sequence[Direction],
        reading: Callable[[Direction, Collection[Direction]], Reading],
    ) -> None:
        super().__init__(message)
        self.directions, self.reading = directions, reading


class _Options(NamedTuple):
    """Facts about some text that are known before it is opened."""

    naming: Naming
    format: Format | None
    encoding_errors: EncodingErrors


def open_pairs(
    address: Address,
    naming: Naming = Naming(),  # noqa: B008 (immutable)
    format: Format | None = None,
    encoding_errors: EncodingErrors = "strict",
) -> Reading:
    """Find out how to read `address`, from its name and its first rows.

    Raises:
        DataError: nothing readable is there, or the columns of the pair are unclear.
    """
    options = _Options(naming, format, encoding_errors)
    if several := matching(address) or _tables(address):
        return _joined(address, several, options)
    if not isinstance(address, str):
        return _open_aligned((Path(address[0]), Path(address[1])), "two files were given", options)
    if address.startswith(HUB):
        return _open_table(open_hub(address), options.naming, address)
    path = Path(address)
    if is_prefix(path):
        named = {without_packing(file).name.removeprefix(f"{path.name}."): file for file in beginning_with(path)}
        if pair := _open_among(named, f"named {path.name}.*", options):
            return pair
        raise DataError(
            f"{path} does not exist, and of the files named {path.name}.* ({', '.join(named)}) no two are a pair; "
            "give two files, or one table"
        )
    if not path.exists():
        raise missing(path)
    return _open_archive(path, options) if texts_in(path) else _open_file(path, options)


def _open_file(path: Path, options: _Options) -> Reading:
    file = TextFile.at(path, options.format, options.encoding_errors, options.naming.quoted)
    if file.format == "plain":
        raise DataError(
            f"{path} has no tabs between columns; if it is one side of a pair, give both files, or what their names "
            "begin with, as in train; if commas or semicolons separate its columns, add --set data.format=csv"
        )
    return _open_table(file.table(), options.naming, path.name)


def _tables(address: Address) -> list[Address]:
    """Return two files that are no sides of a pair, because one is of a format without lines: a memory, say."""
    names: list[Format | None] = [
        DATA_FORMAT_OF_SUFFIX.get(without_packing(Path(name)).suffix.lower()) for name in address
    ]
    formats = [DATA_FORMATS[name] for name in names if name]
    return [*address] if len(formats) == len(names) and not all(format.has_lines for format in formats) else []


def _joined(address: Address, files: Sequence[Address], options: _Options) -> Reading:
    """Join the readings of several files, in the direction of the first; leave out those without translations."""
    readings: list[Reading] = []
    untranslated: list[Untranslated] = []
    for file in files:
        try:
            readings.append(open_pairs(file, *options))
        except Untranslated as error:
            untranslated.append(error)
        if options.naming.expected is None and readings:
            naming = options.naming._replace(expected=readings[0].languages, expected_by=readings[0].name)
            options = options._replace(naming=naming)
    if not readings:
        raise untranslated[0]
    doubts = [f"{len(untranslated)} of {len(files)} files left out: {untranslated[0]}"] if untranslated else []
    return join(readings, address if isinstance(address, str) else " and ".join(address), doubts)


def join(readings: Sequence[Reading], name: str = "", doubts: Sequence[str] = ()) -> Reading:
    """Return the pairs of several readings as one, under one `name`, or else all their names."""
    first = readings[0]
    if len(readings) == 1 and not name:
        return first
    return replace(
        first,
        doubts=(*doubts, *(doubt for reading in readings for doubt in reading.doubts)),
        name=name or " and ".join(dict.fromkeys(reading.name for reading in readings)),
        files=tuple(file for reading in readings for file in reading.files),
        reasons={**first.reasons, "format": f"{first.reasons['format']}; the first of {len(readings)} files"},
        pairs=lambda repairs: chain.from_iterable(reading.pairs(repairs) for reading in readings),
        repairs=Counter(),
    )


def turned(reading: Reading) -> Reading:
    """Return the same pairs with their sides exchanged."""
    columns, (source, target), pairs = reading.columns, reading.columns.positions, reading.pairs
    return replace(
        reading,
        columns=columns._replace(first=columns.second, second=columns.first, positions=(target, source)),
        languages=(reading.languages[1], reading.languages[0]),
        pairs=lambda repairs: (pair._replace(source=pair.target, target=pair.source) for pair in pairs(repairs)),
        repairs=Counter(),
    )


def _open_archive(path: Path, options: _Options) -> Reading:
    """Open a ZIP archive of two files whose names end in languages, as OPUS packs them, or of a table."""
    names = texts_in(path)
    endings = [without_packing(Path(name)).suffix.lstrip(".") for name in names]
    known = {
        ending: path / name
        for ending, name in zip(endings, names, strict=True)
        if endings.count(ending) == 1 and (f".{ending}" in DATA_FORMAT_OF_SUFFIX or language_of(ending))
    }
    if pair := _open_among(known, f"in {path}", options):
        return pair
    raise DataError(
        f"{path} holds {len(names)} files{listed(names)}, but not one table, or two whose names end in languages; "
        "unpack it, and name the files"
    )


def _open_among(files: Mapping[str, Path], where: str, options: _Options) -> Reading | None:
    """Open two of several files, with their endings, that are named for languages, or the only table."""
    tables = [file for ending, file in files.items() if f".{ending}" in DATA_FORMAT_OF_SUFFIX]
    sides = {ending: file for ending, file in files.items() if "." not in ending and file not in tables}
    if len(sides) >= 2:
        columns = choose_columns(list(sides), options.naming, f"the files {where}")
        return _open_aligned((sides[columns.first], sides[columns.second]), f"two files are {where}", options)
    return _open_file(tables[0], options) if len(tables) == 1 else None


def _open_aligned(paths: tuple[Path, Path], reason: str, options: _Options) -> Reading:
    naming, encoding_errors = options.naming, options.encoding_errors
    for path in paths:
        refuse_markup(path)
    source, target = (without_packing(path).suffix.lstrip(".") for path in paths)
    if source == target:  # en.txt and it.txt
        source, target = (without_packing(path).stem for path in paths)
    columns, expected = Columns(source, target, "one file each"), naming.expected
    named = languages_of(columns, naming, paths[0].name).named
    if expected and not any(naming.languages) and differing(named, expected) and not differing(named[::-1], expected):
        raise DataError(
            f"{paths[0]} is named for {named[0]} and {paths[1]} for {named[1]}, but {naming.expected_by} "
            f"goes from {expected[0]} to {expected[1]}; give them in this order: {paths[1]} {paths[0]}"
        )
    sample = [line for path in paths for line in islice(side_lines(path, encoding_errors), ROWS)]
    table = Table(f"{paths[0]} and {paths[1].name}", paths, "plain", reason, lambda _: iter(()))
    pairs = partial(_aligned_pairs, paths, encoding_errors)
    return _reading(table, naming, columns, (source, target), paths[0].name, pairs, sample)


def _open_table(table: Table, naming: Naming, hint: str) -> Reading:
    """Open a table of cells, whose first row may be a header, or of JSON objects or lists of two texts."""
    named = name_columns(table, lambda first, rows: judge_header(first, rows, naming), ROWS, True)
    names, header, measured = named.names, named.header, named.measured()
    texts = sum(not column.are_no_texts for column in measured)
    if table.has_records:
        is_one = named.kind == "an object" and len(named.sample) == 1 and not DATA_FORMATS[table.format].holds_languages
        if is_one and not 2 <= len(names) <= _MOST_TEXTS:
            raise DataError(f"{table.name} is {ONE_OBJECT}")
    elif not (
        header.is_header
        or len(names) < 3
        or texts == 2
        or naming.header is not None
        or any(naming.columns)
        or naming.positions_of_trained(names)
    ):
        raise DataError(
            f"{table.name} has {len(names)} columns. Is its first row ({named.shown}) a header? Then add "
            "--set data.header=true and name the columns: --set data.source_column=NAME --set data.target_column=NAME; "
            "otherwise name them by number: --set data.source_column=NUMBER --set data.target_column=NUMBER"
        )
    columns = choose_columns(names, naming, table.name, hint, measured)
    numbers = [names[at] for at in columns.positions if measured[at].are_numbers]
    if numbers and not all(naming.columns):
        raise DataError(
            f"{table.name}: column {numbers[0]!r} holds only numbers; say which columns are the pair{listed(names)}, "
            "by name or number from 1: --set data.source_column=NAME --set data.target_column=NAME"
        )
    if not table.has_records:
        reason = f"the first row ({named.shown}) is a header: {header.reason}" if header.is_header else "no header"
        if header.is_header and naming.header is None:
            reason += "; --set data.header=false says that it is a pair"
        columns = columns._replace(reason=f"{columns.reason}; {reason}")
    sample = [cell for row in named.sample for cell in row]
    reading = _reading(table, naming, columns, names, hint, partial(_pairs, named, columns.positions), sample)
    for of_languages in _columns_of_languages(named, columns):
        directed = replace(reading, pairs=partial(_pairs, named, (*columns.positions, *of_languages)))
        where = " and ".join(repr(names[at]) for at in of_languages)
        if (chosen := _in_one_direction(directed, naming, where)) is not None:
            reading = chosen
            break
    if not header.doubt:
        return reading
    doubt = (
        f"{table.name}: your first row looks like a header ({named.shown}): {header.doubt}; it is read as a pair; "
        "--set data.header=true if it is a header, data.header=false if it is not"
    )
    return replace(reading, doubts=(*reading.doubts, doubt))


def _columns_of_languages(named: NamedTable, columns: Columns) -> list[tuple[int, ...]]:
    """Return the positions of columns, two or one, that may name the languages of each row, by their names. There are
    none if the columns of the pair name languages themselves.
    """
    if any(map(language_of, columns[:2])):
        return []
    sides = [holds_language_of(name) for name in named.names]
    at_side = [[at for at, of in enumerate(sides) if of == side] for side in (SOURCE, TARGET, TEXT)]
    return [*product(*at_side[:2]), *((at,) for at in at_side[2])]


_BETWEEN = re.compile(r"\s*(?:[-=]*>|→|[/|:_-]|\bto\b|(?<=[a-z])2(?=[a-z]))\s*")


@lru_cache(maxsize=10_000)
def _direction_of(*names: str) -> Direction | None:
    """Return the languages that the cells of a row name: two codes or names, or one direction.

    >>> [_direction_of(name) for name in ("en-de", "English to German", "en2de", "pt-BR")]
    [('en', 'de'), ('en', 'de'), ('en', 'de'), None]
    """
    if len(names) == 1 and re.fullmatch("[a-z]{2,3}[-_](?:[A-Z]{2}|[A-Z][a-z]{3})", names[0].strip()):
        return None  # a language in a region or script
    if (named := direction_in(">".join(names))) is not None:
        return named
    sides = [language_of(name) for name in (names if len(names) == 2 else _BETWEEN.split(names[0].strip()))]
    source, target = sides if len(sides) == 2 else (None, None)
    return (source, target) if source and target and source != target else None


def _by_tags(reading: Reading) -> Reading:
    """Return the pairs with the directions that tags before them name, and without the tags."""
    source, pairs = reading.languages[0], reading.pairs

    def directed(repairs: Counter[str]) -> Iterator[Pair]:
        for pair in pairs(repairs):
            tag = TAG.match(pair.source)
            direction = _direction_of(source, tag[1]) if tag else None
            yield pair._replace(source=TAG.sub("", pair.source).lstrip(), direction=direction)

    return replace(reading, pairs=directed, repairs=Counter())


def _in_one_direction(reading: Reading, naming: Naming, where: str) -> Reading | None:
    """Return the pairs in the direction that is wanted, if each row names one; `where`, in words. None if most rows
    name none.

    Raises:
        DataError: there are none.
        SeveralDirections: it is not clear which are wanted.
    """
    counts, nowhere, first = Counter[Direction](), 0, ""
    for pair in reading:
        if pair.direction is not None:
            counts[pair.direction] += 1
        elif not pair.fault and (pair.source.strip() or pair.target.strip()):
            nowhere, first = nowhere + 1, first or pair.origin
    rows, pairs = nowhere + counts.total(), reading.pairs
    if 2 * counts.total() <= rows:
        return None
    doubt = f"{nowhere:,} of {rows:,} rows name no direction by {where} (first at {first}) and are left out"

    def chosen(languages: Direction, kept: Collection[Direction]) -> Reading:
        return replace(
            reading,
            languages=languages,
            reasons={**reading.reasons, "languages": f"{sum(counts[at] for at in kept):,} rows name them by {where}"},
            named=languages,
            doubts=(*reading.doubts, *([doubt] if nowhere else [])),
            pairs=lambda repairs: (pair for pair in pairs(repairs) if pair.fault or pair.direction in kept),
            repairs=Counter(),
        )

    wanted = naming.wanted_languages
    fitting = [direction for direction in counts if not differing(direction, wanted)]
    if not fitting:
        asked = "-".join(code or "any" for code in wanted)
        raise DataError(f"{reading.name}: no row is {asked} by {where}; there are {named_directions(counts)}")
    if len(fitting) > 1 and not all(wanted):
        raise SeveralDirections(
            f"{reading.name} has rows in several directions, {named_directions(fitting)}, by {where}; choose one with "
            "--set data.source_language=CODE --set data.target_language=CODE; prepare-data takes all",
            fitting,
            chosen,
        )
    return chosen((wanted[0] or fitting[0][0], wanted[1] or fitting[0][1]), {*fitting})


def _reading(
    table: Table,
    naming: Naming,
    columns: Columns,
    names: Sequence[str],
    hint: str,
    pairs: Callable[[Counter[str]], Iterator[Pair]],
    sample: Sequence[str],
) -> Reading:
    """Return the reading of a table's `pairs` from the chosen columns; `hint` is a name that may give the languages."""
    chosen = languages_of(columns, naming, hint)
    check_languages(names, columns, chosen, naming, table.name)
    doubts = [
        f"{table.name}: the {side} is {name!r}, which names {named}, but data.{side}_language says {by_user}"
        for side, name, named, by_user in zip(naming.roles, columns[:2], chosen.named, naming.languages, strict=True)
        if differing([named], [by_user])
    ]
    if mark := subword_mark(sample):
        doubts.append(
            f"the text of {table.name} is already split into subwords, as {mark!r} shows, and translations would be "
            "too; Dragoman splits words itself, so give the original text"
        )
    reading = Reading(
        name=table.name,
        files=tuple(dict.fromkeys(map(stored_in, table.files))),
        format=table.format,
        columns=columns,
        languages=(chosen.source, chosen.target),
        reasons={"format": table.reason, "columns": columns.reason, "languages": chosen.reason},
        named=chosen.named,
        doubts=tuple(doubts),
        pairs=pairs,
    )
    if not naming.tags or reading.languages[0] == UNKNOWN_LANGUAGE:
        return reading
    return _in_one_direction(_by_tags(reading), naming, "tags such as >>de<<") or reading


def subword_mark(texts: Sequence[str]) -> str | None:
    """Return the mark with which other tools cut words of these texts into subwords; None if they are not cut.

    >>> subword_mark(["The do@@ g sle@@ eps."]), subword_mark(["▁The ▁dog ▁sleep s ."]), subword_mark(["The dog."])
    ('@@', '▁', None)
    """
    marks = (mark for mark in _SUBWORD_MARKS if sum(mark in text for text in texts) > len(texts) / 5)
    return next(map(str.strip, marks), None)


def _aligned_pairs(paths: tuple[Path, Path], encoding_errors: EncodingErrors, repairs: Counter[str]) -> Iterator[Pair]:
    sources, targets = (side_lines(path, encoding_errors, repairs) for path in paths)
    name = stored_in(paths[0]).name
    for number, (source, target) in enumerate(zip_longest(sources, targets), 1):
        if source is None or target is None:
            counts = [number - 1 if side is None else number for side in (source, target)]
            counts[0] += sum(1 for _ in sources)
            counts[1] += sum(1 for _ in targets)
            raise DataError(
                f"{paths[0]} has {counts[0]:,} lines but {paths[1]} {counts[1]:,}; "
                "the files must be aligned line by line"
            )
        yield Pair(source, target, f"{name}:{number}")


def _pairs(named: NamedTable, positions: Sequence[int], repairs: Counter[str]) -> Iterator[Pair]:
    """Yield the pairs of a table, from the columns of the sides, and perhaps of languages; refuse one in which too many
    rows give none, because it is read wrongly.
    """
    table, complaints = named.table, list[str]()
    name, fault = stored_in(Path(table.name)).name, KEYLESS if table.has_records else RAGGED
    rows = broken = 0
    for number, row in named.rows(positions, repairs):
        rows += 1
        if isinstance(row, str):
            broken += 1
            complaints += [row] * (broken <= 3)
            yield Pair("", "", f"{name}:{number}", fault)
            continue
        source, target, *languages = row or ("", "")
        if table.format == "xlsx" and not (source.strip() and target.strip()):
            repairs[UNTRANSLATED] += 1
            continue
        direction = _direction_of(*languages) if languages else None
        yield Pair(source, target, f"{name}:{number}", direction=direction)
    if broken > MOST_BROKEN * rows:
        share = f"{broken:,} of {rows:,} rows" if broken > 1 else f"1 of {rows:,} rows"
        quotes = ", and --set data.quoted=true" * (table.format == "tsv")
        advice = "" if table.has_records else f"; a cell that holds the delimiter or a line break needs quotes{quotes}"
        raise DataError(
            f"{'; '.join(complaints)}{'; …' if broken > len(complaints) else ''} ({share} of {table.name}: {fault}; up "
            f"to {MOST_BROKEN:.0%} would be dropped): fix the rows{advice}"
        )
