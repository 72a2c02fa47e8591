"""The compiled kernels of this process: their names, when they can be used, and how to call them.

The caller of a kernel also contains an equivalent in plain PyTorch, which is the definition. It runs on a GPU, in
float64, under a tracer, and if no kernels were prepared. Results agree within rounding; dropout masks are identical.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from dragoman.compiled.libraries import Libraries, Library, sources

ELEMENTS = {torch.float32: "float", torch.bfloat16: "bf16"}
"""Data types with kernels, and their names in C++."""
_SOURCES = sources("kernels.cpp", "attention.cpp", "kernels.h", "vectors.h")

_POINTER, _NUMBER, _REAL = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
_ARGUMENTS: dict[str, list[type]] = {
    "drop": [*[_POINTER] * 4, _NUMBER, _NUMBER, ctypes.c_uint32, ctypes.c_int32, _REAL],
    "rms_norm": [*[_POINTER] * 4, _NUMBER, _NUMBER, _REAL],
    "rms_norm_back": [*[_POINTER] * 6, _NUMBER, _NUMBER],
    "smoothed_loss": [*[_POINTER] * 3, _NUMBER, _NUMBER, _REAL],
    "attention": [_POINTER] * 5,
    "attention_back": [*[_POINTER] * 8, _NUMBER, _NUMBER],
}
KERNELS = tuple(name for name in _ARGUMENTS if not name.endswith("_back"))
"""Names of the kernels; `NAME_back` is the backward pass of NAME."""

LIBRARIES = {
    dtype: Library(f"kernels-{element}", _SOURCES, (f"ELEMENT={element}",)) for dtype, element in ELEMENTS.items()
}
"""The kernels, compiled once per data type."""
PREPARED = Libraries(
    LIBRARIES,
    {name: (ctypes.c_bool, arguments) for name, arguments in _ARGUMENTS.items()},
    "compiled kernels are not used: %s; the same arithmetic runs in plain PyTorch, slower",
)
_off: ContextVar[frozenset[str]] = ContextVar("kernels switched off", default=frozenset())

prepare = PREPARED.prepare
"""Compile or load the kernels; return True if that succeeded. Otherwise plain PyTorch runs."""


def available() -> bool:
    """Return True if this process has prepared kernels. Never compiles."""
    return bool(PREPARED.loaded)


def usable(name: str, *tensors: Tensor) -> bool:
    """Return True if this kernel supports these tensors; otherwise the caller uses PyTorch. Never compiles."""
    dtype = tensors[0].dtype
    if dtype not in PREPARED.loaded or name in _off.get() or torch.compiler.is_compiling():
        return False
    return all(x.device.type == "cpu" and x.dtype == dtype for x in tensors)


def run(name: str, first: Tensor, *arguments: Any) -> None:
    """Call a kernel that is `usable` with the arguments of its C++ function; `first` determines the data type.

    Tensors are passed by address, so they must be contiguous unless the kernel takes strides.
    """
    function = getattr(PREPARED.loaded[first.dtype], name)
    if not function(*(x.data_ptr() if isinstance(x, Tensor) else x for x in (first, *arguments))):
        raise MemoryError(f"there is no memory for the kernel {name}")


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Use plain PyTorch instead of these kernels inside the block."""
    token = _off.set(_off.get() | frozenset(names))
    try:
        yield
    finally:
        _off.reset(token)
