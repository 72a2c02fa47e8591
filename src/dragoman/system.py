"""Facts about the machine (processor, memory, versions, compiler, GPUs, speed of matrix products), and choices that
follow.

No speed is printed without them, and a run is bit for bit the same only where its `envelope` is; `runs/session.py`
compares it before it resumes. A fact that the system does not reveal is None. Only the functions that are about torch
load torch.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.metadata
import logging
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, TypedDict

import dragoman
from dragoman.errors import ConfigError

log = logging.getLogger(__name__)

PACKAGES = (
    "dragoman torch numpy tokenizers safetensors pydantic typer rich sacrebleu jaxtyping "
    "tensorboard pyarrow datasets spacy ctranslate2 onnxruntime transformers fastapi matplotlib"
).split()
"""The packages that a result may depend on, and those of the extras."""

# Each of them changes which kernels run, and so the last bits of every sum.
_KERNEL_VARIABLES = (
    "ATEN_CPU_CAPABILITY",
    "CUBLAS_WORKSPACE_CONFIG",
    "DNNL_MAX_CPU_ISA",
    "DRAGOMAN_MARCH",
    "MKL_CBWR",
    "MKL_DYNAMIC",
    "MKL_ENABLE_INSTRUCTIONS",
    "NVIDIA_TF32_OVERRIDE",
    "ONEDNN_MAX_CPU_ISA",
)

MOST_THREADS = 1_024
"""More than any machine gains from. Far more would exceed the number of threads that a process may start."""

WAITING = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "3000"}
"""Environment variables that make torch's threads wait for work by spinning for some 50 microseconds, then sleeping.

Threads that always spin slow each other down on a busy machine: training fell from 10,000 tokens a second to 1,000.
Threads that sleep at once must be woken a thousand times a step.
"""
PREPARED = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64", "LRU_CACHE_CAPACITY": "64"}
"""Environment variables for how many shapes of matrix products oneDNN and torch keep prepared.

The default is 1,024. A run that validates meets that many; keeping them takes 450 MB and saves no measurable time.
"""


def machine() -> dict[str, Any]:
    """The facts that belong beside a speed or in a bug report, as plain values for JSON."""
    return {
        "processor": processor(),
        "cores": cores(),
        "memory_bytes": installed_memory_bytes(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}".strip(),
        "python": platform.python_version(),
        "versions": versions(),
        "torch": torch_build(),
        "threads": threads(),
        "compiler": compiler(),
        "gpus": gpus(),
    }


def describe() -> str:
    """The machine in one line, for the foot of a table of speeds."""
    chip, memory = processor(), installed_memory_bytes()
    parts = [
        f"{chip['name'] or 'unknown processor'}, {cores()} cores, {threads()} threads",
        f"{memory / 2**30:.0f} GiB" if memory else None,
        *(gpu["name"] for gpu in gpus()),
        f"{platform.system()}, Python {platform.python_version()}, torch {versions().get('torch')}",
    ]
    return ", ".join(part for part in parts if part)


def envelope(
    *, threads: int, world_size: int = 1, precision: str = "float32", compiled: bool = False, device: str = "cpu"
) -> dict[str, Any]:
    """Everything that the bits of a run depend on besides its recipe, data and tokenizer.

    Equal envelopes promise equal weights. A key that differs says why the weights may differ.
    """
    chip = processor()
    return {
        "dragoman": dragoman.__version__,
        "processor": {key: value for key, value in chip.items() if key != "name"},
        "torch": torch_build(),
        "numpy": versions().get("numpy"),
        "kernels": {name: os.environ[name] for name in _KERNEL_VARIABLES if name in os.environ},
        "compiler": compiler() if compiled else None,
        "kernel sums": "by halves" if compiled else None,  # older checkpoints lack it: kernels summed in another order
        "gpus": gpus() if device.startswith("cuda") else [],
        "device": device.partition(":")[0],
        "threads": threads,
        "world_size": world_size,
        "precision": precision,
        "compiled": compiled,
    }


def gemm_rate(precision: str = "float32", seconds: float = 1.0, size: int = 2048, device: str = "cpu") -> float:
    """GFLOP/s of square matrix products, an upper bound for every speed of this machine.

    Products run for `seconds` after a warm-up; the median counts.
    """
    import torch

    dtype = {"float32": torch.float32, "bf16": torch.bfloat16}[precision]
    left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    product = torch.mm(left, right)
    durations: list[float] = []
    end = time.perf_counter() + seconds
    while not durations or time.perf_counter() < end:
        start = time.perf_counter()
        torch.mm(left, right, out=product)
        product[0, 0].item()  # waits for a GPU
        durations.append(time.perf_counter() - start)
    return 2 * size**3 / statistics.median(durations) / 1e9


def prepare_environment() -> None:
    """Sets the environment variables that libraries read when torch is loaded, unless they are set already. Importing
    dragoman does this.
    """
    global _too_late
    _too_late = "torch" in sys.modules and not WAITING.keys() & os.environ.keys()
    for name, value in (WAITING | PREPARED).items():
        os.environ.setdefault(name, value)


_too_late = False
"""Whether torch was loaded before `WAITING` was set."""


def warn_of_spinning() -> None:
    """Says that training will be slow on a busy machine, if torch's threads spin."""
    if _too_late:
        log.warning(
            "torch was imported before dragoman, so its threads spin while they wait, and training is slow beside "
            "other programs; import dragoman first"
        )


def cores() -> int:
    """The number of processors that this process may run on; no more than the quota of its container, rounded up."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([allowed, *processor_quotas()])


def threads() -> int:
    """The usual number of threads inside one operation: that of torch in this thread if it is loaded, else what torch
    would choose; no more than the quota of this process's container.
    """
    if torch := sys.modules.get("torch"):
        usual = torch.get_num_threads()
    else:
        first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
        usual = min(int(first) if first.isdecimal() and int(first) else sys.maxsize, _physical_cores())
    return min([usual, *processor_quotas()])


def _physical_cores() -> int:
    """Cores of this process, those counted once that are two threads of the same core."""
    siblings: set[str] = set()
    for core in os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ():
        try:
            with open(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list") as file:
                siblings.add(file.read())
        except OSError:
            return cores()
    return len(siblings) or cores()


def choose_threads(requested: int | None) -> int:
    """The requested number of threads, or the usual one; no more than the quota of this process's container.

    Raises:
        ConfigError: fewer than one, or more than `MOST_THREADS`.
    """
    if requested is not None and not 1 <= requested <= MOST_THREADS:
        raise ConfigError(f"threads must be from 1 to {MOST_THREADS:,}, but is {requested:,}")
    return min([requested, *processor_quotas()]) if requested else threads()


def use_threads(requested: int | None) -> AbstractContextManager[None]:
    """Within the block, torch computes with as many threads as `choose_threads` says, in this thread alone."""
    return torch_threads(choose_threads(requested))


@contextmanager
def torch_threads(count: int) -> Generator[None]:
    """Within the block, torch computes with `count` threads, in this thread alone."""
    import torch

    before = torch.get_num_threads()
    _set_torch_threads(count)
    try:
        yield
    finally:
        _set_torch_threads(before)


def _set_torch_threads(count: int) -> None:
    """Sets torch's number for this thread. What is set last in any thread is also the number that later threads begin
    with; one that has just begun sets this back.
    """
    import torch

    if count == torch.get_num_threads():
        return
    with _SETTING, ThreadPoolExecutor(1) as other:
        later_threads = other.submit(torch.get_num_threads).result()
        torch.set_num_threads(count)
        other.submit(torch.set_num_threads, later_threads).result()


_SETTING = Lock()


def rank() -> int:
    """The rank that torchrun gave to this process; 0 for a single process."""
    return int(os.environ.get("RANK", "0"))


def installed_memory_bytes() -> int | None:
    """Memory of the machine, in bytes."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return _windows_memory_bytes()


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """The versions of those packages that are installed, without importing any."""
    return {name: version for name in packages if (version := _version(name)) is not None}


@cache
def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def torch_build() -> dict[str, str | None]:
    """The build of torch: version, commit, CUDA, a hash of its configuration, and the instruction set that it uses."""
    import torch

    return {
        "version": torch.__version__,
        "commit": torch.version.git_version,
        "cuda": torch.version.cuda,
        "configuration": hashlib.sha256(torch.__config__.show().encode()).hexdigest()[:16],
        "capability": torch.backends.cpu.get_cpu_capability(),
    }


def compiler_path() -> str | None:
    """The C++ compiler of this machine: the one that CXX names, else the first usual one that runs."""
    for name in filter(None, (os.environ.get("CXX"), "g++", "clang++", "c++")):
        path = shutil.which(name)
        if path and output_of(path, "--version"):
            return path
    return None


@cache
def compiler() -> str | None:
    """The first line that the C++ compiler prints for `--version`."""
    path = compiler_path()
    return (output_of(path, "--version") or "").partition("\n")[0] if path else shutil.which("cl")


def gpus() -> list[dict[str, Any]]:
    """Name, memory and capability of every GPU that torch can use."""
    import torch

    devices: list[dict[str, Any]] = []
    for index in range(torch.cuda.device_count()):
        facts = torch.cuda.get_device_properties(index)
        capability = f"{facts.major}.{facts.minor}"
        devices.append({"name": facts.name, "memory_bytes": facts.total_memory, "capability": capability})
    if torch.backends.mps.is_available():
        devices.append({"name": "Apple GPU (mps)", "memory_bytes": None, "capability": None})
    return devices


# Instructions that multiply bf16 natively; without them bf16 is emulated and slower than float32.
_BF16_FLAGS = ("amx_bf16", "avx512_bf16")


def choose_device(requested: str = "auto") -> tuple[str, str]:
    """The device that a model runs on (`cuda`, `mps` or `cpu`), and the reason.

    Raises:
        ConfigError: the device is unknown, or torch does not find it here.
    """
    if requested in {"auto", "cpu"} and not _may_have_gpu():
        return "cpu", "as asked for" if requested == "cpu" else "no GPU that torch can use"
    import torch

    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if requested == "auto":
        device = next(device for device in present if present[device])
        return device, "no GPU that torch can use" if device == "cpu" else "torch can use a GPU"
    if requested not in present:
        raise ConfigError(f"device must be auto, {', '.join(present)}, but is {requested}")
    if not present[requested]:
        raise ConfigError(f"device {requested} was asked for, but torch finds none here; use auto or cpu")
    return requested, "as asked for"


def _may_have_gpu() -> bool:
    """Whether it is worth asking torch for a GPU: not if Linux has no device file of one."""
    return sys.platform != "linux" or any(map(os.path.exists, ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")))


def choose_precision(requested: str = "auto", device: str = "cpu") -> tuple[str, str]:
    """The precision that a model computes in, `float32` or `bf16`, and the reason.

    Raises:
        ConfigError: there is no such precision.
    """
    if requested in {"float32", "bf16"}:
        return requested, "as asked for"
    if requested != "auto":
        raise ConfigError(f"precision must be auto, float32 or bf16, but is {requested}")
    if device == "cuda":
        import torch

        native = torch.cuda.is_bf16_supported(including_emulation=False)
        return ("bf16", "the GPU multiplies it natively") if native else ("float32", "the GPU has no bf16")
    if device != "cpu":
        return "float32", f"bf16 is not tried on {device}"
    for flag in _BF16_FLAGS:
        if flag in processor()["flags"]:
            return "bf16", f"the processor has {flag}"
    return "float32", "the processor multiplies no bf16"


def _windows_memory_bytes() -> int | None:
    if sys.platform != "win32":
        return None
    status = (ctypes.c_uint64 * 8)()  # MEMORYSTATUSEX: two 32-bit numbers, then seven of 64 bits
    ctypes.cast(status, ctypes.POINTER(ctypes.c_uint32))[0] = ctypes.sizeof(status)
    return int(status[1]) if ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)) else None


_CACHE_KINDS = {"Data": "d", "Instruction": "i"}


class Processor(TypedDict):
    """A processor as it describes itself. On ARM, family, model and stepping are architecture, part and variant."""

    name: str | None
    vendor: str | None
    family: str | None
    model: str | None
    stepping: str | None
    flags: list[str]
    caches: dict[str, str]


@cache
def processor() -> Processor:
    """The first processor of this machine; the others are assumed to be the same."""
    if sys.platform == "linux":
        return _from_cpuinfo(_read(Path("/proc/cpuinfo")) or "", _linux_caches())
    if sys.platform == "darwin":
        return _from_sysctl(output_of("sysctl", "machdep.cpu", "hw") or "")
    return _from_identifier(os.environ.get("PROCESSOR_IDENTIFIER") or platform.processor())


def processor_quotas(root: Path = Path("/sys/fs/cgroup"), groups: Path = Path("/proc/self/cgroup")) -> Iterator[int]:
    """How many processors' time the control groups of this process may take, rounded up."""
    old = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    for quota, period in group_settings("cpu", "cpu.max", old, root, groups):
        if quota.isdigit():
            yield max(1, -(-int(quota) // int(period)))


def group_settings(controller: str, new: str, old: Sequence[str], root: Path, groups: Path) -> Iterator[Sequence[str]]:
    """What a file says of the control groups that this process is in, and of those above them, in words: the file `new`
    of version 2, or the files `old` of version 1.
    """
    for line in groups.read_text().splitlines() if groups.is_file() else []:
        _, controllers, group = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top, names = (root / controller, old) if controllers else (root, [new])
        # A container may see the host's name of its group, which has no folder inside: its own group is then `top`.
        for folder in (top, *(top.joinpath(*Path(group).parts[1 : 1 + n]) for n in range(1, len(Path(group).parts)))):
            if all((folder / name).is_file() for name in names):
                yield " ".join((folder / name).read_text() for name in names).split()


def output_of(*command: str) -> str | None:
    """What a command prints; None where it cannot be run or prints nothing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def _from_cpuinfo(text: str, caches: dict[str, str]) -> Processor:
    """From Linux's /proc/cpuinfo, whose keys differ between x86 and ARM."""
    first = text.partition("\n\n")[0]
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.split("\n"))}

    def field(*names: str) -> str | None:
        return next((fields[name] for name in names if fields.get(name)), None)

    return Processor(
        name=field("model name", "Model") or platform.machine() or None,
        vendor=field("vendor_id", "CPU implementer"),
        family=field("cpu family", "CPU architecture"),
        model=field("model", "CPU part"),
        stepping=field("stepping", "CPU variant"),
        flags=sorted((field("flags", "Features") or "").split()),
        caches=caches,
    )


def _from_sysctl(text: str) -> Processor:
    """From macOS's sysctl; Apple's own processors have a family and features, but no model or stepping."""
    fields = {key: value.strip() for key, _, value in (line.partition(":") for line in text.split("\n"))}
    flags = f"{fields.get('machdep.cpu.features', '')} {fields.get('machdep.cpu.leaf7_features', '')}".lower().split()
    flags += [
        key.removeprefix("hw.optional.") for key, value in fields.items() if "hw.optional." in key and value == "1"
    ]
    sizes = {"L1d": "hw.l1dcachesize", "L1i": "hw.l1icachesize", "L2": "hw.l2cachesize", "L3": "hw.l3cachesize"}
    apple = "Apple" if "Apple" in fields.get("machdep.cpu.brand_string", "") else None
    return Processor(
        name=fields.get("machdep.cpu.brand_string"),
        vendor=fields.get("machdep.cpu.vendor", apple),
        family=fields.get("machdep.cpu.family", fields.get("hw.cpufamily")),
        model=fields.get("machdep.cpu.model", fields.get("hw.cpusubfamily")),
        stepping=fields.get("machdep.cpu.stepping"),
        flags=sorted(flags),
        caches={level: fields[key] for level, key in sizes.items() if key in fields},
    )


def _from_identifier(text: str) -> Processor:
    """From Windows' line: `Intel64 Family 6 Model 158 Stepping 10, GenuineIntel`. It has no flags and no caches."""
    name, _, vendor = (part.strip() for part in text.partition(","))
    family, model, stepping = (
        match[1] if (match := re.search(rf"{word} (\w+)", text)) else None for word in ("Family", "Model", "Stepping")
    )
    return Processor(
        name=name or None, vendor=vendor or None, family=family, model=model, stepping=stepping, flags=[], caches={}
    )


def _linux_caches() -> dict[str, str]:
    """The size of each cache of the first processor: `{"L1d": "32K", "L2": "1024K"}`."""
    caches = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (_read(folder / name) for name in ("level", "type", "size"))
        if level and kind and size:
            caches[f"L{level}{_CACHE_KINDS.get(kind, '')}"] = size
    return caches


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
