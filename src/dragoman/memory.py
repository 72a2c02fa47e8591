"""Memory of this process: use, limits, and reuse of freed memory. What the system does not report is None."""

import ctypes
import errno
import logging
import os
import re
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from dragoman.errors import OutOfMemory
from dragoman.system import group_settings

log = logging.getLogger(__name__)

# Constants of glibc's <malloc.h>
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
_GROWTH_BYTES = 64 * 2**20


def memory_bytes(device: str = "cpu") -> int | None:
    """Return the memory of this process in bytes: resident memory, or what torch has reserved on a GPU."""
    if device == "cuda":
        return sys.modules["torch"].cuda.memory_reserved()
    return _proc_bytes(Path("/proc/self/status"), "VmRSS")


def peak_memory_bytes(device: str = "cpu") -> int | None:
    """Return the most memory of this process so far in bytes: resident memory, or what torch reserved on a GPU."""
    if device == "cuda":
        return sys.modules["torch"].cuda.max_memory_reserved()
    if (peak := _proc_bytes(Path("/proc/self/status"), "VmHWM")) is not None:
        return peak
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def usable_memory_bytes() -> int | None:
    """Return the number of bytes that this process may hold: its own plus free memory, or the limit of its control
    group or address space if that is lower. Processes that torchrun started on one machine share it equally.
    """
    held, left = memory_bytes(), _proc_bytes(Path("/proc/meminfo"), "MemAvailable")
    if held is None or left is None:
        return None
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return min(held + left // processes, address_limit() or sys.maxsize, *(n // processes for n in group_limits()))


def report_memory(work: str, needs: Mapping[str, int], advice: str) -> None:
    """Log the memory that some work will take, in bytes by its parts; warn if this process may not hold as much."""
    total, limit = sum(needs.values()), usable_memory_bytes()
    parts = ", ".join(f"{part} {size / 2**30:.1f}" for part, size in needs.items())
    log.info("%s takes about %.1f GiB of memory: %s", work, total / 2**30, parts)
    if limit is not None and total > limit:
        log.warning("that is more than the %.1f GiB that this process may hold; %s", limit / 2**30, advice)


def address_limit() -> int | None:
    """Return the limit of this process's address space in bytes (`ulimit -v`), if there is one."""
    if sys.platform != "linux":
        return None
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def group_limits(root: Path = Path("/sys/fs/cgroup"), groups: Path = Path("/proc/self/cgroup")) -> Iterator[int]:
    """Yield the limits in bytes of this process's control groups and of their parents."""
    for limit in group_settings("memory", "memory.max", ("memory.limit_in_bytes",), root, groups):
        if limit[0].isdigit():
            yield int(limit[0])


@contextmanager
def out_of_memory_as(message: str) -> Generator[None]:
    """Raise `OutOfMemory` with this message if the block runs out of memory, on the CPU or on a GPU."""
    try:
        yield
    except (MemoryError, RuntimeError, ImportError, OSError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(message) from error


@contextmanager
def memory_limit(limit: int | None) -> Generator[None]:
    """Limit this process to `limit` bytes inside the block; only Linux can.

    Without a limit, Linux grants memory that it does not have, and later kills the process without a message.

    Raises:
        OutOfMemory: the block needs more, or more than a GPU has.
    """
    available = f"the {limit / 2**30:.1f} GiB there are" if limit else "there is"
    lower = "lower batches.batch_tokens (and raise train.accumulate by the same factor, for the same step)"
    with out_of_memory_as(f"this needs more memory than {available}; {lower}"):
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


def is_out_of_memory(error: Exception) -> bool:
    """Return True if an allocation failed. Torch's own errors say so only in their message."""
    if isinstance(error, OSError) and error.errno:  # its message may name any file
        return error.errno == errno.ENOMEM
    signs = r"out of memory|allocate memory|bad_alloc|could not (create|execute) a primitive$|new thread|failed to map"
    return isinstance(error, MemoryError) or bool(re.search(signs, str(error)))


def keep_freed_memory() -> bool:
    """Make glibc keep freed memory for later allocations instead of returning it to the system; cannot be undone.

    Every training step allocates and frees the same large tensors, and a fresh page from the system costs more than
    writing to it (LOG.md, T16). Returns False, and does nothing, if the C library has no such
    switch.
    """
    if sys.platform != "linux" or not hasattr(library := ctypes.CDLL(None), "mallopt"):
        return False
    for name, value in ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, -1), (_TOP_PAD, _GROWTH_BYTES)):
        library.mallopt(name, value)
    return True


def _proc_bytes(path: Path, key: str) -> int | None:
    """Return, in bytes, a figure that a file under `/proc` gives in kB."""
    try:
        match = re.search(rf"^{key}:\s+(\d+) kB", path.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(match[1]) * 1024 if match else None
