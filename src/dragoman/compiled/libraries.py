"""Compilation of C++ with this machine's compiler, and a cache of the compiled libraries.

A library is code that this process will run. It is loaded only if it belongs to this user and nobody else can write to
it. Its file name contains a hash of everything that it depends on: source, flags, compiler and processor.
"""

import ctypes
import hashlib
import json
import logging
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from dragoman import system
from dragoman.progress import Progress, silent

log = logging.getLogger(__name__)
Key = TypeVar("Key", bound=Hashable)

FLAGS = "-O3 -std=c++17 -fno-math-errno -fno-trapping-math -fopenmp -fPIC -shared".split()
TARGET = "DRAGOMAN_MARCH"
"""Environment variable with the processor to compile for, as a value of the compiler's `-march` (`x86-64-v3`). If it is
not set, kernels are compiled for this machine's processor.
"""


class NotCompiled(Exception):
    """A failure to compile or load kernels; the message says why."""


class Library(NamedTuple):
    """The sources and macros of one compiled library."""

    name: str
    sources: Sequence[Path]
    """The `.cpp` files to compile, and the headers that they include."""
    defines: Sequence[str] = ()
    """Macros, as values of the compiler's `-D`."""

    def file(self, compiler: str) -> str:
        """Return the file name of the compiled library, with a hash of everything that it depends on."""
        source = [path.read_text(encoding="utf-8") for path in self.sources]
        facts = [source, list(self.defines), _flags(), compiler, system.compiler(), system.processor()]
        return f"{self.name}-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]}.so"


Signature = tuple[type | None, list[type]]
"""The result type of a function, and the types of its arguments."""


def sources(*names: str) -> tuple[Path, ...]:
    """Return the paths of source files in this room."""
    return tuple(Path(__file__).with_name(name) for name in names)


class Libraries(Generic[Key]):
    """Libraries that a process compiles or loads once, all with the same function signatures."""

    def __init__(self, libraries: Mapping[Key, Library], signatures: Mapping[str, Signature], warning: str) -> None:
        self._libraries, self._signatures, self._warning = libraries, signatures, warning
        self.loaded: dict[Key, ctypes.CDLL] = {}
        """Loaded libraries; empty before `prepare`, and if it failed."""
        self.failure: NotCompiled | None = None

    def prepare(self, progress: Progress = silent) -> bool:
        """Compile or load the libraries; return True if that succeeded. Only the first call in a process does anything;
        if it fails, a warning says why.

        Compiling takes a few seconds, shown by `progress`; loading from the user's cache is immediate.
        """
        if not self.loaded and self.failure is None:
            try:
                loaded = load_libraries(list(self._libraries.values()), progress)
            except NotCompiled as failure:
                self.failure = failure
                log.warning(self._warning, failure)
                return False
            for library in loaded:
                for name, (result, arguments) in self._signatures.items():
                    function = getattr(library, name)
                    function.restype, function.argtypes = result, arguments
            self.loaded = dict(zip(self._libraries, loaded, strict=True))
        return bool(self.loaded)


def load_libraries(wanted: Sequence[Library], progress: Progress = silent) -> list[ctypes.CDLL]:
    """Load libraries from the user's cache; compile missing ones in parallel, or raise `NotCompiled`."""
    compiler = system.compiler_path()
    if sys.platform != "linux" or compiler is None:
        raise NotCompiled("no C++ compiler was found (g++ or clang++)")
    kept, names = cache_folder(), {library: library.file(compiler) for library in wanted}
    libraries = {library: _load(kept / name) if kept else None for library, name in names.items()}
    if missing := {library: name for library, name in names.items() if libraries[library] is None}:
        libraries |= _compile_all(compiler, missing, kept, progress)
    return [loaded for loaded in libraries.values() if loaded is not None]


def _compile_all(
    compiler: str, names: dict[Library, str], kept: Path | None, progress: Progress
) -> dict[Library, ctypes.CDLL]:
    """Compile libraries into the cache folder, if there is one."""
    libraries: dict[Library, ctypes.CDLL] = {}
    try:
        with (
            progress.track("compile kernels", len(names), "libraries") as advance,
            _writable(kept) as folder,
            ThreadPoolExecutor() as pool,
        ):
            tasks = {
                library: pool.submit(_compile, compiler, library, folder / name) for library, name in names.items()
            }
            for library, task in tasks.items():
                libraries[library] = task.result()
                advance()
    except (OSError, subprocess.SubprocessError) as error:
        printed = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
        raise NotCompiled(f"they could not be compiled by {compiler} ({_first_error(printed)})") from error
    return libraries


def _compile(compiler: str, library: Library, path: Path) -> ctypes.CDLL:
    """Compile under a temporary name and rename, so that concurrent processes never load a partial file."""
    with tempfile.TemporaryDirectory(dir=path.parent) as aside:
        made = Path(aside) / path.name
        defines = [f"-D{define}" for define in library.defines]
        sources = [str(source) for source in library.sources if source.suffix == ".cpp"]
        command = [compiler, *_flags(), *defines, *sources, "-o", str(made)]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
        made.chmod(0o700)
        made.replace(path)
    if (loaded := _load(path)) is None:
        raise OSError(f"{path} cannot be loaded, or other users can write to it")
    return loaded


def _first_error(printed: str) -> str:
    """Return the first line of a compiler's output that mentions an error, else its last line."""
    lines = printed.strip().splitlines() or ["the compiler printed nothing"]
    return next((line for line in lines if "error" in line), lines[-1]).strip()


def _flags() -> list[str]:
    return [*FLAGS, f"-march={os.environ.get(TARGET) or 'native'}"]


@contextmanager
def _writable(kept: Path | None) -> Iterator[Path]:
    """Yield the cache folder, or, if it is not writable, a temporary one that is removed once libraries are loaded."""
    if kept is not None and os.access(kept, os.W_OK):
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="dragoman-") as aside:
        yield Path(aside)


def cache_folder() -> Path | None:
    """Return the folder for libraries in the user's cache; None if others can write to it, or it cannot be created."""
    with suppress(OSError, RuntimeError):  # the home folder is missing or read-only
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dragoman"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid == os.geteuid() and not _is_ours_alone(folder.stat()):
            folder.chmod(0o700)
        if _is_ours_alone(folder.stat()):
            return folder
        log.warning(
            "compiled kernels are not kept in %s, because another user can write there; every start compiles them "
            "again, for some seconds (to keep them, set XDG_CACHE_HOME to a folder that only you can write to)",
            folder,
        )
    return None


def _is_ours_alone(facts: os.stat_result) -> bool:
    """Return True if a file or folder belongs to this user and nobody else can write to it."""
    return facts.st_uid == os.geteuid() and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _load(path: Path) -> ctypes.CDLL | None:
    """Load a cached library; return None if there is none, it is damaged, or another user may have written it.

    It is loaded through its file descriptor, which stays open, so replacing the file in the meantime has no effect.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with suppress(OSError):
        if _is_ours_alone(os.fstat(file)):
            return ctypes.CDLL(f"/proc/self/fd/{file}")
    os.close(file)
    return None
