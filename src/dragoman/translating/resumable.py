"""An output file that outlives its process: what is made for many lines of input goes on after a kill.

    out.txt.part        what is made so far
    out.txt.part.json   for how many lines and bytes that is, of which lines, and what was asked

The record is replaced, atomically, after each chunk of lines; what a killed process wrote beyond it is cut off. It
knows the lines of input by their SHA-256, so that a file may be renamed, packed or lengthened. The same command makes
the same bytes, in one go or in many.
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pydantic

from dragoman.config import Settings
from dragoman.documents import differences, read_document, write_json
from dragoman.errors import DataError, Interrupted
from dragoman.files import flush_file, growing_file, remove, remove_partial

FORMAT = 1
FRESH = "use --fresh to start again"

log = logging.getLogger(__name__)


class Record(Settings):
    """How far a file is."""

    format: int = FORMAT
    asked: dict[str, Any]
    """All that decides what is made of a line."""
    lines: int = 0
    """Lines of input for which the file holds a result."""
    sha256: str = hashlib.sha256().hexdigest()
    """Of these lines."""
    bytes: int = 0
    """Of results."""
    counts: dict[str, int] = pydantic.Field(default_factory=dict)
    """What was counted in these results, such as flags."""


class ResumableFile:
    """A file that is being made, and its record.

    Attributes:
        record: what the disk holds for sure.
        counts: what was counted so far, to go on with.
    """

    def __init__(self, part: Path, file: IO[bytes], record: Record) -> None:
        self.part, self.record = part, record
        self.counts = Counter(record.counts)
        self._file = file
        self._read = hashlib.sha256()

    def rest(self, lines: Iterable[str], name: str) -> Iterator[str]:
        """The lines that are still to be done.

        Raises:
            DataError: those before them are not the ones that were done.
        """
        lines = iter(lines)
        for number in range(self.record.lines):
            if (line := next(lines, None)) is None:
                raise DataError(
                    f"{name} has only {number:,} lines, but {self.part} holds results of {self.record.lines:,}; {FRESH}"
                )
            self._add(line)
        if self._read.hexdigest() != self.record.sha256:
            raise DataError(
                f"{name} has changed: its first {self.record.lines:,} lines are not those whose results are in "
                f"{self.part}; put them back, or {FRESH}"
            )
        return lines

    def add(self, lines: Sequence[str], results: str) -> None:
        """Writes the results of the next lines, and then the record."""
        content = results.encode()
        self._file.write(content)
        flush_file(self._file)
        for line in lines:
            self._add(line)
        record = self.record.but(
            lines=self.record.lines + len(lines),
            sha256=self._read.hexdigest(),
            bytes=self.record.bytes + len(content),
            counts=dict(self.counts),
        )
        write_json(record_of(self.part), record.model_dump(mode="json"))
        self.record = record

    def _add(self, line: str) -> None:
        self._read.update(f"{line}\n".encode())

    @property
    def state(self) -> str:
        """What is there if the process ends now, in words."""
        if not self.record.lines:
            return "nothing was written"
        return f"{self.record.lines:,} lines are done and in {self.part}; run the same command again to go on"


@contextmanager
def resumable_file(path: Path, asked: Mapping[str, Any], fresh: bool = False) -> Generator[ResumableFile]:
    """Goes on with the file that is to become `path`, or begins it. It appears there, complete, when the block ends.

    When the block raises, `path.part` stays with what is done, for a later call; if that is nothing, nothing stays.
    `asked` is all that decides what is made of a line. With `fresh`, what an earlier call left is thrown away.

    Raises:
        DataError: an earlier call was asked something else, or what it left is damaged.
        DiskFull: the disk is full; what is done stays.
        FolderInUse: another process makes the same file.
    """
    path = path.resolve() if path.is_symlink() else path
    part = path.with_name(f"{path.name}.part")
    with growing_file(path, part) as file:
        remove_partial(part.parent, record_of(part).name)
        if fresh:
            remove(record_of(part))
        record = _read_record(part, asked)
        file.truncate(record.bytes)
        made = ResumableFile(part, file, record)
        if record.lines:
            log.info("going on after %s lines, which are in %s", f"{record.lines:,}", part)
        try:
            yield made
        except BaseException as error:
            if not made.record.lines:
                with suppress(OSError):  # Windows keeps a file that is open
                    remove(part)
            elif not isinstance(error, Interrupted):
                log.warning("%s", made.state)
            raise
    remove(record_of(part))


def record_of(part: Path) -> Path:
    """The record beside a part."""
    return part.with_name(f"{part.name}.json")


def _read_record(part: Path, asked: Mapping[str, Any]) -> Record:
    """What is recorded of a part; a new record if there is none, or no part."""
    path, size = record_of(part), part.stat().st_size
    if not path.exists() or not size:
        return Record(asked=dict(asked))
    record = read_document(path, Record, FORMAT, error=DataError, advice=FRESH)
    if changes := differences(record.asked, asked):
        raise DataError(
            f"{part} was begun with another model or other options ({changes}); give the same ones to go on, or {FRESH}"
        )
    if size < record.bytes:
        raise DataError(f"{part} has {size:,} bytes, but {record.bytes:,} were written: it was cut; {FRESH}")
    return record
