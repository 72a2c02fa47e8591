"""The compiled functions, with their signatures."""

import ctypes
from pathlib import Path

from dragoman.kernels.compiling import Library, load_libraries
from dragoman.progress import Progress, silent

_SOURCES = tuple(Path(__file__).with_name(name) for name in ("model.cpp", "search.h", "arithmetic.h", "products.h"))
_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_int64
_SIGNATURES: dict[str, tuple[type | None, list[type]]] = {
    "model_open": (_POINTER, [_POINTER, _POINTER]),
    "model_close": (None, [_POINTER]),
    "decoder_open": (_POINTER, [_POINTER, _NUMBER]),
    "decoder_close": (None, [_POINTER]),
    "decoder_use_threads": (None, [_POINTER, _NUMBER]),
    "decoder_admit": (ctypes.c_bool, [_POINTER, _POINTER, _POINTER, _NUMBER]),
    "decoder_select": (ctypes.c_bool, [_POINTER, _POINTER, _NUMBER]),
    "decoder_advance": (ctypes.c_bool, [*[_POINTER] * 4]),
    "decoder_read": (ctypes.c_bool, [*[_POINTER] * 3]),
    "decoder_judge": (ctypes.c_bool, [*[_POINTER] * 5]),
    "write_next": (ctypes.c_bool, [_POINTER, _POINTER, _POINTER, _NUMBER, _POINTER]),
    "best": (None, [_POINTER, _POINTER, _NUMBER, _NUMBER, _NUMBER, _POINTER, _POINTER]),
}


_loaded: ctypes.CDLL | None = None


def functions(progress: Progress = silent) -> ctypes.CDLL:
    """The compiled functions. The first call in a process compiles or loads them, which `progress` shows.

    Raises:
        NotCompiled: there is no compiler, or it failed.
    """
    global _loaded
    if _loaded is None:
        (loaded,) = load_libraries([Library("native", _SOURCES)], progress)
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
        _loaded = loaded
    return _loaded
