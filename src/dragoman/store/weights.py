"""Weight files: safetensors that are compared, by name, shape and type, with what the configuration requires."""

import math
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from dragoman.errors import CheckpointError
from dragoman.files import new_file
from dragoman.model.shapes import Shape
from dragoman.serialization import parse_json

if TYPE_CHECKING:
    from torch import Tensor

_HEADER_BYTES = 4_096
_HEADER_BYTES_A_TENSOR = 160
"""Most bytes in the header of a safetensors file: once, and for each tensor besides its name."""

SCALE = ".scale"
"""Suffix of a quantised matrix's name: the tensor with the scale of each of its rows."""
Weights = Mapping[str, NDArray[np.float32]]
"""Weights by their names. They are arrays, because a compiled model needs no torch."""


def write_weights(path: Path, weights: "Mapping[str, Tensor]", quantised: bool = False) -> None:
    """Write tensors as safetensors; if `quantised`, each matrix as 8-bit integers with a scale for each row."""
    plain = {name: weight.detach().cpu().contiguous().numpy() for name, weight in weights.items()}
    for name, weight in plain.items():
        if not _is_finite(weight):
            raise CheckpointError(f"{name} holds numbers that are not finite; it was not saved")
    if quantised:
        for name in [name for name, weight in plain.items() if weight.ndim == 2]:
            plain[name], plain[name + SCALE] = quantise(plain[name])
    with new_file(path) as file:
        try:
            safetensors.numpy.save_file(plain, file.name)  # makes no copy of all weights
        except SafetensorError:
            file.write(safetensors.numpy.save(plain))  # raises the system's own error


def quantise(matrix: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return a matrix as integers from -127 to 127, and the scale of each row. No number moves by more than half a
    scale.

    The compiled model rounds in the same way, so that it gets the same integers of a quantised matrix again.
    """
    largest = np.abs(matrix).max(axis=1, initial=0.0)
    scale = np.where(largest > 0, largest, 1).astype(np.float32) / np.float32(127)
    return np.rint(matrix / scale[:, None]).astype(np.int8), scale


class StoredTensors(Mapping[str, NDArray[Any]]):
    """The tensors of a safetensors file, each of which is read when it is asked for."""

    def __init__(self, path: Path, header: Mapping[str, Any], first: int) -> None:
        """Take a file, its header, and the position of the first tensor."""
        self._path, self._header, self._first, self._written = path, header, first, path.stat().st_mtime_ns

    def __getitem__(self, name: str) -> NDArray[Any]:
        facts = self._header[name]
        place = {"count": math.prod(facts["shape"]), "offset": self._first + facts["data_offsets"][0]}
        if not self._path.exists() or self._path.stat().st_mtime_ns != self._written:
            raise CheckpointError(f"{self._path} was changed while it was in use; load the model again")
        return np.fromfile(self._path, {"F32": "<f4", "I8": "i1"}[facts["dtype"]], **place).reshape(facts["shape"])

    def __iter__(self) -> Iterator[str]:
        return iter(self._header)

    def __len__(self) -> int:
        return len(self._header)


def read_weights(
    path: Path, expected: Mapping[str, Shape], whole: bool = True, quantised: bool = False
) -> StoredTensors:
    """Open safetensors with the `expected` names, shapes and types, or raise `CheckpointError`. Tensors may be missing
    if not `whole`. Matrices that were `quantised` are integers, and have scales (see `restored`).
    """
    kinds = _quantised(expected) if quantised else {name: ("F32", shape) for name, shape in expected.items()}
    try:
        header, first = _header(path, kinds)
        _compare(path, header, kinds, whole)
        with safe_open(path, framework="np"):  # checks the places of all tensors
            tensors = StoredTensors(path, header, first)
    except (SafetensorError, ValueError, OSError) as error:
        raise CheckpointError(f"{path} is not a readable safetensors file: {error}") from None
    for name in header:
        if kinds[name][0] == "F32" and not _is_finite(tensors[name]):
            raise CheckpointError(f"{path}: {name} holds numbers that are not finite")
    return tensors


def restored(tensors: Mapping[str, NDArray[Any]]) -> Weights:
    """Return quantised weights in float32."""
    names = [name for name in tensors if not name.endswith(SCALE)]
    return {n: tensors[n] * tensors[n + SCALE][:, None] if n + SCALE in tensors else tensors[n] for n in names}


def _quantised(expected: Mapping[str, Shape]) -> dict[str, tuple[str, Shape]]:
    matrices = {name: shape for name, shape in expected.items() if len(shape) == 2}
    return {
        **{name: ("F32", shape) for name, shape in expected.items()},
        **{name: ("I8", shape) for name, shape in matrices.items()},
        **{name + SCALE: ("F32", shape[:1]) for name, shape in matrices.items()},
    }


def _is_finite(tensor: NDArray[np.float32]) -> bool:
    """Return True if all numbers are finite. If their sum is finite, so are they; that check is many times faster than
    looking at each number. Finite numbers may still have an infinite sum.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(tensor.sum())) or bool(np.isfinite(tensor).all())


def _header(path: Path, expected: Collection[str]) -> tuple[dict[str, Any], int]:
    """Read dtype, shape and place of each tensor by name, and the position of the first. An unexpected header of the
    file is a `ValueError`.
    """
    longest = _HEADER_BYTES + sum(_HEADER_BYTES_A_TENSOR + len(name) for name in expected)
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > longest:
            raise ValueError(f"its header has {size:,} bytes, but {len(expected):,} tensors need {longest:,} at most")
        header = parse_json(file.read(size))
    if not isinstance(header, dict):
        raise ValueError("its header is not a JSON object")
    header.pop("__metadata__", None)
    if not all(isinstance(facts, dict) and {"dtype", "shape"} <= facts.keys() for facts in header.values()):
        raise ValueError("its header does not give every tensor a type and a shape")
    return header, 8 + size


def _compare(path: Path, header: Mapping[str, Any], expected: Mapping[str, tuple[str, Shape]], whole: bool) -> None:
    if whole and (missing := sorted(expected.keys() - header.keys())):
        raise CheckpointError(f"{path}: tensor {missing[0]} is missing")
    if extra := sorted(header.keys() - expected.keys()):
        raise CheckpointError(f"{path}: tensor {extra[0][:100]} does not belong to this architecture")
    for name, facts in header.items():
        kind, shape = expected[name]
        if list(shape) != facts["shape"]:
            raise CheckpointError(
                f"{path}: {name} has shape {str(facts['shape'])[:100]}, but this architecture has {list(shape)}"
            )
        if kind != facts["dtype"]:
            raise CheckpointError(f"{path}: {name} is of type {str(facts['dtype'])[:100]}, but should be {kind}")
