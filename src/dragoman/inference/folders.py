"""Folders of documents: each is translated, all other files are copied, and what is done already is not done again.

    for file in translate_folder("runs/en-it", "site", "site.it"):
        print(file.name, file.state)

A record in the new folder (`RECORD`) holds for each file the hash of what it was made from and of what was written, so
that the same call goes on where a stopped one ended, translates only what has changed since, and overwrites no file
that a person has edited.
"""

import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dragoman.errors import ConfigError, DataError, MissingExtra
from dragoman.files import check_output, make_folders, new_file, same_file, sha256, write_file
from dragoman.formats.lines import without_packing
from dragoman.inference.documents import DocumentTranslator, Summary, review_table
from dragoman.inference.options import SearchOptions
from dragoman.inference.resumable import identity
from dragoman.inference.translator import Translator
from dragoman.progress import Progress, as_progress

if TYPE_CHECKING:
    from dragoman.formats.reading import DocumentSettings
    from dragoman.formats.registry import FileFormat

logger = logging.getLogger(__name__)

RECORD = ".dragoman.jsonl"
"""Name of the record in a folder of translations."""

BEGINNING = 1 << 16
"""Bytes at the beginning of a file that say whether it is a document."""

FOR_PROGRAMS = re.compile(r"(?:ads|app-ads|CMakeLists|.*requirements.*|robots|security)\.txt", re.IGNORECASE)
"""Names of files with lines for programs."""

State = Literal["translated", "copied", "unread", "unchanged", "kept", "failed"]


class FolderFile(NamedTuple):
    """A file of a folder, and what became of it."""

    name: str
    """The path in the folder, with `/` between its parts."""
    state: State
    """`unread` if it was copied because its text cannot be read; `unchanged` since an earlier call; `kept` if another
    file has its place in the new folder; `failed` if it cannot be written."""
    summary: Summary | None = None
    """The counts of its texts, if it was translated."""
    problem: str = ""
    """The reason why it is unread, kept or failed."""


class Made(NamedTuple):
    """The hashes of what a file was made from, and of its content."""

    asked: str
    content: str


def translate_folder(
    model: Path | str | Translator,
    source: Path | str,
    output: Path | str,
    options: SearchOptions | None = None,
    device: str = "auto",
    precision: str = "auto",
    threads: int | None = None,
    progress: Progress | bool = True,
    *,
    document_settings: "DocumentSettings | None" = None,
    into: bool = False,
    review: Path | str | None = None,
    fresh: bool = False,
    **settings: Any,
) -> list[FolderFile]:
    """Translate the documents of a folder into a new folder, or one of an earlier call; return all files in order.

    Files of no known format are copied, and so are documents that cannot be read, with a warning; links, names that
    begin with a dot, and folders of other translations are passed over. A text that several files have is translated
    once.
    `into`, `review` and the other parameters are as in `translate_document`; with `fresh`, all is done again, also over
    files that were edited or that others have written.

    Raises:
        CheckpointError, ConfigError, DecodeError, DiskFull, OutOfMemory: as in `translate_document`.
        DataError: the source is no folder, the output is a file or around the source, or the table cannot be read.
    """
    source, output = Path(source), Path(output)
    check_folders(source, output)
    translator = model
    if not isinstance(translator, Translator):
        translator = Translator.load(translator, device, precision, progress, threads=threads)
    options = (options or translator.options).but(**settings)
    target = translator.directed(options).languages.target
    table = None if review is None else review_table(Path(review), target)
    job = DocumentTranslator(translator, options, document_settings, table, progress)
    names = [*files_in(source, output, table.path if table else None)]
    done = list[FolderFile]()
    try:
        with as_progress(progress).track("folder", len(names), "files") as advance:
            folder = _Folder(source, output, job, into, fresh)
            for name in names:
                done.append(file := folder.make(name))
                if file.problem:
                    logger.warning("%s", file.problem)
                if file.summary is not None:
                    file.summary.names = ()  # which would take memory for each text of the folder
                    for remark in file.summary.remarks:
                        logger.warning("%s: %s", source / name, remark)
                advance()
    finally:
        if table is not None:
            table.write()
    return done


def check_folders(source: Path, output: Path) -> None:
    """Raise `DataError` if a folder cannot be translated into another."""
    if not source.is_dir():
        raise DataError(f"{source} is no folder")
    if output.exists() and not output.is_dir():
        raise DataError(f"{output} is a file; name a folder to write")
    if output.resolve() == source.resolve() or output.resolve() in source.resolve().parents:
        raise DataError(f"{output} is the folder that is read, or around it; name another folder to write")


def files_in(source: Path, *passed_over: Path | None) -> Iterator[str]:
    """Yield the names of the files of a folder, in order, without links, names that begin with `.` or `~$`, folders of
    translations, and what is passed over.
    """
    without = {path.resolve() for path in passed_over if path is not None}
    for folder, folders, files in os.walk(source):
        here = Path(folder)
        folders[:] = sorted(
            name
            for name in folders
            if not (name.startswith(".") or (here / name).resolve() in without or (here / name / RECORD).exists())
        )
        for name in sorted(files):
            path = here / name
            if (
                not name.startswith((".", "~$"))
                and path.is_file()
                and not path.is_symlink()
                and path.resolve() not in without
            ):
                yield path.relative_to(source).as_posix()


def format_to_translate(path: Path) -> "FileFormat | None":
    """Return the format of a document or a plain text, as its name says, and if other kinds of files have such names,
    as it begins. Packed and empty files, and tables of keys and values without a format, have none.
    """
    from dragoman.formats.foreign import refuse_document
    from dragoman.formats.reading import format_of
    from dragoman.formats.registry import DOCUMENT_FORMATS

    name = "text" if path.suffix.lower() == ".txt" and not FOR_PROGRAMS.fullmatch(path.name) else format_of(path)
    if name is None or without_packing(path) != path or not path.stat().st_size:
        return None
    with path.open("rb") as file:
        beginning = file.read(BEGINNING).replace(b"\0", b"")
    if name == "text":
        with suppress(DataError):
            refuse_document(path, beginning.decode("utf-8", "ignore").splitlines())
            return DOCUMENT_FORMATS[name]
        return None
    return DOCUMENT_FORMATS[name] if re.search(DOCUMENT_FORMATS[name].root, beginning) else None


class _Folder:
    """A folder that is being translated, with its record."""

    def __init__(self, source: Path, output: Path, job: DocumentTranslator, into: bool, fresh: bool) -> None:
        self._source, self._output, self._job, self._into, self._fresh = source, output, job, into, fresh
        place = {"device": job.translator.device, "precision": job.translator.precision}
        review = job.settings.needs_review
        self._identity = identity(job.translator.folders, None, job.options, **place, needs_review=review)
        make_folders(output)
        self._record = output / RECORD
        check_output(self._record)
        self._made = _read_record(self._record)
        write_file(self._record, "".join(_line(name, made) for name, made in self._made.items()))

    def make(self, name: str) -> FolderFile:
        """Translate or copy a file, unless that is done already."""
        source, output = self._source / name, self._output / name
        try:
            if not output.resolve().is_relative_to(self._output.resolve()):
                raise DataError(f"{output} is, or is in, a link that leads out of the folder")
            if self._job.review and same_file(output, self._job.review.path):
                raise DataError(f"{output} is the table for review; give that another name")
            return self._make(name, source, output)
        except (ConfigError, DataError, MissingExtra, OSError) as error:
            about = "" if str(source) in str(error) or str(output) in str(error) else f"{source}: "
            return FolderFile(name, "failed", problem=f"{about}{error}")

    def _make(self, name: str, source: Path, output: Path) -> FolderFile:
        format = format_to_translate(source)
        made, asked = self._made.get(name), self._asked(name, format)
        is_own = made is not None and output.is_file() and made.content in ("", sha256(output))
        into = self._into and format is not None and format.has_names and output.exists()
        if not self._fresh and output.exists() and not is_own and not into:
            reason = "was edited" if made else "is no translation of this folder"
            return FolderFile(name, "kept", problem=f"{output} {reason}, so it stays; --fresh writes over it")
        if not self._fresh and made is not None and is_own and made == Made(asked, sha256(output)):
            return FolderFile(name, "unchanged")
        make_folders(output.parent)
        stopped = made == Made(asked, "")  # the same call was stopped while it wrote this file
        self._add(name, Made(asked, ""))
        summary, problem = None, ""
        if format is not None:
            try:
                kind = format.document
                check_output(output, source)
                summary = self._job.translate(source, output, kind, name=name, into=into, fresh=not stopped)
            except (ConfigError, DataError, MissingExtra) as error:
                problem = f"{error}; it was copied as it is"
        if summary is None:
            with source.open("rb") as file, new_file(output) as copy:
                shutil.copyfileobj(file, copy)
        self._add(name, Made(asked="" if problem else self._asked(name, format), content=sha256(output)))
        state: State = "unread" if problem else "copied" if summary is None else "translated"
        return FolderFile(name, state, summary, problem)

    def _asked(self, name: str, format: "FileFormat | None") -> str:
        """Return the hash of all that determines the content of a file."""
        facts: list[Any] = [sha256(self._source / name)]
        if format is not None:
            facts += [self._identity, self._job.review and self._job.review.rows_of(name)]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def _add(self, name: str, made: Made) -> None:
        self._made[name] = made
        with self._record.open("a", encoding="utf-8") as file:
            file.write(_line(name, made))


def _line(name: str, made: Made) -> str:
    return json.dumps([name, *made]) + "\n"


def _read_record(path: Path) -> dict[str, Made]:
    """Read what was made; a line that a killed process left unfinished counts as nothing."""
    made = dict[str, Made]()
    for line in path.read_text("utf-8", "replace").splitlines() if path.exists() else ():
        with suppress(ValueError, TypeError):
            name, asked, content = json.loads(line)
            made[name] = Made(asked, content)
    return made
