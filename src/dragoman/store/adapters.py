"""Adapter folders: saving and loading the few weights that a run trained for a model that it left unchanged."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor, nn

from dragoman.errors import CheckpointError, ConfigError
from dragoman.files import write_file
from dragoman.model.adapters import adapt, merged
from dragoman.model.transformer import build_model
from dragoman.serialization import read_object, write_json
from dragoman.store.description import (
    ADAPTER,
    ADAPTER_FORMAT,
    CARD,
    CONFIG,
    GENERATION,
    WEIGHTS,
    Adapter,
    ModelFiles,
    StoredModel,
    read_adapter,
    verify_model,
)
from dragoman.store.manifest import listed_hash
from dragoman.store.tensors import as_tensors, named_weights, place_weights
from dragoman.store.weights import read_weights, write_weights


def write_adapter(
    folder: Path, model: nn.Module, files: ModelFiles, adapter: Adapter, weights: Mapping[str, Tensor]
) -> None:
    """Write all files of an adapter folder but the manifest."""
    with suppress(ValueError):  # on another drive
        adapter = adapter.but(beside=Path(os.path.relpath(adapter.base, folder.resolve())).as_posix())
    write_json(
        folder / CONFIG, {"format": ADAPTER_FORMAT, "adapter": adapter.model_dump(mode="json", exclude_none=True)}
    )
    write_weights(folder / ADAPTER, {name: weights[name] for name in _trained(model)})
    write_json(folder / GENERATION, dict(files.generation))
    what = f"This folder holds an adapter of rank {adapter.lora.rank}, not a whole model. It belongs to {adapter.base}."
    write_file(folder / CARD, f"{files.card}\n{what}\n")


def with_adapter(base: StoredModel, folder: Path) -> StoredModel:
    """Return a base merged with the adapter in a folder, as one plain model."""
    verify_model(folder)
    if (adapter := read_adapter(folder)) is None:
        raise CheckpointError(f"{folder} holds a whole model, not an adapter; use it without --adapter")
    if listed_hash(base.folder, WEIGHTS) != adapter.sha256:
        raise CheckpointError(
            f"{folder} is an adapter of {adapter.base}, but {base.folder} has other weights (their SHA-256 differs); "
            "put back the model that it was trained on"
        )
    with torch.device("meta"):
        adapted, plain = (build_model(base.config, seed=None) for _ in range(2))
        try:
            adapt(adapted, adapter.lora)
        except ConfigError as error:
            raise CheckpointError(f"{folder / CONFIG}: {error}") from None
    shapes = {name: tuple(weight.shape) for name, weight in _trained(adapted).items()}
    trained = as_tensors(read_weights(folder / ADAPTER, shapes))
    weights = merged(adapted, named_weights(base.model) | trained)
    for name, weight in weights.items():
        if not weight.isfinite().all():
            raise CheckpointError(f"{folder}: with this adapter {name} holds numbers that are not finite")
    place_weights(plain, weights)
    files = base.files._replace(generation=read_object(folder / GENERATION))
    return StoredModel(plain.eval(), base.config, files, folder)


def _trained(model: nn.Module) -> dict[str, Tensor]:
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
