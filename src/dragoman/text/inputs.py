"""The inputs that settings name, and the identity of both."""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from dragoman.errors import DataError
from dragoman.files import nearest, sha256
from dragoman.run_folder import split_of
from dragoman.text.addresses import HUB, Address, is_pattern
from dragoman.text.columns import Naming
from dragoman.text.phrasebook import write_phrasebook
from dragoman.text.readers import Reading, is_prefix, open_pairs
from dragoman.text.report import ADDED_SETTINGS, FORMAT_NUMBER, REPORT, DataReport, read_report
from dragoman.text.settings import PHRASEBOOK, DataSettings, lasting

# The names under which a folder may hold each set.
_FOLDER_NAMES = {"train": ("train",), "dev": ("dev", "valid", "val", "validation"), "test": ("test",)}


@contextmanager
def open_inputs(settings: DataSettings, naming: Naming | None = None) -> Iterator[dict[str, Reading]]:
    """Opens the training text, as `train`, and the sets beside it. `naming` may know more about the columns than the
    settings do.

    Raises:
        DataError: one of them cannot be read.
    """
    with ExitStack() as stack:
        addresses = _addresses(settings, stack)
        _check_presence(settings, addresses)
        known = naming or settings.naming
        train = open_pairs(addresses.pop("train"), known, settings.format, settings.encoding_errors)
        beside = known._replace(expected=train.languages, owner="the training text", seen=train.columns[:2])
        others = {
            name: open_pairs(address, beside, encoding_errors=settings.encoding_errors)
            for name, address in addresses.items()
        }
        yield {"train": train, **others}


def identities(settings: DataSettings, inputs: Mapping[str, Reading]) -> list[str]:
    """Hashes of the text and the settings of prepared data, wherever the files lie: as this format computes it, then as
    earlier ones did, newest first.
    """
    facts = {
        "format_number": FORMAT_NUMBER,
        "settings": lasting(settings),
        "inputs": {name: list(hashes(reading).values()) for name, reading in inputs.items()},
    }
    found = [_digest(facts)]
    for number in range(FORMAT_NUMBER, 1, -1):
        added = ADDED_SETTINGS[number]
        if any(facts["settings"][key] != before for key, before in added.items()):
            break  # earlier formats could not do this
        kept = {key: value for key, value in facts["settings"].items() if key not in added}
        facts = {**facts, "format_number": number - 1, "settings": kept}
        found.append(_digest(facts))
    return found


def is_made_from(report: DataReport, settings: DataSettings) -> bool:
    """Whether this or an earlier version prepared the data from the text that `settings` name, by the same rules."""
    with open_inputs(settings) as inputs:
        return report.identity in identities(settings, inputs)


def _digest(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def hashes(reading: Reading) -> dict[str, str]:
    """File name -> SHA-256. A data set of the hub is identified by its address, because the library keeps its files."""
    if not reading.files:
        return {reading.name: hashlib.sha256(f"{reading.name} {reading.reasons['format']}".encode()).hexdigest()}
    files = [file.absolute() for file in reading.files]
    if len({file.drive for file in files}) > 1:  # on Windows: no folder holds them all
        return {file.as_posix(): sha256(file) for file in files}
    folder = os.path.commonpath([file.parent for file in files])
    return {file.relative_to(folder).as_posix(): sha256(file) for file in files}


def changes(report: DataReport, settings: DataSettings) -> list[str]:
    """The differences between the data of a report and what `settings` name now, in words."""
    before, now = report.settings, lasting(settings)
    keys = sorted(before.keys() | now.keys())
    found = [f"{key} was {before.get(key)}, is {now.get(key)}" for key in keys if before.get(key) != now.get(key)]
    with open_inputs(settings) as inputs:
        for name in sorted(report.inputs.keys() | inputs.keys()):
            known = list(report.inputs[name].sha256.values()) if name in report.inputs else []
            if known != (list(hashes(inputs[name]).values()) if name in inputs else []):
                found.append(f"the {name} text changed")
    return found


def _check_presence(settings: DataSettings, addresses: Mapping[str, Address]) -> None:
    """Refuses missing text, and says where it can be had, if `origin` does."""
    for address in addresses.values():
        for name in [address] if isinstance(address, str) else address:
            path, is_elsewhere = Path(name), name.startswith(HUB) or is_pattern(name)
            if settings.origin and not (is_elsewhere or path.exists() or is_prefix(path)):
                raise DataError(
                    f"{path} does not exist{nearest(path, prefixes=True)}; the text comes from {settings.origin}; "
                    "say where it lies with --set data.folder=FOLDER"
                )


def _addresses(settings: DataSettings, stack: ExitStack) -> dict[str, Address]:
    path = settings.inside(settings.path)
    found: dict[str, Address] = {"train": path}
    if settings.path == PHRASEBOOK:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dragoman-")))
        write_phrasebook(folder)
        found = {name: str(folder / name) for name in ("train", "dev", "test", "new_patterns")}
    elif isinstance(path, str) and Path(path).is_dir():
        found = _folder_addresses(Path(path))
    for name, address in (("dev", settings.dev_path), ("test", settings.test_path)):
        if address is not None:
            found[name] = settings.inside(address)
        elif getattr(settings, f"{name}_size") is not None:
            found.pop(name, None)  # a size asks for a set to be split off, even if a folder holds one
    return found


def _folder_addresses(folder: Path) -> dict[str, Address]:
    found: dict[str, Address] = {}
    if (folder / REPORT).is_file():
        splits = read_report(folder).splits
        return {name: str(split_of(folder, name)) for name, split in splits.items() if split.pairs}
    for split, names in _FOLDER_NAMES.items():
        if prefix := next((folder / name for name in names if is_prefix(folder / name)), None):
            found[split] = str(prefix)
    if "train" not in found:
        raise DataError(f"{folder} is a folder, and holds no files named train.*; name a file in it, or name them so")
    return found
