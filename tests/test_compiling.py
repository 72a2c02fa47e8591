"""How kernels come to be: compiled when first needed, kept, and loaded only if nobody else can have written them."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from compiler import needs_compiler

from dragoman import machine
from dragoman.kernels import library as kernels
from dragoman.model.layers import RMSNorm


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """An empty cache, and kernels that have not been looked for yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    forget()
    yield tmp_path / "dragoman"
    forget()


def forget() -> None:
    for remembered in (kernels._library, kernels._missing, kernels._cache_folder):
        remembered.cache_clear()


@needs_compiler
def test_kernels_are_compiled_once_and_found_again(forgetful: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernels.available()
    assert [path.suffix for path in forgetful.iterdir()] == [".so"]
    monkeypatch.setattr(kernels, "_compile", lambda *_: pytest.fail("compiled twice"))
    forget()
    assert kernels.available()


@needs_compiler
def test_a_damaged_kernel_file_is_compiled_again(
    forgetful: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert kernels.available()
    (made,) = forgetful.iterdir()
    damaged = tmp_path / "other" / "dragoman" / made.name
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"not a library")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    forget()
    assert kernels.available()
    assert damaged.stat().st_size == made.stat().st_size


@needs_compiler
@pytest.mark.usefixtures("forgetful")
def test_without_a_home_kernels_live_as_long_as_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert kernels.available()
    assert list(Path(kernels._own_folder().name).iterdir())


@pytest.mark.usefixtures("forgetful")
def test_without_a_compiler_the_plain_twins_run_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(machine, "compiler_path", lambda: None)
    with caplog.at_level(logging.WARNING):
        assert not kernels.available()
        assert not kernels.usable("rms_norm", torch.ones(2, 2))
    assert "no C++ compiler was found" in caplog.text
    assert RMSNorm(2)(torch.ones(2, 2)).allclose(torch.ones(2, 2))


@needs_compiler
@pytest.mark.usefixtures("forgetful")
def test_a_compiler_that_fails_is_named_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kernels, "FLAGS", ["--no-such-flag"])
    with caplog.at_level(logging.WARNING):
        assert not kernels.available()
    assert "could not be compiled" in caplog.text and "no-such-flag" in caplog.text


@needs_compiler
@pytest.mark.usefixtures("forgetful")
def test_a_fault_in_our_own_code_is_told_by_its_first_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    faulty = tmp_path / "faulty.cpp"
    faulty.write_text("#error this does not compile\nint none = nothing;\n")
    monkeypatch.setattr(kernels, "SOURCES", [faulty, faulty])
    with caplog.at_level(logging.WARNING):
        assert not kernels.available()
    assert "error: #error this does not compile" in caplog.text


@needs_compiler
@pytest.mark.slow
def test_kernels_that_do_not_compile_fail_their_tests_and_skip_none() -> None:
    tests = Path(__file__).with_name("test_kernels.py")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        str(tests),
        "-k",
        "equals_its_plain_twin",
    ]
    environment = {**os.environ, "DRAGOMAN_MARCH": "no-such-processor"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    summary = done.stdout.strip().splitlines()[-1]
    assert done.returncode == 1, done.stdout
    assert "passed" not in summary and "skipped" not in summary, done.stdout


@needs_compiler
def test_kernels_can_be_compiled_for_another_processor_beside_this_ones(
    forgetful: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DRAGOMAN_MARCH", raising=False)
    if "x86_64" not in machine.machine()["system"]:
        pytest.skip("-march=x86-64 is for such processors")
    assert kernels.available()
    monkeypatch.setenv("DRAGOMAN_MARCH", "x86-64")
    forget()
    assert kernels.available()
    assert len(list(forgetful.iterdir())) == 2
    assert machine.envelope(threads=1)["kernels"]["DRAGOMAN_MARCH"] == "x86-64"


# Whose library is it?


@pytest.fixture
def hostile(forgetful: Path, tmp_path: Path) -> Path:
    """A library that tells who loads it, where that of the kernels would lie."""
    assert kernels.available()
    (kept,) = forgetful.iterdir()
    code, told = tmp_path / "hostile.cpp", tmp_path / "loaded"
    code.write_text(f"""#include <cstdio>
__attribute__((constructor)) static void load() {{ std::fclose(std::fopen("{told}", "w")); }}
""")
    compiler = machine.compiler_path()
    assert compiler is not None
    subprocess.run([compiler, "-shared", "-fPIC", str(code), "-o", str(kept)], check=True)
    kept.chmod(0o700)
    forget()
    return kept


def assert_not_loaded(library: Path) -> None:
    assert kernels.available()
    assert not (library.parent.parent / "loaded").exists(), "it was loaded"
    assert library.stat().st_uid == os.geteuid()
    assert not library.is_symlink() and library.stat().st_mode & 0o777 == 0o700


@needs_compiler
@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_a_library_that_others_can_write_is_compiled_again(hostile: Path, mode: int) -> None:
    hostile.chmod(mode)
    assert_not_loaded(hostile)


@needs_compiler
def test_a_link_to_a_library_is_not_followed(hostile: Path, tmp_path: Path) -> None:
    hostile.rename(tmp_path / "elsewhere.so")
    hostile.symlink_to(tmp_path / "elsewhere.so")
    assert_not_loaded(hostile)


@needs_compiler
@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can give a file away")
def test_a_library_of_another_user_is_compiled_again(hostile: Path) -> None:
    os.chown(hostile, 65_534, 65_534)
    assert_not_loaded(hostile)


@needs_compiler
def test_a_folder_that_others_could_write_is_closed(forgetful: Path) -> None:
    forgetful.mkdir()
    forgetful.chmod(0o777)
    assert kernels.available()
    assert forgetful.stat().st_mode & 0o777 == 0o700
    assert len(list(forgetful.iterdir())) == 1


@needs_compiler
def test_a_folder_of_another_user_is_not_used_and_it_is_said(
    forgetful: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    forgetful.mkdir(mode=0o700)
    with caplog.at_level(logging.WARNING), monkeypatch.context() as other:
        other.setattr(os, "geteuid", lambda: forgetful.stat().st_uid + 1)
        assert kernels._cache_folder() is None
    assert f"compiled kernels are not kept in {forgetful}, because another user can write there" in caplog.text
    assert kernels.available()
    assert not list(forgetful.iterdir())
    assert list(Path(kernels._own_folder().name).iterdir())
