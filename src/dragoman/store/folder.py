"""A model folder as a whole: `save_model` writes one, `load_model` reads one."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.config import Content
from dragoman.errors import CheckpointError, ConfigError, DataError, TokenizerError
from dragoman.files import check_new_folder, model_around, new_folder, write_file
from dragoman.model.config import ModelConfig
from dragoman.model.shapes import weight_shapes
from dragoman.serialization import read_object, write_json
from dragoman.store.description import (
    CARD,
    CONFIG,
    FORMAT,
    GENERATION,
    WEIGHTS,
    ModelFiles,
    StoredModel,
    default_card,
    find_base,
    find_model,
    read_adapter,
    read_config,
    verify_model,
)
from dragoman.store.manifest import write_manifest
from dragoman.store.weights import read_weights, write_weights
from dragoman.surface.conventions import PairConventions
from dragoman.tokenizing.labels import FILE as LABELS
from dragoman.tokenizing.labels import Labels
from dragoman.tokenizing.special_tokens import DEFAULT_FRAMING
from dragoman.tokenizing.tokenizers import Tokenizers

if TYPE_CHECKING:
    from torch import Tensor, nn


def save_model(
    folder: Path | str,
    model: "nn.Module",
    files: ModelFiles,
    weights: "Mapping[str, Tensor] | None" = None,
    replace: bool = False,
    quantised: bool = False,
) -> None:
    """Writes a model folder, completely or not at all. With `replace`, it replaces an existing one. If `quantised`, its
    matrices are rounded to 8 bits.
    """
    with new_folder(folder, replace) as aside:
        write_model(aside, model, files, weights, quantised)
        write_manifest(aside)


def check_new_model(path: Path | str) -> None:
    """Refuses, before any work is done, a path where no model folder can be made, or where it would damage another one.

    Raises:
        DataError: something stands there already, or it lies inside a model folder.
    """
    check_new_folder(path)
    if above := model_around(path):
        raise DataError(f"{path} would lie inside {above}, which is whole only with its own files; name another place")


def write_model(
    folder: Path,
    model: "nn.Module",
    files: ModelFiles,
    weights: "Mapping[str, Tensor] | None" = None,
    quantised: bool = False,
) -> None:
    """Writes all files of a model folder but the manifest. `weights` (masters or averages) replace the model's own.

    If `files` name an adapter, only what trains is written, and the rest is left to its base.
    """
    from dragoman.store.adapters import write_adapter
    from dragoman.store.tensors import named_weights

    weights = weights if weights is not None else named_weights(model)
    if files.adapter is not None:
        write_adapter(folder, model, files, files.adapter, weights)
        return
    config: ModelConfig = model.config  # pyright: ignore[reportAssignmentType]
    content: Content = {"format": FORMAT}
    if quantised:
        content["quantised"] = True
    if files.languages is not None:
        content["languages"] = {side: [tag] for side, tag in files.languages._asdict().items()}
    if files.framing != DEFAULT_FRAMING:
        content["framing"] = asdict(files.framing)
    content["model"] = config.model_dump(mode="json", exclude_none=True)
    write_json(folder / CONFIG, content)
    write_weights(folder / WEIGHTS, weights, quantised)
    if files.tokenizers is not None:
        files.tokenizers.save(folder)
    if files.labels is not None:
        files.labels.save(folder)
    if files.conventions is not None:
        files.conventions.save(folder)
    write_json(folder / GENERATION, dict(files.generation))
    write_file(folder / CARD, files.card or default_card(files.languages, config))


def load_model(path: Path | str, adapter: Path | str | None = None) -> StoredModel:
    """Reads a model folder, or the best model of a run folder, after checking every file of it. An adapter, or a folder
    that holds one, comes merged into its base, so the model is a plain one.

    Raises:
        CheckpointError: a file is missing, damaged, foreign or newer, or a tensor does not fit. The error names it.
    """
    folder = base = find_model(path)
    verify_model(folder)
    if (facts := read_adapter(folder)) is not None:
        if adapter is not None:
            raise CheckpointError(f"{path} is an adapter itself; --adapter goes with {facts.base}, to which it belongs")
        adapter, base = folder, find_base(folder, facts)
        verify_model(base)
    stored = _load_whole(base)
    if adapter is None:
        return stored
    from dragoman.store.adapters import with_adapter  # here, because it loads torch, which a whole model may not need

    return with_adapter(stored, find_model(adapter))


def _load_whole(folder: Path) -> StoredModel:
    languages, framing, config, quantised = read_config(folder)
    try:
        expected = weight_shapes(config)
    except ConfigError as error:
        raise CheckpointError(f"{folder / CONFIG}: {error}") from None
    tokenizers, labels = _load_tokenizers(folder, config), _load_labels(folder, config)
    weights = read_weights(folder / WEIGHTS, expected, quantised=quantised)
    generation, conventions = read_object(folder / GENERATION), PairConventions.load(folder)
    files = ModelFiles(tokenizers, languages, generation, framing=framing, labels=labels, conventions=conventions)
    return StoredModel(None, config, files, folder, weights, quantised)


def _load_tokenizers(folder: Path, config: ModelConfig) -> Tokenizers | None:
    """The tokenizers in a folder; None if it has none and its model needs none."""
    if config.family == "language_model" and not any(folder.glob("tokenizer*.json")):
        return None
    try:
        tokenizers = Tokenizers.load(folder)
    except TokenizerError as error:
        raise CheckpointError(str(error)) from None
    for side, size in (("source", config.source_vocabulary), ("target", config.target_vocabulary)):
        tokenizer = getattr(tokenizers, side)
        if size is not None and tokenizer.size != size:
            raise CheckpointError(f"{folder}: the {side} tokenizer has {tokenizer.size} tokens, but the model {size}")
    return tokenizers


def _load_labels(folder: Path, config: ModelConfig) -> Labels | None:
    """The labels in a folder; None if its model gives none."""
    if config.labels is None:
        return None
    labels = Labels.load(folder)
    if labels.size != config.labels:
        raise CheckpointError(f"{folder}: {LABELS} has {labels.size} labels, but the model {config.labels}")
    if (labels.task == "tag") != (config.pooling is None):
        gives = "each word" if config.pooling is None else "a whole text"
        raise CheckpointError(f"{folder}: {LABELS} is for the task {labels.task}, but the model labels {gives}")
    return labels
