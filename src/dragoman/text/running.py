"""Splits running text, from which a language model learns, into train, dev and test. Nothing is dropped but byte order
marks and the carriage returns before line ends; a last line without `\n` gets one.

A folder of prepared text holds `train.txt`, `dev.txt`, `test.txt`, and `data.json`.
"""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from pathlib import Path

import numpy as np
import pydantic
from numpy.typing import NDArray

from dragoman.config import Settings
from dragoman.documents import read_document, write_json
from dragoman.errors import DataError
from dragoman.files import new_folder, sha256
from dragoman.progress import Progress, silent
from dragoman.run_folder import text_of
from dragoman.text.addresses import Address, matching
from dragoman.text.lines import EncodingErrors, read_running, without_gz
from dragoman.text.phrasebook import read_phrasebook
from dragoman.text.report import REPORT
from dragoman.text.settings import PHRASEBOOK, DataSettings

log = logging.getLogger(__name__)


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

OF_TABLES = (".tsv", ".csv", ".jsonl", ".parquet", ".conllu")
"""Ends of the names of files whose rows have columns."""

_BLOCK = 1 << 20
"""Characters, or bytes, that are read at a time."""


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
    A folder made from the same text is used again. Memory holds a piece of the text at a time.

    Raises:
        DataError: the text cannot be read or is too short, or the folder was made from other text.
    """
    folder = Path(folder)
    if folder.exists():
        return _reuse(folder, _read(settings, progress, _forget))
    with _no_folders_left(folder), new_folder(folder) as aside:
        characters: Counter[str] = Counter()
        identity = _copy(settings, aside, characters, progress)
        origins = _hold_out(aside, characters)
        _refuse_short(aside, characters, settings)
        splits = {
            name: {"characters": count, "sha256": sha256(text_of(aside, name)), "origin": origins[name]}
            for name, count in characters.items()
        }
        facts = {"format": FORMAT, "task": "language_model", "identity": identity, "name": _named(settings.path)}
        write_json(aside / REPORT, {**facts, "language": settings.target_language or "und", "splits": splits})
    return read_text_report(folder)


@contextmanager
def _no_folders_left(folder: Path) -> Iterator[None]:
    """Removes the folders that were made to hold this one if the text in it is refused."""
    missing = [parent for parent in folder.parents if not parent.exists()]
    try:
        yield
    except DataError:
        for parent in missing:
            with suppress(OSError):  # somebody else keeps something there
                parent.rmdir()
        raise


def _copy(settings: DataSettings, folder: Path, characters: Counter[str], progress: Progress) -> str:
    """Copies the texts that the settings name, and counts their characters; returns their identity."""
    with ExitStack() as opened:
        names = [name for name, _ in _given(settings)]
        files = {name: opened.enter_context(open(text_of(folder, name), "wb")) for name in names}

        def take(name: str, piece: str) -> None:
            files[name].write(piece.encode())
            characters[name] += len(piece)

        return _read(settings, progress, take)


def _hold_out(folder: Path, characters: Counter[str]) -> dict[str, str]:
    """Cuts missing test and dev texts off the end of the training text; returns where each text is from."""
    origins = dict.fromkeys(characters, "given")
    size = int(HELD_OUT * characters["train"])
    for name in ("test", "dev"):
        if name not in characters:
            characters[name] = _cut(text_of(folder, "train"), characters["train"], size, text_of(folder, name))
            characters["train"] -= characters[name]
            origins[name] = f"held out: {HELD_OUT:.0%} of the text, from its end"
    return origins


def _refuse_short(folder: Path, characters: Mapping[str, int], settings: DataSettings) -> None:
    """Refuses a text that a model cannot learn from, or be measured on."""
    if characters["train"] < LEAST_CHARACTERS:
        raise DataError(
            f"{_named(settings.path)} leaves {characters['train']:,} characters to train on; a language model needs "
            f"at least {LEAST_CHARACTERS:,}"
        )
    for name, address in (("dev", settings.dev_path), ("test", settings.test_path)):
        if (count := _without_space_around(read_text(folder, name))) < LEAST_HELD_OUT:
            whole = f"the end of {_named(settings.path)}" if address is None else _named(address)
            raise DataError(
                f"{whole} is too short to be the {name} text: without white space at its ends it has {count:,} "
                f"characters, and a language model is measured on at least {LEAST_HELD_OUT}; name a longer text with "
                f"data.{name}_path" + (", or leave it out" if address is not None else "")
            )


def _without_space_around(text: Iterable[str]) -> int:
    """The characters of a text between the white space at its ends."""
    first, end, place = None, 0, 0
    for piece in text:
        if piece.strip():
            first = place + len(piece) - len(piece.lstrip()) if first is None else first
            end = place + len(piece.rstrip())
        place += len(piece)
    return end - (first or 0)


def text_identity(settings: DataSettings) -> str:
    """The `TextReport.identity` of the text that these settings name."""
    return _read(settings, silent, _forget)


def read_text_report(folder: Path | str) -> TextReport:
    """Reads the report on prepared running text.

    Raises:
        DataError: there is none, or it is damaged or of another kind.
    """
    return read_document(Path(folder) / REPORT, TextReport, FORMAT, error=DataError)


def read_text(folder: Path | str, name: str) -> Iterator[str]:
    """One part of prepared running text, `train`, `dev` or `test`, in pieces."""
    with open(text_of(Path(folder), name), encoding="utf-8", newline="") as file:
        while piece := file.read(_BLOCK):
            yield piece


def read_text_lines(folder: Path | str, name: str) -> Iterator[str]:
    """The lines of one part of prepared running text."""
    with open(text_of(Path(folder), name), encoding="utf-8", newline="\n") as file:
        yield from file


def _given(settings: DataSettings) -> list[tuple[str, Address]]:
    """The texts that are named, each by the name of its part."""
    addresses = {"train": settings.path, "dev": settings.dev_path, "test": settings.test_path}
    if settings.path == PHRASEBOOK:
        for name in ("dev", "test"):
            if addresses[name] is not None:
                raise DataError(f"the phrasebook brings its own sets; leave data.{name}_path out")
        return [(name, PHRASEBOOK) for name in addresses]
    return [(name, address) for name, address in addresses.items() if address is not None]


def _read(settings: DataSettings, progress: Progress, take: Callable[[str, str], None]) -> str:
    """Hands on the texts that the settings name, piece by piece, each with the name of its part. Returns their
    identity: the SHA-256 of a JSON list of names and texts, which is hashed as it is written.
    """
    digest = hashlib.sha256(b"[")
    with progress.track("read the text", unit="lines") as advance:
        for number, (name, address) in enumerate(_given(settings)):
            digest.update(f'{", " if number else ""}["{name}", "'.encode())
            for piece in _pieces(name, settings.inside(address), settings.encoding_errors):
                digest.update(json.dumps(piece)[1:-1].encode())
                take(name, piece)
                advance(piece.count("\n"))
            digest.update(b'"]')
    digest.update(b"]")
    return digest.hexdigest()


def _forget(_name: str, _piece: str) -> None:
    """Takes a text whose identity alone is asked for."""


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


def _pieces(name: str, address: Address, encoding_errors: EncodingErrors) -> Iterator[str]:
    """All files that an address names, as one text in pieces; of the phrasebook, the English sentences of a set."""
    if address == PHRASEBOOK:
        return (f"{sentence.source}\n" for sentence in getattr(read_phrasebook(), name))
    files = [Path(str(each)) for each in matching(address)] or [Path(str(address))]
    for file in files:
        if (suffix := without_gz(file).suffix.lower()) in OF_TABLES:
            raise DataError(
                f"{file} is a table, of which running text has none; write its text alone to a .txt file, or name it "
                f"otherwise than {suffix} if its rows are what is to be learnt"
            )
    return chain.from_iterable(read_running(path, encoding_errors) for path in files)


def _cut(path: Path, characters: int, size: int, rest: Path) -> int:
    """Moves the last `size` of so many characters to the file `rest`, and up to `FURTHEST` times as many more, so that
    the cut comes after the end of a line, or else after a space, where there is one. Returns how many were moved.
    """
    end = characters - size
    first, end = _byte(path, max(0, end - FURTHEST * size)), _byte(path, end)
    cut = _after_last(b"\n", path, first, end) or _after_last(b" ", path, first, end) or end
    moved = 0
    with open(path, "r+b") as whole, open(rest, "wb") as file:
        whole.seek(cut)
        while block := whole.read(_BLOCK):
            moved += len(_first_bytes(block))
            file.write(block)
        whole.truncate(cut)
    return moved


def _byte(path: Path, character: int) -> int:
    """Where a character of a UTF-8 file begins, in bytes."""
    before = place = 0
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            begins = _first_bytes(block)
            if before + len(begins) > character:
                return place + int(begins[character - before])
            before, place = before + len(begins), place + len(block)
    return place


def _first_bytes(block: bytes) -> NDArray[np.int64]:
    """Where characters begin in UTF-8: at all bytes but those of the form 10xxxxxx."""
    return np.flatnonzero((np.frombuffer(block, np.uint8) & 0xC0) != 0x80)


def _after_last(mark: bytes, path: Path, first: int, end: int) -> int:
    """The byte after the last such mark between two bytes of a file; 0 if there is none."""
    with open(path, "rb") as file:
        while end > first:
            begin = max(first, end - _BLOCK)
            file.seek(begin)
            if (found := file.read(end - begin).rfind(mark)) >= 0:
                return begin + found + 1
            end = begin
    return 0


def _named(address: Address) -> str:
    return address if isinstance(address, str) else " and ".join(address)
