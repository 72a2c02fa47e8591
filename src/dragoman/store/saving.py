"""`save_model`: a model and its files as a model folder, which is written completely or not at all."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.config import Content
from dragoman.errors import DataError
from dragoman.files import check_new_folder, model_around, new_folder, write_file
from dragoman.model.config import ModelConfig
from dragoman.serialization import write_json
from dragoman.store.description import (
    CARD,
    CONFIG,
    FORMAT,
    GENERATION,
    SEVERAL_LANGUAGES,
    WEIGHTS,
    ModelFiles,
    default_card,
)
from dragoman.store.manifest import write_manifest
from dragoman.store.weights import write_weights
from dragoman.tokenizing.special_tokens import DEFAULT_FRAMING

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
    """Write a model folder, completely or not at all. `replace` allows an old one; `quantised` rounds to 8 bits."""
    with new_folder(folder, replace) as aside:
        write_model(aside, model, files, weights, quantised)
        write_manifest(aside)


def check_new_model(path: Path | str) -> None:
    """Refuse, before any work, a path where no model folder can be made, or where it would damage another one."""
    check_new_folder(path)
    if above := model_around(path):
        raise DataError(
            f"{path} would be inside {above}, which is complete only with its own files; name another place"
        )


def write_model(
    folder: Path,
    model: "nn.Module",
    files: ModelFiles,
    weights: "Mapping[str, Tensor] | None" = None,
    quantised: bool = False,
) -> None:
    """Write all files of a model folder but the manifest. `weights` (masters or averages) replace the model's own.

    If `files` name an adapter, only the trained weights are written, and the others are left to its base.
    """
    from dragoman.store.adapters import write_adapter
    from dragoman.store.tensors import named_weights

    weights = weights if weights is not None else named_weights(model)
    if files.adapter is not None:
        write_adapter(folder, model, files, files.adapter, weights)
        return
    config: ModelConfig = model.config  # pyright: ignore[reportAssignmentType]
    several = files.directions is not None
    content: Content = {"format": SEVERAL_LANGUAGES if several or config.position_offset else FORMAT}
    if quantised:
        content["quantised"] = True
    if files.directions is not None:
        content["languages"] = files.directions.model_dump(mode="json", exclude_none=True)
    elif files.languages is not None:
        content["languages"] = {side: [tag] for side, tag in files.languages._asdict().items()}
    if files.framing != DEFAULT_FRAMING:
        framing = asdict(files.framing)
        content["framing"] = {key: value for key, value in framing.items() if key != "target_prefix" or value}
    settings = config.model_dump(mode="json", exclude_none=True)
    content["model"] = {key: value for key, value in settings.items() if key != "position_offset" or value}
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
