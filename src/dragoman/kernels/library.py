"""Compiled arithmetic: `arithmetic.cpp` and `attention.cpp`, built by the machine's C++ compiler when first needed.

Each kernel has a plain twin in PyTorch beside which it is called; that is the definition, and what runs on a GPU, in
float64, under a tracer, and where there is no compiler. Results agree within rounding; dropout masks agree bit for bit.

A library is code that this process will run. It is loaded only if it belongs to this user and nobody else can write it.
"""

import ctypes
import hashlib
import logging
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman import machine

SOURCES = [Path(__file__).with_name(name) for name in ("arithmetic.cpp", "attention.cpp", "kernels.h")]
FLAGS = "-O3 -std=c++17 -fno-math-errno -fno-trapping-math -fopenmp -fPIC -shared".split()
TARGET = "DRAGOMAN_MARCH"
"""An environment variable: the processor to compile for, as the compiler's `-march` names it (`x86-64-v3`); this one
where it is not set.
"""
ELEMENTS = {torch.float32: "float", torch.bfloat16: "bf16"}

_POINTER, _NUMBER, _REAL = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
_SIGNATURES: dict[str, list[type]] = {
    "drop": [*[_POINTER] * 4, _NUMBER, _NUMBER, ctypes.c_uint32, ctypes.c_int32, _REAL],
    "rms_norm": [*[_POINTER] * 4, _NUMBER, _NUMBER, _REAL],
    "rms_norm_back": [*[_POINTER] * 6, _NUMBER, _NUMBER],
    "smoothed_loss": [*[_POINTER] * 3, _NUMBER, _NUMBER, _REAL],
    "attention": [_POINTER] * 5,
    "attention_back": [*[_POINTER] * 8, _NUMBER, _NUMBER],
}
KERNELS = tuple(name for name in _SIGNATURES if not name.endswith("_back"))

_off: ContextVar[frozenset[str]] = ContextVar("kernels switched off", default=frozenset())
log = logging.getLogger(__name__)


def usable(name: str, *tensors: Tensor) -> bool:
    """Whether the kernel of this name can take these tensors, all of one type; where not, the plain twin is to run."""
    dtype = tensors[0].dtype
    if dtype not in ELEMENTS or name in _off.get() or torch.compiler.is_compiling():
        return False
    return all(x.device.type == "cpu" and x.dtype == dtype for x in tensors) and _library(ELEMENTS[dtype]) is not None


def run(name: str, first: Tensor, *arguments: Any) -> None:
    """Calls a kernel that is `usable`: the arguments of `arithmetic.cpp`, in its order. `first` tells the type.

    Tensors are passed as they lie in memory, and so must be contiguous wherever the kernel takes no stride.

    Raises:
        MemoryError: the kernel needs more memory beside its tensors than there is.
    """
    library = _library(ELEMENTS[first.dtype])
    assert library is not None, f"{name} is not usable here"
    if not library[name](*(x.data_ptr() if isinstance(x, Tensor) else x for x in (first, *arguments))):
        raise MemoryError(f"there is no memory for the kernel {name}")


def available() -> bool:
    """Whether this machine has the kernels; the first call may take some seconds to compile them."""
    return _library("float") is not None


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Within the block the plain twins of these kernels run."""
    token = _off.set(_off.get() | frozenset(names))
    try:
        yield
    finally:
        _off.reset(token)


@cache
def _library(element: str) -> dict[str, Callable[..., bool]] | None:
    """The kernels of one type of element, compiled or found in the cache."""
    compiler = machine.compiler_path()
    if sys.platform != "linux" or compiler is None:
        return _missing("no C++ compiler was found (g++ or clang++)")
    name, kept = f"kernels-{element}-{_identity(compiler)}.so", _cache_folder()
    try:
        loaded = kept and _load(kept / name)
        if loaded is None:
            folder = kept if kept and os.access(kept, os.W_OK) else Path(_own_folder().name)
            loaded = _compile(compiler, element, folder / name)
    except (OSError, subprocess.SubprocessError) as error:
        return _missing(f"they could not be compiled ({_first_error(getattr(error, 'stderr', None) or str(error))})")
    found: dict[str, Callable[..., bool]] = {}
    for name, arguments in _SIGNATURES.items():
        function = loaded[name]
        function.argtypes, function.restype = arguments, ctypes.c_bool
        found[name] = function
    return found


def _first_error(said: str) -> str:
    """The first line of a compiler's output that names an error, else its last line."""
    lines = said.strip().splitlines() or ["the compiler printed nothing"]
    return next((line for line in lines if "error" in line), lines[-1]).strip()


@cache
def _missing(why: str) -> None:
    log.warning("compiled kernels are not used: %s; the same arithmetic runs in plain PyTorch, slower", why)


def _flags() -> list[str]:
    return [*FLAGS, f"-march={os.environ.get(TARGET) or 'native'}"]


def _identity(compiler: str) -> str:
    """What the compiled file depends on."""
    facts = [*(source.read_text(encoding="utf-8") for source in SOURCES), *_flags(), compiler, str(machine.compiler())]
    return hashlib.sha256("\0".join([*facts, *machine.processor()["flags"]]).encode()).hexdigest()[:16]


@cache
def _cache_folder() -> Path | None:
    """Where compiled kernels are kept between runs: in the user's cache; None where only others could keep them."""
    with suppress(OSError, RuntimeError):  # a home that is missing, or read-only
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dragoman"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid == os.geteuid() and not _ours_alone(folder.stat()):
            folder.chmod(0o700)
        if _ours_alone(folder.stat()):
            return folder
        log.warning(
            "compiled kernels are not kept in %s, because another user can write there; every start compiles them "
            "again, for some seconds (to keep them, set XDG_CACHE_HOME to a folder of your own)",
            folder,
        )
    return None


@cache
def _own_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder of this process, removed when it ends."""
    return tempfile.TemporaryDirectory(prefix="dragoman-")


def _ours_alone(facts: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user, and nobody else can write it."""
    return facts.st_uid == os.geteuid() and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _load(path: Path) -> ctypes.CDLL | None:
    """What was compiled earlier; None if nothing was, if it is damaged, or if another user may have written it.

    It is loaded through its descriptor, which stays open: whoever changes the path meanwhile changes nothing.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with suppress(OSError):
        if _ours_alone(os.fstat(file)):
            return ctypes.CDLL(f"/proc/self/fd/{file}")
    os.close(file)
    return None


def _compile(compiler: str, element: str, path: Path) -> ctypes.CDLL:
    """Compiles aside and renames, so that processes that start together do not meet half a file."""
    with tempfile.TemporaryDirectory(dir=path.parent) as aside:
        made = Path(aside) / path.name
        command = [compiler, *_flags(), f"-DELEMENT={element}", *map(str, SOURCES[:-1]), "-o", str(made)]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
        made.chmod(0o700)
        made.replace(path)
    if (loaded := _load(path)) is None:
        raise OSError(f"{path} cannot be loaded, or other users can write it")
    return loaded
