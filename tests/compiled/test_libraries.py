"""How kernels come to be: compiled when asked, kept, and loaded only if nobody else can have written them."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from ctypes import CDLL
from pathlib import Path

import pytest
import torch
from compiler import needs_compiler
from small import Counting

import dragoman
from dragoman import system
from dragoman.compiled import kernels, libraries
from dragoman.compiled.libraries import Library, NotCompiled, cache_folder, load_libraries
from dragoman.model.layers import RMSNorm


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "dragoman"


@pytest.fixture
def unprepared() -> Iterator[None]:
    """A process that has not asked for kernels yet."""
    prepared = kernels.PREPARED
    before, prepared.loaded = prepared.loaded, {}
    yield
    prepared.loaded, prepared.failure = before, None


LIBRARY = kernels.LIBRARIES[torch.float32]
"""One library is enough for these tests."""


def load(progress: Counting | None = None, library: Library = LIBRARY) -> CDLL:
    (loaded,) = load_libraries([library], progress or Counting())
    return loaded


def refuse(*_: object) -> None:
    pytest.fail("compiled")


@pytest.mark.thorough
@needs_compiler
def test_kernels_are_compiled_once_and_found_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    progress = Counting()
    assert load(progress)["rms_norm"]
    assert [path.suffix for path in cache.iterdir()] == [".so"]
    assert progress.totals == {"compile kernels": 1} and progress.done == {"compile kernels": 1}
    monkeypatch.setattr(libraries, "_compile", refuse)
    again = Counting()
    assert load(again)["rms_norm"] and not again.totals


@pytest.mark.thorough
@needs_compiler
def test_a_damaged_kernel_file_is_compiled_again(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    load()
    (made,) = cache.iterdir()
    damaged = tmp_path / "other" / "dragoman" / made.name
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"not a library")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert load()
    assert damaged.stat().st_size == made.stat().st_size


@pytest.mark.thorough
@needs_compiler
def test_without_a_home_kernels_live_as_long_as_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert cache_folder() is None
    assert load()["rms_norm"]


# A room that says no


@pytest.mark.usefixtures("unprepared")
def test_before_they_are_prepared_the_plain_twins_run_and_nothing_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "load_libraries", refuse)
    assert not kernels.available()
    assert not kernels.usable("rms_norm", torch.ones(2, 2))
    assert RMSNorm(2)(torch.ones(2, 2)).allclose(torch.ones(2, 2))


@pytest.mark.usefixtures("unprepared")
def test_a_room_that_says_no_is_asked_once_says_why_once_and_the_plain_twins_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[object] = []

    def say_no(wanted: Sequence[Library], progress: object) -> None:
        asked.append(progress)
        raise NotCompiled("not today")

    monkeypatch.setattr(libraries, "load_libraries", say_no)
    with caplog.at_level(logging.WARNING):
        assert not kernels.prepare() and not kernels.prepare()
    (said,) = caplog.messages
    assert said.startswith("compiled kernels are not used: not today;") and len(asked) == 1
    assert not kernels.available() and not kernels.usable("rms_norm", torch.ones(2, 2))
    assert RMSNorm(2)(torch.ones(2, 2)).allclose(torch.ones(2, 2))


def test_without_a_compiler_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "compiler_path", lambda: None)
    with pytest.raises(NotCompiled, match="no C\\+\\+ compiler was found"):
        load()


@needs_compiler
@pytest.mark.usefixtures("cache")
def test_a_compiler_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "FLAGS", ["--no-such-flag"])
    with pytest.raises(NotCompiled, match="could not be compiled .*no-such-flag"):
        load()


@pytest.mark.usefixtures("cache", "unprepared")
def test_a_program_that_is_no_compiler_is_named_by_the_loader_and_by_doctor(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    program = tmp_path / "my-program"
    program.write_text('#!/bin/sh\n[ "$1" = --version ] && echo my program 1.0\n')
    program.chmod(0o755)
    monkeypatch.setenv("CXX", str(program))
    system.compiler.cache_clear()
    reason = f"they could not be compiled by {program} (the compiler printed nothing)"
    (fact,) = (fact for fact in dragoman.doctor() if fact.name == "compiler")
    assert fact.value == "my program 1.0"
    assert fact.meaning.startswith(f"kernels run uncompiled, slower: {reason};")
    assert caplog.messages[0].startswith(f"compiled kernels are not used: {reason};")
    system.compiler.cache_clear()


@needs_compiler
@pytest.mark.usefixtures("cache")
def test_a_fault_in_our_own_code_is_quoted_by_its_first_error(tmp_path: Path) -> None:
    faulty = tmp_path / "faulty.cpp"
    faulty.write_text("#error this does not compile\nint none = nothing;\n")
    with pytest.raises(NotCompiled, match="error: #error this does not compile"):
        load(library=Library("faulty", (faulty,)))


@needs_compiler
@pytest.mark.thorough
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
@pytest.mark.parametrize("change", ["processor", "compiler", "source", "header", "define", "flags", "target"])
def test_whatever_a_library_depends_on_gives_it_another_name(
    change: str, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DRAGOMAN_MARCH", raising=False)

    def source(name: str, code: str) -> Path:
        file = tmp_path / name
        file.write_text(code, encoding="utf-8")
        return file

    sources = [source("one.cpp", "int one() { return 1; }\n"), source("two.h", "int two;\n")]
    library = Library("test", tuple(sources), ("ELEMENT=float",))
    before = library.file("g++")
    changes = {
        "processor": lambda: monkeypatch.setattr(system, "processor", lambda: {"flags": []}),
        "compiler": lambda: monkeypatch.setattr(system, "compiler", lambda: "g++ 99"),
        "source": lambda: source("one.cpp", "int one() { return 2; }\n"),
        "header": lambda: source("two.h", "long two;\n"),
        "flags": lambda: monkeypatch.setattr(libraries, "FLAGS", ["-O0"]),
        "target": lambda: monkeypatch.setenv("DRAGOMAN_MARCH", "x86-64"),
    }
    if change == "define":
        library = library._replace(defines=("ELEMENT=bf16",))
    else:
        changes[change]()
    assert library.file("g++") != before
    assert library.file("g++").startswith("test-")


@needs_compiler
def test_several_libraries_are_loaded_together_in_the_order_asked_for(cache: Path, tmp_path: Path) -> None:
    code = tmp_path / "answer.cpp"
    code.write_text('extern "C" int answer() { return ANSWER; }\n', encoding="utf-8")
    wanted = [Library(f"answer-{number}", (code,), (f"ANSWER={number}",)) for number in (3, 1, 2)]
    load(library=wanted[1])
    progress = Counting()
    assert [library.answer() for library in load_libraries(wanted, progress)] == [3, 1, 2]
    assert progress.totals == {"compile kernels": 2}
    assert len(list(cache.iterdir())) == 3


@pytest.mark.thorough
@needs_compiler
def test_kernels_can_be_compiled_for_another_processor_beside_this_ones(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DRAGOMAN_MARCH", raising=False)
    if "x86_64" not in system.machine()["system"]:
        pytest.skip("-march=x86-64 is for such processors")
    load()
    monkeypatch.setenv("DRAGOMAN_MARCH", "x86-64")
    load()
    assert len(list(cache.iterdir())) == 2
    assert system.envelope(threads=1)["kernels"]["DRAGOMAN_MARCH"] == "x86-64"


# Whose library is it?


@pytest.fixture
def hostile(cache: Path, tmp_path: Path) -> Path:
    """A library that tells who loads it, where that of the kernels would lie."""
    load()
    (kept,) = cache.iterdir()
    code, told = tmp_path / "hostile.cpp", tmp_path / "loaded"
    code.write_text(f"""#include <cstdio>
__attribute__((constructor)) static void load() {{ std::fclose(std::fopen("{told}", "w")); }}
""")
    compiler = system.compiler_path()
    assert compiler is not None
    subprocess.run([compiler, "-shared", "-fPIC", str(code), "-o", str(kept)], check=True)
    kept.chmod(0o700)
    return kept


def assert_not_loaded(file: Path) -> None:
    assert load()
    assert not (file.parent.parent / "loaded").exists(), "it was loaded"
    assert file.stat().st_uid == os.geteuid()
    assert not file.is_symlink() and file.stat().st_mode & 0o777 == 0o700


@pytest.mark.thorough
@needs_compiler
@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_a_library_that_others_can_write_is_compiled_again(hostile: Path, mode: int) -> None:
    hostile.chmod(mode)
    assert_not_loaded(hostile)


@pytest.mark.thorough
@needs_compiler
def test_a_link_to_a_library_is_not_followed(hostile: Path, tmp_path: Path) -> None:
    hostile.rename(tmp_path / "elsewhere.so")
    hostile.symlink_to(tmp_path / "elsewhere.so")
    assert_not_loaded(hostile)


@pytest.mark.thorough
@needs_compiler
@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can give a file away")
def test_a_library_of_another_user_is_compiled_again(hostile: Path) -> None:
    os.chown(hostile, 65_534, 65_534)
    assert_not_loaded(hostile)


@pytest.mark.thorough
@needs_compiler
def test_a_folder_that_others_could_write_is_closed(cache: Path) -> None:
    cache.mkdir()
    cache.chmod(0o777)
    assert load()
    assert cache.stat().st_mode & 0o777 == 0o700
    assert len(list(cache.iterdir())) == 1


@pytest.mark.thorough
@needs_compiler
def test_a_folder_of_another_user_is_not_used_and_it_is_said(
    cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache.mkdir(mode=0o700)
    with caplog.at_level(logging.WARNING), monkeypatch.context() as other:
        other.setattr(os, "geteuid", lambda: cache.stat().st_uid + 1)
        assert cache_folder() is None
    assert f"compiled kernels are not kept in {cache}, because another user can write there" in caplog.text
    monkeypatch.setattr(libraries, "cache_folder", lambda: None)
    assert load()["rms_norm"]
    assert not list(cache.iterdir())
