"""A model folder in and out. Only safetensors and JSON are written or read, and every file is checked by its SHA-256.

    config.json              architecture, format number, framing if not the usual; languages of a translation model
    model.safetensors        weights, float32
    tokenizer.json           or tokenizer.source.json + tokenizer.target.json
    labels.json              the labels of a classifier or tagger
    generation_config.json   the default search options
    README.md                the model card, written from facts; people may edit or remove it
    manifest.json            size and SHA-256 of every file

An adapter folder holds `adapter.safetensors` instead, the few weights that a run learnt beside a model that it left as
it was, and no tokenizer. Its `config.json` names that model by folder and SHA-256; both load as one.

The names and shapes of the weights must match `config.json` before anything is built. A newer format is refused.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import pydantic
import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from dragoman.config import Settings, check
from dragoman.documents import read_document, read_object, write_json
from dragoman.errors import CheckpointError, ConfigError, DataError, TokenizerError
from dragoman.files import check_new_folder, nearest, new_folder, write_file
from dragoman.manifest import MANIFEST, listed_hash, verify_manifest, write_manifest
from dragoman.model import ModelConfig, build_model, weight_shapes
from dragoman.notation import parse_json
from dragoman.run_folder import RunFolder
from dragoman.text.reading.language_tags import LanguageTag
from dragoman.text.report import REPORT
from dragoman.tokenizing.framing import DEFAULT_FRAMING, Framing
from dragoman.tokenizing.labels import FILE as LABELS
from dragoman.tokenizing.labels import Labels
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tuning.lora import adapt, merged
from dragoman.tuning.settings import Adapter, LoraSettings

FORMAT, ADAPTER_FORMAT = 1, 1
"""Of `config.json`, of a model and of an adapter."""
CONFIG, WEIGHTS, GENERATION, CARD = "config.json", "model.safetensors", "generation_config.json", "README.md"
ADAPTER = "adapter.safetensors"


_HEADER_BYTES = 4_096
_HEADER_BYTES_A_TENSOR = 160
"""Most bytes in the header of a safetensors file: once, and for each tensor besides its name."""


Shape = tuple[int, ...]
"""Of a tensor."""


class Languages(NamedTuple):
    """The languages that a model translates from and to, as BCP 47 tags; `und` if unknown."""

    source: str = "und"
    target: str = "und"


class _Languages(Settings):
    source: LanguageTag
    target: LanguageTag


class _Config(Settings):
    """`config.json`."""

    format: int
    languages: _Languages | None = None
    framing: Framing | None = None
    model: ModelConfig

    @pydantic.model_validator(mode="after")
    def _symbols_are_tokens(self) -> "_Config":
        if self.framing is not None:
            self.framing.refuse_unknown(self.model.source_vocabulary, self.model.target_vocabulary)
        return self


class _AdapterConfig(Settings):
    """`config.json` of an adapter folder."""

    format: int
    adapter: Adapter


class Description(NamedTuple):
    """What `config.json` says of a model."""

    languages: Languages | None
    """None for a model that does not translate."""
    framing: Framing
    model: ModelConfig


class ModelFiles(NamedTuple):
    """What a model folder holds beside architecture and weights; its task provides it."""

    tokenizers: Tokenizers | None = None
    """None for a model that reads no text."""
    languages: Languages | None = None
    """None for a model that does not translate."""
    generation: Mapping[str, Any] = {}
    """The default search options."""
    card: str = ""
    """The model card in Markdown; without one, a short one is written."""
    framing: Framing = DEFAULT_FRAMING
    """The symbols that the model expects around sources and targets."""
    labels: Labels | None = None
    """None for a model that gives no labels."""
    adapter: Adapter | None = None
    """What an adapter folder says of its base; None for a whole model."""


class StoredModel(NamedTuple):
    """A model folder in memory."""

    model: nn.Module
    """In evaluation mode, float32."""
    config: ModelConfig
    files: ModelFiles
    folder: Path
    """The folder that it was read from."""

    @property
    def tokenizers(self) -> Tokenizers:
        """The tokenizers of source and target.

        Raises:
            CheckpointError: the model has none.
        """
        if self.files.tokenizers is None:
            raise CheckpointError(f"{self.folder} holds no tokenizer, so its model reads no text")
        return self.files.tokenizers

    @property
    def labels(self) -> Labels:
        """The labels of a classifier or tagger.

        Raises:
            CheckpointError: the model gives none.
        """
        if self.files.labels is None:
            raise CheckpointError(f"{self.folder} holds no labels, so its model neither classifies nor tags")
        return self.files.labels

    @property
    def languages(self) -> Languages:
        """The languages of a translation model; `und` for any other."""
        return self.files.languages or Languages()


def save_model(
    folder: Path | str,
    model: nn.Module,
    files: ModelFiles,
    weights: Mapping[str, Tensor] | None = None,
    replace: bool = False,
) -> None:
    """Writes a model folder, completely or not at all. With `replace`, it replaces an existing one.

    Raises:
        CheckpointError: a weight is not finite.
        DataError: `folder` exists already.
        DiskFull: nothing was written.
    """
    with new_folder(folder, replace) as aside:
        write_model(aside, model, files, weights)
        write_manifest(aside)


def check_new_model(path: Path | str) -> None:
    """Refuses, before any work is done, a path where no model folder can be made, or where it would damage another one.

    Raises:
        DataError: something stands there already, or it lies inside a model folder.
    """
    check_new_folder(path)
    for above in Path(path).absolute().parents:
        if (above / MANIFEST).is_file():
            raise DataError(
                f"{path} would lie inside {above}, which is whole only with its own files; name another place"
            )


def write_model(folder: Path, model: nn.Module, files: ModelFiles, weights: Mapping[str, Tensor] | None = None) -> None:
    """Writes all files of a model folder but the manifest. `weights` (masters or averages) replace the model's own.

    If `files` name an adapter, only what trains is written, and the rest is left to its base.
    """
    if files.adapter is not None:
        _write_adapter(folder, model, files, files.adapter, weights if weights is not None else named_weights(model))
        return
    config: ModelConfig = model.config  # pyright: ignore[reportAssignmentType]
    languages = {} if files.languages is None else {"languages": files.languages._asdict()}
    framing = {} if files.framing == DEFAULT_FRAMING else {"framing": asdict(files.framing)}
    architecture = config.model_dump(mode="json", exclude_none=True)
    write_json(folder / CONFIG, {"format": FORMAT, **languages, **framing, "model": architecture})
    write_weights(folder / WEIGHTS, weights if weights is not None else named_weights(model))
    if files.tokenizers is not None:
        files.tokenizers.save(folder)
    if files.labels is not None:
        files.labels.save(folder)
    write_json(folder / GENERATION, dict(files.generation))
    write_file(folder / CARD, files.card or default_card(files.languages, config))


def _write_adapter(
    folder: Path, model: nn.Module, files: ModelFiles, adapter: Adapter, weights: Mapping[str, Tensor]
) -> None:
    """Writes all files of an adapter folder but the manifest."""
    with suppress(ValueError):  # on another drive
        adapter = adapter.but(beside=Path(os.path.relpath(adapter.base, folder.resolve())).as_posix())
    write_json(
        folder / CONFIG, {"format": ADAPTER_FORMAT, "adapter": adapter.model_dump(mode="json", exclude_none=True)}
    )
    write_weights(folder / ADAPTER, {name: weights[name] for name in _trained(model)})
    write_json(folder / GENERATION, dict(files.generation))
    what = f"This folder holds an adapter of rank {adapter.lora.rank}, not a whole model. It belongs to {adapter.base}."
    write_file(folder / CARD, f"{files.card}\n{what}\n")


def load_model(path: Path | str, device: str = "cpu", adapter: Path | str | None = None) -> StoredModel:
    """Reads a model folder, or the best model of a run folder, after checking every file of it. An adapter, or a folder
    that holds one, comes merged into its base, so the model is a plain one.

    Raises:
        CheckpointError: a file is missing, damaged, foreign or newer, or a tensor does not fit. The error names it.
    """
    folder = find_model(path)
    verify_model(folder)
    if (own := read_adapter(folder)) is None:
        stored = _load_whole(folder, device)
        return stored if adapter is None else _with_adapter(stored, find_model(adapter), device)
    if adapter is not None:
        raise CheckpointError(f"{path} is an adapter itself; --adapter goes with {own.base}, to which it belongs")
    base = _find_base(folder, own)
    verify_model(base)
    return _with_adapter(_load_whole(base, device), folder, device)


def _load_whole(folder: Path, device: str) -> StoredModel:
    """The model in a folder that was verified."""
    languages, framing, config = read_config(folder)
    expected = _expected_weights(config, folder / CONFIG)
    tokenizers, labels = _load_tokenizers(folder, config), _load_labels(folder, config)
    weights = read_weights(folder / WEIGHTS, expected)
    with torch.device("meta"):
        model = build_model(config, seed=None)
    place_weights(model, {name: weight.to(device) for name, weight in weights.items()})
    files = ModelFiles(tokenizers, languages, read_object(folder / GENERATION), framing=framing, labels=labels)
    return StoredModel(model.eval(), config, files, folder)


def _with_adapter(base: StoredModel, folder: Path, device: str) -> StoredModel:
    """A base and the adapter in a folder as one plain model.

    Raises:
        CheckpointError: the folder holds no adapter, a damaged one, or that of another base.
    """
    verify_model(folder)
    if (found := read_adapter(folder)) is None:
        raise CheckpointError(f"{folder} holds a whole model, not an adapter; use it without --adapter")
    if listed_hash(base.folder, WEIGHTS) != found.sha256:
        raise CheckpointError(
            f"{folder} is an adapter of {found.base}, and the weights in {base.folder} are others (their SHA-256 "
            "differs); put back the model that it was trained on"
        )
    with torch.device("meta"):
        adapted, plain = (build_model(base.config, seed=None) for _ in range(2))
        _adapt(adapted, found, folder)
    shapes = {name: tuple(weight.shape) for name, weight in _trained(adapted).items()}
    learnt = read_weights(folder / ADAPTER, shapes)
    learnt = {name: weight.to(device) for name, weight in learnt.items()}
    place_weights(plain, merged(adapted, named_weights(base.model) | learnt))
    files = base.files._replace(generation=read_object(folder / GENERATION))
    return StoredModel(plain.eval(), base.config, files, folder)


def _adapt(model: nn.Module, adapter: Adapter, folder: Path) -> None:
    try:
        adapt(model, adapter.lora)
    except ConfigError as error:
        raise CheckpointError(f"{folder / CONFIG}: {error}") from None


def _trained(model: nn.Module) -> dict[str, Tensor]:
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}


def read_adapter(folder: Path) -> Adapter | None:
    """What an adapter folder says of itself; None for the folder of a whole model.

    Raises:
        CheckpointError: its `config.json` is missing, damaged or newer.
    """
    if "adapter" not in read_object(folder / CONFIG):
        return None
    return read_document(folder / CONFIG, _AdapterConfig, ADAPTER_FORMAT).adapter


def adapter_of(base: Path | str, settings: LoraSettings) -> Adapter:
    """What adapters that are trained on a model will say of it.

    Raises:
        CheckpointError: the model is missing.
        ConfigError: it is an adapter itself.
    """
    folder = find_model(base).resolve()
    if read_adapter(folder) is not None:
        raise ConfigError(
            f"{base} is an adapter, and another one needs a whole model; merge it first: dragoman merge {base} --to "
            "FOLDER"
        )
    facts = {"base": str(folder), "sha256": listed_hash(folder, WEIGHTS), "lora": settings.model_dump(mode="json")}
    return check(facts, "adapter", Adapter)


def _find_base(folder: Path, adapter: Adapter) -> Path:
    """The folder of an adapter's base: where it was, else where it lies as seen from the adapter.

    Raises:
        CheckpointError: it is in neither place.
    """
    for place in (Path(adapter.base), folder / (adapter.beside or adapter.base)):
        if (place / WEIGHTS).is_file():
            return place
    raise CheckpointError(
        f"{folder} is an adapter of {adapter.base}, which is not there; put that model back, or name it: "
        f"dragoman translate BASE --adapter {folder}"
    )


def find_model(path: Path | str) -> Path:
    """The model folder that `MODEL` means: the folder itself, or `best/`, else `final/`, of a run folder.

    Raises:
        CheckpointError: there is no model at `path`.
    """
    path = Path(path)
    run = RunFolder(path)
    for folder in (path, run.best, run.final):
        if (folder / CONFIG).is_file():
            return folder
    if not path.exists():
        raise CheckpointError(f"{path} does not exist{nearest(path) or '; MODEL is a model folder or a run folder'}")
    if (path / REPORT).is_file():
        raise CheckpointError(f"{path} is prepared data, not a model; train one on it with: dragoman train {path}")
    if run.recipe.is_file():
        raise CheckpointError(f"{path} is a run without a finished model yet; continue it with: dragoman train {path}")
    raise CheckpointError(f"{path} is not a model folder: it has no {CONFIG}")


def verify_model(folder: Path) -> None:
    """Checks that a model folder is complete and undamaged.

    Raises:
        CheckpointError: a file is missing or damaged; the error names the first one.
    """
    is_adapter = (folder / MANIFEST).is_file() and listed_hash(folder, ADAPTER) is not None
    for name in (MANIFEST, CONFIG, ADAPTER if is_adapter else WEIGHTS, GENERATION):
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder} is not a complete model folder: {name} is missing")
    verify_manifest(folder, free={CARD})


def read_config(folder: Path) -> Description:
    """Reads `config.json`; that of its base for an adapter.

    Raises:
        CheckpointError: it is missing, damaged or newer.
    """
    if (adapter := read_adapter(folder)) is not None:
        folder = _find_base(folder, adapter)
    path = folder / CONFIG
    found = read_document(path, _Config, FORMAT)
    if found.languages is None and found.model.family == "encoder_decoder":
        raise CheckpointError(f"{path}: languages must be given")
    languages = found.languages and Languages(found.languages.source, found.languages.target)
    return Description(languages, found.framing or DEFAULT_FRAMING, found.model)


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


def default_card(languages: Languages | None, config: ModelConfig) -> str:
    """The model card for a model that no run has described."""
    kind = {"encoder": "Encoder", "language_model": "Language model"}.get(config.family, "Translation model")
    title = kind if languages is None else f"{kind}, {languages.source} to {languages.target}"
    return f"# {title}\n\nA Transformer ({config.preset}, {config.size}) made with Dragoman.\n"


def _expected_weights(config: ModelConfig, path: Path) -> dict[str, Shape]:
    """Name and shape of each weight that the configuration in `path` asks for."""
    try:
        return dict(weight_shapes(config))
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error}") from None


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


def _load_tokenizers(folder: Path, config: ModelConfig) -> Tokenizers | None:
    """The tokenizers in a folder; None if it has none and its model needs none.

    Raises:
        CheckpointError: a tokenizer is damaged, or its vocabulary does not fit the model.
    """
    if config.family == "language_model" and not any(folder.glob("tokenizer*.json")):
        return None
    try:
        tokenizers = Tokenizers.load(folder)
    except TokenizerError as error:
        raise CheckpointError(str(error)) from None
    _check_vocabularies(folder, config, tokenizers)
    return tokenizers


def _load_labels(folder: Path, config: ModelConfig) -> Labels | None:
    """The labels in a folder; None if its model gives none.

    Raises:
        CheckpointError: they are missing or damaged, or are not as many as the model chooses among.
    """
    if config.labels is None:
        return None
    labels = Labels.load(folder)
    if labels.size != config.labels:
        raise CheckpointError(f"{folder}: {LABELS} has {labels.size} labels, but the model {config.labels}")
    if (labels.task == "tag") != (config.pooling is None):
        gives = "each word" if config.pooling is None else "a whole text"
        raise CheckpointError(f"{folder}: {LABELS} is for the task {labels.task}, but the model labels {gives}")
    return labels


def _check_vocabularies(folder: Path, config: ModelConfig, tokenizers: Tokenizers) -> None:
    for side, size in (("source", config.source_vocabulary), ("target", config.target_vocabulary)):
        tokenizer = getattr(tokenizers, side)
        if size is not None and tokenizer.size != size:
            raise CheckpointError(f"{folder}: the {side} tokenizer has {tokenizer.size} tokens, but the model {size}")
