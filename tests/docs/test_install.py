"""The script that installs Dragoman, without anything being installed."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("install", ROOT / "scripts" / "install.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def asked(install: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, ...]]:
    """What pip is asked for by a script that only writes its stamps, for a project whose files can be changed."""
    calls: list[tuple[str, ...]] = []
    for name, file in (("PYPROJECT", "pyproject.toml"), ("VERSIONS", "constraints.txt")):
        (tmp_path / file).write_bytes((ROOT / file).read_bytes())
        monkeypatch.setattr(install, name, tmp_path / file)
    for name in ("create", "install_torch", "install_alone", "write_bytecode"):
        monkeypatch.setattr(install, name, lambda *_, **__: None)
    monkeypatch.setattr(install, "pip", lambda _, *arguments: calls.append(arguments) or True)
    monkeypatch.setattr(install, "packages_of", lambda _: tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".venv").mkdir()
    return calls


def run(install: ModuleType, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["install.py", *arguments])
    install.main()


@pytest.mark.parametrize(("more", "is_told"), [([], True), (["all", "--alone", "peers.txt"], False)])
def test_the_next_command_is_told_where_people_install_for_themselves(
    more: list[str],
    is_told: bool,
    install: ModuleType,
    asked: list[tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(install, monkeypatch, ".venv", *more)
    last = capsys.readouterr().out.strip().split("\n")[-1]
    command = Path(".venv") / ("Scripts/dragoman.exe" if sys.platform == "win32" else "bin/dragoman")
    assert last.startswith("setup: done") and (f"{command} demo" in last and f"{command} train" in last) == is_told
    assert asked


def test_only_a_change_of_the_project_or_its_versions_installs_again(
    install: ModuleType,
    asked: list[tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    run(install, monkeypatch, ".venv")
    base = asked.pop()
    assert "-e" in base and "pytest>=8" not in base
    run(install, monkeypatch, ".venv", "test")
    extra = asked.pop()
    assert "-e" not in extra and "pytest>=8" in extra, "Dragoman itself is already there"
    capsys.readouterr()
    with (tmp_path / "pyproject.toml").open("a", encoding="utf-8") as project:
        project.write("\n[tool.other]\nsetting = 1\n")
    for more in ([], ["test"]):
        run(install, monkeypatch, ".venv", *more)
    assert not asked and not capsys.readouterr().out
    with (tmp_path / "constraints.txt").open("a", encoding="utf-8") as versions:
        versions.write("another==1.0\n")
    run(install, monkeypatch, ".venv", "test")
    assert {"-e", "pytest>=8"} <= set(asked.pop())


def test_every_package_that_the_project_names_has_a_tested_version(install: ModuleType) -> None:
    project = install.tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pinned = {line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()}
    wanted = [*project["dependencies"], *install.requirements(*project["optional-dependencies"])]
    names = {re.split(r"[^\w.-]", line)[0].lower() for line in wanted}
    assert not {name for name in names if not {name, name.replace("-", "_")} & pinned}


def test_what_a_failing_pip_said_is_shown_and_where_it_is(
    install: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(
        install, "PIP", ["-c", "import sys; print(*range(100), sep='\\n'); sys.exit('no such package')"]
    )
    monkeypatch.setattr(install, "python_of", lambda _: sys.executable)
    monkeypatch.setattr(install, "packages_of", lambda _: tmp_path)
    assert not install.pip(tmp_path, "nothing")
    *shown, last = capsys.readouterr().out.splitlines()
    assert "no such package" in shown and "99" in shown and "3" not in shown
    assert last.endswith(f"{tmp_path / 'install.log'}") and "\n3\n" in (tmp_path / "install.log").read_text("utf-8")


def test_progress_follows_pip(install: ModuleType, tmp_path: Path) -> None:
    said = "Collecting torch\n  Downloading torch.whl\nProcessing /wheels/rich.whl\n"
    assert install.progress(said, tmp_path, 0) == ("collecting packages", 2, 0)
    (tmp_path / "rich-15.0.dist-info").mkdir()
    said += "Installing collected packages: rich, torch\n"
    assert install.progress(said, tmp_path, 0) == ("installing packages", 1, 2)
    assert install.bar(1, 2) == "[###############---------------] 1 of 2"


def test_what_is_imported_after_installing_is_there(install: ModuleType) -> None:
    for name in install.DEMO_IMPORTS.removeprefix("import ").split(", "):
        assert importlib.util.find_spec(name), name
