"""The process that runs a reader's files: it checks one part after another, and writes a line of JSON for each.

The reader's prints go to standard error.
"""

import importlib
import json
import os
import sys
from types import ModuleType
from typing import Any

import torch

from dragoman.workshop.exercises import FILES, WorkshopPart, list_parts
from dragoman.workshop.judging import judge, solutions

TOGETHER = WorkshopPart(9, FILES[-1], "together")
"""The last check, in which all parts are the reader's own."""
modules: dict[str, ModuleType] = {}
"""The reader's files; ours in place of a file that cannot be imported, for those that import it."""
own: dict[str, dict[str, Any]] = {}
"""The names that each of the reader's files defines."""
failures: dict[str, str] = {}


def load(file: str) -> None:
    """Import a reader's file, and before it those of earlier pages."""
    for name in FILES[: FILES.index(file) + 1]:
        stem = name.removesuffix(".py")
        if stem not in modules:
            try:
                modules[stem] = importlib.import_module(stem)
            except BaseException as error:
                failures[name] = f"{name} cannot be imported: {type(error).__name__}: {error}"
                modules[stem] = sys.modules[stem] = ModuleType(stem)
                vars(modules[stem]).update(solutions())
            own[stem] = dict(vars(modules[stem]))


def check(part: WorkshopPart) -> str:
    """Check a part with ours in place of all others, so that each mistake shows once; or all parts together."""
    load(part.file)
    if part.file in failures:
        return failures[part.file]
    if part.name not in own[part.file.removesuffix(".py")] | {"together": None}:
        return f"{part.file} has no {part.name}."
    for stem, module in modules.items():
        for name in {known.name for known in list_parts()} & vars(module).keys():
            setattr(module, name, (own[stem] if part.name in (name, "together") else solutions())[name])
    return judge(part, {name: value for module in modules.values() for name, value in vars(module).items()})


def main(folder: str, *names: str) -> None:
    torch.set_num_threads(1)
    sys.path.insert(0, os.path.abspath(folder))
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as results:
        os.dup2(2, 1)
        results.write(f"{judge(TOGETHER, solutions())}\n")  # torch loads some of its modules only now
        results.flush()
        for part in (*list_parts(), TOGETHER):
            if part.name in names:
                results.write(f"{json.dumps(check(part))}\n")
                results.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
