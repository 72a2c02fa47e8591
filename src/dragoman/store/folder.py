"""Models found and loaded: `find_model` returns the folder of a path or an address, `load_model` reads it."""

import logging
from pathlib import Path

from dragoman.compiled.libraries import cache_folder
from dragoman.config import check
from dragoman.errors import CheckpointError, ConfigError, DataError, TokenizerError
from dragoman.files import MANIFEST, sha256
from dragoman.formats.addresses import HUB
from dragoman.model.config import LoraSettings, ModelConfig
from dragoman.model.shapes import weight_shapes
from dragoman.serialization import read_object
from dragoman.store.description import (
    CONFIG,
    GENERATION,
    WEIGHTS,
    Adapter,
    ModelFiles,
    StoredModel,
    find_base,
    find_local_model,
    read_adapter,
    read_config,
    verify_model,
)
from dragoman.store.hub import hub_address
from dragoman.store.manifest import listed_hash
from dragoman.store.weights import read_weights
from dragoman.surface.conventions import load_conventions
from dragoman.tokenizing.labels import FILE as LABELS
from dragoman.tokenizing.labels import Labels
from dragoman.tokenizing.tokenizers import Tokenizers

log = logging.getLogger(__name__)


def find_model(path: Path | str) -> Path:
    """Return the model folder at a path (`find_local_model`) or of a hub address, or raise `CheckpointError`."""
    address = hub_address(path)
    return find_local_model(path) if address is None else _hub_model(address)


def _hub_model(address: str) -> Path:
    """Return the folder of a hub model in the cache. The hub is asked only the first time."""
    cache = cache_folder()
    if cache is None:
        raise CheckpointError(f"there is no cache for {address}; convert it: dragoman convert {address} --to FOLDER")
    kept = cache / "models" / address.removeprefix(HUB).replace("/", "--")
    if not kept.is_dir():
        from dragoman.store.convert import convert  # here, because it loads torch

        try:
            result = convert(address, kept)
        except DataError:
            if not kept.is_dir():  # otherwise another process was faster
                raise
            return kept
        for note in (f"{address} is kept as {kept}: {result.what}", *result.notes):
            log.info("%s", note)
    return kept


def model_hash(path: Path | str) -> str:
    """Return the SHA-256 of the manifest of a model or an adapter, which lists that of every file."""
    return sha256(find_model(path) / MANIFEST)


def describe_adapter(base: Path | str, settings: LoraSettings) -> Adapter:
    """Return the description of an adapter of `base`; raise `ConfigError` if the base is an adapter itself."""
    folder = find_model(base).resolve()
    if read_adapter(folder) is not None:
        raise ConfigError(
            f"{base} is an adapter, and another one needs a whole model; merge it first: dragoman merge {base} --to "
            "FOLDER"
        )
    facts = {"base": str(folder), "sha256": listed_hash(folder, WEIGHTS), "lora": settings.model_dump(mode="json")}
    return check(facts, "adapter", Adapter)


def load_model(path: Path | str, adapter: Path | str | None = None) -> StoredModel:
    """Read a model folder, or the best model of a run folder, after checking every file of it. An adapter, or a folder
    that holds one, is merged into its base, so the model is a plain one.

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
    languages, framing, config, quantised, directions = read_config(folder)
    try:
        expected = weight_shapes(config)
    except ConfigError as error:
        raise CheckpointError(f"{folder / CONFIG}: {error}") from None
    tokenizers, labels = _load_tokenizers(folder, config), _load_labels(folder, config)
    weights = read_weights(folder / WEIGHTS, expected, quantised=quantised)
    generation, conventions = read_object(folder / GENERATION), load_conventions(folder)
    files = ModelFiles(
        tokenizers,
        languages,
        generation,
        framing=framing,
        labels=labels,
        conventions=conventions,
        directions=directions,
    )
    return StoredModel(None, config, files, folder, weights, quantised)


def _load_tokenizers(folder: Path, config: ModelConfig) -> Tokenizers | None:
    """Load the tokenizers in a folder; None if it has none and its model needs none."""
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
    """Load the labels in a folder; None if its model predicts none."""
    if config.labels is None:
        return None
    labels = Labels.load(folder)
    if labels.size != config.labels:
        raise CheckpointError(f"{folder}: {LABELS} has {labels.size} labels, but the model {config.labels}")
    if (labels.task == "tag") != (config.pooling is None):
        unit = "each word" if config.pooling is None else "a whole text"
        raise CheckpointError(f"{folder}: {LABELS} is for the task {labels.task}, but the model labels {unit}")
    return labels
