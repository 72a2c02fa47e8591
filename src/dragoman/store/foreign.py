"""Common parts of converting the families of transformers: finding a folder, reading its settings and weights.

A folder may come from anyone, so only JSON, safetensors, models of SentencePiece, and pickles of bare tensors are read,
after a check of sizes and shapes. Each family has its file: `marian`, `m2m100`, `mbart`.
"""

import math
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError  # noqa: TID251 (only the error of what torch refuses)
from typing import Any, Literal, NamedTuple, Self, TypeVar

import pydantic
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from dragoman.config import Content, Settings, check
from dragoman.errors import CheckpointError, ConfigError, TokenizerError
from dragoman.memory import memory_bytes, report_memory
from dragoman.model.config import ModelConfig
from dragoman.model.shapes import count_weights, weight_shapes
from dragoman.serialization import read_object
from dragoman.store.description import CARD, CONFIG, GENERATION, ModelFiles, find_local_model, verify_model
from dragoman.store.hub import FAMILIES, fetch, hub_address, is_pointer, kind_of
from dragoman.store.hub import WEIGHTS as WEIGHT_FILES
from dragoman.store.marian_search import Symbols, options_from
from dragoman.store.marian_weights import BIAS, OMITTED_POSITIONS, SINUSOIDS, Vocabularies, twins
from dragoman.tokenizing.sentencepiece import SentencePieces, SentencePieceTokenizer, read_model
from dragoman.tokenizing.tokenizers import Tokenizers

TOKENIZER = "tokenizer_config.json"
WEIGHTS, PICKLED = WEIGHT_FILES
UNKNOWN, PADDING, END = "<unk>", "<pad>", "</s>"
ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}
"""Nonlinearities by their names in transformers, and ours."""
_UNREADABLE = ("*-of-*", "*.h5", "*.msgpack", "*.ot", "*.onnx", "onnx", "tokenizer.json")
"""Files of the same content that are not read, to be named where the readable one is missing."""
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


class Architecture(Settings, extra="ignore"):
    """The settings in `config.json` that all families have. Keys that are not listed here do not change any result."""

    is_encoder_decoder: Literal[True] = True
    vocab_size: int = pydantic.Field(ge=4, lt=2**31)
    d_model: int = pydantic.Field(ge=4, le=65_536, multiple_of=2)
    encoder_layers: int = pydantic.Field(ge=1, le=1_000)
    decoder_layers: int = pydantic.Field(ge=1, le=1_000)
    encoder_attention_heads: int = pydantic.Field(ge=1, le=65_536)
    decoder_attention_heads: int = pydantic.Field(ge=1, le=65_536)
    encoder_ffn_dim: int = pydantic.Field(ge=1, le=1_048_576)
    decoder_ffn_dim: int = pydantic.Field(ge=1, le=1_048_576)
    activation_function: Literal["swish", "silu", "relu", "gelu"]
    dropout: float = pydantic.Field(default=0.1, ge=0, lt=1)
    attention_dropout: float = pydantic.Field(default=0.0, ge=0, lt=1)
    activation_dropout: float = pydantic.Field(default=0.0, ge=0, lt=1)
    scale_embedding: bool = False
    max_position_embeddings: int = pydantic.Field(default=1_024, ge=16, le=1_000_000)
    quantization_config: None = None

    @pydantic.model_validator(mode="after")
    def _stacks_have_one_form(self) -> Self:
        for ours in ("attention_heads", "ffn_dim"):
            encoder, decoder = (getattr(self, f"{stack}_{ours}") for stack in ("encoder", "decoder"))
            if encoder != decoder:
                raise ValueError(
                    f"encoder_{ours} and decoder_{ours} must be equal, but are {encoder:,} and {decoder:,}"
                )
        if self.d_model % self.encoder_attention_heads:
            raise ValueError("encoder_attention_heads must divide d_model")
        return self

    @property
    def target_size(self) -> int:
        """Number of tokens of the target vocabulary."""
        return self.vocab_size

    def model_config_with(self, tokenizers: Tokenizers, **own: Any) -> ModelConfig:
        """Return the same architecture in our terms; `own` are the settings that the family determines."""
        return ModelConfig.model_validate(
            {
                "preset": "paper",
                "source_vocabulary": tokenizers.source.size,
                "target_vocabulary": tokenizers.target.size,
                "d_model": self.d_model,
                "encoder_layers": self.encoder_layers,
                "decoder_layers": self.decoder_layers,
                "heads": self.encoder_attention_heads,
                "d_ff": self.encoder_ffn_dim,
                "activation": ACTIVATIONS[self.activation_function],
                "embedding_scale": self.scale_embedding,
                "dropout": self.dropout,
                "attention_dropout": self.attention_dropout,
                "activation_dropout": self.activation_dropout,
                **own,
            }
        )


AnyArchitecture = TypeVar("AnyArchitecture", bound=Architecture)


class ForeignModel(NamedTuple):
    """A model of another toolkit, read and checked."""

    config: ModelConfig
    tokenizers: Tokenizers
    files: ModelFiles
    vocabularies: Vocabularies
    weights: dict[str, Tensor]
    """Tensors by their names in transformers."""
    notes: Sequence[str]
    """Notes on the conversion for its user."""


class ForeignSource(NamedTuple):
    """A folder of transformers, its family (`model_type`), its name for people, and the licence that it states."""

    folder: Path
    kind: str
    name: str
    licence: str | None
    is_fetched: bool
    """True if it was fetched from the hub."""


def find_source(path: Path | str) -> ForeignSource:
    """Find or fetch a folder of one of the families. Any other folder is refused."""
    address = hub_address(path)
    folder = Path(path) if address is None else fetch(address)
    kind = kind_of(folder)
    if kind not in FAMILIES:
        try:
            verify_model(find_local_model(folder))
        except CheckpointError as error:
            families = ", ".join(FAMILIES.values())
            raise CheckpointError(f"{error}; convert takes a folder of transformers: {families}") from None
        raise ConfigError(f"{folder} is a model of Dragoman already; dragoman export writes it for other toolkits")
    name = folder.resolve().name if address is None else f"{address} (commit {folder.name})"
    return ForeignSource(folder, kind, name, _licence(folder), address is not None)


def refuse_missing(folder: Path, *names: str) -> None:
    """Refuse a folder that holds no file of these names, or only a pointer of Git LFS."""
    here = [folder / name for name in names if (folder / name).is_file()]
    if not here:
        ending = Path(names[0]).suffix
        others = [file.name for pattern in _UNREADABLE for file in sorted(folder.glob(pattern))]
        instead = f"; {', '.join(others)} cannot be read" if others and ending in (".safetensors", ".model") else ""
        raise CheckpointError(
            f"{folder} is not a complete model of transformers: {' or '.join(names)} is missing{instead}"
        )
    if is_pointer(here[0]):
        raise CheckpointError(f"{here[0]} is only a pointer of Git LFS; fetch the file with: git lfs pull")


def read_architecture(folder: Path, kind: type[AnyArchitecture]) -> AnyArchitecture:
    """Read `config.json` as the settings of a family."""
    return check(read_object(folder / CONFIG), str(folder / CONFIG), kind, CheckpointError)


def tokenizer_settings(folder: Path) -> Content:
    """Return `tokenizer_config.json`; older folders have none."""
    settings = read_object(folder / TOKENIZER) if (folder / TOKENIZER).is_file() else {}
    if settings.get("sp_model_kwargs"):
        raise TokenizerError(f"{folder / TOKENIZER}: sp_model_kwargs would sample pieces; leave them out")
    return settings


def tokenizer_of(path: Path, pieces: Sequence[str], languages: Sequence[str] = ()) -> SentencePieceTokenizer:
    """Return the tokenizer with a SentencePiece model and these pieces, in the order of their ids."""
    refuse_missing(path.parent, path.name)
    try:
        table = SentencePieces(pieces=tuple(pieces), languages=tuple(languages))
        return SentencePieceTokenizer(table, read_model(path))
    except TokenizerError as error:
        raise TokenizerError(f"{path}: {error}") from None


def search_options(folder: Path, positions: int, symbols: Symbols) -> tuple[Content, list[str]]:
    """Return the search options of a folder, and notes; in older ones, `config.json` holds them."""
    path = folder / (GENERATION if (folder / GENERATION).is_file() else CONFIG)
    return options_from(read_object(path), positions, symbols, str(path))


def read_table(path: Path, size: int) -> dict[str, int]:
    """Return the id of each piece, from 0 to `size` - 1; some ids may have none, if embeddings are padded."""
    refuse_missing(path.parent, path.name)
    ids = read_object(path)
    if not all(isinstance(number, int) and not isinstance(number, bool) for number in ids.values()):
        raise TokenizerError(f"{path} should give every piece a number")
    if len(set(ids.values())) < len(ids) or min(ids.values(), default=0) < 0 or max(ids.values(), default=0) >= size:
        raise TokenizerError(
            f"{path} should give each piece a different number from 0 to {size - 1:,}, because {CONFIG} says that "
            f"there are {size:,} embeddings"
        )
    for symbol in (UNKNOWN, PADDING, END):
        if symbol not in ids:
            raise TokenizerError(f"{path} has no {symbol}")
    return ids


def read_weights(folder: Path, config: ModelConfig, architecture: Architecture) -> dict[str, Tensor]:
    """Read the tensors that our model needs, under their first names, and check them."""
    expected = _expected(config, architecture)
    safe = folder / WEIGHTS
    refuse_missing(folder, WEIGHTS, PICKLED)
    first_names = [twin.names[0] for twin in twins(config).values()]
    needs = {
        "the program": memory_bytes() or 0,
        "weights that are read": 4 * sum(math.prod(expected[name]) for name in first_names),
        "weights that are written": 4 * count_weights(config),
    }
    report_memory("converting", needs, "convert where there is more")
    path = safe if safe.is_file() else folder / PICKLED
    tensors = _from_safetensors(path, expected) if path == safe else _from_pickle(path, expected, first_names)
    weights: dict[str, Tensor] = {}
    for twin in twins(config).values():
        aliases = [tensors[name] for name in twin.names if name in tensors]
        if not aliases and twin.names != (BIAS,):
            raise CheckpointError(f"{path}: tensor {twin.names[0]} is missing")
        if any(not torch.equal(aliases[0], alias) for alias in aliases[1:]):
            raise CheckpointError(f"{path}: {', '.join(twin.names)} should be one matrix, but differ")
        weights[twin.names[0]] = aliases[0] if aliases else torch.zeros(expected[BIAS])
    for name, tensor in weights.items():
        if not (tensor.sum().isfinite() or tensor.isfinite().all()):  # the sum takes no memory
            raise CheckpointError(f"{path}: {name} holds numbers that are not finite")
    return weights


def _expected(config: ModelConfig, architecture: Architecture) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor of transformers, under all of its names."""
    shapes: dict[str, tuple[int, ...]] = {}
    rows = {
        "source": architecture.vocab_size,
        "target": architecture.target_size,
        "positions": (config.max_positions or 0) + OMITTED_POSITIONS,
    }
    ours = weight_shapes(config)
    for name, twin in twins(config).items():
        sizes = [rows.get(holds, size) for holds, size in zip(twin.axes, ours[name], strict=True)]
        shapes |= dict.fromkeys(twin.names, (1, *sizes) if twin.names == (BIAS,) else tuple(sizes))
    return shapes


def _from_safetensors(path: Path, expected: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118
                _refuse_shape(path, name, tuple(file.get_slice(name).get_shape()), expected)
            return {name: _float(path, name, file.get_tensor(name)) for name in file.keys() if name in expected}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is not a readable safetensors file: {error}") from None


def _from_pickle(path: Path, expected: Mapping[str, tuple[int, ...]], needed: Sequence[str]) -> dict[str, Tensor]:
    """Load tensors by torch with `weights_only`, which makes tensors and plain containers and runs nothing.

    The size of the file is compared with the weights that it must hold under the names `needed`, because a tensor may
    repeat one number any number of times, and a record may be packed.
    """
    size, most = path.stat().st_size, 8 * sum(map(math.prod, expected.values())) + (1 << 24)
    least = 2 * sum(math.prod(expected[name]) for name in needed if name != BIAS)
    if not least <= size <= most:
        raise CheckpointError(
            f"{path} has {size:,} bytes, but the weights that {CONFIG} asks for need from {least:,} to {most:,}"
        )
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as records:
                if sum(record.file_size for record in records.infolist()) > size:
                    raise ValueError("its records are packed, and torch writes them as they are")
        tensors = torch.load(path, map_location="cpu", weights_only=True)  # noqa: TID251 (the one pickle that we read)
    except UnpicklingError:
        raise CheckpointError(
            f"{path} is damaged, or holds more than tensors, which could run a program and is never read; save the "
            "weights as safetensors"
        ) from None
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise CheckpointError(f"{path} is not a readable file of tensors: {reason[:200]}") from None
    if not isinstance(tensors, dict) or not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
        raise CheckpointError(f"{path} should hold tensors by name, and nothing else")
    for name, tensor in tensors.items():
        if tensor.layout != torch.strided or tensor.is_nested or tensor.device.type != "cpu":
            raise CheckpointError(
                f"{path}: {str(name)[:100]} is sparse, nested or without numbers; save it as safetensors"
            )
        _refuse_shape(path, str(name), tuple(tensor.shape), expected)
    return {name: _float(path, name, tensor) for name, tensor in tensors.items() if name in expected}


def _refuse_shape(path: Path, name: str, shape: tuple[int, ...], expected: Mapping[str, tuple[int, ...]]) -> None:
    if name in SINUSOIDS and name not in expected:
        return
    if name not in expected:
        raise CheckpointError(f"{path}: tensor {name[:100]} does not belong to a model of this form")
    if shape != expected[name]:
        raise CheckpointError(f"{path}: {name} has shape {list(shape)}, but {CONFIG} asks for {list(expected[name])}")


def _float(path: Path, name: str, tensor: Tensor) -> Tensor:
    if tensor.dtype not in _FLOATS:
        raise CheckpointError(f"{path}: {name} is of type {tensor.dtype}, but weights are floating-point numbers")
    return tensor.float()


def _licence(folder: Path) -> str | None:
    """Return the licence in the first lines of `README.md`, as on the hub."""
    if not (folder / CARD).is_file():
        return None
    _, _, facts = (folder / CARD).read_text("utf-8", errors="replace")[:10_000].partition("---\n")
    licence = re.search(r"^licen[sc]e:\s*(?:- *)?([\w.-]+)", facts.partition("\n---")[0], re.MULTILINE)
    return licence[1] if licence else None
