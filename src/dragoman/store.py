"""A model folder in and out. Only safetensors and JSON are written or read, and every file is checked by its SHA-256.

    config.json              architecture, languages, format number
    model.safetensors        weights, float32
    tokenizer.json           or tokenizer.source.json + tokenizer.target.json
    generation_config.json   how to search when nothing else is said
    README.md                the model card, filled from facts
    manifest.json            size and SHA-256 of every file

Older formats pass through named functions (`from_1_to_2` …); a newer one is refused.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from dragoman.config import check
from dragoman.data.report import REPORT
from dragoman.data.tokenizer import Tokenizers
from dragoman.errors import CheckpointError, ConfigError
from dragoman.files import (
    MANIFEST,
    nearest,
    new_folder,
    read_json,
    verify_manifest,
    write_file,
    write_json,
    write_manifest,
)
from dragoman.model import ModelConfig, build_model

FORMAT = 1
CONFIG, WEIGHTS, GENERATION, CARD = "config.json", "model.safetensors", "generation_config.json", "README.md"


class Languages(NamedTuple):
    """BCP 47 codes; `und` where unknown."""

    source: str = "und"
    target: str = "und"


class StoredModel(NamedTuple):
    model: nn.Module
    """In evaluation mode, float32."""
    tokenizers: Tokenizers
    config: ModelConfig
    languages: Languages
    generation: dict[str, Any]
    folder: Path


def save_model(
    folder: Path | str,
    model: nn.Module,
    tokenizers: Tokenizers,
    languages: Languages,
    generation: Mapping[str, Any] | None = None,
    card: str = "",
    weights: Mapping[str, Tensor] | None = None,
    replace: bool = False,
) -> None:
    """Writes a model folder, whole or not at all; with `replace` it takes the place of the one that stands there.

    Raises:
        CheckpointError: a weight is not finite.
        DataError: something stands at `folder` already.
        DiskFull: nothing was written.
    """
    with new_folder(folder, replace) as aside:
        write_model(aside, model, tokenizers, languages, generation, card, weights)
        write_manifest(aside)


def write_model(
    folder: Path,
    model: nn.Module,
    tokenizers: Tokenizers,
    languages: Languages,
    generation: Mapping[str, Any] | None = None,
    card: str = "",
    weights: Mapping[str, Tensor] | None = None,
) -> None:
    """Fills an open folder with all but the manifest. `weights` replace the model's own: masters or averages."""
    config: ModelConfig = model.config  # pyright: ignore[reportAssignmentType]
    write_json(
        folder / CONFIG,
        {
            "format": FORMAT,
            "languages": languages._asdict(),
            "model": config.model_dump(mode="json", exclude_none=True),
        },
    )
    write_weights(folder / WEIGHTS, weights if weights is not None else named_weights(model))
    tokenizers.save(folder)
    write_json(folder / GENERATION, dict(generation or {}))
    write_file(folder / CARD, card or default_card(languages, config))


def load_model(path: Path | str, device: str = "cpu") -> StoredModel:
    """Reads a model folder, or the best model of a run folder, and checks every file of it first.

    Raises:
        CheckpointError: naming the file that is missing, damaged, foreign or newer, or the tensor that does not fit.
    """
    folder = find_model(path)
    verify_model(folder)
    facts = read_config(folder)
    config, model = _empty_model(facts["model"], folder / CONFIG)
    tokenizers = Tokenizers.load(folder)
    _check_vocabularies(folder, config, tokenizers)
    weights = read_weights(folder / WEIGHTS, named_weights(model))
    place_weights(model, {name: weight.to(device) for name, weight in weights.items()})
    generation = read_json(folder / GENERATION)
    if not isinstance(generation, dict):
        raise CheckpointError(f"{folder / GENERATION} should hold a JSON object")
    return StoredModel(model.eval(), tokenizers, config, Languages(**facts["languages"]), generation, folder)


def find_model(path: Path | str) -> Path:
    """The model folder that `MODEL` means: itself, or of a run folder `best/`, else `final/`."""
    path = Path(path)
    for folder in (path, path / "best", path / "final"):
        if (folder / CONFIG).is_file():
            return folder
    if not path.exists():
        raise CheckpointError(f"{path} does not exist{nearest(path) or '; MODEL is a model folder or a run folder'}")
    if (path / REPORT).is_file():
        raise CheckpointError(f"{path} is prepared data, not a model; train one on it with: dragoman train {path}")
    if (path / "recipe.toml").is_file():
        raise CheckpointError(f"{path} is a run without a finished model yet; continue it with: dragoman train {path}")
    raise CheckpointError(f"{path} is not a model folder: it has no {CONFIG}")


def verify_model(folder: Path) -> None:
    """Checks that a folder is complete and undamaged.

    Raises:
        CheckpointError: naming the first file that is not.
    """
    for name in (MANIFEST, CONFIG, WEIGHTS, GENERATION):
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder} is not a whole model folder: {name} is missing")
    verify_manifest(folder)


def read_config(folder: Path) -> dict[str, Any]:
    """`config.json`, of this format or brought to it."""
    facts = read_json(folder / CONFIG)
    number = facts.get("format") if isinstance(facts, dict) else None
    if not isinstance(facts, dict) or not isinstance(number, int):
        raise CheckpointError(f"{folder / CONFIG} is not Dragoman's: it has no format number")
    if number > FORMAT:
        raise CheckpointError(
            f"{folder / CONFIG} has format {number}, newer than this version reads ({FORMAT}); upgrade dragoman"
        )
    languages = facts.get("languages")
    if (
        not isinstance(languages, dict)
        or set(languages) != set(Languages._fields)
        or not all(isinstance(code, str) for code in languages.values())
        or not isinstance(facts.get("model"), dict)
    ):
        raise CheckpointError(f"{folder / CONFIG} should hold languages (source, target) and model")
    return facts


def named_weights(model: nn.Module) -> dict[str, Tensor]:
    """Every weight once, under its first name: tied matrices have several."""
    return {name: weight.detach() for name, weight in model.named_parameters(remove_duplicate=True)}


def place_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Makes these tensors the model's parameters, tied ones shared."""
    shared = {id(parameter): weights[name] for name, parameter in model.named_parameters(remove_duplicate=True)}
    placed = {key: nn.Parameter(weight) for key, weight in shared.items()}
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, name, placed[id(parameter)])


def write_weights(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Writes tensors as safetensors, floating ones checked to be finite."""
    for name, weight in weights.items():
        if weight.is_floating_point() and not bool(torch.isfinite(weight).all()):
            raise CheckpointError(f"{name} holds numbers that are not finite; it was not saved")
    plain = {name: weight.detach().cpu().contiguous() for name, weight in weights.items()}
    write_file(path, safetensors.torch.save(plain))


def read_weights(path: Path, expected: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
    """Reads safetensors; with `expected`, names, shapes and types are checked before any data is read.

    Raises:
        CheckpointError: naming the first tensor that is missing, unknown, of another shape or type, or not finite.
    """
    try:
        with safe_open(path, framework="pt") as file:
            if expected is not None:
                slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
                _check_tensors(path, slices, expected)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is not a readable safetensors file: {error}") from None
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise CheckpointError(f"{path}: {name} holds numbers that are not finite")
    return tensors


def default_card(languages: Languages, config: ModelConfig) -> str:
    return (
        f"# Translation model, {languages.source} to {languages.target}\n\n"
        f"A Transformer ({config.preset}, {config.size}) made with Dragoman.\n"
    )


def _empty_model(settings: Mapping[str, Any], path: Path) -> tuple[ModelConfig, nn.Module]:
    """The architecture that `path` describes, its weights still without memory."""
    try:
        config = check(settings, str(path), ModelConfig)
        with torch.device("meta"):
            return config, build_model(config, seed=None)
    except ConfigError as error:
        raise CheckpointError(str(error) if str(path) in str(error) else f"{path}: {error}") from None


def _check_tensors(path: Path, found: Mapping[str, Any], expected: Mapping[str, Tensor]) -> None:
    if missing := sorted(expected.keys() - found.keys()):
        raise CheckpointError(f"{path}: tensor {missing[0]} is missing")
    if extra := sorted(found.keys() - expected.keys()):
        raise CheckpointError(f"{path}: tensor {extra[0]} does not belong to this architecture")
    for name, tensor in expected.items():
        shape, kind = found[name].get_shape(), found[name].get_dtype()
        if list(tensor.shape) != shape:
            raise CheckpointError(f"{path}: {name} has shape {shape}, but this architecture has {list(tensor.shape)}")
        if kind != "F32":
            raise CheckpointError(f"{path}: {name} is of type {kind}, but weights are F32")


def _check_vocabularies(folder: Path, config: ModelConfig, tokenizers: Tokenizers) -> None:
    for side, size in (("source", config.source_vocabulary), ("target", config.target_vocabulary)):
        tokenizer = getattr(tokenizers, side)
        if size is not None and tokenizer.size != size:
            raise CheckpointError(f"{folder}: the {side} tokenizer has {tokenizer.size} tokens, but the model {size}")
