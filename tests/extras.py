"""Extras that a test takes away."""

import builtins
import sys

import pytest


def without(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    real = builtins.__import__

    def importing(name, *rest, **more):
        if name.split(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest, **more)

    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", importing)
