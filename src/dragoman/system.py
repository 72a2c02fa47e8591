"""Facts about the machine (processor, memory, versions, compiler, GPUs, speed of matrix products), and the device,
precision and threads to use.

Every printed speed comes with these facts. A run is bit for bit reproducible only with the same `envelope`, which
`runs/session.py` compares before it resumes. A fact that the system does not report is None. Only functions about torch
load torch.
"""

from __future__ import annotations

import ctypes
import hashlib
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

# Variables that select kernels and therefore change the last bits of sums.
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
"""Maximum number of threads, more than any machine gains from. A process may not start many more."""

WAITING = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "3000"}
"""Environment variables that make torch's threads wait for work by spinning for about 50 microseconds, then sleeping.

Threads that always spin slow each other down on a busy machine: training fell from 10,000 tokens a second to 1,000.
Threads that sleep immediately must be woken a thousand times a step.
"""
PREPARED = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64", "LRU_CACHE_CAPACITY": "64"}
"""Variables that limit the cached shapes of matrix products: 1,024, the default, take 450 MB and save no time."""


def machine() -> dict[str, Any]:
    """Return the facts for a speed measurement or a bug report, as plain values for JSON."""
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
    """Return a description of the machine in one line, for the foot of a table of speeds."""
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
    """Return everything that a run's bits depend on besides recipe, data and tokenizer; if equal, so are weights."""
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
    """Measure the median GFLOP/s of square matrix products in `seconds`, an upper bound for every speed here."""
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
    """Set variables that libraries read when torch is loaded, unless set already. Importing dragoman calls this."""
    global _too_late
    _too_late = "torch" in sys.modules and not WAITING.keys() & os.environ.keys()
    for name, value in (WAITING | PREPARED).items():
        os.environ.setdefault(name, value)


_too_late = False
"""True if torch was loaded before `WAITING` was set."""


def warn_of_spinning() -> None:
    """Warn that training will be slow on a busy machine, if torch's threads spin."""
    if _too_late:
        log.warning(
            "torch was imported before dragoman, so its threads spin while they wait, and training is slow while other "
            "programs run; import dragoman first"
        )


def cores() -> int:
    """Return the number of processors that this process may use, at most the quota of its container, rounded up."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([allowed, *processor_quotas()])


def threads() -> int:
    """Return the default number of threads inside one operation: torch's in this thread if torch is loaded, else the
    number that torch would choose; at most the quota of this process's container.
    """
    if torch := sys.modules.get("torch"):
        default = torch.get_num_threads()
    else:
        first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
        default = min(int(first) if first.isdecimal() and int(first) else sys.maxsize, _physical_cores())
    return min([default, *processor_quotas()])


def _physical_cores() -> int:
    """Return the number of cores of this process; two hardware threads of a core count once."""
    siblings: set[str] = set()
    for core in os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ():
        try:
            with open(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list") as file:
                siblings.add(file.read())
        except OSError:
            return cores()
    return len(siblings) or cores()


def choose_threads(requested: int | None) -> int:
    """Return the requested or default number of threads, at most the container's quota, or raise `ConfigError`."""
    if requested is not None and not 1 <= requested <= MOST_THREADS:
        raise ConfigError(f"threads must be from 1 to {MOST_THREADS:,}, but is {requested:,}")
    return min([requested, *processor_quotas()]) if requested else threads()


def use_threads(requested: int | None) -> AbstractContextManager[None]:
    """Make torch use `choose_threads(requested)` threads inside the block, in this thread only."""
    return torch_threads(choose_threads(requested))


@contextmanager
def torch_threads(count: int) -> Generator[None]:
    """Make torch use `count` threads inside the block, in this thread only."""
    import torch

    before = torch.get_num_threads()
    _set_torch_threads(count)
    try:
        yield
    finally:
        _set_torch_threads(before)


def _set_torch_threads(count: int) -> None:
    """Set torch's threads for this thread only; new threads take the number set last, so a helper restores it."""
    import torch

    if count == torch.get_num_threads():
        return
    with _SETTING, ThreadPoolExecutor(1) as helper:
        initial = helper.submit(torch.get_num_threads).result()
        torch.set_num_threads(count)
        helper.submit(torch.set_num_threads, initial).result()


_SETTING = Lock()


def rank() -> int:
    """Return the rank that torchrun gave to this process; 0 for a single process."""
    return int(os.environ.get("RANK", "0"))


def installed_memory_bytes() -> int | None:
    """Return the memory of the machine in bytes."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return _windows_memory_bytes()


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Return the versions of the installed packages among these, without importing any."""
    return {name: version for name in packages if (version := _version(name)) is not None}


@cache
def _version(package: str) -> str | None:
    import importlib.metadata

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def torch_build() -> dict[str, str | None]:
    """Return torch's version, commit, CUDA version, hash of the build configuration, and instruction set."""
    import torch

    return {
        "version": torch.__version__,
        "commit": torch.version.git_version,
        "cuda": torch.version.cuda,
        "configuration": hashlib.sha256(torch.__config__.show().encode()).hexdigest()[:16],
        "capability": torch.backends.cpu.get_cpu_capability(),
    }


def compiler_path() -> str | None:
    """Return the C++ compiler: the one in the variable CXX, else the first of g++, clang++ and c++ that runs."""
    for name in filter(None, (os.environ.get("CXX"), "g++", "clang++", "c++")):
        path = shutil.which(name)
        if path and output_of(path, "--version"):
            return path
    return None


@cache
def compiler() -> str | None:
    """Return the first line that the C++ compiler prints for `--version`."""
    path = compiler_path()
    return (output_of(path, "--version") or "").partition("\n")[0] if path else shutil.which("cl")


def gpus() -> list[dict[str, Any]]:
    """Return name, memory and capability of every GPU that torch can use."""
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
    """Return the device for a model (`cuda`, `mps` or `cpu`) and the reason, or raise `ConfigError`."""
    files_of_gpus = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # without one, torch need not be loaded to look
    may_have_gpu = sys.platform != "linux" or any(map(os.path.exists, files_of_gpus))
    if requested in {"auto", "cpu"} and not may_have_gpu:
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


def choose_precision(requested: str = "auto", device: str = "cpu") -> tuple[str, str]:
    """Return the precision for a model (`float32` or `bf16`) and the reason, or raise `ConfigError`."""
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
    """Facts that a processor reports. On ARM, family, model and stepping are architecture, part and variant."""

    name: str | None
    vendor: str | None
    family: str | None
    model: str | None
    stepping: str | None
    flags: list[str]
    caches: dict[str, str]


@cache
def processor() -> Processor:
    """Return the first processor of this machine; the others are assumed to be the same."""
    if sys.platform == "linux":
        return _from_cpuinfo(_read(Path("/proc/cpuinfo")) or "", _linux_caches())
    if sys.platform == "darwin":
        return _from_sysctl(output_of("sysctl", "machdep.cpu", "hw") or "")
    return _from_identifier(os.environ.get("PROCESSOR_IDENTIFIER") or platform.processor())


def processor_quotas(root: Path = Path("/sys/fs/cgroup"), groups: Path = Path("/proc/self/cgroup")) -> Iterator[int]:
    """Yield the quota of every control group of this process, in processors, rounded up."""
    old = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    for quota, period in group_settings("cpu", "cpu.max", old, root, groups):
        if quota.isdigit():
            yield max(1, -(-int(quota) // int(period)))


def group_settings(controller: str, new: str, old: Sequence[str], root: Path, groups: Path) -> Iterator[Sequence[str]]:
    """Yield the words of a settings file of each control group and its parents: `new` (version 2), or `old`."""
    for line in groups.read_text().splitlines() if groups.is_file() else []:
        _, controllers, group = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top, names = (root / controller, old) if controllers else (root, [new])
        # A container may see the host's name of its group, which has no folder there; its group is then `top`.
        for folder in (top, *(top.joinpath(*Path(group).parts[1 : 1 + n]) for n in range(1, len(Path(group).parts)))):
            if all((folder / name).is_file() for name in names):
                yield " ".join((folder / name).read_text() for name in names).split()


def output_of(*command: str) -> str | None:
    """Return the output of a command, or None if it cannot be run or prints nothing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def _from_cpuinfo(text: str, caches: dict[str, str]) -> Processor:
    """Parse Linux's /proc/cpuinfo, whose keys differ between x86 and ARM."""
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
    """Parse macOS's sysctl; Apple's own processors have a family and features, but no model or stepping."""
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
    """Parse Windows' line `Intel64 Family 6 Model 158 Stepping 10, GenuineIntel`, which has no flags and no caches."""
    name, _, vendor = (part.strip() for part in text.partition(","))
    family, model, stepping = (
        match[1] if (match := re.search(rf"{word} (\w+)", text)) else None for word in ("Family", "Model", "Stepping")
    )
    return Processor(
        name=name or None, vendor=vendor or None, family=family, model=model, stepping=stepping, flags=[], caches={}
    )


def _linux_caches() -> dict[str, str]:
    """Return the size of each cache of the first processor: `{"L1d": "32K", "L2": "1024K"}`."""
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
