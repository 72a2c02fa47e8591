"""Folders of prepared data: reads their splits, reuses a folder made before, or copies one that is given as text.

Reads the splits of prepared labelled text.
"""

import json
import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from dragoman.errors import DataError
from dragoman.files import sha256
from dragoman.run_folder import split_of
from dragoman.text.inputs import changes, hashes
from dragoman.text.readers import Reading
from dragoman.text.report import REPORT, DataReport, InputReport, read_labelled_report, read_report
from dragoman.text.settings import DataSettings, lasting

log = logging.getLogger(__name__)


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


def reuse(folder: Path, settings: DataSettings, names: Sequence[str]) -> DataReport:
    """The report of a folder made before, if it is whole and was made from the same text.

    `names` are the identities of the text and settings, newest format first.

    Raises:
        DataError: the folder was made from other text or settings, or was changed.
    """
    report = read_report(folder)
    if report.identity not in names:
        changed = "; ".join(changes(report, settings))
        raise DataError(f"{folder} was prepared from other data or settings ({changed}); name another folder")
    for split, facts in report.splits.items():
        path = split_of(folder, split)
        if not path.is_file() or sha256(path) != facts.sha256:
            raise DataError(f"{path} is missing or was changed; remove {folder} and prepare the data again")
    log.info("%s holds this data already", folder)
    if report.identity != names[0]:
        log.info(
            "an earlier version of Dragoman prepared it, with fewer checks; prepare another folder for all of them"
        )
    return report


def take_over(settings: DataSettings, inputs: Mapping[str, Reading], name: str, folder: Path) -> DataReport | None:
    """Copies prepared data that is given as text into `folder`, and returns its report, or None if it must be prepared.

    It is copied if its splits are unchanged, all of them are wanted, and the rules are the same.
    """
    given = Path(str(settings.inside(settings.path)))
    if not (given / REPORT).is_file() or settings.source_column or settings.target_column:
        return None
    report, now = read_report(given), lasting(settings)
    written = {role: split.sha256 for role, split in report.splits.items() if split.pairs}
    if written != {role: "".join(hashes(reading).values()) for role, reading in inputs.items()}:
        return None
    if any(report.settings.get(key) != value for key, value in now.items() if key.startswith("checks.")):
        return None
    for role in report.splits:
        shutil.copyfile(split_of(given, role), split_of(folder, role))
    log.info("%s is prepared data, and is copied as it is", given)
    source, target = inputs["train"].languages
    read = {role: describe_input(reading, report.splits[role].pairs) for role, reading in inputs.items()}
    changed = {"identity": name, "settings": now, "source_language": source, "target_language": target, "inputs": read}
    return report.model_copy(update=changed)


def describe_input(reading: Reading, rows: int) -> InputReport:
    return InputReport(
        name=reading.name,
        format=reading.format,
        columns=(reading.columns.source, reading.columns.target),
        reasons=dict(reading.reasons),
        sha256=hashes(reading),
        rows=rows,
    )


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
