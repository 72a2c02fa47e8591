"""The functions of the compiled decoder, with their signatures."""

import ctypes
from pathlib import Path

from dragoman.compiled.libraries import Libraries, Library, Signature

_NAMES = ("decoder.cpp", "search.h", "arithmetic.h", "products.h", "team.h", "vectors.h")
_SOURCES = tuple(Path(__file__).with_name(name) for name in _NAMES)
_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_int64
_SIGNATURES: dict[str, Signature] = {
    "model_open": (_POINTER, [_POINTER, _POINTER]),
    "model_close": (None, [_POINTER]),
    "decoder_open": (_POINTER, [_POINTER, _NUMBER]),
    "decoder_close": (None, [_POINTER]),
    "decoder_use_threads": (None, [_POINTER, _NUMBER]),
    "decoder_admit": (_NUMBER, [_POINTER, _POINTER, _POINTER, _NUMBER]),
    "decoder_select": (_NUMBER, [_POINTER, _POINTER, _NUMBER]),
    "decoder_advance": (_NUMBER, [*[_POINTER] * 4]),
    "decoder_read": (_NUMBER, [*[_POINTER] * 3]),
    "decoder_judge": (_NUMBER, [*[_POINTER] * 5]),
    "write_next": (ctypes.c_bool, [_POINTER, _POINTER, _POINTER, _NUMBER, _POINTER]),
    "best": (None, [_POINTER, _POINTER, _NUMBER, _NUMBER, _NUMBER, _POINTER, _POINTER]),
}

_PREPARED = Libraries(
    {"decoder": Library("native", _SOURCES)},
    _SIGNATURES,
    "the compiled decoder is not used: %s; PyTorch decodes instead, which is slower",
)

available = _PREPARED.prepare
"""Compiles or loads the functions, and returns whether there are any."""


def functions() -> ctypes.CDLL:
    """The compiled functions.

    Raises:
        NotCompiled: there is no compiler, or it failed.
    """
    if not available() and _PREPARED.failure is not None:
        raise _PREPARED.failure
    return _PREPARED.loaded["decoder"]
