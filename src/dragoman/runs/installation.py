"""Facts about this machine and this installation, and their meaning for models: `dragoman doctor`, `dragoman guide`."""

import shutil
from pathlib import Path
from typing import NamedTuple

import dragoman
from dragoman import system
from dragoman.compiled import kernels
from dragoman.errors import ConfigError

TESTED_TORCH = "2.13.0"
"""Version of torch that Dragoman is tested with."""
EXTRAS = {
    "tensorboard": "tensorboard",
    "parquet": "pyarrow",
    "hub": "datasets",
    "documents": "openpyxl",
    "spacy": "spacy",
    "plots": "matplotlib",
    "baselines": "scikit-learn",
    "marian": "sentencepiece",
    "ctranslate2": "ctranslate2",
    "huggingface": "transformers",
    "serve": "fastapi",
    "ray": "ray",
}
"""Each extra and the package that it installs."""

GIB = 2**30
CLONE = Path(dragoman.__file__).parents[2]
"""The folder of the project, if Dragoman runs from a clone."""


class Fact(NamedTuple):
    """One fact, and its consequence."""

    name: str
    value: str
    meaning: str


def find_guide() -> Path:
    """Find the first page of the built guide.

    Raises:
        ConfigError: the guide is not built here; the message says where it is.
    """
    page = CLONE / "docs" / "_build" / "html" / "index.html"
    if page.is_file():
        return page
    if (CLONE / "docs" / "conf.py").is_file():
        raise ConfigError(f"the guide is not built: make docs in {CLONE} builds it; its text is in {CLONE / 'docs'}")
    raise ConfigError(
        "the guide is not part of this installation: unpack dragoman-guide.zip of a release and open its index.html, "
        "or build it in a clone of the project with make docs"
    )


def doctor() -> list[Fact]:
    """Find the versions, processor, memory, device, precision, compiler and extras of this machine."""
    return [*_software(), *_hardware(), *_extras()]


def _software() -> list[Fact]:
    versions = system.versions()
    torch = versions.get("torch", "missing")
    tested = torch.partition("+")[0] == TESTED_TORCH
    judged = "the tested version" if tested else f"tested with {TESTED_TORCH}; others are expected to work"
    libraries = ("numpy", "tokenizers", "safetensors", "sacrebleu")
    compiler = system.compiler()
    compiled = "kernels are compiled"
    if not kernels.prepare():
        compiled = f"kernels run uncompiled, slower: {kernels.PREPARED.failure}; on Linux, install g++ or set CXX"
    return [
        Fact("dragoman", dragoman.__version__, f"from {Path(dragoman.__file__).parent}"),
        Fact("python", str(system.machine()["python"]), "3.11 or newer is needed"),
        Fact("torch", torch, judged),
        *(Fact(name, versions.get(name, "missing"), "") for name in libraries),
        Fact("compiler", compiler or "none", compiled),
    ]


def _hardware() -> list[Fact]:
    device, why_device = system.choose_device()
    precision, why_precision = system.choose_precision(device=device)
    memory = system.installed_memory_bytes()
    disk = shutil.disk_usage(Path.cwd())
    return [
        Fact("processor", system.processor()["name"] or "unknown", f"{system.cores()} cores"),
        Fact("threads", str(system.threads()), "of torch; --threads changes it"),
        *(Fact("gpu", str(gpu["name"]), _size(gpu["memory_bytes"])) for gpu in system.gpus()),
        Fact("device", device, why_device),
        Fact("precision", precision, why_precision),
        Fact("memory", _size(memory), "of the whole machine"),
        Fact("disk", _size(disk.free), f"free in {Path.cwd()}"),
    ]


def _extras() -> list[Fact]:
    versions = system.versions(EXTRAS.values())
    return [
        Fact(f"extra {extra}", versions[package], package)
        if package in versions
        else Fact(f"extra {extra}", "missing", f"in the folder of Dragoman: pip install '.[{extra}]'")
        for extra, package in EXTRAS.items()
    ]


def _size(count: object) -> str:
    return f"{count / GIB:.1f} GiB" if isinstance(count, int) else "unknown"
