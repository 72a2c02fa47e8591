"""The memory of this process: how much it uses and may use, how to limit it, and how to keep freed memory.

A figure that the system does not reveal is None. Where the system cannot limit memory, nothing is limited.
"""

import ctypes
import os
import re
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.errors import OutOfMemory
from dragoman.system import group_settings

# Constants of glibc's <malloc.h>
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
_GROWTH_BYTES = 64 * 2**20


def memory_bytes() -> int | None:
    """Memory that this process holds now (resident), in bytes."""
    return _proc_bytes(Path("/proc/self/status"), "VmRSS")


def peak_memory_bytes() -> int | None:
    """The most memory that this process ever held (resident), in bytes."""
    if (peak := _proc_bytes(Path("/proc/self/status"), "VmHWM")) is not None:
        return peak
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def usable_memory_bytes() -> int | None:
    """The most memory that this process may hold, in bytes: what it holds plus what is free, or the limit of its
    control group if that is lower. Processes that torchrun started on one machine share it equally.
    """
    held, left = memory_bytes(), _proc_bytes(Path("/proc/meminfo"), "MemAvailable")
    if held is None or left is None:
        return None
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return min(held + left // processes, *(limit // processes for limit in group_limits()))


def group_limits(root: Path = Path("/sys/fs/cgroup"), groups: Path = Path("/proc/self/cgroup")) -> Iterator[int]:
    """The limits in bytes of the control groups that this process is in, and of those above them."""
    for limit in group_settings("memory", "memory.max", ("memory.limit_in_bytes",), root, groups):
        if limit[0].isdigit():
            yield int(limit[0])


@contextmanager
def out_of_memory_as(message: str) -> Generator[None]:
    """Raises `OutOfMemory` with this message, which says what to lower, if the block runs out of this process's memory
    or of a GPU's.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(message) from error


@contextmanager
def memory_limit(limit: int | None) -> Generator[None]:
    """Within the block, this process may hold at most `limit` bytes, on Linux.

    Without a limit, Linux grants memory that it does not have, and later kills the process without a message.

    Raises:
        OutOfMemory: the block needs more, or more than a GPU has.
    """
    room = f"the {limit / 2**30:.1f} GiB there are" if limit else "there is"
    lower = "lower batches.batch_tokens (and raise train.accumulate by as much, for the same step)"
    with out_of_memory_as(f"this needs more memory than {room}; {lower}"), _refused_beyond(limit):
        yield


def is_out_of_memory(error: Exception) -> bool:
    """Whether an allocation failed. Torch's own errors say so only in their message."""
    signs = r"out of memory|allocate memory|bad_alloc|could not (create|execute) a primitive$"
    return isinstance(error, MemoryError) or bool(re.search(signs, str(error)))


@contextmanager
def _refused_beyond(limit: int | None) -> Generator[None]:
    if limit is None or sys.platform != "linux":
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    finite = [limit, *(bound for bound in before if bound != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(finite), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def keep_freed_memory() -> bool:
    """Makes glibc keep freed memory for later allocations, instead of returning it to the system. It cannot be undone.

    A step makes and frees the same large tensors again and again, and a fresh page from the system costs more than what
    is then written into it (`benchmarks/training.py --allocator`). Returns False, and does nothing, if the C library
    has no such switch.
    """
    if sys.platform != "linux" or not hasattr(library := ctypes.CDLL(None), "mallopt"):
        return False
    for name, value in ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, -1), (_TOP_PAD, _GROWTH_BYTES)):
        library.mallopt(name, value)
    return True


def _proc_bytes(path: Path, key: str) -> int | None:
    """A figure in bytes that a file under `/proc` gives in kB."""
    try:
        match = re.search(rf"^{key}:\s+(\d+) kB", path.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(match[1]) * 1024 if match else None
