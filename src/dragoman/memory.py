"""The memory of this process: what it holds and may hold, a limit above which an allocation fails, and what is kept.

A figure that the system does not tell is None, and a limit that it cannot set is not set.
"""

import ctypes
import os
import re
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.errors import OutOfMemory

# Of glibc's <malloc.h>.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
_GROWTH_BYTES = 64 * 2**20


def memory_bytes() -> int | None:
    """Memory this process holds now (resident)."""
    return _told(Path("/proc/self/status"), "VmRSS")


def peak_memory_bytes() -> int | None:
    """The most memory this process ever held (resident)."""
    if (peak := _told(Path("/proc/self/status"), "VmHWM")) is not None:
        return peak
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def usable_memory_bytes() -> int | None:
    """The most that this process may hold: what it holds and what others leave, or the limit of its control group; of
    either its share, where torchrun has several processes on this machine.
    """
    held, left = memory_bytes(), _told(Path("/proc/meminfo"), "MemAvailable")
    if held is None or left is None:
        return None
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return min(held + left // processes, *(limit // processes for limit in group_limits()))


def group_limits(root: Path = Path("/sys/fs/cgroup"), groups: Path = Path("/proc/self/cgroup")) -> Iterator[int]:
    """The limits in bytes of the control groups that this process is in, those above them included (both versions)."""
    for line in groups.read_text().splitlines() if groups.is_file() else []:
        _, controllers, place = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        top, name = (root / "memory", "memory.limit_in_bytes") if controllers else (root, "memory.max")
        # Inside a container the place is named as outside, where it may not be found: its own is then the top.
        for folder in (top, *(top.joinpath(*Path(place).parts[1 : 1 + n]) for n in range(1, len(Path(place).parts)))):
            limit = (folder / name).read_text().strip() if (folder / name).is_file() else ""
            if limit.isdigit():
                yield int(limit)


@contextmanager
def out_of_memory_as(message: str) -> Generator[None]:
    """Raises `OutOfMemory` with this message, which says what to lower, if the block runs out of memory.

    Raises:
        OutOfMemory: an allocation failed in the memory of this process or of a GPU.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(message) from error


@contextmanager
def memory_limit(limit: int | None) -> Generator[None]:
    """Within the block, this process may hold `limit` bytes in all, where the system can see to it.

    Without that Linux grants what it does not have, and later kills the process without a word.

    Raises:
        OutOfMemory: it did not suffice; or a GPU's memory did not.
    """
    room = f"the {limit / 2**30:.1f} GiB there are" if limit else "there is"
    lower = (
        "lower batches.batch_tokens (and raise train.accumulate by as much, for the same step), or choose "
        "batches.batch_tokens = 'auto'"
    )
    with out_of_memory_as(f"this needs more memory than {room}; {lower}"), _refused_beyond(limit):
        yield


def is_out_of_memory(error: Exception) -> bool:
    """Whether memory could not be had; torch's own errors tell it by their message alone."""
    told = r"out of memory|allocate memory|bad_alloc|could not (create|execute) a primitive$"
    return isinstance(error, MemoryError) or bool(re.search(told, str(error)))


@contextmanager
def gpu_memory_share(share: float, device: str) -> Generator[None]:
    """Within the block, torch may hold this share of a GPU's memory, and fails beyond it; elsewhere nothing changes."""
    import torch

    if torch.device(device).type != "cuda":
        yield
        return
    torch.cuda.set_per_process_memory_fraction(share)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


@contextmanager
def _refused_beyond(limit: int | None) -> Generator[None]:
    if limit is None or sys.platform != "linux":
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    lower = [limit, *(each for each in before if each != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(lower), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def keep_freed_memory() -> bool:
    """Has glibc keep the memory that tensors leave, for those of the next step, rather than hand it back; for good.

    A step makes and frees the same large tensors again and again, and every page that comes fresh from the system costs
    more than what is then written into it (`benchmarks/training.py --allocator`). False, and nothing done, where the C
    library has no such switch.
    """
    if sys.platform != "linux" or not hasattr(library := ctypes.CDLL(None), "mallopt"):
        return False
    for name, value in ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, -1), (_TOP_PAD, _GROWTH_BYTES)):
        library.mallopt(name, value)
    return True


def _told(path: Path, key: str) -> int | None:
    """A number of bytes that Linux tells in kB."""
    try:
        found = re.search(rf"^{key}:\s+(\d+) kB", path.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None
