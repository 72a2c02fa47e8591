"""Running text in, train, dev and test out: what a language model learns from. No line is dropped or changed.

A folder of prepared text holds `train.txt`, `dev.txt`, `test.txt`, those that are not empty, and `data.json`.
"""

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import pydantic

from dragoman.config import Settings, flatten
from dragoman.documents import read_document, write_json
from dragoman.errors import ConfigError, DataError
from dragoman.files import new_folder, sha256, write_file
from dragoman.progress import Progress, silent
from dragoman.text.inputs import PHRASEBOOK, DataSettings
from dragoman.text.reading.addresses import HUB, Address, matching
from dragoman.text.reading.lines import EncodingErrors, read_lines
from dragoman.text.report import REPORT

FORMAT = 1
HELD_OUT = 0.05
"""Share of the text that is held out for dev, and again for the test."""
LEAST_CHARACTERS = 1_000
OF_PAIRS = frozenset(
    {"header", "source_language", "source_column", "target_column", "format", "dev_size", "test_size", "seed", "checks"}
)
"""Settings of `[data]` that only pairs have."""

log = logging.getLogger(__name__)


class TextSplit(Settings):
    """One part of the text."""

    characters: int = pydantic.Field(ge=0)
    sha256: str
    origin: str
    """Given, or held out of the training text, and how."""


class TextReport(Settings):
    """All that is known of prepared running text: `data.json`."""

    format: int
    task: str
    """Always `language_model`; tells this report from that of pairs."""
    identity: str
    """Equal for equal text, wherever the files lie."""
    name: str
    """Of the training text."""
    language: str
    splits: dict[str, TextSplit]


def prepare_text(settings: DataSettings, folder: Path | str, progress: Progress = silent) -> TextReport:
    """Reads plain text, holds the end of it out for dev and test, and writes it to a new folder; a folder that was made
    from the same text is used again.

    Raises:
        ConfigError: a setting that only pairs have.
        DataError: the text cannot be read or is too short, or the folder was made from other text.
    """
    folder = Path(folder)
    _refuse_settings_of_pairs(settings)
    texts = _read_texts(settings, progress)
    identity = _identity(texts)
    if folder.exists():
        return _reuse(folder, identity)
    origins = dict.fromkeys(texts, "given")
    for name in ("test", "dev"):
        if name not in texts:
            texts["train"], texts[name] = _held_out(texts["train"], HELD_OUT / (1 - (name == "dev") * HELD_OUT))
            origins[name] = f"the last {HELD_OUT:.0%} of the text" if name == "test" else f"{HELD_OUT:.0%} before them"
    if len(texts["train"]) < LEAST_CHARACTERS:
        raise DataError(
            f"{_named(settings.path)} leaves {len(texts['train']):,} characters to train on; a language model needs "
            f"at least {LEAST_CHARACTERS:,}"
        )
    with new_folder(folder) as aside:
        for name, text in texts.items():
            write_file(aside / f"{name}.txt", text)
        splits = {
            name: {
                "characters": len(text),
                "sha256": sha256(aside / f"{name}.txt"),
                "origin": origins.get(name, "given"),
            }
            for name, text in texts.items()
        }
        report = {
            "format": FORMAT,
            "task": "language_model",
            "identity": identity,
            "name": _named(settings.path),
            "language": settings.target_language or "und",
            "splits": splits,
        }
        write_json(aside / REPORT, report)
    return read_text_report(folder)


def text_identity(settings: DataSettings) -> str:
    """What `prepare_text` calls the identity of the text that these settings name."""
    return _identity(_read_texts(settings, silent))


def read_text_report(folder: Path | str) -> TextReport:
    """The report on prepared running text.

    Raises:
        DataError: there is none, or it is damaged or of another kind.
    """
    return read_document(Path(folder) / REPORT, TextReport, FORMAT, error=DataError)


def read_text(folder: Path | str, name: str) -> str:
    """One part of prepared running text."""
    return (Path(folder) / f"{name}.txt").read_bytes().decode()


def _read_texts(settings: DataSettings, progress: Progress) -> dict[str, str]:
    addresses = {"train": settings.path, "dev": settings.dev_path, "test": settings.test_path}
    with progress.track("read the text", unit="lines") as advance:
        return {
            name: "".join(_lines(settings.inside(address), settings.encoding_errors, advance))
            for name, address in addresses.items()
            if address is not None
        }


def _identity(texts: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps([*texts.items()]).encode()).hexdigest()


def _reuse(folder: Path, identity: str) -> TextReport:
    report = read_text_report(folder)
    if report.identity != identity:
        raise DataError(f"{folder} was prepared from other text; name another folder")
    for name, split in report.splits.items():
        path = folder / f"{name}.txt"
        if not path.is_file() or sha256(path) != split.sha256:
            raise DataError(f"{path} is missing or was changed; remove {folder} and prepare the text again")
    log.info("%s holds this text already", folder)
    return report


def _refuse_settings_of_pairs(settings: DataSettings) -> None:
    given: dict[str, Any] = settings.model_dump(mode="json", exclude_defaults=True)
    if wrong := [key for key in flatten(given) if key.partition(".")[0] in OF_PAIRS]:
        raise ConfigError(f"data.{wrong[0]} is about sentence pairs; task = 'language_model' reads running text")
    if settings.path == PHRASEBOOK:
        raise ConfigError("task = 'language_model' learns from a text file; name one with data.path")
    for address in (settings.path, settings.dev_path, settings.test_path):
        if isinstance(address, tuple):
            raise ConfigError(
                f"task = 'language_model' reads one text, not two aligned files ({_named(address)}); name one file, or "
                "several by a pattern"
            )
        if address is not None and address.startswith(HUB):
            raise ConfigError("task = 'language_model' reads text files, not data sets of the hub")


def _lines(address: Address, encoding_errors: EncodingErrors, advance: Any) -> Iterator[str]:
    """The lines of all files that an address names, each with its end."""
    files = [Path(str(each)) for each in matching(address)] or [Path(str(address))]
    for line in chain.from_iterable(read_lines(path, encoding_errors) for path in files):
        advance(1)
        yield line + "\n"


def _held_out(text: str, share: float) -> tuple[str, str]:
    """The text and its end, cut where a line begins."""
    cut = text.rfind("\n", 0, int(len(text) * (1 - share))) + 1
    return text[:cut], text[cut:]


def _named(address: Address) -> str:
    return address if isinstance(address, str) else " and ".join(address)
