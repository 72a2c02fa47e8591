"""The compiled kernels of this process: which there are, where they can be used, and how they are called.

Each call of a kernel stands beside its plain twin in PyTorch. The twin is the definition, and runs on a GPU, in
float64, under a tracer, and where nothing was prepared. Results agree within rounding; dropout masks agree bit for bit.
"""

import ctypes
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from dragoman.kernels.compiling import NotCompiled, load_libraries
from dragoman.progress import Progress, silent

ELEMENTS = {torch.float32: "float", torch.bfloat16: "bf16"}
"""The types that have kernels, as C++ calls them."""

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

Functions = dict[str, Callable[..., bool]]

_prepared: dict[torch.dtype, Functions] | None = None
"""The functions of each type of element: none where they cannot be compiled, None where nobody has asked for them."""
_off: ContextVar[frozenset[str]] = ContextVar("kernels switched off", default=frozenset())
log = logging.getLogger(__name__)


def prepare(progress: Progress = silent) -> bool:
    """Makes the kernels of this machine ready, and says whether there are any; only the first call in a process acts.

    They are compiled in some seconds, which `progress` shows, or loaded from the user's cache at once. If that fails, a
    warning says why, and the plain twins go on running.
    """
    global _prepared
    if _prepared is None:
        try:
            _prepared = _functions(load_libraries(ELEMENTS.values(), progress))
        except NotCompiled as why:
            _prepared = {}
            log.warning("compiled kernels are not used: %s; the same arithmetic runs in plain PyTorch, slower", why)
    return bool(_prepared)


def available() -> bool:
    """Whether kernels were prepared in this process; compiles nothing."""
    return bool(_prepared)


def usable(name: str, *tensors: Tensor) -> bool:
    """Whether the kernel of this name takes these tensors, all of one type; if not, the caller runs the plain twin."""
    dtype = tensors[0].dtype
    if not _prepared or dtype not in _prepared or name in _off.get() or torch.compiler.is_compiling():
        return False
    return all(x.device.type == "cpu" and x.dtype == dtype for x in tensors)


def run(name: str, first: Tensor, *arguments: Any) -> None:
    """Calls a kernel that is `usable`: the arguments of `arithmetic.cpp`, in its order. `first` decides the type.

    Tensors are passed as they lie in memory, and so must be contiguous wherever the kernel takes no stride.

    Raises:
        MemoryError: the kernel needs more memory beside its tensors than there is.
    """
    assert _prepared is not None, f"{name} is not usable here"
    function = _prepared[first.dtype][name]
    if not function(*(x.data_ptr() if isinstance(x, Tensor) else x for x in (first, *arguments))):
        raise MemoryError(f"there is no memory for the kernel {name}")


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Within the block the plain twins of these kernels run."""
    token = _off.set(_off.get() | frozenset(names))
    try:
        yield
    finally:
        _off.reset(token)


def _functions(libraries: Mapping[str, ctypes.CDLL]) -> dict[torch.dtype, Functions]:
    return {dtype: _declared(libraries[element]) for dtype, element in ELEMENTS.items()}


def _declared(library: ctypes.CDLL) -> Functions:
    """The functions of a library, with the types of their arguments."""
    functions: Functions = {}
    for name, arguments in _SIGNATURES.items():
        function = library[name]
        function.argtypes, function.restype = arguments, ctypes.c_bool
        functions[name] = function
    return functions
