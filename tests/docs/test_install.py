"""The script that `make setup` runs, without anything being installed."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "install.py"


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("install", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("create", "install_torch", "install_alone"):
        monkeypatch.setattr(module, name, lambda *_: Path("python"))
    monkeypatch.setattr(module, "pip", lambda *_: True)
    return module


@pytest.mark.parametrize(("more", "is_told"), [([], True), (["peers.txt"], False)])
def test_the_next_command_is_told_where_people_install_for_themselves(
    more: list[str],
    is_told: bool,
    install: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["install.py", ".venv", *more])
    install.main()
    last = capsys.readouterr().out.strip().split("\n")[-1]
    command = Path(".venv") / ("Scripts/dragoman.exe" if sys.platform == "win32" else "bin/dragoman")
    assert last.startswith("setup: done") and (f"{command} demo" in last and f"{command} train" in last) == is_told
