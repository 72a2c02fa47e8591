"""The compiled functions, with their signatures."""

import ctypes
import logging
from pathlib import Path

from dragoman.compiled.libraries import Library, NotCompiled, load_libraries
from dragoman.progress import Progress, silent

log = logging.getLogger(__name__)


_SOURCES = (
    *(
        Path(__file__).with_name(name)
        for name in ("decoder.cpp", "search.h", "arithmetic.h", "products.h", "team.h", "vectors.h")
    ),
    Path(__file__).with_name("numbers.h"),
)
_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_int64
_SIGNATURES: dict[str, tuple[type | None, list[type]]] = {
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

_loaded: ctypes.CDLL | None = None
_why_not: NotCompiled | None = None


def available(progress: Progress = silent) -> bool:
    """Compiles or loads the functions, and returns whether there are any. Only the first call in a process does
    anything; if it fails, a warning says why.
    """
    try:
        functions(progress)
    except NotCompiled:
        return False
    return True


def functions(progress: Progress = silent) -> ctypes.CDLL:
    """The compiled functions.

    Raises:
        NotCompiled: there is no compiler, or it failed.
    """
    global _loaded, _why_not
    if _why_not is not None:
        raise _why_not
    if _loaded is None:
        try:
            (loaded,) = load_libraries([Library("native", _SOURCES)], progress)
        except NotCompiled as why:
            _why_not = why
            log.warning("the compiled decoder is not used: %s; PyTorch decodes instead, which is slower", why)
            raise
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
        _loaded = loaded
    return _loaded
