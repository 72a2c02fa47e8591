"""Test sets: source sentences with every reference that a translation of them may be held against.

A line may have any number of references: one in pairs, as many as there are files beside the source, or those that
stand after the source in a `.multiref.tsv`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dragoman.data.columns import UNKNOWN_LANGUAGE, language_of, languages_in
from dragoman.data.lines import read_lines, without_gz
from dragoman.data.readers import open_pairs
from dragoman.errors import DataError

MULTIREF = ".multiref.tsv"
PREPARED = "test.jsonl"


@dataclass(frozen=True)
class ReferenceSet:
    """A test set: each source sentence and its references, at least one."""

    name: str
    sources: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]
    language: str = UNKNOWN_LANGUAGE
    """Of the references, as far as the names of files or columns tell."""

    def __len__(self) -> int:
        return len(self.sources)

    def __str__(self) -> str:
        counts = [len(row) for row in self.references]
        fewest, most = min(counts), max(counts)
        each = f"{most}" if fewest == most else f"{fewest} to {most}"
        return f"{self.name}: {len(self):,} lines, {each} reference{'s' * (most > 1)} each"

    @cached_property
    def identity(self) -> str:
        """SHA-256 of sources and references: the same for the same test set, whatever file it came from."""
        rows = ([source, *row] for source, row in zip(self.sources, self.references, strict=True))
        return hashlib.sha256("".join(json.dumps(row) + "\n" for row in rows).encode()).hexdigest()


def read_references(source: Path | str, references: Sequence[Path | str] = ()) -> ReferenceSet:
    """Reads a test set from `source`, a file of sentences that has its `references` in files of as many lines.

    Without `references`, `source` is a `.multiref.tsv` (source, then its references, separated by tabs), the folder of
    prepared data, or pairs in any form that training reads.

    Raises:
        DataError: files of different length, a line without reference, or nothing readable.
    """
    path = Path(source)
    if references:
        return _read_aligned(path, [Path(name) for name in references])
    if path.is_dir() and (path / PREPARED).is_file():
        path /= PREPARED
    if path.name == PREPARED:
        return _gather(path, _json_rows(path), UNKNOWN_LANGUAGE, keep_empty=True)
    if without_gz(path).name.endswith(MULTIREF):
        language = (languages_in(path.name) or languages_in(path.absolute().parent.name) or (None, None))[1]
        return _gather(path, (line.split("\t") for line in read_lines(path)), language or UNKNOWN_LANGUAGE)
    reading = open_pairs(str(source))
    return _gather(path, ([pair.source, pair.target] for pair in reading), reading.languages[1], keep_empty=True)


def _read_aligned(source: Path, references: Sequence[Path]) -> ReferenceSet:
    sources = tuple(read_lines(source))
    streams = []
    for path in references:
        streams.append(list(read_lines(path)))
        if len(streams[-1]) != len(sources):
            raise DataError(
                f"{path} has {len(streams[-1]):,} lines but {source} {len(sources):,}; "
                "references must be aligned with the source line by line"
            )
    language = language_of(without_gz(references[0]).suffix.lstrip(".")) or UNKNOWN_LANGUAGE
    # An empty line stays: the `sacrebleu` command counts it as a reference of no words, and our scores are its scores.
    return ReferenceSet(source.name, sources, tuple(zip(*streams, strict=True)), language)


def _gather(path: Path, rows: Iterable[Sequence[str]], language: str, keep_empty: bool = False) -> ReferenceSet:
    """Rows of a source and its references.

    An empty cell is a reference that is missing, unless `keep_empty`: a pair has one reference, and the `sacrebleu`
    command counts an empty line as a reference of no words.
    """
    sources, references = [], []
    for number, (source, *row) in enumerate(rows, start=1):
        found = tuple(reference.replace("\n", " ") for reference in row if reference or keep_empty)
        if not found:
            raise DataError(f"{path}:{number} has a source but no reference")
        sources.append(source)
        references.append(found)
    return ReferenceSet(path.name, tuple(sources), tuple(references), language)


def _json_rows(path: Path) -> Iterable[list[str]]:
    for number, line in enumerate(read_lines(path), start=1):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise DataError(f"{path}:{number} is not JSON: {error}") from None
        if not (isinstance(row, list) and len(row) > 1 and all(isinstance(cell, str) for cell in row)):
            raise DataError(f"{path}:{number} is not a list of a source and its reference")
        yield row
