"""Reads the splits of prepared text: pairs, labelled texts or words, running text."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from dragoman.errors import DataError
from dragoman.run_folder import split_of, text_of
from dragoman.text.report import read_labelled_report, read_report

_BLOCK = 1 << 20
"""Characters of running text that are read at a time."""

T = TypeVar("T")


def read_split(folder: Path | str, name: str) -> Iterator[tuple[str, str]]:
    """The pairs of one split of prepared data, in order.

    Raises:
        DataError: the folder has no such split, or a line of it is damaged.
    """
    path = split_of(Path(folder), name)
    if not path.is_file():
        raise DataError(f"{folder} has no {name} set; it has {', '.join(read_report(folder).splits)}")
    return read_pairs(path)


def read_pairs(path: Path) -> Iterator[tuple[str, str]]:
    """The pairs of a file of JSON lines, each a list of source and target, as prepared data holds them.

    Raises:
        DataError: the file cannot be read, or a line is no such list.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    with file:
        for number, line in enumerate(file, 1):
            match _parsed(line):
                case [str(source), str(target)]:
                    yield source, target
                case _:
                    raise DataError(f"{path}:{number} is not a JSON list of source and target; prepare the data again")


def _parsed(line: bytes) -> object:
    try:
        return json.loads(line.decode())
    except (ValueError, RecursionError):
        return None


def evenly_spaced(items: Iterable[T], count: int, wanted: int) -> Iterator[T]:
    """At most `wanted` of `count` items, evenly spaced over all of them.

    >>> list(evenly_spaced("abcdefgh", 8, 3))
    ['c', 'f', 'h']
    """
    for number, item in enumerate(items):
        if wanted >= count or (number + 1) * wanted // count > number * wanted // count:
            yield item


def read_examples(folder: Path | str, split: str) -> Iterator[tuple[str, str]]:
    """The texts of one split and the label of each, in order.

    Raises:
        DataError: the folder has no such split, or a line of it is damaged.
    """
    for where, line in _lines(Path(folder), split):
        match line:
            case [str(text), str(label)]:
                yield text, label
            case _:
                raise DataError(f"{where} is not a JSON list of a text and a label; prepare the data again")


def read_tagged(folder: Path | str, split: str) -> Iterator[tuple[list[str], list[str]]]:
    """The sentences of one split, each as its words and the label of each word, in order.

    Raises:
        DataError: the folder has no such split, or a line of it is damaged.
    """
    for where, line in _lines(Path(folder), split):
        match line:
            case [list(words), list(labels)] if len(words) == len(labels) and _are_texts([*words, *labels]):
                yield words, labels
            case _:
                raise DataError(f"{where} is not a JSON list of words and their labels; prepare the data again")


def _are_texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _lines(folder: Path, split: str) -> Iterator[tuple[str, Any]]:
    path = split_of(folder, split)
    if not path.is_file():
        raise DataError(f"{folder} has no {split} set; it has {', '.join(read_labelled_report(folder).splits)}")
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            yield f"{path}:{number}", _parsed(line)


def read_text(folder: Path | str, name: str) -> Iterator[str]:
    """One part of prepared running text, `train`, `dev` or `test`, in pieces."""
    with open(text_of(Path(folder), name), encoding="utf-8", newline="") as file:
        while piece := file.read(_BLOCK):
            yield piece


def read_text_lines(folder: Path | str, name: str) -> Iterator[str]:
    """The lines of one part of prepared running text."""
    with open(text_of(Path(folder), name), encoding="utf-8", newline="\n") as file:
        yield from file
