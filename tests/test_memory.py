"""The memory of this process: what it holds, what it may hold, and a limit that says so."""

import errno
import subprocess
import sys
from mmap import mmap
from pathlib import Path

import pytest
import torch

from dragoman.errors import OutOfMemory
from dragoman.memory import (
    group_limits,
    is_out_of_memory,
    memory_bytes,
    memory_limit,
    peak_memory_bytes,
    usable_memory_bytes,
)

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells and limits its memory so")


def test_on_a_gpu_memory_is_what_torch_has_reserved_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 3)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda: 7)
    assert (memory_bytes("cuda"), peak_memory_bytes("cuda")) == (3, 7)
    assert (memory_bytes("cpu"), peak_memory_bytes("cpu")) != (3, 7)


@linux
def test_memory_that_is_taken_is_held_and_was_once_the_most() -> None:
    before = memory_bytes() or 0
    with mmap(-1, 200 * 2**20) as taken:  # beside what the C library keeps of earlier tests
        for _ in range(200):
            taken.write(bytes(2**20))
        assert (memory_bytes() or 0) - before > 190 * 2**20
    assert (peak_memory_bytes() or 0) >= (memory_bytes() or 0) - 2**20
    assert (usable_memory_bytes() or 0) > (memory_bytes() or 0)


@linux
def test_an_allocation_beyond_the_limit_is_said_and_harms_nothing() -> None:
    limit = (memory_bytes() or 0) + 2**28
    message = r"more memory than the \d+\.\d GiB there are; lower batches.batch_tokens"
    with pytest.raises(OutOfMemory, match=message), memory_limit(limit):
        torch.empty(2**30)
    with memory_limit(limit), pytest.raises(ValueError, match="not of memory"):
        raise ValueError("not of memory")
    assert torch.empty(2**30).nbytes == 2**32, "the limit ended with the block"


def test_without_a_limit_only_the_words_change() -> None:
    with pytest.raises(OutOfMemory, match="more memory than there is"), memory_limit(None):
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
    with pytest.raises(OutOfMemory), memory_limit(None):
        raise RuntimeError("could not create a primitive")  # oneDNN, without room for its scratchpad
    for other in ("channels_last memory format", "could not create a primitive descriptor for a matmul"):
        with pytest.raises(RuntimeError, match=other), memory_limit(None):
            raise RuntimeError(other)


@linux
def test_processes_of_torchrun_share_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = usable_memory_bytes() or 0
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert (usable_memory_bytes() or 0) < 0.5 * alone


@pytest.mark.parametrize(
    ("line", "place", "name"),
    [("0::/a b/c", "a b/c", "memory.max"), ("4:memory:/a/b", "memory/a", "memory.limit_in_bytes")],
)
def test_limits_of_control_groups_are_found_in_both_versions(line: str, place: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "groups").write_text(f"9:name=systemd:/\n{line}\n")
    (tmp_path / "root" / place).mkdir(parents=True)
    (tmp_path / "root" / place / name).write_text("1073741824\n")
    assert list(group_limits(tmp_path / "root", tmp_path / "groups")) == [2**30]
    (tmp_path / "root" / place / name).write_text("max\n")
    assert list(group_limits(tmp_path / "root", tmp_path / "groups")) == []


@pytest.mark.thorough
@linux
def test_freed_memory_is_kept_for_the_next_tensor() -> None:
    code = """
import resource, sys, torch
from dragoman.memory import keep_freed_memory
if sys.argv[1] == "kept":
    assert keep_freed_memory()
before = 0
for number in range(3):
    torch.ones(2**26 - 2**12 * number)  # 256 MiB, freed at once; glibc wants a little more room than it takes
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    fresh, before = faults - before, faults
print(fresh)
"""
    fresh = {
        way: int(subprocess.run([sys.executable, "-c", code, way], check=True, capture_output=True, text=True).stdout)
        for way in ("kept", "given back")
    }
    assert fresh["kept"] < 100 < fresh["given back"]


def test_a_file_named_like_a_message_is_no_lack_of_memory() -> None:
    assert not is_out_of_memory(FileNotFoundError(errno.ENOENT, "No such file", "out of memory.txt"))


@linux
def test_a_limit_of_the_address_space_is_what_the_process_may_hold_and_is_warned_of() -> None:
    code = """import resource, sys
from dragoman import memory
assert memory.address_limit() is None
resource.setrlimit(resource.RLIMIT_AS, (3 * 2**29, resource.RLIM_INFINITY))
assert memory.address_limit() == memory.usable_memory_bytes() == 3 * 2**29
from dragoman.cli.main import main
sys.exit(main(["--version"]))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "warning: ulimit -v gives this command 1.5 GiB" in done.stderr, done.stderr
