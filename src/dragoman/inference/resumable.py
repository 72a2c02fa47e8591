"""An output file that outlives its process: what is made for many lines of input goes on after a kill.

    out.txt.part        what is made so far
    out.txt.part.json   for how many lines and bytes that is, of which lines, and what was asked

The record is there before the part, and is replaced, atomically, after each chunk of lines; what a killed process wrote
beyond it is cut off. It knows the lines of input by their SHA-256, so that a file may be renamed, packed or lengthened,
and the results too: a part without a record of it is somebody else's, and is left alone. The same command makes the
same bytes, in one go or in many.
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
    """Return what decides the results of a resumable job, as plain JSON. Results of another identity are not its own.

    `others` are device and precision, the content of the input, how it is read and how results are written.
    """
    facts = {
        **others,
        "dragoman": dragoman.__version__,
        "model": [model_hash(model) for model in models],
        "adapter": adapter and model_hash(adapter),
        "decode": options.model_dump(mode="json", exclude={"batch_tokens"}),
    }
    return json.loads(json.dumps(facts, default=str))


class Record(Settings):
    """How far a file is."""

    format: int = FORMAT
    asked: dict[str, Any]
    """The `identity` of the job."""
    lines: int = 0
    """Lines of input for which the file holds a result."""
    sha256: str = hashlib.sha256().hexdigest()
    """Of these lines."""
    bytes: int = 0
    """Of results."""
    results: str | None = None
    """SHA-256 of the results; None before the first are written, while the part is empty."""
    counts: dict[str, int] = pydantic.Field(default_factory=dict)
    """What was counted in these results, such as flags."""
    places: dict[str, list[int]] = pydantic.Field(default_factory=dict)
    """The first lines at which it was counted."""
    check: str = ""
    """SHA-256 of all the above."""

    @property
    def right_check(self) -> str:
        content = self.model_dump(mode="json", exclude={"check"})
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class ResumableFile:
    """A file that is being made, and its record.

    Attributes:
        record: what the disk holds for sure.
        counts, places: what was counted so far, to go on with.
    """

    def __init__(self, part: Path, file: IO[bytes], record: Record, written: "hashlib._Hash") -> None:
        """`file` holds the results that are recorded, and nothing else; `written` is their SHA-256."""
        self.part, self.record = part, record
        self.counts, self.places = Counter(record.counts), copy.deepcopy(record.places)
        self._file = file
        self._read, self._written = hashlib.sha256(), written

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
        """What the disk will hold if the process ends now, in words for a person."""
        if not self.record.lines:
            return "nothing was written"
        return f"{self.record.lines:,} lines are done and in {self.part}; run the same command again to go on"


@contextmanager
def resumable_file(
    path: Path,
    asked: Mapping[str, Any],
    fresh: bool = False,
    convert: Callable[[Sequence[str]], bytes] | None = None,
) -> Generator[ResumableFile]:
    """Goes on with the file that is to become `path`, or begins it. It appears there, complete, when the block ends;
    or what `convert` makes of its lines does.

    When the block raises, `path.part` stays with what is done, for a later call; if that is nothing, nothing stays.
    `asked` is the `identity` of the job. With `fresh`, what an earlier call left is thrown away.

    Raises:
        DataError: an earlier call was asked something else, or what stands at `path.part` is not what it left.
        DiskFull: the disk is full; what is done stays.
        FolderInUse: another process makes the same file.
    """
    path = path.resolve() if path.is_symlink() else path
    part = part_of(path)
    check_working_files(path)
    if is_plain_file(part) is None:
        _write_record(part, Record(asked=dict(asked)))
    with growing_file(path, part, convert and (lambda made: convert(made.decode().split("\n")[:-1]))) as file:
        remove_partial(part.parent, record_of(part).name)
        record, written = _begun(part, file, asked, fresh)
        file.truncate(record.bytes)
        made = ResumableFile(part, file, record, written)
        if record.lines:
            log.info("going on after %s lines, which are in %s", f"{record.lines:,}", part)
        try:
            yield made
        except BaseException as error:
            if not made.record.lines:
                with suppress(OSError):  # Windows keeps a file that is open
                    remove(part)
                    remove(record_of(part))
            if isinstance(error, Interrupted):
                raise Interrupted(f"{error}; {made.state}") from None
            if made.record.lines:
                log.warning("%s", made.state)
            raise
    remove(record_of(part))


def part_of(path: Path) -> Path:
    """The file beside `path` that holds its results until all are there."""
    path = path.resolve() if path.is_symlink() else path
    return path.with_name(f"{path.name}.part")


def record_of(part: Path) -> Path:
    """The file beside a part that holds its `Record`."""
    return part.with_name(f"{part.name}.json")


def check_working_files(path: Path, *inputs: Path | None) -> None:
    """Refuses an output whose part or record would overwrite one of the inputs, or a file that we did not write.

    Raises:
        DataError: such a file stands there; it is left as it is.
    """
    part = part_of(path)
    for working in (part, record_of(part)):
        check_output(working, *inputs)
    if os.path.lexists(part) or os.path.lexists(record_of(part)):
        _read_record(part)


def _write_record(part: Path, record: Record) -> None:
    write_json(record_of(part), record.but(check=record.right_check).model_dump(mode="json"))


def _read_record(part: Path) -> Record:
    """The record of a part; refused if there is none, or one of the two is not ours."""
    for path in (part, record_of(part)):
        if is_plain_file(path) is False:
            raise DataError(f"{path} is no regular file, so this command did not make it; {MOVE}")
    if is_plain_file(record_of(part)) is None:
        raise DataError(f"{part} was not made by this command: there is no {record_of(part).name} beside it; {MOVE}")
    record = read_json_as(record_of(part), Record, FORMAT, error=DataError, advice=MOVE)
    if record.check != record.right_check:
        raise DataError(f"{record_of(part)} was changed: it is not what this command wrote there; {MOVE}")
    return record


def _begun(part: Path, file: IO[bytes], asked: Mapping[str, Any], fresh: bool) -> "tuple[Record, hashlib._Hash]":
    """What is recorded of a part that is open, and the SHA-256 of its results. If it is empty, or with `fresh`, it is
    begun anew.
    """
    record, size = _read_record(part), file.seek(0, os.SEEK_END)
    written = _hash_of_first(file, record.bytes)
    if size and written.hexdigest() != record.results:
        raise DataError(
            f"{part} was changed: it does not hold the results that were written ({record.bytes:,} bytes); {MOVE}"
        )
    if fresh or not size:
        file.truncate(0)  # first, so that a killed process leaves no part that its record does not know
        record, written = Record(asked=dict(asked)), hashlib.sha256()
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
