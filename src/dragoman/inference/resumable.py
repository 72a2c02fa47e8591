"""Output files that are written over several processes: a command continues where a killed one stopped.

    out.txt.part        the part: the results so far
    out.txt.part.json   its record: the job, the number of lines and bytes, and their hashes

The record is written before the part, and replaced atomically after each chunk of lines; bytes beyond the record are
cut off. It identifies the lines of input by their SHA-256, so that the input may be renamed, compressed or extended.
A part that does not fit its record was written by someone else, and is not touched. Interruptions do not change the
final bytes.
"""

import copy
import hashlib
import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pydantic

import dragoman
from dragoman.config import Content, Settings, differences, read_json_as
from dragoman.errors import DataError, Interrupted
from dragoman.files import check_output, flush_file, growing_file, is_plain_file, remove, remove_partial
from dragoman.inference.options import SearchOptions
from dragoman.serialization import write_json
from dragoman.store.folder import model_hash

log = logging.getLogger(__name__)

FORMAT = 1
FRESH = "use --fresh to start again"
MOVE = "move it away, or name another file to write"


def identity(
    models: Sequence[Path | str], adapter: Path | str | None, options: SearchOptions, **others: Any
) -> Content:
    """Return all that determines the results of a resumable job as plain JSON; `others` are its input and device."""
    facts = {
        **others,
        "dragoman": dragoman.__version__,
        "model": [model_hash(model) for model in models],
        "adapter": adapter and model_hash(adapter),
        "decode": options.model_dump(mode="json", exclude={"batch_tokens"}),
    }
    return json.loads(json.dumps(facts, default=str))


class FileRecord(Settings):
    """The progress of a file, and its hashes."""

    format: int = FORMAT
    asked: dict[str, Any]
    """The `identity` of the job."""
    lines: int = 0
    """Number of lines of input whose results are in the file."""
    sha256: str = hashlib.sha256().hexdigest()
    """SHA-256 of these lines."""
    bytes: int = 0
    """Size of the results."""
    results: str | None = None
    """SHA-256 of the results; None while the part is empty."""
    counts: dict[str, int] = pydantic.Field(default_factory=dict)
    """Counts of the results, such as those of flags."""
    places: dict[str, list[int]] = pydantic.Field(default_factory=dict)
    """For each count, the first lines that it includes."""
    check: str = ""
    """SHA-256 of the other fields."""

    @property
    def right_check(self) -> str:
        """The value that `check` must have."""
        content = self.model_dump(mode="json", exclude={"check"})
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class ResumableFile:
    """A file that is being written, and its record.

    Attributes:
        record: the record on the disk.
        counts, places: those of the record, updated by the caller.
    """

    def __init__(self, part: Path, file: IO[bytes], record: FileRecord, written: "hashlib._Hash") -> None:
        """Append to `file`, which contains exactly the recorded results; `written` is their SHA-256."""
        self.part, self.record = part, record
        self.counts, self.places = Counter(record.counts), copy.deepcopy(record.places)
        self._file = file
        self._read, self._written = hashlib.sha256(), written

    def rest(self, lines: Iterable[str], name: str) -> Iterator[str]:
        """Return the lines that have no results yet; raise `DataError` if the lines before them have changed."""
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
        """Write the results of the next lines, then the record."""
        content = results.encode()
        if self.record.results is None:
            self._save(results=self._written.hexdigest())
        self._file.write(content)
        flush_file(self._file)
        self._written.update(content)
        for line in lines:
            self._add(line)
        self._save(
            lines=self.record.lines + len(lines),
            sha256=self._read.hexdigest(),
            bytes=self.record.bytes + len(content),
            results=self._written.hexdigest(),
            counts=dict(self.counts),
            places=copy.deepcopy(self.places),
        )

    def _save(self, **changes: Any) -> None:
        record = self.record.but(**changes)
        _write_record(self.part, record)
        self.record = record

    def _add(self, line: str) -> None:
        self._read.update(f"{line}\n".encode())

    @property
    def state(self) -> str:
        """The progress and the way to continue, in English."""
        if not self.record.lines:
            return "nothing was written, because the first chunk of lines was not finished"
        return f"{self.record.lines:,} lines are done and in {self.part}; run the same command again to go on"


@contextmanager
def resumable_file(
    path: Path,
    asked: Mapping[str, Any],
    fresh: bool = False,
    convert: Callable[[Sequence[str]], bytes] | None = None,
) -> Generator[ResumableFile]:
    """Open the part of a file, to continue or to begin it. When the block ends, the part is renamed to `path`;
    with `convert`, `path` gets the bytes that it returns for the lines of the part.

    If the block raises, a part with results is kept for a later call. `asked` is the `identity` of the job. With
    `fresh`, an existing part is discarded.

    Raises:
        DataError: the existing part belongs to another job, or was changed.
        DiskFull: the disk is full; the part is kept.
        FolderInUse: another process writes the same file.
    """
    path = path.resolve() if path.is_symlink() else path
    part = part_of(path)
    check_working_files(path)
    if is_plain_file(part) is None:
        _write_record(part, FileRecord(asked=dict(asked)))
    with growing_file(path, part, convert and (lambda made: convert(made.decode().split("\n")[:-1]))) as file:
        remove_partial(part.parent, record_of(part).name)
        record, written = _check_part(part, file, asked, fresh)
        file.truncate(record.bytes)
        resumed = ResumableFile(part, file, record, written)
        if record.lines:
            log.info("going on after %s lines, which are in %s", f"{record.lines:,}", part)
        try:
            yield resumed
        except BaseException as error:
            if not resumed.record.lines:
                with suppress(OSError):  # Windows cannot remove an open file
                    remove(part)
                    remove(record_of(part))
            if isinstance(error, Interrupted):
                raise Interrupted(f"{error}; {resumed.state}") from None
            if resumed.record.lines:
                log.warning("%s", resumed.state)
            raise
    remove(record_of(part))


def part_of(path: Path) -> Path:
    """Return the path of the part of a file."""
    path = path.resolve() if path.is_symlink() else path
    return path.with_name(f"{path.name}.part")


def record_of(part: Path) -> Path:
    """Return the path of the record of a part."""
    return part.with_name(f"{part.name}.json")


def check_working_files(path: Path, *inputs: Path | None) -> None:
    """Raise `DataError` if the part or the record of an output would overwrite an input, or a file of others."""
    part = part_of(path)
    for working in (part, record_of(part)):
        check_output(working, *inputs)
    if os.path.lexists(part) or os.path.lexists(record_of(part)):
        _read_record(part)


def _write_record(part: Path, record: FileRecord) -> None:
    write_json(record_of(part), record.but(check=record.right_check).model_dump(mode="json"))


def _read_record(part: Path) -> FileRecord:
    """Read the record of a part; raise `DataError` if there is none, or either file was not written by us."""
    for path in (part, record_of(part)):
        if is_plain_file(path) is False:
            raise DataError(f"{path} is no regular file, so this command did not make it; {MOVE}")
    if is_plain_file(record_of(part)) is None:
        raise DataError(f"{part} was not made by this command: there is no {record_of(part).name} next to it; {MOVE}")
    record = read_json_as(record_of(part), FileRecord, FORMAT, error=DataError, advice=MOVE)
    if record.check != record.right_check:
        raise DataError(f"{record_of(part)} was changed: it is not what this command wrote there; {MOVE}")
    return record


def _check_part(
    part: Path, file: IO[bytes], asked: Mapping[str, Any], fresh: bool
) -> "tuple[FileRecord, hashlib._Hash]":
    """Check that an open part is ours and of this job; return its record and the SHA-256 of its results. An empty part
    is begun again, and so is any part with `fresh`.
    """
    record, size = _read_record(part), file.seek(0, os.SEEK_END)
    written = _hash_of_first(file, record.bytes)
    if size and written.hexdigest() != record.results:
        raise DataError(
            f"{part} was changed: it does not hold the results that were written ({record.bytes:,} bytes); {MOVE}"
        )
    if fresh or not size:
        file.truncate(0)  # before the record, so that a killed process leaves no part without a fitting record
        record, written = FileRecord(asked=dict(asked)), hashlib.sha256()
        _write_record(part, record)
    elif changes := differences(record.asked, asked):
        raise DataError(
            f"{part} was begun with another model, options or document ({changes}); give the same to go on, or {FRESH}"
        )
    return record, written


def _hash_of_first(file: IO[bytes], count: int) -> "hashlib._Hash":
    sha256 = hashlib.sha256()
    file.seek(0)
    while count and (block := file.read(min(count, 1 << 20))):
        sha256.update(block)
        count -= len(block)
    return sha256
