"""Reads the splits of prepared text: pairs, labelled texts or words, running text."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from dragoman.errors import DataError
from dragoman.run_folder import split_of, text_of

_BLOCK = 1 << 20
"""Characters of running text that are read at a time."""

T = TypeVar("T")


def read_split(folder: Path | str, name: str) -> Iterator[tuple[str, str]]:
    """The pairs of one split of prepared data, in order."""
    return read_pairs(_file_of(Path(folder), name))


def read_pairs(path: Path) -> Iterator[tuple[str, str]]:
    """The pairs of a file of JSON lines, each a list of source and target, as prepared data holds them.

    Raises:
        DataError: the file cannot be read, or a line is no such list.
    """
    for number, line in _lines(path):
        match line:
            case [str(source), str(target)]:
                yield source, target
            case _:
                raise _damaged(path, number, "source and target")


def read_examples(folder: Path | str, name: str) -> Iterator[tuple[str, str]]:
    """The texts of one split and the label of each, in order.

    Raises:
        DataError: the folder has no such split, or a line of it is damaged.
    """
    path = _file_of(Path(folder), name)
    for number, line in _lines(path):
        match line:
            case [str(text), str(label)]:
                yield text, label
            case _:
                raise _damaged(path, number, "a text and a label")


def read_tagged(folder: Path | str, name: str) -> Iterator[tuple[list[str], list[str]]]:
    """The sentences of one split, each as its words and the label of each word, in order.

    Raises:
        DataError: the folder has no such split, or a line of it is damaged.
    """
    path = _file_of(Path(folder), name)
    for number, line in _lines(path):
        match line:
            case [list(words), list(labels)] if len(words) == len(labels) and _are_texts([*words, *labels]):
                yield words, labels
            case _:
                raise _damaged(path, number, "words and their labels")


def read_text(folder: Path | str, name: str) -> Iterator[str]:
    """One part of prepared running text, `train`, `dev` or `test`, in pieces."""
    with open(text_of(Path(folder), name), encoding="utf-8", newline="") as file:
        while piece := file.read(_BLOCK):
            yield piece


def read_text_lines(folder: Path | str, name: str) -> Iterator[str]:
    """The lines of one part of prepared running text."""
    with open(text_of(Path(folder), name), encoding="utf-8", newline="\n") as file:
        yield from file


def evenly_spaced(items: Iterable[T], count: int, wanted: int) -> Iterator[T]:
    """At most `wanted` of `count` items, evenly spaced over all of them.

    >>> list(evenly_spaced("abcdefgh", 8, 3))
    ['c', 'f', 'h']
    """
    for number, item in enumerate(items):
        if wanted >= count or (number + 1) * wanted // count > number * wanted // count:
            yield item


def _file_of(folder: Path, name: str) -> Path:
    path = split_of(folder, name)
    if not path.is_file():
        known = [other for other in ("train", "dev", "test", "new_patterns") if split_of(folder, other).is_file()]
        raise DataError(f"{folder} has no {name} set; it has {', '.join(known) or 'none'}")
    return path


def _lines(path: Path) -> Iterator[tuple[int, Any]]:
    """The number and the content of each line; None for a damaged one."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    with file:
        for number, line in enumerate(file, 1):
            try:
                yield number, json.loads(line.decode())
            except (ValueError, RecursionError):
                yield number, None


def _damaged(path: Path, number: int, what: str) -> DataError:
    return DataError(f"{path}:{number} is not a JSON list of {what}; prepare the data again")


def _are_texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values)
