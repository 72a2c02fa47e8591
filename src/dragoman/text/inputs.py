"""Which text is prepared: the settings, the inputs that they name, and the identity of both."""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator, model_validator

from dragoman.config import Settings, flatten
from dragoman.errors import DataError
from dragoman.files import nearest, sha256
from dragoman.run_folder import split_of
from dragoman.text.checks import CheckSettings
from dragoman.text.phrasebook import write_phrasebook
from dragoman.text.reading.addresses import HUB, Address, is_pattern
from dragoman.text.reading.columns import Naming
from dragoman.text.reading.language_tags import LanguageTag
from dragoman.text.reading.lines import EncodingErrors
from dragoman.text.reading.pairs import Format, Reading
from dragoman.text.reading.readers import is_prefix, open_pairs
from dragoman.text.report import ADDED_SETTINGS, FORMAT_NUMBER, REPORT, DataReport, read_report

PHRASEBOOK = "phrasebook"

_ADDED = ("header", "text_column", "label_column", "label_depth")
# The names under which a folder may hold each set.
_FOLDER_NAMES = {"train": ("train",), "dev": ("dev", "valid", "val", "validation"), "test": ("test",)}


class ReadingSettings(Settings):
    """How parallel text is read."""

    header: bool | None = None
    """Whether the first row of a TSV or CSV file names the columns; left out, it is judged by what it says."""
    source_language: LanguageTag | None = None
    """Language code of the source, as in en; left out, it comes from column or file names."""
    target_language: LanguageTag | None = None
    """Language code of the target, as in it; left out, it comes from column or file names."""
    source_column: str | None = Field(default=None, min_length=1)
    """Column of the source: its name, its key (translation.en for a nested one) or its number from 1; left out, it is
    guessed."""
    target_column: str | None = Field(default=None, min_length=1)
    """Column of the target, named likewise."""
    format: Format | None = None
    """Format of the text: plain, tsv, csv, jsonl, parquet or hub; left out, it follows from the name."""
    encoding_errors: EncodingErrors = "strict"
    """Text that is not valid UTF-8: strict stops and names the place; replace puts U+FFFD, and counts."""

    @field_validator("source_column", "target_column", mode="before")
    @classmethod
    def _number_is_a_name(cls, given: Any) -> Any:
        return str(given) if isinstance(given, int) and not isinstance(given, bool) else given

    @model_validator(mode="after")
    def _names_need_a_header(self) -> "ReadingSettings":
        for side in ("source", "target"):
            column = getattr(self, f"{side}_column")
            if self.header is False and column is not None and not column.isdecimal():
                raise ValueError(
                    f"without a header columns are numbered from 1, but {side}_column is {column!r}; "
                    "give its number, or leave header out"
                )
        return self

    @property
    def naming(self) -> Naming:
        return Naming(self.source_column, self.target_column, self.source_language, self.target_language, self.header)


def reading_overrides(overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits `dotted.key=value` into those that say how text is read, which begin with `data.`, and the others."""
    reading = [text for text in overrides if text.strip().startswith("data.")]
    return reading, [text for text in overrides if text not in reading]


class DataSettings(ReadingSettings):
    """Which text is read, how, and what is held out of it."""

    path: Address = PHRASEBOOK
    """The training text: a file (.tsv .csv .jsonl .parquet, also .gz); two aligned files, as in ["a.en", "a.it"], or
    what their names begin with; a pattern for many files, as in "parts/*.tsv" or ["parts/*.en", "parts/*.it"]; a folder
    with train.* in it, or of prepared data; hub:NAME:CONFIG; or phrasebook, which is built in."""
    folder: str | None = None
    """Where the files of path, dev_path and test_path lie; left out, where their names say."""
    origin: str | None = None
    """Where the text can be had, for those who do not have it."""
    dev_path: Address | None = None
    """A separate set for validation, given like path; left out, one is split off."""
    test_path: Address | None = None
    """A separate test set, given like path; left out, one is split off."""
    dev_size: int | None = Field(default=None, ge=0)
    """Pairs or labelled texts split off for validation; left out, 5 % of the pairs or 10 % of the texts, 2,000 at
    most."""
    test_size: int | None = Field(default=None, ge=0)
    """The same for the test."""
    seed: int = Field(default=1, ge=0)
    """Decides which pairs or texts are split off."""
    checks: CheckSettings = CheckSettings()
    """Which pairs are dropped."""
    text_column: str | None = Field(default=None, min_length=1)
    """Column of the text that has a label, or of the words that have one each: its name, its key or its number from 1;
    left out, it is guessed."""
    label_column: str | None = Field(default=None, min_length=1)
    """Column of the label, named likewise; in CoNLL-U form, lemma, upos, xpos or deprel."""
    label_depth: int | None = Field(default=None, ge=1)
    """Parts of a label such as NUM:dist that count, from the left; left out, all."""

    @field_validator("text_column", "label_column", mode="before")
    @classmethod
    def _number_names_a_column(cls, given: Any) -> Any:
        return str(given) if isinstance(given, int) and not isinstance(given, bool) else given

    @field_validator("path", "dev_path", "test_path", mode="before")
    @classmethod
    def _one_is_no_pair(cls, given: Any) -> Any:
        if not isinstance(given, list | tuple):
            return given
        return given[0] if len(given) == 1 else tuple(given)

    @model_validator(mode="after")
    def _held_out_one_way(self) -> "DataSettings":
        for name in ("dev", "test"):
            if getattr(self, f"{name}_path") is not None and getattr(self, f"{name}_size") is not None:
                raise ValueError(f"{name}_path gives a set and {name}_size splits one off; keep one of the two")
        return self

    def inside(self, address: Address) -> Address:
        """An address inside `folder`, unless it is of the hub or absolute."""
        if self.folder is None or address == PHRASEBOOK:
            return address
        if isinstance(address, str):
            return address if address.startswith(HUB) else str(Path(self.folder) / address)
        return str(Path(self.folder) / address[0]), str(Path(self.folder) / address[1])


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


def lasting(settings: DataSettings) -> dict[str, Any]:
    """The settings that decide the result: all except where the text lies."""
    left_out = {"folder", "origin", "path", "dev_path", "test_path"}
    # These are left out where they are not given, so that data prepared before they existed keeps its identity.
    left_out |= {name for name in _ADDED if getattr(settings, name) is None}
    return flatten(settings.model_dump(mode="json", exclude=left_out))


def hashes(reading: Reading) -> dict[str, str]:
    """File name -> SHA-256. A data set of the hub is identified by its address, because the library keeps its files."""
    if not reading.files:
        return {reading.name: hashlib.sha256(f"{reading.name} {reading.reasons['format']}".encode()).hexdigest()}
    files = [file.absolute() for file in reading.files]
    if len({file.drive for file in files}) > 1:  # on Windows: no folder holds them all
        return {file.as_posix(): sha256(file) for file in files}
    folder = os.path.commonpath([file.parent for file in files])
    return {file.relative_to(folder).as_posix(): sha256(file) for file in files}


def name_on_card(settings: DataSettings, name: str) -> str:
    """What a model card, which travels with the model, calls the text: its files without the folders they lay in."""
    if settings.path == PHRASEBOOK:
        return "the built-in phrasebook"
    return name if name.startswith(HUB) else Path(name).name


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
