"""Encoded corpora: sentence pairs as ids on disk, written once and memory-mapped, so that a million pairs open
immediately.

A corpus of labelled text has labels instead of targets; a corpus for masked words has only sources.

For each side, a corpus folder holds all ids, concatenated (`target.ids`: uint16 if the vocabulary fits, else int32),
and the first position of every row (`target.offsets`: int64, one more than there are rows), all little-endian.
`corpus.json` holds the counts. Special symbols are not stored; `batching` adds them. `encoding` writes such folders.

Pairs may be aligned: `target.links` (uint16) holds for every target id the position of its source id, from 1, or 0 if
there is none (see `aligning`).
"""

import hashlib
import json
from itertools import accumulate
from pathlib import Path
from typing import Literal, Self

import numpy as np
import pydantic
from numpy.typing import NDArray

from dragoman.config import Settings, read_json_as
from dragoman.errors import DataError
from dragoman.files import sha256

FORMAT = 1
"""Format number of `corpus.json`."""
OFFSET = np.dtype("<i8")
"""Data type of offsets."""
LINKS, LINK = "target.links", np.dtype("<u2")
"""File name and data type of links."""

Ids = NDArray[np.integer]
"""Token ids."""


class Side(Settings):
    """One side in `corpus.json`."""

    tokens: int = pydantic.Field(ge=1)
    """Number of ids in all rows."""
    dtype: Literal["<u2", "<i4"]
    """Data type of ids."""
    vocabulary_size: int
    """Number of ids of the tokenizer, or of labels."""
    tokenizer: str
    """Identity of the tokenizer or of the labels."""
    ids_sha256: str
    """SHA-256 of the ids."""
    offsets_sha256: str
    """SHA-256 of the offsets."""


class Pool(Settings):
    """Consecutive rows of a corpus, of which every epoch draws a number, different ones if that is not all of them."""

    rows: int = pydantic.Field(ge=1)
    drawn: int = pydantic.Field(ge=1)
    """Rows of the pool in one epoch. If there are more than it has, some are drawn several times."""


class Facts(Settings):
    """The content of `corpus.json`."""

    format: int
    """Number of the folder's format."""
    rows: int = pydantic.Field(ge=1)
    """Number of rows on each side."""
    windows: bool
    """True if rows are windows of running text rather than sentences."""
    labelled: Literal["texts", "words"] | None = None
    """The labelled units, if the targets are labels: texts or words."""
    source: Side | None = None
    """None in a corpus for a decoder-only model."""
    pool: Pool | tuple[Pool, ...] | None = None
    """Pools at the end of the corpus, in order; None if every epoch uses all rows."""
    target: Side | None
    """The predicted side; None if masked words of the source are predicted."""
    links_sha256: str | None = None
    """SHA-256 of the links; None without links."""

    @property
    def pools(self) -> dict[int, Pool]:
        """The pools by their first rows."""
        pools = (self.pool,) if isinstance(self.pool, Pool) else self.pool or ()
        begin = self.rows - sum(pool.rows for pool in pools)
        return dict(zip(accumulate((pool.rows for pool in pools), initial=begin), pools, strict=False))

    @property
    def identity(self) -> str:
        """SHA-256 of the corpus, which is equal if and only if all ids and rows are equal."""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()


class PackedIds:
    """Rows of ids of different lengths, concatenated: row i is `ids[offsets[i] : offsets[i + 1]]`."""

    def __init__(self, ids: Ids, offsets: NDArray[np.int64]) -> None:
        self.ids = ids
        self.offsets = offsets

    def lengths(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of ids in each of these rows.

        Raises:
            DataError: the rows overlap.
        """
        lengths = self.offsets[rows + 1] - self.offsets[rows]
        if lengths.min(initial=0) < 0:
            raise DataError("an encoded corpus is damaged: its rows overlap; delete its folder and encode again")
        return lengths

    def row(self, index: int) -> Ids:
        """Return the ids of one row."""
        return self.ids[self.offsets[index] : self.offsets[index + 1]]


class EncodedCorpus:
    """An encoded corpus, memory-mapped, so that only the ids in use are read from the disk.

    Its attributes are described at `Facts`. `target` has rows without ids if there are only sources.
    """

    def __init__(self, folder: Path, facts: Facts) -> None:
        self.folder, self.facts, self.identity = folder, facts, facts.identity
        self.windows, self.labelled = facts.windows, facts.labelled
        self.source = _open_rows(folder, "source", facts.source, facts.rows) if facts.source else None
        self.target = PackedIds(np.empty(0, np.uint16), np.zeros(facts.rows + 1, np.int64))
        if facts.target:
            self.target = _open_rows(folder, "target", facts.target, facts.rows)
        self.links = None
        if facts.links_sha256 is not None:
            self.links = PackedIds(_map(folder / LINKS, LINK, len(self.target.ids)), self.target.offsets)

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """Open a corpus that a function of `encoding` wrote. Sizes are checked, but the content is not read."""
        path = Path(folder) / "corpus.json"
        return cls(Path(folder), read_json_as(path, Facts, FORMAT, error=DataError, advice="encode the corpus again"))

    def __reduce__(self) -> tuple[type[Self], tuple[Path, Facts]]:
        """Return how another process opens the same files; ids are not copied."""
        return type(self), (self.folder, self.facts)

    def verify(self) -> None:
        """Read the whole corpus once and compare it with its hashes.

        Raises:
            DataError: ids or rows have changed since they were written.
        """
        written = {LINKS: self.facts.links_sha256}
        for side, facts in (("source", self.facts.source), ("target", self.facts.target)):
            if facts is not None:
                written |= {f"{side}.ids": facts.ids_sha256, f"{side}.offsets": facts.offsets_sha256}
        for name, expected in written.items():
            if expected is not None and sha256(path := self.folder / name) != expected:
                raise DataError(f"{path} is damaged; delete {self.folder} and encode the corpus again")

    def __len__(self) -> int:
        return self.facts.rows

    @property
    def labels_only(self) -> bool:
        """True if only labels, or masked words of the source, are predicted."""
        return self.labelled is not None or self.facts.target is None

    def has_windows_of(self, length: int) -> bool:
        """Return True if `encode_text` would cut the same ids into the same windows with this length."""
        first = len(self.target.row(0))
        return self.windows and (first == length + 1 if len(self) > 1 else first <= length + 1)

    def pair(self, index: int) -> tuple[Ids, Ids]:
        """Return the ids of one pair."""
        assert self.source is not None, "a corpus for a decoder-only model has no pairs"
        return self.source.row(index), self.target.row(index)


def _open_rows(folder: Path, side: str, facts: Side, rows: int) -> PackedIds:
    ids = _map(folder / f"{side}.ids", np.dtype(facts.dtype), facts.tokens)
    offsets = _map(folder / f"{side}.offsets", OFFSET, rows + 1)
    if offsets[0] != 0 or offsets[-1] != facts.tokens:
        raise DataError(f"{folder / side}.offsets does not belong to {side}.ids; encode the corpus again")
    return PackedIds(ids, offsets)


def _map(path: Path, dtype: np.dtype, count: int) -> NDArray:
    try:
        size = path.stat().st_size
        if size != count * dtype.itemsize:
            raise DataError(f"{path} has {size:,} bytes, but must have {count * dtype.itemsize:,}; encode it again")
        return np.memmap(path, dtype, "r")
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); encode the corpus again") from None
