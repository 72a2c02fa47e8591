"""Files and folders: whole or not there, whoever interrupts and whatever the disk says."""

import builtins
import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NoReturn

import pytest

from dragoman import files
from dragoman.errors import CheckpointError, DataError, DiskFull, FolderInUse
from dragoman.files import (
    check_output,
    free_name,
    growing_file,
    lock,
    make_folders,
    new_file,
    new_folder,
    remove_partial,
    set_aside,
    sha256,
    write_file,
)
from dragoman.run_folder import RunFolder
from dragoman.runs.status import make_folder
from dragoman.serialization import read_object, write_json
from dragoman.store.manifest import MANIFEST, verify_manifest, write_manifest


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def failing(error: BaseException):
    def fail(*_: object) -> NoReturn:
        raise error

    return fail


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), FULL, OSError(errno.EIO, "broken disk")], ids=repr)
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    call: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(tmp_path / "a.txt", "old")
    monkeypatch.setattr(os, call, failing(error))
    with pytest.raises(DiskFull if error is FULL else type(error)):
        write_file(tmp_path / "a.txt", "new")
    assert names(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_a_new_file_appears_when_the_block_ends_and_not_at_all_when_it_raises(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    with new_file(tmp_path / "a.txt") as file:
        file.write(b"one\n")
        file.flush()
        (aside,) = tmp_path.glob(".a.txt.*.partial")
        assert aside.read_bytes() == b"one\n" and (tmp_path / "a.txt").read_text() == "old"
        file.write(b"two\n")
    assert (tmp_path / "a.txt").read_bytes() == b"one\ntwo\n"
    with pytest.raises(TypeError), new_file(tmp_path / "a.txt") as file:
        file.writelines([b"half", None])  # pyright: ignore[reportArgumentType, reportCallIssue]
    assert (tmp_path / "a.txt").read_bytes() == b"one\ntwo\n"
    assert names(tmp_path) == ["a.txt"]


def test_text_is_utf_8_with_plain_line_ends(tmp_path: Path) -> None:
    write_file(tmp_path / "a.txt", "città\n\u2028x\n")
    assert (tmp_path / "a.txt").read_bytes() == b"citt\xc3\xa0\n\xe2\x80\xa8x\n"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such pipes, and links need a permission")
def test_links_are_followed_and_pipes_are_written_into(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_file(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE) as reader:
        check_output(tmp_path / "pipe")
        write_file(tmp_path / "pipe", "through")
        assert reader.communicate()[0] == b"through"
    assert (tmp_path / "pipe").is_fifo(), "as a device of the system would stay one"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_full_device_is_reported_like_a_full_disk() -> None:
    with pytest.raises(DiskFull, match="/dev/full was not written"):
        write_file("/dev/full", "a text")
    assert Path("/dev/full").is_char_device()


@pytest.mark.parametrize(("name", "told"), [("file/new", "file is no folder"), ("file", "exists"), (".", "exists")])
def test_an_impossible_folder_is_refused_before_any_is_made(name: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file")
    with pytest.raises(DataError, match=told), new_folder(tmp_path / name):
        raise AssertionError("it was begun")
    assert names(tmp_path) == ["file"]


def test_a_full_disk_is_reported_in_words_with_exit_code_7(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", failing(FULL))
    with pytest.raises(DiskFull, match="the disk is full: .*a.txt was not written; free some space") as caught:
        write_file(tmp_path / "a.txt", "new")
    assert caught.value.exit_code == 7


def test_a_missing_permission_is_reported_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "replace", failing(PermissionError(errno.EACCES, "no")))
    with pytest.raises(DataError, match="a.txt may not be written: permission denied"):
        write_file(tmp_path / "a.txt", "new")


def test_a_folder_that_is_missing_or_takes_no_files_is_reported_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match="a.txt cannot be written: there is no folder .*none"):
        write_file(tmp_path / "none" / "a.txt", "new")
    with pytest.raises(FileNotFoundError), new_file(tmp_path / "a.txt"):
        (tmp_path / "another").read_text()  # a mistake of the block is not one of the path

    def refuse(path: Path, _mode: str) -> None:
        raise FileNotFoundError(errno.ENOENT, "no", str(path))

    monkeypatch.setattr(builtins, "open", refuse)
    with pytest.raises(DataError, match="a.txt cannot be written: .* takes no new files"):
        write_file(tmp_path / "a.txt", "new")


def test_a_new_folder_appears_when_the_block_ends(tmp_path: Path) -> None:
    with new_folder(tmp_path / "deep" / "model") as aside:
        write_file(aside / "a.txt", "1")
        assert not (tmp_path / "deep" / "model").exists()
    assert names(tmp_path / "deep") == ["model"]
    assert (tmp_path / "deep" / "model" / "a.txt").read_text() == "1"


@pytest.mark.parametrize(
    "make", [make_folders, lambda path: make_folder(RunFolder(path)), lambda path: enter(new_folder(path / "model"))]
)
def test_every_folder_that_is_made_is_flushed_in_the_one_above_it(
    make: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[Path] = []
    monkeypatch.setattr(files, "_flush", lambda path: flushed.append(path))
    make(tmp_path / "runs" / "one")
    assert flushed[:2] == [tmp_path, tmp_path / "runs"]
    flushed.clear()
    make_folders(tmp_path / "runs" / "one")
    assert flushed == [], "it stands there already"


def enter(block: AbstractContextManager[Path]) -> None:
    with block:
        pass


def test_a_block_that_raises_leaves_no_folder(tmp_path: Path) -> None:
    def interrupted() -> None:
        with new_folder(tmp_path / "model") as aside:
            write_file(aside / "a.txt", "1")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names(tmp_path) == []


def test_an_existing_folder_is_not_overwritten_unasked(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with pytest.raises(DataError, match="model exists already; name another folder"), new_folder(tmp_path / "model"):
        pytest.fail("the block was entered")


def folder_with(path: Path, text: str, replace: bool = False) -> None:
    with new_folder(path, replace) as aside:
        write_file(aside / "a.txt", text)


def test_a_replaced_folder_is_the_new_one_alone(tmp_path: Path) -> None:
    folder_with(tmp_path / "model", "old")
    folder_with(tmp_path / "model", "new", replace=True)
    assert names(tmp_path) == ["model"]
    assert (tmp_path / "model" / "a.txt").read_text() == "new"


def fail_at_rename(number: int, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets renames of folders through up to the one of this number, counted from 1."""
    rename, calls = os.replace, []

    def replace(source: Path, target: Path) -> None:
        calls.append(source)
        if len(calls) == number:
            raise error
        rename(source, target)

    monkeypatch.setattr(files.os, "replace", replace)


@pytest.mark.parametrize("number", [1, 2])
def test_a_replacement_that_fails_at_any_rename_leaves_the_old_folder(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_with(tmp_path / "model", "old")
    fail_at_rename(number + 1, KeyboardInterrupt(), monkeypatch)  # the first is that of a.txt
    with pytest.raises(KeyboardInterrupt):
        folder_with(tmp_path / "model", "new", replace=True)
    assert names(tmp_path) == ["model"]
    assert (tmp_path / "model" / "a.txt").read_text() == "old"


KILLED = """
import os, sys
from pathlib import Path
from dragoman.files import new_folder, write_file
path, last = Path(sys.argv[1]), int(sys.argv[2])
rename, calls = os.replace, []
def replace(source, target):
    calls.append(source)
    if len(calls) == last:
        os._exit(9)
    rename(source, target)
os.replace = replace
with new_folder(path, replace=True) as aside:
    write_file(aside / "a.txt", "new")
"""


@pytest.mark.parametrize("last", [1, 2, 3])
def test_a_process_killed_at_any_rename_loses_neither_the_old_folder_nor_space(last: int, tmp_path: Path) -> None:
    folder_with(tmp_path / "model.v1", "old")
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "model.v1"), str(last)], check=False)
    assert done.returncode == 9
    remove_partial(tmp_path)
    assert names(tmp_path) == ["model.v1"]
    assert (tmp_path / "model.v1" / "a.txt").read_text() == "old"


def test_a_replaced_folder_is_deleted_once_the_new_one_is_there(tmp_path: Path) -> None:
    folder_with(tmp_path / "model", "new")
    folder_with(tmp_path / ".model.0123abcd.before.partial", "old")
    remove_partial(tmp_path)
    assert names(tmp_path) == ["model"]
    assert (tmp_path / "model" / "a.txt").read_text() == "new"


@pytest.mark.skipif(os.name == "nt", reason="Windows neither deletes nor renames what is open")
def test_a_new_folder_removes_what_a_killed_process_left_of_it_but_not_what_a_running_one_writes(
    tmp_path: Path,
) -> None:
    for name in ("model", "other"):
        (tmp_path / f".{name}.0123abcd.partial").mkdir()
    with new_folder(tmp_path / "model", replace=True) as running:
        assert names(tmp_path) == sorted([".other.0123abcd.partial", running.name])
        folder_with(tmp_path / "model", "of a faster process")
        assert names(tmp_path) == sorted([".other.0123abcd.partial", running.name, "model"])


@pytest.mark.skipif(os.name == "nt", reason="Windows neither deletes nor renames what is open")
def test_threads_write_one_file_and_folder_while_others_clean_up(tmp_path: Path) -> None:
    """Threads share a process id, as the first processes of two containers do."""
    ends, errors = threading.Event(), []

    def caught(work: Callable[[int], object], number: int) -> None:
        try:
            work(number)
        except Exception as error:
            errors.append(error)

    def write(number: int) -> None:
        for _ in range(100):
            write_file(tmp_path / "a.txt", str(number) * 1000)

    def replace(number: int) -> None:
        for _ in range(10):
            folder_with(tmp_path / f"model-{number}", "one", replace=True)

    def clean(_: int) -> None:
        while not ends.is_set():
            remove_partial(tmp_path)

    cleaners = [threading.Thread(target=caught, args=(clean, number)) for number in range(2)]
    writers = [threading.Thread(target=caught, args=(work, number)) for work in (write, replace) for number in range(2)]
    for thread in (*cleaners, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    ends.set()
    for thread in cleaners:
        thread.join()
    assert errors == []
    assert (tmp_path / "a.txt").read_text() in ("0" * 1000, "1" * 1000)
    assert names(tmp_path) == ["a.txt", "model-0", "model-1"]


def test_only_what_was_left_aside_is_cleaned_up(tmp_path: Path) -> None:
    for name in (".a.txt.0123abcd.partial", ".b.txt.0123abcd.partial", ".a.txt.partial", ".a.txt.mine.partial"):
        (tmp_path / name).write_text("half")
    remove_partial(tmp_path, "a.txt")
    assert names(tmp_path) == [".a.txt.mine.partial", ".a.txt.partial", ".b.txt.0123abcd.partial"]
    remove_partial(tmp_path)
    assert names(tmp_path) == [".a.txt.mine.partial", ".a.txt.partial"]


def test_a_folder_held_by_another_process_is_refused_until_that_ends(tmp_path: Path) -> None:
    hold = "import sys; from dragoman.files import lock\nwith lock(sys.argv[1]): print('held', flush=True); input()"
    other = subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None and other.stdout.readline() == "held\n"
    with pytest.raises(FolderInUse, match="is in use by another process") as caught, lock(tmp_path):
        pytest.fail("the lock was given twice")
    assert caught.value.exit_code == 8
    other.kill()
    other.communicate()
    with lock(tmp_path):
        pass


def test_a_lock_that_is_held_for_an_instant_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take, tries = files._take, []

    def second(handle: int) -> None:
        tries.append(handle)
        if len(tries) == 1:
            raise OSError
        take(handle)

    monkeypatch.setattr(files, "_take", second)
    with lock(tmp_path):
        assert len(tries) == 2


def test_a_lock_is_released_when_the_block_ends(tmp_path: Path) -> None:
    for _ in range(2):
        with lock(tmp_path):
            pass


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    (tmp_path / "deep").mkdir()
    write_file(tmp_path / "a.txt", "one")
    write_file(tmp_path / "deep" / "b.bin", b"\x00\x01")
    write_manifest(tmp_path)
    return tmp_path


def test_an_untouched_folder_fits_its_manifest(listed: Path) -> None:
    verify_manifest(listed)
    assert read_object(listed / MANIFEST) == {
        "files": {
            "a.txt": {"bytes": 3, "sha256": sha256(listed / "a.txt")},
            "deep/b.bin": {"bytes": 2, "sha256": sha256(listed / "deep" / "b.bin")},
        }
    }


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"onE", r"a.txt is damaged: its SHA-256 is not the one in manifest.json"),
        ("a.txt", b"on", r"a.txt has 2 bytes, but manifest.json says 3: it was cut"),
        ("a.txt", b"ones", r"a.txt has 4 bytes, but manifest.json says 3: it was changed"),
        ("deep/b.bin", None, r"b.bin is missing, but manifest.json lists it"),
        ("deep/c.bin", b"", r"c.bin is not listed in manifest.json: it does not belong here"),
        (MANIFEST, b"[]", "manifest.json should hold a JSON object"),
        (MANIFEST, b'{"files": {"a.txt": 3}}', r"manifest.json is damaged: files.a.txt should be .*, but is 3"),
        (
            MANIFEST,
            b'{"files": {"a.txt": {"bytes": "3", "sha256": ""}}}',
            r"manifest.json is damaged: files.a.txt.bytes should be a valid integer",
        ),
        (MANIFEST, b"[" * 10_000, "manifest.json cannot be read: it is nested more than 64 levels deep"),
        (MANIFEST, b"{", "manifest.json cannot be read"),
        (MANIFEST, b"\xff", "manifest.json cannot be read"),
        (MANIFEST, None, "manifest.json is missing"),
    ],
)
def test_whatever_was_touched_is_named(listed: Path, name: str, content: bytes | None, message: str) -> None:
    if content is None:
        (listed / name).unlink()
    else:
        (listed / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=message):
        verify_manifest(listed)


def test_a_listed_name_longer_than_any_file_has_is_cut_where_it_is_named(listed: Path) -> None:
    write_json(listed / MANIFEST, {"files": {"n" * 1_000: {"bytes": 1, "sha256": "0" * 64}}})
    with pytest.raises(CheckpointError, match=rf"/n{{255}} is missing, but {MANIFEST} lists it"):
        verify_manifest(listed)


def test_json_is_readable_and_ends_with_a_line_end(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"b": "è", "a": [1]})
    assert (tmp_path / "a.json").read_text() == '{\n  "b": "è",\n  "a": [\n    1\n  ]\n}\n'


def test_free_names_count_up(tmp_path: Path) -> None:
    assert free_name(tmp_path / "run") == tmp_path / "run"
    for name in ("run", "run-2"):
        (tmp_path / name).mkdir()
    assert free_name(tmp_path / "run").name == "run-3"


def test_what_is_set_aside_keeps_all_it_holds(tmp_path: Path) -> None:
    for number in (1, 2):
        folder_with(tmp_path / "step", str(number))
        assert set_aside(tmp_path / "step").name == f"step.broken-{number}"
    assert (tmp_path / "step.broken-1" / "a.txt").read_text() == "1"


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "private").write_text("old")
    (tmp_path / "private").chmod(0o600)
    write_file(tmp_path / "private", "new")
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600


def test_a_file_that_grows_has_the_mode_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with growing_file(tmp_path / "grown", tmp_path / "aside"):
        pass
    assert (tmp_path / "grown").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_links_that_cannot_be_written_through_are_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "astray").symlink_to(tmp_path / "nowhere" / "x")
    for name, told in (("loop", "a link that leads back to itself"), ("astray", "there is no folder")):
        with pytest.raises(DataError, match=told):
            check_output(tmp_path / name)


def test_a_file_that_is_read_is_known_under_every_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("read")
    (tmp_path / "folder").mkdir()
    (tmp_path / "here").symlink_to(".")
    (tmp_path / "link.txt").symlink_to("in.txt")
    os.link("in.txt", "hard.txt")
    for name in ("in.txt", "./in.txt", "folder/../in.txt", "here/in.txt", "link.txt", "hard.txt", tmp_path / "in.txt"):
        with pytest.raises(DataError, match="is also read, and would be lost"):
            check_output(name, None, "other.txt", "in.txt")
    check_output("in.txt", "other.txt")
    check_output("out.txt", "in.txt")


def test_no_file_of_a_run_or_a_model_is_replaced(tmp_path: Path) -> None:
    run, model = tmp_path / "runs" / "one", tmp_path / "model"
    for path in (run / "recipe.toml", run / "run.json", run / "data" / "test.jsonl"):
        make_folders(path.parent)
        write_json(path, {})
    make_folders(model / "more")
    for name in ("manifest.json", "config.json", "model.safetensors"):
        write_json(model / name, {})
    (tmp_path / "short").symlink_to(run / "data")
    (tmp_path / "link.txt").symlink_to(run / "scores.json")
    for name in ("runs/one/run.json", "runs/one/data/test.jsonl", "runs/one/best", "short/new.txt", "link.txt"):
        with pytest.raises(DataError, match=f"one of the run's own files in {run}"):
            check_output(tmp_path / name)
    (run / "run.json").rename(run / "metrics.jsonl")
    with pytest.raises(DataError, match="one of the run's own files"):
        check_output(run / "recipe.toml")
    for name in ("model/new.txt", "model/more/new.txt"):
        with pytest.raises(DataError, match="lies in a model folder"):
            check_output(tmp_path / name)
    for name in ("runs/new.txt", "runs/one/new.txt"):
        check_output(tmp_path / name)


@pytest.mark.parametrize("others", [("run.json",), ("metrics.jsonl",), ("manifest.json", "config.json"), ("best/a",)])
def test_files_of_other_programs_hinder_no_output(others: tuple[str, ...], tmp_path: Path) -> None:
    make_folders(tmp_path / "data" / "texts")
    make_folders(tmp_path / "best")
    for name in others:
        write_json(tmp_path / name, {})
    for name in ("out.txt", "data/out.txt", "data/texts/out.txt"):
        check_output(tmp_path / name)


def test_what_standard_output_goes_to_is_not_replaced(tmp_path: Path) -> None:
    kept = os.dup(1)
    with (tmp_path / "log.txt").open("ab") as log:
        os.dup2(log.fileno(), 1)
        try:
            with pytest.raises(DataError, match="is also standard output, and what it holds would be lost"):
                check_output("/dev/stdout" if os.path.exists("/dev/stdout") else tmp_path / "log.txt")
        finally:
            os.dup2(kept, 1)
            os.close(kept)


def test_what_is_set_aside_or_begun_takes_the_place_of_no_link(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run-2").symlink_to("nowhere")
    (tmp_path / "run.broken-1").symlink_to("nowhere")
    assert free_name(tmp_path / "run").name == "run-3"
    assert set_aside(tmp_path / "run").name == "run.broken-2"


def test_a_json_file_of_gigabytes_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "manifest.json").open("wb") as file:
        file.truncate(1 << 33)  # without a block on the disk
    with pytest.raises(CheckpointError, match="larger than 256 MiB"):
        read_object(tmp_path / "manifest.json")


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="names of open files are read from /proc")
def test_every_file_is_on_the_disk_before_its_name_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut after a rename finds the content: each file and its folder are flushed before, the place after."""
    done: list[str] = []
    fsync, rename = os.fsync, os.replace

    def flushed(handle: int) -> None:
        done.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)
        fsync(handle)

    def renamed(old: Path, new: Path) -> None:
        done.append(f"-> {Path(new).name}")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "replace", renamed)
    write_file(tmp_path / "a", b"1")
    assert [name.startswith((".a", "a.")) for name in done[:1]] == [True] and done[1:] == ["-> a", tmp_path.name]
    done.clear()
    with growing_file(tmp_path / "b", tmp_path / "b.part") as file:
        file.write(b"1")
    assert done == ["b.part", "-> b", tmp_path.name]
    done.clear()
    with new_folder(tmp_path / "c") as aside:
        (aside / "inside").mkdir()
        for name in ("one", "inside/two"):
            (aside / name).write_bytes(b"1")
    before = done[: done.index("-> c")]
    assert sorted(before[:-1]) == ["inside", "one", "two"] and before[-1] == aside.name
    assert done[done.index("-> c") + 1 :] == [tmp_path.name]
