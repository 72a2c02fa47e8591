"""Dragoman: train, run, judge and understand your own translation model.

The public functions are the commands: `dragoman.train("phrasebook")` gives the same run as `dragoman train phrasebook`.
Importing this package loads none of its rooms; a public name is imported when it is first used. The stub
`__init__.pyi`, which type checkers read, lists the names. Import dragoman before torch: it sets the environment
variables that let torch's threads wait without slowing down a busy machine.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def _modules_by_name() -> dict[str, str]:
    """Return the module of every public name, read from the stub's lines `from MODULE import NAME as NAME`."""
    stub: bytes = __spec__.loader.get_data(f"{__file__}i")  # also from within a zip file
    lines = [line.split() for line in stub.decode().splitlines()]
    return {line[3]: line[1] for line in lines if line[:1] == ["from"]}


_MODULES = _modules_by_name()
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__


from dragoman.system import prepare_environment  # noqa: E402

prepare_environment()
