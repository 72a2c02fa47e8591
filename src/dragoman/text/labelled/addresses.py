"""Which files hold labelled text: a file, all that match a pattern, or those of a folder, for each set."""

import re
from collections.abc import Sequence
from pathlib import Path

from dragoman.errors import DataError
from dragoman.files import nearest
from dragoman.text.addresses import HUB, Address, matching
from dragoman.text.readers import is_prefix
from dragoman.text.settings import DataSettings

_SETS = {"train": {"train", "training"}, "dev": {"dev", "valid", "val", "validation"}, "test": {"test"}}
"""The words in the names of files by which a folder may hold each set."""
_WORD = re.compile(r"[^\W\d_]+")


def files_of(settings: DataSettings) -> dict[str, list[Path]]:
    """The files of the training text, as `train`, and of the sets beside it.

    Raises:
        DataError: a file is missing, or an address names two aligned files or a data set of the hub.
    """
    found = _training_files(settings)
    for name, address in (("dev", settings.dev_path), ("test", settings.test_path)):
        if address is not None:
            found[name] = _files(settings, address, f"data.{name}_path")
        elif getattr(settings, f"{name}_size") is not None:
            found.pop(name, None)  # a size asks for a set to be held out, even if a folder holds one
    return found


def files_in(folder: Path) -> dict[str, list[Path]]:
    """The files of a folder that are named for a set: `train.csv`, `stsa.binary.dev`, `en_ewt-ud-test.conllu`.

    Raises:
        DataError: none is named for training, or several are named for one set.
    """
    files = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    found = {
        name: named for name, words in _SETS.items() if (named := [file for file in files if words & _words(file)])
    }
    for name, named in found.items():
        if len(named) > 1:
            listed = ", ".join(file.name for file in named)
            raise DataError(f"{folder} holds {len(named)} files named for {name} ({listed}); name one with data.path")
    if "train" not in found:
        raise DataError(f"{folder} is a folder, and holds no file named train.*; name a file in it, or name them so")
    return found


def _words(file: Path) -> set[str]:
    """The words in the name of a file; `wnut17train` holds two."""
    return {word.lower() for word in _WORD.findall(file.name)}


def _training_files(settings: DataSettings) -> dict[str, list[Path]]:
    inside = settings.inside(settings.path)
    if isinstance(inside, str) and Path(inside).is_dir():
        return files_in(Path(inside))
    return {"train": _files(settings, settings.path, "data.path")}


def _files(settings: DataSettings, given: Address, setting: str) -> list[Path]:
    if not isinstance(given, str):
        raise DataError(
            f"{setting} names two files, {given[0]} and {given[1]}, as aligned text has; labelled text lies in one "
            "file, or in all that a pattern such as 'parts/*.tsv' matches"
        )
    if given.startswith(HUB):
        raise DataError(
            f"{given}: only parallel text is read from the hub; save the data set as JSON lines or Parquet, and name "
            "that file"
        )
    address = settings.inside(given)
    files = [Path(str(each)) for each in matching(address)] or [Path(str(address))]
    for file in files:
        _refuse_missing(file, settings.origin)
    return files


def _refuse_missing(path: Path, origin: str | None) -> None:
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a file in it")
    if path.exists():
        return
    if is_prefix(path):
        raise DataError(f"{path} does not exist{_sides(path)}")
    where = f"; the text comes from {origin}; say where it lies with --set data.folder=FOLDER" if origin else ""
    raise DataError(f"{path} does not exist{nearest(path)}{where}")


def _sides(path: Path) -> str:
    """What stands under the name that begins so."""
    names: Sequence[str] = sorted(file.name for file in path.parent.iterdir() if file.name.startswith(f"{path.name}."))
    if len(names) == 1:
        return f"; did you mean {path.with_name(names[0])}?"
    return f", and {', '.join(names)} are several files, as aligned text has; name the one that holds the labels"
