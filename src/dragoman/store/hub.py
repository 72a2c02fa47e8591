"""Models from other places: addresses and files of the Hugging Face hub, and models of other toolkits.

A model with an address, `hub:OWNER/NAME` or `hub:OWNER/NAME@REVISION`, is fetched from the hub. `describe_foreign`
recognises models of other toolkits, archives and caches by their files.
"""

import logging
import re
from pathlib import Path

from dragoman.errors import CheckpointError, ConfigError, optional
from dragoman.files import CONFIG
from dragoman.formats.addresses import HUB
from dragoman.serialization import read_object

log = logging.getLogger(__name__)

SMALL100 = "tokenization_small100.py"
"""Program of SMaLL-100's tokenizer. It is never run; its name says which model it is."""
FAMILIES = {"marian": "Marian", "m2m_100": "M2M-100", "mbart": "mBART-50"}
"""Models of transformers that are read, by their `model_type`; SMaLL-100 and NLLB-200 are of the second."""
SMALL = ("*.json", "*.spm", "*.model", "README.md", SMALL100)
"""Files of a model that are fetched before its weights."""
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
"""Files that hold the weights; the first existing one counts."""
_ORIGIN = "which cannot be read back; take the model that it was made from"
_KINDS = {
    ("model.bin", "*vocabulary*"): f"a model of CTranslate2, {_ORIGIN}",
    ("model/model.bin", "metadata.json"): f"a package of Argos Translate with a model of CTranslate2, {_ORIGIN}",
    ("*.intgemm*.bin",): f"a model for Firefox's translations (Bergamot), {_ORIGIN}",
    ("*.npz",): "a model of the Marian program; take its form for transformers, which has a config.json",
    ("adapter_config.json",): "an adapter of PEFT, which is not read",
    ("modules.json",): "a model of sentence-transformers, which does not translate",
    ("dict.*.txt",): "a model of fairseq, which is not read",
    ("*.gguf",): f"a GGUF model, {_ORIGIN}",
    ("*.onnx",): f"an ONNX model, {_ORIGIN}",
    ("onnx/*.onnx",): f"an ONNX model, {_ORIGIN}",
    ("*.pt",): "a checkpoint of another program, which is not read",
}
"""Descriptions of folders that have a file for each of these patterns; the first match counts."""
_ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z")
_POINTER = b"version https://git-lfs"


def hub_address(path: Path | str) -> str | None:
    """Return the address of a hub model that is given instead of a path; None if it is a path."""
    text = Path(path).as_posix()
    if not text.startswith(HUB):
        return None
    if not re.fullmatch(rf"{HUB}[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@\w[\w./-]*)?", text, re.A):
        raise ConfigError(f"a model of the hub is named hub:OWNER/NAME or hub:OWNER/NAME@REVISION, not {text[:100]}")
    return text


def fetch(address: str) -> Path:
    """Fetch the files of a model, and return their folder in the hub's own cache."""
    with optional("huggingface_hub", "marian"):
        from huggingface_hub import errors, hf_hub_download, snapshot_download, utils
    utils.disable_progress_bars()  # only the command line draws, and an error is one line
    utils.logging.set_verbosity_error()
    log.info("fetching %s from the hub", address)
    name, _, revision = address.removeprefix(HUB).partition("@")
    try:
        folder = Path(snapshot_download(name, revision=revision or None, allow_patterns=list(SMALL)))
        if kind_of(folder) not in FAMILIES:
            return folder  # its weights would be fetched for nothing
        try:
            hf_hub_download(name, WEIGHTS[0], revision=folder.name)
        except errors.EntryNotFoundError:
            hf_hub_download(name, WEIGHTS[1], revision=folder.name)
    except CheckpointError:
        raise
    except Exception as error:  # the library raises dozens of types, also of the network
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise CheckpointError(f"{address} could not be fetched: {reason[:300]}") from None
    return folder


def describe_foreign(path: Path) -> str | None:
    """Return a description of what is at `path`, with advice, as in "an archive; unpack it"; None if it is unknown."""
    if path.is_file():
        return "an archive; unpack it" if path.suffix in _ARCHIVES else "a file, but a model is a folder; name that"
    if snapshots := sorted(path.glob("snapshots/*/config.json")):
        return f"the hub's cache of a model; take {snapshots[-1].parent}"
    if (kind := kind_of(path)) in FAMILIES:
        return f"a model of transformers ({FAMILIES[kind]}); convert it first: dragoman convert {path} --to FOLDER"
    if kind is not None:
        return f"a model of transformers with model_type {kind[:40]!r}; only {', '.join(map(repr, FAMILIES))} are read"
    for patterns, what in _KINDS.items():
        if all(any(path.glob(pattern)) for pattern in patterns):
            return what
    return None


def kind_of(folder: Path) -> str | None:
    """Return the `model_type` of a folder of transformers; None for any other folder."""
    kind = read_object(folder / CONFIG).get("model_type") if (folder / CONFIG).is_file() else None
    return None if kind is None else str(kind)


def is_pointer(path: Path) -> bool:
    """Return True if the file is only a pointer of Git LFS to a large file that is still to be fetched."""
    with path.open("rb") as file:
        return file.read(len(_POINTER)) == _POINTER
