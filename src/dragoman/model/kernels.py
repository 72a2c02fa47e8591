"""Compiled twins of the elementwise arithmetic: `kernels.cpp`, built by the machine's C++ compiler when first needed.

Each kernel has a plain twin in PyTorch beside which it is called; that is the definition, and what runs on a GPU, in
float64, under a tracer, and where there is no compiler. Results agree within rounding; dropout masks agree bit for bit.
"""

import ctypes
import hashlib
import logging
import os
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

SOURCES = [Path(__file__).with_name(name) for name in ("kernels.cpp", "attention.cpp", "kernels.h")]
FLAGS = "-O3 -march=native -std=c++17 -fno-math-errno -fno-trapping-math -fopenmp -fPIC -shared".split()
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
    """Calls a kernel that is `usable`: the arguments of `kernels.cpp`, in its order. `first` tells the type.

    Tensors are passed as they lie in memory, and so must be contiguous wherever the kernel takes no stride.
    """
    library = _library(ELEMENTS[first.dtype])
    assert library is not None, f"{name} is not usable here"
    library[name](*(x.data_ptr() if isinstance(x, Tensor) else x for x in (first, *arguments)))


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
def _library(element: str) -> dict[str, Callable[..., None]] | None:
    """The kernels of one type of element, compiled or found in the cache."""
    compiler = machine.compiler_path()
    if sys.platform != "linux" or compiler is None:
        return _missing("no C++ compiler was found (g++ or clang++)")
    path = _cache_folder() / f"kernels-{element}-{_identity(compiler)}.so"
    try:
        loaded = _load(path) or _compile(compiler, element, path)
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "stderr", None) or str(error)
        return _missing(f"they could not be compiled ({reason.strip().splitlines()[-1] if reason.strip() else error})")
    found: dict[str, Callable[..., None]] = {}
    for name, arguments in _SIGNATURES.items():
        function = loaded[name]
        function.argtypes, function.restype = arguments, None
        found[name] = function
    return found


@cache
def _missing(why: str) -> None:
    log.warning("compiled kernels are not used: %s; the same arithmetic runs in plain PyTorch, slower", why)


def _identity(compiler: str) -> str:
    """What the compiled file depends on."""
    facts = [*(source.read_text(encoding="utf-8") for source in SOURCES), *FLAGS, compiler, str(machine.compiler())]
    return hashlib.sha256("\0".join([*facts, *machine.processor()["flags"]]).encode()).hexdigest()[:16]


def _cache_folder() -> Path:
    """Where compiled kernels are kept between runs: the user's cache, or a folder of this process where none can be."""
    with suppress(OSError, RuntimeError):  # a user without a home
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dragoman"
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    return Path(_own_folder().name)


@cache
def _own_folder() -> tempfile.TemporaryDirectory[str]:
    """Removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="dragoman-")


def _load(path: Path) -> ctypes.CDLL | None:
    """What was compiled earlier; None where nothing was, or where it is damaged."""
    with suppress(OSError):
        return ctypes.CDLL(str(path))


def _compile(compiler: str, element: str, path: Path) -> ctypes.CDLL:
    """Compiles aside and renames, so that processes that start together do not meet half a file."""
    with tempfile.TemporaryDirectory(dir=path.parent) as aside:
        made = Path(aside) / path.name
        command = [compiler, *FLAGS, f"-DELEMENT={element}", *map(str, SOURCES[:-1]), "-o", str(made)]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
        made.replace(path)
    return ctypes.CDLL(str(path))
