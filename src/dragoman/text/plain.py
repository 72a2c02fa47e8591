"""Splits running text, from which a language model learns, into train, dev and test. Nothing is dropped but byte order
marks and the carriage returns before line ends; a last line without `\\n` gets one.

A folder of prepared text holds `train.txt`, `dev.txt`, `test.txt`, and `data.json`.
"""

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import pydantic

from dragoman.config import Settings
from dragoman.documents import read_document, write_json
from dragoman.errors import DataError
from dragoman.files import new_folder, sha256, write_file
from dragoman.progress import Progress, silent
from dragoman.run_folder import text_of
from dragoman.text.inputs import DataSettings
from dragoman.text.reading.addresses import Address, matching
from dragoman.text.reading.lines import EncodingErrors, read_lines
from dragoman.text.report import REPORT

FORMAT = 1
"""Of `data.json`."""
HELD_OUT = 0.05
"""Share of the text that is held out for dev, and the same again for test."""
LEAST_CHARACTERS = 1_000
"""Fewer characters of training text are refused."""
LEAST_HELD_OUT = 50
"""Fewer characters of dev or test text are refused; white space at both ends is not counted."""
FURTHEST = 2
"""How far before its place a cut may move to find the end of a line or a word: so many times the size of the part."""

log = logging.getLogger(__name__)


class TextSplit(Settings):
    """One part of the text."""

    characters: int = pydantic.Field(ge=0)
    sha256: str
    origin: str
    """`given`, or the part of the training text that was held out."""


class TextReport(Settings):
    """The report on prepared running text: `data.json`."""

    format: int
    task: str
    """Always `language_model`; distinguishes this report from that of pairs."""
    identity: str
    """A hash, equal for equal text, wherever the files lie."""
    name: str
    """Address of the training text."""
    language: str
    splits: dict[str, TextSplit]


def prepare_text(settings: DataSettings, folder: Path | str, progress: Progress = silent) -> TextReport:
    """Reads plain text, holds out its end for dev and test unless they are given, and writes all three to a new folder.
    A folder made from the same text is used again.

    Raises:
        DataError: the text cannot be read or is too short, or the folder was made from other text.
    """
    folder = Path(folder)
    texts = _read_texts(settings, progress)
    identity = _identity(texts)
    if folder.exists():
        return _reuse(folder, identity)
    origins = _hold_out(texts)
    _refuse_short(texts, settings)
    with new_folder(folder) as aside:
        splits = {name: _write_split(aside, name, text, origins[name]) for name, text in texts.items()}
        facts = {"format": FORMAT, "task": "language_model", "identity": identity, "name": _named(settings.path)}
        write_json(aside / REPORT, {**facts, "language": settings.target_language or "und", "splits": splits})
    return read_text_report(folder)


def _hold_out(texts: dict[str, str]) -> dict[str, str]:
    """Cuts missing test and dev texts off the end of the training text; returns where each text is from."""
    origins = dict.fromkeys(texts, "given")
    size = int(HELD_OUT * len(texts["train"]))
    for name in ("test", "dev"):
        if name not in texts:
            texts["train"], texts[name] = _cut(texts["train"], size)
            origins[name] = f"held out: {HELD_OUT:.0%} of the text, from its end"
    return origins


def _refuse_short(texts: Mapping[str, str], settings: DataSettings) -> None:
    """Refuses a text that a model cannot learn from, or be measured on."""
    if len(texts["train"]) < LEAST_CHARACTERS:
        raise DataError(
            f"{_named(settings.path)} leaves {len(texts['train']):,} characters to train on; a language model needs "
            f"at least {LEAST_CHARACTERS:,}"
        )
    for name, address in (("dev", settings.dev_path), ("test", settings.test_path)):
        if (count := len(texts[name].strip())) < LEAST_HELD_OUT:
            whole = f"the end of {_named(settings.path)}" if address is None else _named(address)
            raise DataError(
                f"{whole} is too short to be the {name} text: without white space at its ends it has {count:,} "
                f"characters, and a language model is measured on at least {LEAST_HELD_OUT}; name a longer text with "
                f"data.{name}_path" + (", or leave it out" if address is not None else "")
            )


def _write_split(folder: Path, name: str, text: str, origin: str) -> dict[str, Any]:
    path = text_of(folder, name)
    write_file(path, text)
    return {"characters": len(text), "sha256": sha256(path), "origin": origin}


def text_identity(settings: DataSettings) -> str:
    """The `TextReport.identity` of the text that these settings name."""
    return _identity(_read_texts(settings, silent))


def read_text_report(folder: Path | str) -> TextReport:
    """Reads the report on prepared running text.

    Raises:
        DataError: there is none, or it is damaged or of another kind.
    """
    return read_document(Path(folder) / REPORT, TextReport, FORMAT, error=DataError)


def read_text(folder: Path | str, name: str) -> str:
    """One part of prepared running text: `train`, `dev` or `test`."""
    return text_of(Path(folder), name).read_bytes().decode()


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
        path = text_of(folder, name)
        if not path.is_file() or sha256(path) != split.sha256:
            raise DataError(f"{path} is missing or was changed; remove {folder} and prepare the text again")
    log.info("%s holds this text already", folder)
    return report


def _lines(address: Address, encoding_errors: EncodingErrors, advance: Any) -> Iterator[str]:
    """The lines of all files that an address names, each with its newline."""
    files = [Path(str(each)) for each in matching(address)] or [Path(str(address))]
    # The whole text is held in memory anyway, so one line may be all of it, as in text8.
    for line in chain.from_iterable(read_lines(path, encoding_errors, of_any_length=True) for path in files):
        advance(1)
        yield line + "\n"


def _cut(text: str, size: int) -> tuple[str, str]:
    """Cuts the last `size` characters off, and up to `FURTHEST` times as many more, so that the cut comes after the end
    of a line, or else after a space, where there is one.
    """
    end = len(text) - size
    first = max(0, end - FURTHEST * size)
    cut = text.rfind("\n", first, end) + 1 or text.rfind(" ", first, end) + 1 or end
    return text[:cut], text[cut:]


def _named(address: Address) -> str:
    return address if isinstance(address, str) else " and ".join(address)
