"""Addresses of text, and patterns that name several files: `parts/*.tsv`, or a pair of patterns."""

import glob
from collections.abc import Iterator
from pathlib import Path

from dragoman.config import BACKSLASHES
from dragoman.errors import DataError
from dragoman.files import nearest

HUB = "hub:"

Address = str | tuple[str, str]
"""A file; a prefix (`train` for `train.en` and `train.it`); two aligned files; a pattern, or a pair of patterns, for
several files that are read one after another; or `hub:NAME:CONFIG[@REVISION][#SPLIT]`."""
Addresses = Address | tuple[Address, ...]
"""One text or several."""


def is_pattern(address: str) -> bool:
    """Return True if an address names all files that match it.

    >>> is_pattern("parts/*.tsv"), is_pattern("corpus.tsv")
    (True, False)
    """
    return not address.startswith(HUB) and glob.has_magic(address) and not Path(address).exists()


def matching(address: Address) -> list[Address]:
    """Return the addresses that match a pattern or a pair of patterns, sorted by name; none if it is no pattern.

    Raises:
        DataError: no file matches, or more on one side than on the other.
    """
    patterns = (address,) if isinstance(address, str) else address
    if not all(map(is_pattern, patterns)):
        return []
    sides = [sorted(glob.glob(pattern, recursive=True)) for pattern in patterns]
    for pattern, files in zip(patterns, sides, strict=True):
        if not files:
            raise DataError(f"no file matches {pattern}{nearest(pattern)}")
    if len({len(files) for files in sides}) > 1:
        counts = " but ".join(f"{len(files)} match {pattern}" for pattern, files in zip(patterns, sides, strict=True))
        raise DataError(f"{counts}; every file needs the one that is aligned with it")
    return [files[0] if len(files) == 1 else (files[0], files[1]) for files in zip(*sides, strict=True)]


def is_prefix(path: Path) -> bool:
    """Return True if `path` is no file, but the beginning of the names of files, before a dot."""
    return not path.exists() and path.parent.is_dir() and any(beginning_with(path))


def beginning_with(path: Path) -> Iterator[Path]:
    """Yield the files whose names begin with that of `path` and a dot, sorted by name."""
    return (file for file in sorted(path.parent.iterdir()) if file.name.startswith(f"{path.name}.") and file.is_file())


def missing(path: Path | str, origin: str | None = None, prefixes: bool = True) -> DataError:
    """Return the error for a file that does not exist; `origin` says where its text can be had."""
    if not str(path).isprintable():  # as "data\train.tsv" in a recipe, whose \t is a tab
        return DataError(f"{str(path)!r} does not exist; {BACKSLASHES}")
    where = f"; the text comes from {origin}; say where it lies with --set data.folder=FOLDER" if origin else ""
    return DataError(f"{path} does not exist{nearest(path, prefixes=prefixes)}{where}")
