"""Files and folders that are whole or not there: atomic writes, locks, hashes. No other file knows the system.

A file or folder is written aside under another name, flushed to the disk, and renamed once. A process killed at any
moment leaves the old one or the new one, never a half. A full disk raises `DiskFull` and leaves nothing behind.
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

MANIFEST, CONFIG = "manifest.json", "config.json"
"""The files by which a model folder is known; `dragoman.store` says what they hold."""
LOCK = ".lock"
"""The file by which a folder is locked."""
_PARTIAL = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}(?P<before>\.before)?\.partial")
"""The name of an unfinished file or folder; with `before`, of an old folder moved aside for its replacement."""


def write_file(path: Path | str, content: str | bytes) -> None:
    """Writes a whole file, atomically; text is UTF-8 with `\\n` line ends. Links and pipes: see `new_file`."""
    with new_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def new_file(path: Path | str) -> Generator[IO[bytes]]:
    """Opens a file to write. It appears at `path`, complete, when the block ends, and not at all when the block raises.

    A link is followed. A pipe or a device takes the bytes as they come, because no file must replace it.

    Raises:
        DiskFull: the disk is full; nothing is left behind.
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
    """Opens the file `aside` to read it and to go on at its end, and locks it; if nothing stands there, it is made. It
    becomes `path` when the block ends, or what `convert` makes of it does, and stays aside when the block raises.
    `path` is no link, and none at `aside` is followed.

    Raises:
        DiskFull: the disk is full.
        FolderInUse: another process writes it.
    """
    path, aside = Path(path), Path(aside)
    is_begun = aside.exists()

    def open_aside(name: str, flags: int) -> int:
        if is_begun:  # what another process finishes just now is not begun again
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
    """Whether a regular file stands at `path`, and no link to one; None if nothing stands there."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return None


def read_regular(path: Path | str) -> bytes:
    """The bytes of a file; refuses a pipe or a device, from which nothing may ever come.

    Raises:
        OSError: it cannot be read.
    """
    path = Path(path)
    if is_special(path):
        raise OSError(errno.EIO, "it is no regular file", str(path))
    return path.read_bytes()


def is_special(path: Path) -> bool:
    """Whether a pipe, a device or a socket stands at `path`."""
    return path.exists() and not path.is_file() and not path.is_dir()


def flush_file(file: IO[bytes]) -> None:
    """Writes what was given to an open file to the disk now."""
    file.flush()
    os.fsync(file.fileno())


def check_output(path: Path | str, *inputs: Path | str | None) -> None:
    """Refuses, before any work is done, a path where no file can be written, or where one would be lost: a file that is
    read, as standard input too, that standard output goes to, or one of a model or a run.

    Raises:
        DataError: a folder or one of the `inputs` stands there, or the folder it should lie in is missing, may not be
            written, or belongs to a model or a run; or the name promises a packed file.
    """
    path = Path(path)
    if path.suffix == ".gz":
        raise DataError(f"{path} would not be packed: only input may be; leave .gz out")
    if any(source is not None and same_file(path, source) for source in (*inputs, 0)):
        raise DataError(f"{path} is also read, and would be lost; name another file to write")
    if same_file(path, 1):  # a new file would take the place of what the shell has opened, perhaps with >>
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


def same_file(one: Path | str | int, other: Path | str | int) -> bool:
    """Whether two names, or numbers of open files, stand for one regular file. Until it exists, paths decide."""
    identity = _identity(one)
    return identity is not None and identity == _identity(other)


def _identity(file: Path | str | int) -> object:
    """What a regular file is known by: device and inode; its path if it does not exist; None for anything else."""
    try:
        facts = os.stat(file)
    except OSError:
        return None if isinstance(file, int) else os.path.realpath(file)
    return (facts.st_dev, facts.st_ino) if stat.S_ISREG(facts.st_mode) else None


def model_around(path: Path | str) -> Path | None:
    """The nearest model folder in which a path lies, at whatever depth. Other programs too have such a manifest and
    settings, but no weights beside them.
    """
    for above in Path(os.path.realpath(path)).parents:
        if all((above / name).is_file() for name in (MANIFEST, CONFIG)) and any(above.glob("*.safetensors")):
            return above
    return None


def check_new_folder(path: Path | str) -> None:
    """Refuses, before any work is done, a path where no new folder can be made.

    Raises:
        DataError: something stands there already, or above it stands something that is no folder.
    """
    path = Path(path)
    if path.exists() or path.is_symlink():
        raise DataError(f"{path} exists already; name another folder or move it away")
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not above.is_dir():
        raise DataError(f"{path} cannot be made: {above} is no folder")


def make_folders(path: Path | str) -> None:
    """Makes a folder and its missing parents. Each is flushed to the disk in its parent, so that files written into it
    later are still found after a power failure.
    """
    path = Path(path)
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in reversed(missing):
        _flush(folder.parent)


@contextmanager
def new_folder(path: Path | str, replace: bool = False) -> Generator[Path]:
    """Makes a folder to fill. It appears at `path`, complete, when the block ends, and not at all if the block raises.

    With `replace`, a folder that stands there is moved aside in that moment and then deleted. Not every system can swap
    folders: for a moment neither is there, and after a kill `remove_partial` brings the old one back.

    Raises:
        DataError: something stands at `path` already.
        DiskFull: the disk is full; nothing is left behind.
    """
    path = Path(path)
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
                _bring_back(before, path)
                raise
            _flush(path.parent)
            remove(before)


@contextmanager
def _aside(path: Path, make: Callable[[Path], object]) -> Generator[Path]:
    """Makes a file or folder to fill, under a name of its own beside `path`, and deletes it after any failure."""
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
    """A new name beside `path`, as `_PARTIAL` reads it. Process ids would not do: threads share one, and so do the
    first processes of two containers.
    """
    return path.with_name(f".{path.name}.{os.urandom(4).hex()}.partial")


@contextmanager
def _claim(path: Path) -> Generator[bool]:
    """Locks a file or folder against `remove_partial`, as long as this process lives. False if it is gone, or if
    another process has locked it.
    """
    handle, claimed = None, True
    try:
        if os.name != "nt":  # which neither deletes what is open nor renames it
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            _take(handle)
            claimed = path.exists()
    except (FileNotFoundError, BlockingIOError):
        claimed = False
    except OSError:  # nothing that can be locked
        pass
    try:
        yield claimed
    finally:
        if handle is not None:
            os.close(handle)


def remove_partial(folder: Path | str, name: str | None = None) -> None:
    """Deletes what killed processes left aside in `folder`, or of the file `name` in it, and brings back folders moved
    aside. What a living process is writing stays.
    """
    for leftover in Path(folder).glob(".*.partial"):
        match = _PARTIAL.fullmatch(leftover.name)
        if match is None or name not in (None, match["name"]):
            continue
        with _claim(leftover) as abandoned:
            if abandoned:
                if match["before"]:
                    _bring_back(leftover, leftover.with_name(match["name"]))
                remove(leftover)


def _bring_back(before: Path, path: Path) -> None:
    """Moves a folder back from aside, if nothing stands in its place."""
    if before.exists() and not path.exists():
        os.replace(before, path)


def discard(folder: Path) -> None:
    """Renames a folder, then deletes it, so that no half of it bears its name. If the process is killed in between,
    `remove_partial` clears the rest.
    """
    aside = _partial_name(folder)
    os.replace(folder, aside)
    remove(aside)


def remove(path: Path) -> None:
    """Deletes a file, or a folder with everything in it, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def set_aside(path: Path) -> Path:
    """Renames a file or folder to a free name beside it, and returns the name. Nothing is deleted."""
    name = _first_free(path.with_name(f"{path.name}.broken-{number}") for number in count(1))
    os.replace(path, name)
    return name


def free_name(folder: Path | str) -> Path:
    """`folder` if nothing stands there, else the first free of `folder-2`, `folder-3` …"""
    folder = Path(folder)
    return _first_free(chain([folder], (folder.with_name(f"{folder.name}-{number}") for number in count(2))))


def _first_free(names: Iterable[Path]) -> Path:
    return next(name for name in names if not os.path.lexists(name))


@contextmanager
def lock(folder: Path | str) -> Generator[None]:
    """Locks `folder` for this process. The operating system unlocks it when the process ends, however it ends.

    Raises:
        DataError: a pipe or a device stands in it, which may be waited for without end.
        FolderInUse: another process has locked it.
    """
    folder = Path(folder)
    if special := next(filter(is_special, folder.rglob("*")), None):
        raise DataError(f"{special} is no regular file; move it away")
    with open(folder / LOCK, "a+") as handle:
        _hold(handle, f"{folder} is in use by another process; wait for it, or name another folder")
        yield


def is_locked(folder: Path | str) -> bool:
    """Whether a process has locked `folder`."""
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
    """Locks an open file until it is closed."""
    for is_last in (False, True):
        try:
            _take(file.fileno())
            return
        except OSError:
            if is_last:
                raise FolderInUse(refusal) from None
            time.sleep(0.1)  # `is_locked` of another process holds the lock for an instant


def sha256(path: Path | str) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def nearest(path: Path | str, prefixes: bool = False) -> str:
    """The existing name that a missing one was probably meant for, as a question; empty if no name is similar.

    With `prefixes`, the common beginning of several names counts too: `train` for `train.en` and `train.it`.
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
    """Explains a full disk or a missing permission."""
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
    """Asks the system to write a file or folder to the disk now; Windows cannot flush folders."""
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

        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: others may look at the same time
