"""Reads the splits of prepared text: pairs, labelled texts or words, running text."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from dragoman.errors import DataError
from dragoman.run_folder import shards_of, split_of, text_of

_BLOCK = 1 << 20
"""Characters of running text that are read at a time."""

T = TypeVar("T")


def read_split(folder: Path | str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs of one split of prepared data, in order."""
    return chain.from_iterable(map(read_pairs, parts_of(Path(folder), name) or [_file_of(Path(folder), name)]))


def parts_of(folder: Path, name: str) -> list[Path]:
    """Return the file of one split of prepared pairs, or the shards that a cluster wrote; none without such a split."""
    whole = split_of(folder, name)
    return [whole] if whole.is_file() else sorted(folder.glob(shards_of(name)))


def read_pairs(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a file of JSON lines, each a list of source and target, as in prepared data.

    Raises:
        DataError: the file cannot be read, or a line is no such list.
    """
    return _lines(path, "source and target", _are_two_texts)


def read_examples(folder: Path | str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the texts of one split and the label of each, in order.

    Raises:
        DataError: the folder has no such split, or a line of it is damaged.
    """
    return _lines(_file_of(Path(folder), name), "a text and a label", _are_two_texts)


def read_tagged(folder: Path | str, name: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the sentences of one split, each as its words and the label of each word, in order.

    Raises:
        DataError: the folder has no such split, or a line of it is damaged.
    """
    return _lines(_file_of(Path(folder), name), "words and their labels", _are_tagged)


def read_text(folder: Path | str, name: str) -> Iterator[str]:
    """Yield one part of prepared running text, `train`, `dev` or `test`, in pieces."""
    with open(text_of(Path(folder), name), encoding="utf-8", newline="") as file:
        while piece := file.read(_BLOCK):
            yield piece


def read_text_lines(folder: Path | str, name: str) -> Iterator[str]:
    """Yield the lines of one part of prepared running text."""
    with open(text_of(Path(folder), name), encoding="utf-8", newline="\n") as file:
        yield from file


def evenly_spaced(items: Iterable[T], count: int, wanted: int) -> Iterator[T]:
    """Yield at most `wanted` of `count` items of a stream: the last of each of `wanted` stretches of equal length.

    >>> list(evenly_spaced("abcdefgh", 8, 3))
    ['c', 'f', 'h']
    """
    for number, item in enumerate(items):
        if wanted >= count or (number + 1) * wanted // count > number * wanted // count:
            yield item


def evenly_spaced_from_first(items: Sequence[T], wanted: int) -> list[T]:
    """Return at most `wanted` of the items: the first of each of `wanted` stretches of equal length.

    >>> evenly_spaced_from_first("abcdefgh", 3)
    ['a', 'c', 'f']
    """
    count = min(wanted, len(items))
    return [items[number * len(items) // count] for number in range(count)]


def _file_of(folder: Path, name: str) -> Path:
    path = split_of(folder, name)
    if not path.is_file():
        sets = [known for known in ("train", "dev", "test", "new_patterns") if split_of(folder, known).is_file()]
        raise DataError(f"{folder} has no {name} set; it has {', '.join(sets) or 'none'}")
    return path


def _lines(path: Path, what: str, fits: Callable[[Any], bool]) -> Iterator[Any]:
    """Yield the content of each line, which must be a list of two that `fits`."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    with file:
        for number, line in enumerate(file, 1):
            try:
                content = json.loads(line.decode())
            except (ValueError, RecursionError):
                content = None
            if not (isinstance(content, list) and len(content) == 2 and fits(content)):
                raise DataError(f"{path}:{number} is not a JSON list of {what}; prepare the data again")
            yield tuple(content)


def _are_two_texts(pair: list[Any]) -> bool:
    return isinstance(pair[0], str) and isinstance(pair[1], str)


def _are_tagged(pair: list[Any]) -> bool:
    words, labels = pair
    lists = isinstance(words, list) and isinstance(labels, list) and len(words) == len(labels)
    return lists and all(isinstance(text, str) for text in [*words, *labels])
