"""Weights in and out: safetensors that are compared, by name, shape and type, with what is expected."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from dragoman.errors import CheckpointError
from dragoman.files import write_file
from dragoman.notation import parse_json

_HEADER_BYTES = 4_096
_HEADER_BYTES_A_TENSOR = 160
"""Most bytes in the header of a safetensors file: once, and for each tensor besides its name."""

Shape = tuple[int, ...]
"""Of a tensor."""


def named_weights(model: nn.Module) -> dict[str, Tensor]:
    """Every weight once, under its first name, because tied matrices have several."""
    return {name: weight.detach() for name, weight in model.named_parameters(remove_duplicate=True)}


def place_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Makes these tensors the model's parameters; tied ones stay shared."""
    shared = {id(parameter): weights[name] for name, parameter in model.named_parameters(remove_duplicate=True)}
    placed = {key: nn.Parameter(weight) for key, weight in shared.items()}
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, name, placed[id(parameter)])


def write_weights(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Writes tensors as safetensors.

    Raises:
        CheckpointError: a number is not finite.
    """
    for name, weight in weights.items():
        if not _is_finite(weight):
            raise CheckpointError(f"{name} holds numbers that are not finite; it was not saved")
    plain = {name: weight.detach().cpu().contiguous() for name, weight in weights.items()}
    write_file(path, safetensors.torch.save(plain))


def read_weights(path: Path, expected: Mapping[str, Shape], whole: bool = True) -> dict[str, Tensor]:
    """Reads safetensors, after comparing names, shapes and types with what is `expected`. Tensors may be missing if
    not `whole`.

    Raises:
        CheckpointError: a tensor is missing, unknown, of another shape or type, or not finite. The error names it.
    """
    try:
        _compare(path, _header(path, expected), expected, whole)
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, OSError) as error:
        raise CheckpointError(f"{path} is not a readable safetensors file: {error}") from None
    for name, tensor in tensors.items():
        if not _is_finite(tensor):
            raise CheckpointError(f"{path}: {name} holds numbers that are not finite")
    return tensors


def _is_finite(tensor: Tensor) -> bool:
    """Whether all numbers are finite. If their sum is finite, so are they; that check is many times faster than looking
    at each. Finite numbers may still have an infinite sum.
    """
    return bool(tensor.sum().isfinite()) or bool(tensor.isfinite().all())


def _header(path: Path, expected: Mapping[str, Shape]) -> dict[str, Any]:
    """The header of a safetensors file: dtype and shape of each tensor by name.

    Raises:
        ValueError: it is not such a file, or its header is longer than the expected tensors need.
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
    return header


def _compare(path: Path, found: Mapping[str, Any], expected: Mapping[str, Shape], whole: bool) -> None:
    if whole and (missing := sorted(expected.keys() - found.keys())):
        raise CheckpointError(f"{path}: tensor {missing[0]} is missing")
    if extra := sorted(found.keys() - expected.keys()):
        raise CheckpointError(f"{path}: tensor {extra[0][:100]} does not belong to this architecture")
    for name, facts in found.items():
        shape, kind = facts["shape"], facts["dtype"]
        if list(expected[name]) != shape:
            raise CheckpointError(
                f"{path}: {name} has shape {str(shape)[:100]}, but this architecture has {list(expected[name])}"
            )
        if kind != "F32":
            raise CheckpointError(f"{path}: {name} is of type {str(kind)[:100]}, but weights are F32")
