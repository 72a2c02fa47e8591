"""Compiles C++ with this machine's compiler, and keeps the libraries.

A library is code that this process will run. It is loaded only if it belongs to this user and nobody else can write it.
Its name contains a hash of all that it depends on: source, flags, compiler and processor.
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
"""An environment variable: the processor to compile for, as the compiler's `-march` names it (`x86-64-v3`). If it is
not set, kernels are compiled for this machine's processor.
"""


class NotCompiled(Exception):
    """There are no kernels; the message says why."""


class Library(NamedTuple):
    """What is compiled together."""

    name: str
    sources: Sequence[Path]
    """The `.cpp` files are compiled, with the others beside them."""
    defines: Sequence[str] = ()
    """Macros, as the compiler takes them after `-D`."""

    def file(self, compiler: str) -> str:
        """The name under which it is kept, with a hash of all that the compiled library depends on."""
        source = [path.read_text(encoding="utf-8") for path in self.sources]
        facts = [source, list(self.defines), _flags(), compiler, system.compiler(), system.processor()]
        return f"{self.name}-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]}.so"


Signature = tuple[type | None, list[type]]
"""What a function returns, and the types of its arguments."""


def sources(*names: str) -> tuple[Path, ...]:
    """The paths of files of this room."""
    return tuple(Path(__file__).with_name(name) for name in names)


class Libraries(Generic[Key]):
    """Libraries that a process compiles or loads once, whose functions have these signatures."""

    def __init__(self, libraries: Mapping[Key, Library], signatures: Mapping[str, Signature], warning: str) -> None:
        self._libraries, self._signatures, self._warning = libraries, signatures, warning
        self.loaded: dict[Key, ctypes.CDLL] = {}
        """Empty before `prepare`, and if that failed."""
        self.failure: NotCompiled | None = None

    def prepare(self, progress: Progress = silent) -> bool:
        """Compiles or loads them, and returns whether there are any. Only the first call in a process does anything; if
        it fails, a warning says why.

        Compiling takes some seconds, which `progress` shows; loading from the user's cache takes no time.
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
    """Libraries from the user's cache, or compiled now, all at the same time.

    Raises:
        NotCompiled: there is no compiler, or it failed.
    """
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
    """Compiles into the folder that keeps libraries, if there is one."""
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
        reason = _first_error(getattr(error, "stderr", None) or str(error))
        raise NotCompiled(f"they could not be compiled ({reason})") from error
    return libraries


def _compile(compiler: str, library: Library, path: Path) -> ctypes.CDLL:
    """Compiles under a temporary name and renames, so that processes that start together never load a partial file."""
    with tempfile.TemporaryDirectory(dir=path.parent) as aside:
        made = Path(aside) / path.name
        defines = [f"-D{define}" for define in library.defines]
        sources = [str(source) for source in library.sources if source.suffix == ".cpp"]
        command = [compiler, *_flags(), *defines, *sources, "-o", str(made)]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
        made.chmod(0o700)
        made.replace(path)
    if (loaded := _load(path)) is None:
        raise OSError(f"{path} cannot be loaded, or other users can write it")
    return loaded


def _first_error(printed: str) -> str:
    """The first line of a compiler's output that names an error, else its last line."""
    lines = printed.strip().splitlines() or ["the compiler printed nothing"]
    return next((line for line in lines if "error" in line), lines[-1]).strip()


def _flags() -> list[str]:
    return [*FLAGS, f"-march={os.environ.get(TARGET) or 'native'}"]


@contextmanager
def _writable(kept: Path | None) -> Iterator[Path]:
    """The folder that keeps libraries; if it cannot be written, a temporary one, removed once they are loaded."""
    if kept is not None and os.access(kept, os.W_OK):
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="dragoman-") as aside:
        yield Path(aside)


def cache_folder() -> Path | None:
    """The folder in the user's cache that keeps libraries; None if others can write it, or it cannot be made."""
    with suppress(OSError, RuntimeError):  # the home folder is missing or read-only
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dragoman"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid == os.geteuid() and not _is_ours_alone(folder.stat()):
            folder.chmod(0o700)
        if _is_ours_alone(folder.stat()):
            return folder
        log.warning(
            "compiled kernels are not kept in %s, because another user can write there; every start compiles them "
            "again, for some seconds (to keep them, set XDG_CACHE_HOME to a folder of your own)",
            folder,
        )
    return None


def _is_ours_alone(facts: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user and nobody else can write it."""
    return facts.st_uid == os.geteuid() and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _load(path: Path) -> ctypes.CDLL | None:
    """A library that was compiled earlier; None if there is none, it is damaged, or another user may have written it.

    It is loaded through its file descriptor, which stays open, so replacing the file meanwhile has no effect.
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
