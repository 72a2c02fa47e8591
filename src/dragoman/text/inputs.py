"""The files that settings name: those of the training text, as `train`, and of separate dev and test sets."""

import glob
import logging
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

from dragoman.errors import DataError
from dragoman.files import REPORT
from dragoman.formats.addresses import HUB, Address, Addresses, is_pattern, is_prefix, matching, missing
from dragoman.formats.foreign import texts_in
from dragoman.formats.hub import hub_splits
from dragoman.formats.lines import read_lines, without_packing
from dragoman.formats.registry import DATA_FORMAT_OF_SUFFIX, DATA_FORMATS
from dragoman.languages import language_of
from dragoman.run_folder import shards_of, split_of
from dragoman.text.columns import WORD, Naming
from dragoman.text.phrasebook import write_phrasebook
from dragoman.text.readers import Reading, open_pairs
from dragoman.text.report import read_report
from dragoman.text.settings import PHRASEBOOK, DataSettings

SETS = {"train": ("train", "training"), "dev": ("dev", "valid", "val", "validation"), "test": ("test",)}
"""The names under which a folder or a data set of the hub may hold each set."""

log = logging.getLogger(__name__)


@contextmanager
def open_inputs(settings: DataSettings, naming: Naming | None = None) -> Iterator[dict[str, Reading]]:
    """Open the pairs of the training text and of separate sets. `naming` may know more about the columns than the
    settings do.
    """
    with ExitStack() as stack:
        if settings.path == PHRASEBOOK:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dragoman-")))
            write_phrasebook(folder)
            addresses = {name: str(folder / name) for name in ("train", "dev", "test", "new_patterns")}
            addresses = _with_separate_sets(settings, addresses)
        else:
            addresses = addresses_of(settings)
        for address in addresses.values() if settings.origin else ():
            for name in [address] if isinstance(address, str) else address:
                if not (name.startswith(HUB) or is_pattern(name) or Path(name).exists() or is_prefix(Path(name))):
                    raise missing(name, settings.origin)
        known = naming or settings.naming
        train = open_pairs(addresses.pop("train"), known, settings.format, settings.encoding_errors)
        other_sets = known.for_other_sets(train.languages, train.columns[:2])
        others = {
            name: open_pairs(address, other_sets, encoding_errors=settings.encoding_errors)
            for name, address in addresses.items()
        }
        yield {"train": train, **others}


def addresses_of(settings: DataSettings) -> dict[str, Address]:
    """Return the addresses of the pairs of the training text and of separate sets.

    Raises:
        DataError: the settings name several texts or directions.
    """
    paths = [path for path in (settings.path, settings.dev_path, settings.test_path) if isinstance(path, tuple)]
    are_many = any(len(path) > 2 or not all(isinstance(part, str) for part in path) for path in paths)
    if settings.directions or settings.both_directions or are_many:
        raise DataError(
            "several texts or directions are read only by prepare-data, on one machine, and by train; prepare "
            "them first, or give one text here, without data.directions and data.both_directions"
        )
    return _with_separate_sets(settings, sets_of(settings, _pairs_in))


def list_texts(settings: DataSettings, path: Addresses | None) -> list[Address]:
    """Return the texts of an address, in order. Files that are one side of a text are taken two by two.

    Raises:
        DataError: one is left.
    """
    texts, sides = list[Address](), list[str]()
    for text in [path] if isinstance(path, str) else path or ():
        if not isinstance(text, str) or isinstance(path, str) or _is_whole(str(settings.inside(text))):
            texts.append(text)
        elif sides:
            texts.append((sides.pop(), text))
        else:
            sides.append(text)
    if sides:
        raise DataError(f"{sides[0]} is one side of a text; name the file that is aligned with it next to it")
    return texts


def _is_whole(name: str) -> bool:
    """Return True if a name is that of a text with both sides, by its kind or its first line."""
    path = Path(str((matching(name) or [name])[0]))
    if name.startswith(HUB) or name == PHRASEBOOK or path.is_dir() or is_prefix(path) or texts_in(path):
        return True
    format = DATA_FORMAT_OF_SUFFIX.get(without_packing(path).suffix.lower())
    if not path.is_file() or (format and not DATA_FORMATS[format].has_lines):
        return format is not None
    first = next(read_lines(path, "replace"), "")
    marks = {"csv": "[,;\t]", "jsonl": r"^\s*[\[{]"}.get(format or "", "\t")
    return bool(re.search(marks, first)) and (format is not None or language_of(path.suffix[1:]) is None)


def files_of(settings: DataSettings) -> dict[str, list[Path]]:
    """Return the files of labelled or running text, by the name of the set.

    Raises:
        DataError: an address names the two files of parallel text, or none that exists.
    """
    addresses = _with_separate_sets(settings, sets_of(settings, files_in))
    for name, address in addresses.items():
        if isinstance(address, tuple):
            raise DataError(
                f"the {name} text is two files, {address[0]} and {address[1]}, as parallel text is; text that is not "
                "parallel lies in one file, or in all that a pattern such as 'parts/*.tsv' matches"
            )
        if not (address.startswith(HUB) or is_pattern(address) or Path(address).exists()):
            raise missing(address, settings.origin, prefixes=False)
    return {name: [Path(str(file)) for file in matching(address) or [address]] for name, address in addresses.items()}


def files_in(folder: Path) -> dict[str, Address]:
    """Return the files of a folder, or of `data` inside it, that are named for a set: `train.csv`, `stsa.binary.dev`,
    `en_ewt-ud-test.conllu`; or numbered parts of it, as in `train-00000-of-00002.parquet`.

    Raises:
        DataError: none is named for training, or several are named for one set and are no parts.
    """
    sets: dict[str, Address] = {}
    for place in (folder, folder / "data"):
        files = sorted(file for file in place.glob("[!.]*") if file.is_file())
        for name, words in {} if "train" in sets else SETS.items():
            named = [file for file in files if _is_named(file.name, words)]
            parts = {re.sub(r"\d+", "*", file.name) for file in named}
            if len(parts) > 1:
                listed = ", ".join(file.name for file in named)
                raise DataError(
                    f"{place} holds {len(named)} files named for {name} ({listed}); name one with data.path"
                )
            if named:
                sets[name] = str(named[0]) if len(named) == 1 else str(Path(glob.escape(str(place)), *parts))
    if "train" not in sets:
        if any(folder.glob("dataset_*.json")):
            raise DataError(
                f"{folder} was saved by the datasets library; save its rows with to_parquet, and name that file"
            )
        raise DataError(
            f"{folder} is a folder, and holds no file named train.*; name a file in it, or name them so, "
            f"or name all of a kind by a pattern in quotes, as in '{folder}/*.po'"
        )
    return sets


def _is_named(name: str, words: Sequence[str]) -> bool:
    return not {word.lower() for word in WORD.findall(name)}.isdisjoint(words)


def _splits_in(address: str) -> dict[str, Address]:
    if "#" in address:
        return {"train": address}
    splits, used = hub_splits(address), list[str]()
    sets: dict[str, Address] = {}
    for name, words in SETS.items():
        named = sorted((split for split in splits if _is_named(split, words)), key=lambda split: split not in words)
        if named:
            sets[name] = address if named[0] == "train" else f"{address}#{named[0]}"
            used.append(named[0])
    if "train" not in sets:
        raise DataError(
            f"{address} has no split for training, only {', '.join(splits)}; name one: {address}#{splits[0]}"
        )
    if unused := ", ".join(split for split in splits if split not in used):
        _log_once(f"{address}: splits that are not used: {unused}")
    return sets


@cache
def _log_once(note: str) -> None:
    log.info("%s", note)


def sets_of(settings: DataSettings, sets_in: Callable[[Path], dict[str, Address]]) -> dict[str, Address]:
    """Return the addresses of the training text, and of the sets that a folder or a data set of the hub holds."""
    path = settings.inside(settings.path)
    if isinstance(path, str) and path.startswith(HUB):
        return _splits_in(path)
    return sets_in(Path(path)) if isinstance(path, str) and Path(path).is_dir() else {"train": path}


def _with_separate_sets(settings: DataSettings, addresses: Mapping[str, Address]) -> dict[str, Address]:
    """Add the separate dev and test sets, and remove those to be split off."""
    sets = dict(addresses)
    for name, address in (("dev", settings.dev_path), ("test", settings.test_path)):
        if address is not None:
            sets[name] = settings.inside(address)
        elif getattr(settings, f"{name}_size") is not None:
            sets.pop(name, None)  # a size asks for a set to be split off, even if a folder holds one
    return sets


def _pairs_in(folder: Path) -> dict[str, Address]:
    """Return the sets of a folder of prepared pairs, or those that files are named for, as in `dev.tsv`."""
    if (folder / REPORT).is_file():
        splits = [name for name, split in read_report(folder).splits.items() if split.pairs]
        shards = {name: str(Path(glob.escape(str(folder)), shards_of(name))) for name in splits}
        return {name: str(path) if (path := split_of(folder, name)).is_file() else shards[name] for name in splits}
    sets: dict[str, Address] = {}
    for name, words in SETS.items():
        if prefix := next((folder / word for word in words if is_prefix(folder / word)), None):
            sets[name] = str(prefix)
    return sets if "train" in sets else files_in(folder)
