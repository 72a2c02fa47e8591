"""The examples in docstrings say what happens."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = [
    ".".join(path.relative_to(folder).with_suffix("").parts)
    for folder in (ROOT / "src", ROOT / "tools", ROOT / "benchmarks")
    for path in sorted(folder.rglob("*.py"))
    if ">>> " in path.read_text("utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_hold(name: str) -> None:
    failed, tried = doctest.testmod(import_module(name))
    assert tried and not failed
