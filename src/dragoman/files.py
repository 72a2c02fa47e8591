"""Atomic writes of files and folders, locks and hashes. No other module depends on the operating system.

A file or folder is written under a temporary name, flushed to the disk, and renamed once. If the process is killed, the
old or the new version is there, never part of one. A full disk raises `DiskFull` and leaves no partial file.
"""

import difflib
import errno
import hashlib
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from typing import IO, Any

from dragoman.errors import DataError, DiskFull, FolderInUse
from dragoman.run_folder import RunFolder

MANIFEST, CONFIG, REPORT = "manifest.json", "config.json", "data.json"
"""The files that mark a model folder and a folder of prepared data; `store` and `text` define their content."""
LOCK = ".lock"
"""The file that locks a folder."""
_PARTIAL = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}(?P<before>\.before)?\.partial")
"""The name of an unfinished file or folder; with `before`, of an old folder that is being replaced."""


def write_file(path: Path | str, content: str | bytes) -> None:
    """Write a whole file atomically; text is UTF-8 with `\\n` line ends. For links and pipes see `new_file`."""
    with new_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def new_file(path: Path | str) -> Generator[IO[bytes]]:
    """Open a file for writing. It appears at `path`, complete, when the block ends, and never if the block raises.

    A link is followed. A pipe or a device receives the bytes directly, because no file must replace it.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        with _explained(path, path), open(path, "wb") as file:
            yield file
        return
    path = path.resolve() if path.is_symlink() else path
    with _aside(path, lambda aside: aside.touch(exist_ok=False)) as aside:
        with open(aside, "wb") as file:
            yield file
            flush_file(file)
        if path.exists():
            shutil.copymode(path, aside)
        os.replace(aside, path)
        _flush(path.parent)


@contextmanager
def growing_file(
    path: Path | str, aside: Path | str, convert: Callable[[bytes], bytes] | None = None
) -> Generator[IO[bytes]]:
    """Open the file `aside` for reading and appending, and lock it; create it if necessary. When the block ends, the
    file, or the result of `convert`, becomes `path`; if the block raises, it stays at `aside`. `path` must not be a
    link, and a link at `aside` is not followed. If another process is writing the file, this raises `FolderInUse`.
    """
    path, aside = Path(path), Path(aside)
    is_begun = aside.exists()

    def open_aside(name: str, flags: int) -> int:
        if is_begun:  # if another process finishes the file now, do not create it again
            flags &= ~os.O_CREAT
        return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)

    with _explained(path, aside):
        with open(aside, "a+b", opener=open_aside) as file:
            file.seek(0)  # where Windows locks
            _hold(file, f"{aside} is in use by another process; wait for it, or name another file")
            if not aside.exists() or not os.path.samestat(os.fstat(file.fileno()), aside.lstat()):
                raise FolderInUse(f"{aside} was finished by another process just now")
            yield file
            flush_file(file)
            if convert is not None:
                file.seek(0)
                write_file(path, convert(file.read()))
        if convert is not None:
            remove(aside)
            return
        if path.exists():
            shutil.copymode(path, aside)
        os.replace(aside, path)
        _flush(path.parent)


def is_plain_file(path: Path) -> bool | None:
    """Return True if `path` is a regular file rather than a link to one, None if nothing exists there."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return None


def read_regular(path: Path | str) -> bytes:
    """Return the bytes of a file; raise `OSError` for a pipe or a device, which may block forever."""
    path = Path(path)
    if is_special(path):
        raise OSError(errno.EIO, "it is no regular file", str(path))
    return path.read_bytes()


def is_special(path: Path) -> bool:
    """Return True if `path` is a pipe, a device or a socket."""
    return path.exists() and not path.is_file() and not path.is_dir()


def flush_file(file: IO[bytes]) -> None:
    """Flush an open file to the disk."""
    file.flush()
    os.fsync(file.fileno())


def check_output(path: Path | str, *inputs: Path | str | None) -> None:
    """Raise `DataError` for an output path that cannot be written, or where a file would be lost.

    Refused are folders, one of the `inputs`, the file of standard input or output, files of a model or a run, paths
    whose folder is missing or not writable, and names that end in .gz.
    """
    path = Path(path)
    if path.suffix == ".gz":
        raise DataError(f"{path} would not be packed: only input may be; leave .gz out")
    if any(source is not None and same_file(path, source) for source in (*inputs, 0)):
        raise DataError(f"{path} is also read, and would be lost; name another file to write")
    if same_file(path, 1):  # a new file would replace what the shell has opened, perhaps with >>
        raise DataError(f"{path} is also standard output, and what it holds would be lost; leave it out to print there")
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a file to write")
    if path.exists() and not path.is_file():
        return
    if path.is_symlink():
        try:
            path = path.resolve()
        except (OSError, RuntimeError):  # Python 3.13 raises the first, earlier ones the second
            raise DataError(f"{path} cannot be written: it is a link that leads back to itself") from None
    if model_around(path):
        raise DataError(f"{path} lies in a model folder, which is whole only with its own files; name another place")
    real_path = Path(os.path.realpath(path))
    if run := next((run for run in map(RunFolder, real_path.parents) if run.owns(real_path)), None):
        raise DataError(f"{path} is one of the run's own files in {run}, or lies among them; name another place")
    if not path.parent.is_dir():
        raise DataError(f"{path} cannot be written: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise DataError(f"{path} cannot be written: {path.parent} may not be written to")


def same_file(first: Path | str | int, second: Path | str | int) -> bool:
    """Return True if two paths or file descriptors refer to the same regular file. Before it exists, paths decide."""
    identity = _identity(first)
    return identity is not None and identity == _identity(second)


def _identity(file: Path | str | int) -> object:
    """Return device and inode of a regular file, the path of a missing file, or None for anything else."""
    try:
        facts = os.stat(file)
    except OSError:
        return None if isinstance(file, int) else os.path.realpath(file)
    return (facts.st_dev, facts.st_ino) if stat.S_ISREG(facts.st_mode) else None


def model_around(path: Path | str) -> Path | None:
    """Return the innermost model folder that contains a path: one with our manifest, settings and weights."""
    for above in Path(os.path.realpath(path)).parents:
        if all((above / name).is_file() for name in (MANIFEST, CONFIG)) and any(above.glob("*.safetensors")):
            return above
    return None


def check_new_folder(path: Path | str) -> None:
    """Raise `DataError` for a path where no new folder can be created: it exists, or a parent is no folder."""
    path = Path(path)
    if path.exists() or path.is_symlink():
        raise DataError(f"{path} exists already; name another folder or move it away")
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not above.is_dir():
        raise DataError(f"{path} cannot be made: {above} is no folder")


def make_folders(path: Path | str) -> None:
    """Create a folder and its missing parents, and flush their entries, so that they survive a power failure."""
    path = Path(path)
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in reversed(missing):
        _flush(folder.parent)


@contextmanager
def new_folder(path: Path | str, replace: bool = False) -> Generator[Path]:
    """Create a folder to fill. It appears at `path`, complete, when the block ends, and never if the block raises.

    An existing folder is a `DataError`; with `replace` it is renamed at the end and deleted. Not every system can swap
    folders: for a moment neither exists, and after a kill `remove_partial` restores the old one. What a killed process
    left of the same folder is deleted first.
    """
    path = Path(path)
    remove_partial(path.parent, path.name)
    if not replace:
        check_new_folder(path)
    with _explained(path, path):
        make_folders(path.parent)
    with _aside(path, Path.mkdir) as aside:
        yield aside
        for file in sorted(aside.rglob("*")):
            _flush(file)
        _flush(aside)
        before = aside.with_name(f"{aside.name.removesuffix('.partial')}.before.partial")
        with _claim(path):
            if path.exists():
                os.replace(path, before)
            try:
                os.replace(aside, path)
            except BaseException:
                _restore(before, path)
                raise
            _flush(path.parent)
            remove(before)


@contextmanager
def _aside(path: Path, make: Callable[[Path], object]) -> Generator[Path]:
    """Create a file or folder to fill, under a temporary name next to `path`, and delete it if the block raises."""
    claimed = False
    while not claimed:
        aside = _partial_name(path)
        with _explained(path, aside):
            make(aside)
            with _claim(aside) as claimed:
                if claimed:
                    try:
                        yield aside
                    except BaseException:
                        with suppress(OSError):
                            remove(aside)
                        raise


def _partial_name(path: Path) -> Path:
    """Return a new temporary name in the folder of `path`, which `_PARTIAL` matches. Process ids would not be unique:
    threads share one, and so do the first processes of two containers.
    """
    return path.with_name(f".{path.name}.{os.urandom(4).hex()}.partial")


@contextmanager
def _claim(path: Path) -> Generator[bool]:
    """Lock a file or folder against `remove_partial` for the block; yield False if it is gone or locked already."""
    handle, claimed = None, True
    try:
        if os.name != "nt":  # Windows neither deletes nor renames an open file
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            _take(handle)
            claimed = path.exists()
    except (FileNotFoundError, BlockingIOError):
        claimed = False
    except OSError:  # cannot be locked
        pass
    try:
        yield claimed
    finally:
        if handle is not None:
            os.close(handle)


def remove_partial(folder: Path | str, name: str | None = None) -> None:
    """Delete the unfinished files of killed processes in `folder`, or only those for the file `name`, and restore
    folders that were being replaced. Files that a running process is writing stay.
    """
    for leftover in Path(folder).glob(".*.partial"):
        match = _PARTIAL.fullmatch(leftover.name)
        if match is None or name not in (None, match["name"]):
            continue
        with _claim(leftover) as abandoned:
            if abandoned:
                if match["before"]:
                    _restore(leftover, leftover.with_name(match["name"]))
                remove(leftover)


def _restore(before: Path, path: Path) -> None:
    """Rename a replaced folder back to `path` unless `path` exists."""
    if before.exists() and not path.exists():
        os.replace(before, path)


def discard(folder: Path) -> None:
    """Rename a folder, then delete it, so that no partial folder has its name; `remove_partial` deletes remains."""
    aside = _partial_name(folder)
    os.replace(folder, aside)
    remove(aside)


def remove(path: Path) -> None:
    """Delete a file, or a folder with its content, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def set_aside(path: Path) -> Path:
    """Rename a file or folder to a free name in the same folder, and return the name. Nothing is deleted."""
    name = _first_free(path.with_name(f"{path.name}.broken-{number}") for number in count(1))
    os.replace(path, name)
    return name


def free_name(folder: Path | str) -> Path:
    """Return `folder` if it does not exist, else the first free name of `folder-2`, `folder-3` …"""
    folder = Path(folder)
    return _first_free(chain([folder], (folder.with_name(f"{folder.name}-{number}") for number in count(2))))


def _first_free(names: Iterable[Path]) -> Path:
    return next(name for name in names if not os.path.lexists(name))


@contextmanager
def lock(folder: Path | str) -> Generator[None]:
    """Lock `folder`, or raise `FolderInUse`, until the process ends; raise `DataError` for a pipe, which may block."""
    folder = Path(folder)
    if special := next(filter(is_special, folder.rglob("*")), None):
        raise DataError(f"{special} is no regular file; move it away")
    with open(folder / LOCK, "a+") as handle:
        _hold(handle, f"{folder} is in use by another process; wait for it, or name another folder")
        yield


def is_locked(folder: Path | str) -> bool:
    """Return True if a process has locked `folder`."""
    if is_special(Path(folder) / LOCK):
        return False
    try:
        with open(Path(folder) / LOCK, "rb") as handle:
            _look(handle.fileno())
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _hold(file: IO[Any], refusal: str) -> None:
    """Lock an open file until it is closed."""
    for is_last in (False, True):
        try:
            _take(file.fileno())
            return
        except OSError:
            if is_last:
                raise FolderInUse(refusal) from None
            time.sleep(0.1)  # `is_locked` of another process holds the lock for an instant


def sha256(path: Path | str) -> str:
    """Return the SHA-256 of a file's bytes in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def nearest(path: Path | str, prefixes: bool = False) -> str:
    """Return a question that suggests the existing name that a missing one was probably meant for, or an empty text.

    With `prefixes`, the common prefix of several names counts too: `train` for `train.en` and `train.it`.
    """
    name = _nearest(Path(path), prefixes)
    return f"; did you mean {name}?" if name else ""


def _nearest(path: Path, prefixes: bool) -> Path | None:
    parent = path.parent if path == path.parent or path.parent.is_dir() else _nearest(path.parent, False)
    try:
        names = [] if parent is None else [file.name for file in parent.iterdir() if not file.name.startswith(".")]
    except OSError:
        return None
    if prefixes:
        beginnings = [name.partition(".")[0] for name in names]
        names += sorted({name for name in beginnings if beginnings.count(name) > 1})
    cutoff = 0.5 if len(path.name) <= 4 else 0.6  # "mu" and "my" have half of their letters in common
    similar = difflib.get_close_matches(path.name, names, n=1, cutoff=cutoff)
    return parent / similar[0] if parent and similar else None


@contextmanager
def _explained(path: Path, aside: Path) -> Generator[None]:
    """Turn errors of a full disk or a missing permission into our own."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise DiskFull(
                f"the disk is full: {path} was not written; free some space and run the same command again"
            ) from error
        if isinstance(error, PermissionError):
            raise DataError(f"{path} may not be written: permission denied") from error
        if isinstance(error, FileNotFoundError) and error.filename == str(aside):
            why = f"{path.parent} takes no new files" if path.parent.is_dir() else f"there is no folder {path.parent}"
            raise DataError(f"{path} cannot be written: {why}") from error
        raise


def _flush(path: Path) -> None:
    """Flush a file or folder to the disk; Windows cannot flush folders."""
    if path.is_dir() and os.name == "nt":
        return
    handle = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


if os.name == "nt":

    def _take(handle: int) -> None:
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

    def _look(handle: int) -> None:
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)

else:

    def _take(handle: int) -> None:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _look(handle: int) -> None:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: other processes may look at the same time
