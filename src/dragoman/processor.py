"""Which processor this is, as Linux on x86 and ARM, macOS and Windows describe it, and how much of it may be used."""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TypedDict

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
        found[1] if (found := re.search(rf"{word} (\w+)", text)) else None for word in ("Family", "Model", "Stepping")
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
