"""Data sets of the Hugging Face hub: `hub:NAME:CONFIG@REVISION#SPLIT`."""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from dragoman.errors import DataError, optional
from dragoman.formats.addresses import HUB
from dragoman.formats.rows import Row, Table, by_language, first_line

_Parts = tuple[str, str, str, str]
"""Name, configuration, revision and split; those that the address lacks are empty."""


def open_hub(address: str) -> Table:
    """Open one split of a data set of the hub, by default the one for training."""
    name, config, revision, split = _parts_of(address)
    reason = f"revision {revision}" if revision else "no revision pinned: add @REVISION to read the same rows always"
    split_rows = partial(rows, (name, config, revision, split or "train"))
    return Table(address.replace(f"@{revision}", ""), (), "hub", reason, split_rows)


def hub_splits(address: str) -> list[str]:
    """Return the names of the splits of a data set of the hub."""
    return list(_load(*_parts_of(address)))


def _parts_of(address: str) -> _Parts:
    address, _, split = address.removeprefix(HUB).partition("#")
    address, _, revision = address.partition("@")
    name, _, config = address.partition(":")
    return name, config, revision, split


def rows(parts: _Parts, _repairs: Counter[str]) -> Iterator[Row]:
    """Yield the rows of a split of a data set of the hub, or of a local folder laid out like one. Labels are names, not
    numbers; a hidden one is -1.
    """
    split = _load(*parts)
    kinds = {key: getattr(kind, "feature", kind) for key, kind in (getattr(split, "features", None) or {}).items()}
    labels = {key: kind.names for key, kind in kinds.items() if hasattr(kind, "names")}
    for number, record in enumerate(split, 1):
        yield number, by_language({**record, **{key: _named(record[key], names) for key, names in labels.items()}})


def _named(label: Any, names: Sequence[str]) -> Any:
    if isinstance(label, list):
        return [_named(item, names) for item in label]
    return names[label] if isinstance(label, int) and label >= 0 else label


def _load(name: str, config: str, revision: str, split: str) -> Any:
    with optional("datasets", "hub"):
        import datasets
    datasets.disable_progress_bars()  # only the command line draws
    for library in ("datasets", "huggingface_hub"):
        logging.getLogger(library).setLevel(logging.ERROR)  # which is raised as well, in one line
    try:
        return datasets.load_dataset(name, config or None, split=split or None, revision=revision or None)
    except Exception as error:  # the library raises dozens of kinds, network ones among them
        advice = "; the hub cannot be reached: check the network, or give a file that holds the text"
        raise DataError(
            f"the data set {name} ({config or 'no configuration'}) could not be loaded: {first_line(error)}"
            f"{advice * isinstance(error, ConnectionError)}"
        ) from None
