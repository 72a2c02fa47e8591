"""Names what stands where a model of ours should be, by its files: a model of another toolkit, an archive, a cache."""

from pathlib import Path

from dragoman.files import CONFIG
from dragoman.serialization import read_object

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
"""What a folder is that has a file for each of these patterns; the first that fits counts."""
_ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z")
_POINTER = b"version https://git-lfs"


def foreign(path: Path) -> str | None:
    """What stands at `path`, and what to do about it, as in "an archive; unpack it"; None if nobody can say."""
    if path.is_file():
        return "an archive; unpack it" if path.suffix in _ARCHIVES else "a file, but a model is a folder; name that"
    if snapshots := sorted(path.glob("snapshots/*/config.json")):
        return f"the hub's cache of a model; take {snapshots[-1].parent}"
    kind = read_object(path / CONFIG).get("model_type") if (path / CONFIG).is_file() else None
    if kind == "marian":
        return f"a Marian model of transformers; convert it first: dragoman convert {path} --to FOLDER"
    if kind is not None:
        return f"a model of transformers with model_type {str(kind)[:40]!r}; only 'marian' is read"
    for patterns, what in _KINDS.items():
        if all(any(path.glob(pattern)) for pattern in patterns):
            return what
    return None


def is_marian(folder: Path) -> bool:
    """Whether a folder looks like a Marian model of transformers."""
    return (folder / CONFIG).is_file() and read_object(folder / CONFIG).get("model_type") == "marian"


def is_pointer(path: Path) -> bool:
    """Whether Git has put a note in the place of a large file that is still to be fetched."""
    with path.open("rb") as file:
        return file.read(len(_POINTER)) == _POINTER
