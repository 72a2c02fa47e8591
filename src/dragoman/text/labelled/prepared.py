"""Reads the splits of prepared labelled text."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.errors import DataError
from dragoman.run_folder import split_of
from dragoman.text.labelled.report import read_labelled_report


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


def _parsed(line: bytes) -> object:
    try:
        return json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
