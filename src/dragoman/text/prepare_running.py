"""Prepares running text: copies it piece by piece, then cuts off its end for dev and test.

Nothing is dropped but byte order marks and the carriage returns before line ends; a last line without `\\n` gets one.
"""

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

from dragoman.errors import DataError
from dragoman.files import sha256
from dragoman.formats.addresses import HUB, Addresses
from dragoman.formats.lines import read_running, without_packing
from dragoman.formats.registry import DATA_FORMAT_OF_SUFFIX
from dragoman.formats.rows import format_of, open_table, text_at, values_of
from dragoman.progress import Progress
from dragoman.run_folder import text_of
from dragoman.text.columns import listed
from dragoman.text.inputs import files_of
from dragoman.text.phrasebook import read_phrasebook
from dragoman.text.prepared import read_text
from dragoman.text.report import TEXT_FORMAT, TextReport, TextSplit, read_text_report
from dragoman.text.settings import PHRASEBOOK, DataSettings

HELD_OUT = 0.05
"""Share of the text that is held out for dev, and the same again for test."""
LEAST_CHARACTERS = 1_000
"""Fewer characters of training text are refused."""
LEAST_HELD_OUT = 50
"""Fewer characters of dev or test text are refused; white space at both ends is not counted."""
FURTHEST = 2
"""The furthest that a cut may move back to find the end of a line or a word, as a multiple of the size of the part."""
_BLOCK = 1 << 20
"""Bytes that are read at a time."""
_FURTHEST_BYTES = 1 << 24
"""The most bytes that a cut may move back."""


class RunningText:
    """The training text, as `train`, and separate ones. Memory holds a piece of the text at a time."""

    read_report = staticmethod(read_text_report)

    def __init__(self, settings: DataSettings, progress: Progress) -> None:
        self._settings, self._progress = settings, progress
        self._names: dict[str, str] = {}

    @property
    def identity(self) -> str:
        return self._read(lambda _name, _piece: None)

    def changes(self, _report: TextReport) -> list[str]:
        return []

    def fill(self, folder: Path) -> TextReport:
        """Write the splits into a new folder."""
        characters = Counter[str]()
        with ExitStack() as opened:
            files = {}

            def take(name: str, piece: str) -> None:
                if name not in files:
                    files[name] = opened.enter_context(open(text_of(folder, name), "wb"))
                files[name].write(piece.encode())
                characters[name] += len(piece)

            identity = self._read(take)
        origins = dict.fromkeys(characters, "given") | {name: f"given: {text}" for name, text in self._names.items()}
        size = int(HELD_OUT * text_of(folder, "train").stat().st_size)
        for name in ("test", "dev"):
            if name not in characters:
                characters[name] = _cut(folder, size, name)
                characters["train"] -= characters[name]
                origins[name] = f"held out: {HELD_OUT:.0%} of the text, from its end"
        self._refuse_short(folder, characters)
        return TextReport(
            format=TEXT_FORMAT,
            task="language_model",
            identity=identity,
            name=_named(self._settings.path),
            language=self._settings.target_language or "und",
            splits={
                name: TextSplit(characters=count, sha256=sha256(text_of(folder, name)), origin=origins[name])
                for name, count in characters.items()
            },
        )

    def _sets(self) -> Iterator[tuple[str, Iterator[str]]]:
        """Yield the name of each set and its text in pieces; for the phrasebook, the English sentences."""
        settings = self._settings
        if settings.path == PHRASEBOOK:
            for name in ("dev", "test"):
                if getattr(settings, f"{name}_path") is not None:
                    raise DataError(f"the phrasebook brings its own sets; leave data.{name}_path out")
            book = read_phrasebook()
            for name in ("train", "dev", "test"):
                yield name, (f"{sentence.source}\n" for sentence in getattr(book, name))
            return
        for name, files in files_of(settings).items():
            self._names[name] = str(files[0]) if len(files) == 1 else f"{len(files)} files"
            yield name, chain.from_iterable(_pieces(file, settings) for file in files)

    def _read(self, take: Callable[[str, str], None]) -> str:
        """Pass on each piece of the texts with the name of its set; return the SHA-256 of a JSON list of these."""
        digest = hashlib.sha256(b"[")
        with self._progress.track("read the text", unit="lines") as advance:
            for number, (name, pieces) in enumerate(self._sets()):
                digest.update(f'{", " if number else ""}["{name}", "'.encode())
                for piece in pieces:
                    digest.update(json.dumps(piece)[1:-1].encode())
                    take(name, piece)
                    advance(piece.count("\n"))
                digest.update(b'"]')
        digest.update(b"]")
        return digest.hexdigest()

    def _refuse_short(self, folder: Path, characters: Mapping[str, int]) -> None:
        settings = self._settings
        if characters["train"] < LEAST_CHARACTERS:
            raise DataError(
                f"{_named(settings.path)} leaves {characters['train']:,} characters to train on; a language model "
                f"needs at least {LEAST_CHARACTERS:,}"
            )
        for name in ("dev", "test"):
            if (count := sum(len(piece.strip()) for piece in read_text(folder, name))) < LEAST_HELD_OUT:
                separate = self._names.get(name)
                whole = separate or f"the end of {_named(settings.path)}"
                raise DataError(
                    f"{whole} is too short to be the {name} text: without white space at its ends it has {count:,} "
                    f"characters, and a language model is measured on at least {LEAST_HELD_OUT}; name a longer text "
                    f"with data.{name}_path" + (", or leave it out" if separate else "")
                )


def _pieces(file: Path, settings: DataSettings) -> Iterator[str]:
    """Yield a text in pieces: a file, or the column of texts in a data set of the hub or in Parquet."""
    if not (file.as_posix().startswith(HUB) or file.suffix.lower() == ".parquet"):
        if (suffix := without_packing(file).suffix.lower()) in (*DATA_FORMAT_OF_SUFFIX, ".conllu"):
            raise DataError(
                f"{file} is a table, but a language model learns from running text; write the text alone to a .txt "
                "file, or, if the model should learn the rows as they are, rename the file so that it does not end in "
                f"{suffix}"
            )
        yield from read_running(file, settings.encoding_errors)
        return
    format, reason = format_of(file)
    table = open_table(file, format, reason, settings.encoding_errors)
    columns = {name: path for name, path, value in values_of(table.first_record()[1]) if isinstance(value, str)}
    name = settings.text_column or ("text" if "text" in columns or len(columns) != 1 else next(iter(columns)))
    if name not in columns:
        raise DataError(f"{file} has no column {name!r} of texts{listed(list(columns))}; --set data.text_column=NAME")
    for number, record in table.rows(Counter()):
        text = text_at(record, columns[name], f"{file}:{number}")
        yield text if text.endswith("\n") else f"{text}\n"


def _cut(folder: Path, size: int, name: str) -> int:
    """Move the end of the training text, at least `size` bytes, to the text called `name`; return its characters. The
    cut is after the last line end before that place, or else after the last space, unless that is too far away.
    """
    path = text_of(folder, "train")
    with open(path, "r+b") as whole, open(text_of(folder, name), "wb") as rest:
        end = path.stat().st_size - size
        first = max(0, end - FURTHEST * size, end - _FURTHEST_BYTES)
        whole.seek(first)
        before, after = whole.read(end - first), whole.read(3)
        of_character = len(after) - len(after.lstrip(bytes(range(0x80, 0xC0))))  # its rest, if one would be cut
        cut = first + (before.rfind(b"\n") + 1 or before.rfind(b" ") + 1 or len(before) + of_character)
        whole.seek(cut)
        shutil.copyfileobj(whole, rest, _BLOCK)
        whole.truncate(cut)
    return sum(map(len, read_text(folder, name)))


def _named(address: Addresses) -> str:
    return address if isinstance(address, str) else " and ".join(map(str, address))
