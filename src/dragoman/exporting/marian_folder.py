"""Names and tensors of a Marian model, as ours and back: pure functions.

Both models compute the same, but Marian's sinusoids stand in halves, all sines first, where ours alternate (Vaswani et
al. 2017, section 3.5). Nothing else in the model depends on the order of the features of the residual path. So every
weight that reads or writes this path has its features put in the other order, and the outputs are equal.

Rows of the vocabulary change their order too, because our special symbols come first. Our start symbol has no
counterpart; `NEVER` keeps it out of every softmax.

Reads and checks a folder that holds a Marian model of transformers. It may come from anyone, so only JSON,
safetensors, models of SentencePiece, and pickles of bare tensors are read, after a look at sizes and shapes.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError  # noqa: TID251 (only the error of what torch refuses)
from typing import Any, Literal, NamedTuple

import pydantic
import torch
from jaxtyping import Float, Int
from safetensors import SafetensorError, safe_open
from torch import Tensor

from dragoman.config import Settings, check
from dragoman.documents import Content, read_object
from dragoman.errors import CheckpointError, ConfigError, TokenizerError
from dragoman.model import ModelConfig
from dragoman.store import weight_shapes
from dragoman.tokenizing.sentencepiece import SentencePieces, SentencePieceTokenizer, read_model
from dragoman.tokenizing.tokenizers import Tokenizers

NEVER = -1_000.0
"""Logit of a token that Marian does not have. Its probability is zero in float32, and label smoothing, which gives each
token a share of the loss, stays finite.
"""
BIAS = "final_logits_bias"
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
"""Sinusoids, which some folders hold; transformers computes them anew."""
_SHARED, _SOURCE = "model.shared.weight", "model.encoder.embed_tokens.weight"
_TARGET, _OUTPUT = "model.decoder.embed_tokens.weight", "lm_head.weight"
_READ = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "inner": "fc1"}
_WRITE = {"output": "out_proj", "outer": "fc2"}
_SUBLAYERS = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
_NORMS = {
    "self_residual": "self_attn_layer_norm",
    "cross_residual": "encoder_attn_layer_norm",
    "feed_residual": "final_layer_norm",
}

Rows = Sequence[int | None]
"""For each of our ids, the id in the other vocabulary; None for our start symbol."""


class Vocabularies(NamedTuple):
    """The rows of both sides."""

    source: Rows
    target: Rows


class Twin(NamedTuple):
    """What one of our weights is called there, and what its axes hold."""

    names: tuple[str, ...]
    """All of them name one tensor; the first is written."""
    axes: tuple[str, ...]
    """Of each axis: `features` of the residual path, rows of the `source` or `target` vocabulary, or something else."""


def twins(config: ModelConfig) -> dict[str, Twin]:
    """The twin of every weight of our model."""
    return {name: _tables(config).get(name) or _inside(name) for name, _ in weight_shapes(config)}


def from_marian(
    theirs: Mapping[str, Tensor], config: ModelConfig, vocabularies: Vocabularies
) -> dict[str, Float[Tensor, "..."]]:
    """Our weights, in float32."""
    order = _order(config.d_model)
    return {
        name: _moved_in(theirs[twin.names[0]], twin, order, vocabularies).contiguous()
        for name, twin in twins(config).items()
    }


def to_marian(
    ours: Mapping[str, Tensor], config: ModelConfig, vocabularies: Vocabularies
) -> dict[str, Float[Tensor, "..."]]:
    """Their weights; a tensor of several names has the first one alone."""
    order = _order(config.d_model).argsort()
    named = {
        twin.names[0]: _moved_out(ours[name], twin, order, vocabularies).contiguous()
        for name, twin in twins(config).items()
    }
    size = sum(row is not None for row in vocabularies.target)
    return {BIAS: torch.zeros(1, size), **named}


def _moved_in(weight: Tensor, twin: Twin, order: Int[Tensor, "D"], vocabularies: Vocabularies) -> Tensor:
    weight = weight.float()
    if twin.names == (BIAS,):
        rows = _rows(vocabularies.target)
        return weight.flatten()[rows.clamp(min=0)].masked_fill(rows < 0, NEVER)
    for axis, holds in enumerate(twin.axes):
        if holds == "features":
            weight = weight.index_select(axis, order)
        elif holds in Vocabularies._fields:
            rows = _rows(getattr(vocabularies, holds))
            weight = weight.index_select(axis, rows.clamp(min=0)).masked_fill(rows[:, None] < 0, 0.0)
    return weight


def _moved_out(weight: Tensor, twin: Twin, order: Int[Tensor, "D"], vocabularies: Vocabularies) -> Tensor:
    for axis, holds in enumerate(twin.axes):
        if holds == "features":
            weight = weight.index_select(axis, order)
        elif holds in Vocabularies._fields:
            rows = _rows(getattr(vocabularies, holds))
            weight = weight.index_select(axis, rows.argsort()[(rows < 0).sum() :])
    return weight[None] if twin.names == (BIAS,) else weight


def _rows(rows: Rows) -> Int[Tensor, "V"]:
    """With -1 where there is no such row."""
    return torch.tensor([-1 if row is None else row for row in rows])


def _order(width: int) -> Int[Tensor, "D"]:
    """For each of our features the number of theirs: sine and cosine of one angle stand side by side in ours."""
    return torch.arange(width).unflatten(0, (2, -1)).T.flatten()


def _tables(config: ModelConfig) -> dict[str, Twin]:
    """The twins of embeddings, output and its bias; a tied matrix stands under its first name in our model."""
    source, target = ("source", "features"), ("target", "features")
    bias = {"output_bias": Twin((BIAS,), ("target",))}
    if config.tied == "all":
        return bias | {"output": Twin((_SHARED, _SOURCE, _TARGET, _OUTPUT), target)}
    tables = bias | {"source_embedding.weight": Twin((_SOURCE,), source)}
    if config.tied == "none":
        return tables | {"output": Twin((_OUTPUT,), target), "target_embedding.weight": Twin((_TARGET,), target)}
    return tables | {"output": Twin((_TARGET, _OUTPUT), target)}


def _inside(name: str) -> Twin:
    """The twin of a weight inside a stack: `encoder.blocks.0.self_attention.query.weight`."""
    stack, _, number, sublayer, part, kind = name.split(".")
    layer = f"model.{stack}.layers.{number}"
    if sublayer in _NORMS:
        return Twin((f"{layer}.{_NORMS[sublayer]}.{kind}",), ("features",))
    inside = f"{layer}.{_SUBLAYERS[sublayer]}" if sublayer in _SUBLAYERS else layer
    if part in _READ:
        return Twin((f"{inside}.{_READ[part]}.{kind}",), ("others", "features") if kind == "weight" else ("others",))
    return Twin((f"{inside}.{_WRITE[part]}.{kind}",), ("features", "others") if kind == "weight" else ("features",))


CONFIG, GENERATION, TOKENIZER = "config.json", "generation_config.json", "tokenizer_config.json"
WEIGHTS, PICKLED = "model.safetensors", "pytorch_model.bin"
VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
MODELS = ("source.spm", "target.spm")
UNKNOWN, PADDING, END = "<unk>", "<pad>", "</s>"
ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}
"""Their names of nonlinearities, and ours."""
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


class Architecture(Settings):
    """What `config.json` says of the model. Keys that are not listed here change nothing that it computes."""

    model_type: Literal["marian"]
    is_encoder_decoder: Literal[True] = True
    vocab_size: int = pydantic.Field(ge=4, lt=2**31)
    decoder_vocab_size: int | None = pydantic.Field(default=None, ge=4, lt=2**31)
    d_model: int = pydantic.Field(ge=2, le=65_536, multiple_of=2)
    encoder_layers: int = pydantic.Field(ge=1, le=1_000)
    decoder_layers: int = pydantic.Field(ge=1, le=1_000)
    encoder_attention_heads: int = pydantic.Field(ge=1, le=65_536)
    decoder_attention_heads: int = pydantic.Field(ge=1, le=65_536)
    encoder_ffn_dim: int = pydantic.Field(ge=1, le=1_048_576)
    decoder_ffn_dim: int = pydantic.Field(ge=1, le=1_048_576)
    activation_function: Literal["swish", "silu", "relu", "gelu"] = "gelu"
    dropout: float = pydantic.Field(default=0.1, ge=0, lt=1)
    attention_dropout: float = pydantic.Field(default=0.0, ge=0, lt=1)
    activation_dropout: float = pydantic.Field(default=0.0, ge=0, lt=1)
    scale_embedding: bool = False
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    max_position_embeddings: int = pydantic.Field(default=1_024, ge=16, le=1_000_000)
    pad_token_id: int = 58_100
    eos_token_id: int = 0
    decoder_start_token_id: int = 58_100
    normalize_before: Literal[False] = False
    normalize_embedding: Literal[False] = False
    add_final_layer_norm: Literal[False] = False
    add_bias_logits: Literal[False] = False
    static_position_embeddings: Literal[True] = True
    quantization_config: None = None

    @pydantic.model_validator(mode="after")
    def _is_one_of_ours(self) -> "Architecture":
        for ours in ("attention_heads", "ffn_dim"):
            encoder, decoder = (getattr(self, f"{stack}_{ours}") for stack in ("encoder", "decoder"))
            if encoder != decoder:
                raise ValueError(
                    f"encoder_{ours} and decoder_{ours} must be equal, but are {encoder:,} and {decoder:,}"
                )
        if self.d_model % self.encoder_attention_heads:
            raise ValueError("encoder_attention_heads must divide d_model")
        if self.share_encoder_decoder_embeddings and not self.tie_word_embeddings:
            raise ValueError("share_encoder_decoder_embeddings needs tie_word_embeddings, but it is false")
        if self.pad_token_id != self.decoder_start_token_id:
            raise ValueError(
                f"decoder_start_token_id must be pad_token_id ({self.pad_token_id}), but is "
                f"{self.decoder_start_token_id}"
            )
        return self

    @property
    def target_size(self) -> int:
        """Tokens of the target vocabulary."""
        shared = self.share_encoder_decoder_embeddings
        return self.vocab_size if shared else self.decoder_vocab_size or self.vocab_size


class MarianFolder(NamedTuple):
    """A Marian model, read and checked."""

    config: ModelConfig
    architecture: Architecture
    tokenizers: Tokenizers
    vocabularies: Vocabularies
    weights: Mapping[str, Tensor]
    """By their names there."""
    generation: Content
    """What `generation_config.json` says, or where there is none, `config.json`."""
    stated_languages: tuple[Any, Any]
    """What `tokenizer_config.json` says."""

    @property
    def unknown(self) -> int:
        """The id of the target's unknown symbol there."""
        row = self.vocabularies.target[self.tokenizers.target.unknown]
        assert row is not None, "only our start symbol has no row there"
        return row


def is_marian(folder: Path) -> bool:
    """Whether a folder looks like a Marian model of transformers."""
    if not (folder / CONFIG).is_file():
        return False
    content = read_object(folder / CONFIG)
    return "model_type" in content or "architectures" in content


def read_marian(folder: Path) -> MarianFolder:
    """Reads a whole folder.

    Raises:
        CheckpointError: a file is missing, damaged or too large, or holds what our model cannot; it is named.
        TokenizerError: the same of a tokenizer's file.
        MissingExtra: the SentencePiece library is not installed.
    """
    _refuse_missing(folder)
    content = read_object(folder / CONFIG)
    architecture = _architecture(folder / CONFIG, content)
    of_text = read_object(folder / TOKENIZER) if (folder / TOKENIZER).is_file() else {}
    tokenizers, vocabularies = _tokenizers(folder, of_text, architecture)
    config = model_config(architecture, tokenizers)
    return MarianFolder(
        config,
        architecture,
        tokenizers,
        vocabularies,
        _weights(folder, config, vocabularies),
        read_object(folder / GENERATION) if (folder / GENERATION).is_file() else content,
        (of_text.get("source_lang"), of_text.get("target_lang")),
    )


def model_config(architecture: Architecture, tokenizers: Tokenizers) -> ModelConfig:
    """The same architecture in our terms."""
    tied = "all" if architecture.share_encoder_decoder_embeddings else "target"
    return ModelConfig.model_validate(
        {
            "preset": "paper",
            "source_vocabulary": tokenizers.source.size,
            "target_vocabulary": tokenizers.target.size,
            "d_model": architecture.d_model,
            "encoder_layers": architecture.encoder_layers,
            "decoder_layers": architecture.decoder_layers,
            "heads": architecture.encoder_attention_heads,
            "d_ff": architecture.encoder_ffn_dim,
            "activation": ACTIVATIONS[architecture.activation_function],
            "embedding_scale": architecture.scale_embedding,
            "output_bias": True,
            "tied": tied if architecture.tie_word_embeddings else "none",
            "dropout": architecture.dropout,
            "attention_dropout": architecture.attention_dropout,
            "activation_dropout": architecture.activation_dropout,
        }
    )


def _refuse_missing(folder: Path) -> None:
    for name in (CONFIG, VOCABULARY, *MODELS):
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder} is not a complete Marian folder: {name} is missing")
    if not any((folder / name).is_file() for name in (WEIGHTS, PICKLED)):
        raise CheckpointError(f"{folder} is not a complete Marian folder: {WEIGHTS} (or {PICKLED}) is missing")


def _architecture(path: Path, content: Content) -> Architecture:
    """The settings that decide what a model computes, from its `config.json`.

    Raises:
        CheckpointError: our model has no such form; the setting is named.
    """
    known = {name: value for name, value in content.items() if name in Architecture.model_fields}
    try:
        return check(known, str(path), Architecture)
    except ConfigError as error:
        raise CheckpointError(str(error)) from None


def _tokenizers(folder: Path, of_text: Content, architecture: Architecture) -> tuple[Tokenizers, Vocabularies]:
    if of_text.get("sp_model_kwargs"):
        raise TokenizerError(f"{folder / TOKENIZER}: sp_model_kwargs would sample pieces; leave them out")
    separate = bool(of_text.get("separate_vocabs", False))
    names = (VOCABULARY, TARGET_VOCABULARY if separate else VOCABULARY)
    if separate and not (folder / TARGET_VOCABULARY).is_file():
        raise CheckpointError(f"{folder} is not a complete Marian folder: {TARGET_VOCABULARY} is missing")
    if separate and architecture.share_encoder_decoder_embeddings:
        raise CheckpointError(f"{folder}: separate_vocabs contradicts share_encoder_decoder_embeddings")
    sizes = (architecture.vocab_size, architecture.target_size)
    sides = [_side(folder, *each, architecture) for each in zip(names, MODELS, sizes, strict=True)]
    (source, source_rows), (target, target_rows) = sides
    return Tokenizers(source, target), Vocabularies(source_rows, target_rows)


def _side(
    folder: Path, name: str, model: str, size: int, architecture: Architecture
) -> tuple[SentencePieceTokenizer, Rows]:
    """The tokenizer of one side, and the order of its ids in that folder."""
    ids = _table(folder / name, size)
    for symbol, wanted, setting in (
        (PADDING, architecture.pad_token_id, "pad_token_id"),
        (END, architecture.eos_token_id, "eos_token_id"),
    ):
        if ids[symbol] != wanted:
            raise TokenizerError(
                f"{folder / name}: {symbol} has id {ids[symbol]:,}, but {CONFIG} says {setting} = {wanted:,}"
            )
    pieces = sorted(ids.keys() - {UNKNOWN, PADDING, END}, key=ids.__getitem__)
    rows = [ids[UNKNOWN], ids[PADDING], None, ids[END], *(ids[piece] for piece in pieces)]
    try:
        return SentencePieceTokenizer(SentencePieces(pieces=tuple(pieces)), read_model(folder / model)), rows
    except TokenizerError as error:
        raise TokenizerError(f"{folder / model}: {error}") from None


def _table(path: Path, size: int) -> dict[str, int]:
    """The id of each piece: every id from 0 to `size` - 1 once.

    Raises:
        TokenizerError: it is otherwise.
    """
    ids = read_object(path)
    if not all(isinstance(number, int) and not isinstance(number, bool) for number in ids.values()):
        raise TokenizerError(f"{path} should give every piece a number")
    if sorted(ids.values()) != list(range(size)):
        raise TokenizerError(f"{path} should number {size:,} pieces from 0 to {size - 1:,}, each once")
    for symbol in (UNKNOWN, PADDING, END):
        if symbol not in ids:
            raise TokenizerError(f"{path} has no {symbol}")
    return ids


def _weights(folder: Path, config: ModelConfig, vocabularies: Vocabularies) -> dict[str, Tensor]:
    """Every tensor of the model under its first name, after a check of all names and shapes.

    Raises:
        CheckpointError: one is missing, unknown, of another shape or type, not finite, or tied but different.
    """
    expected = _expected(config, vocabularies)
    safe = folder / WEIGHTS
    found = _from_safetensors(safe, expected) if safe.is_file() else _from_pickle(folder / PICKLED, expected)
    path = safe if safe.is_file() else folder / PICKLED
    weights: dict[str, Tensor] = {}
    for twin in twins(config).values():
        given = [found[name] for name in twin.names if name in found]
        if not given and twin.names != (BIAS,):
            raise CheckpointError(f"{path}: tensor {twin.names[0]} is missing")
        if any(not torch.equal(given[0], other) for other in given[1:]):
            raise CheckpointError(f"{path}: {', '.join(twin.names)} should be one matrix, but differ")
        weights[twin.names[0]] = given[0] if given else torch.zeros(expected[BIAS])
    for name, tensor in weights.items():
        if not tensor.isfinite().all():
            raise CheckpointError(f"{path}: {name} holds numbers that are not finite")
    return weights


def _expected(config: ModelConfig, vocabularies: Vocabularies) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor there, under all of its names."""
    shapes: dict[str, tuple[int, ...]] = {}
    ours = dict(weight_shapes(config))
    for name, twin in twins(config).items():
        sizes = [
            len(getattr(vocabularies, holds)) - 1 if holds in Vocabularies._fields else size
            for holds, size in zip(twin.axes, ours[name], strict=True)
        ]
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


def _from_pickle(path: Path, expected: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """torch reads with `weights_only`, which makes tensors and plain containers and runs nothing."""
    largest = 8 * sum(torch.Size(shape).numel() for shape in expected.values()) + (1 << 24)
    if path.stat().st_size > largest:
        raise CheckpointError(f"{path} is larger than its architecture can be ({largest:,} bytes)")
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)  # noqa: TID251 (the one pickle that we read)
    except UnpicklingError:
        raise CheckpointError(
            f"{path} is damaged, or holds more than tensors, which could run a program and is never read; save the "
            "weights as safetensors"
        ) from None
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise CheckpointError(f"{path} is not a readable file of tensors: {reason[:200]}") from None
    if not isinstance(found, dict) or not all(isinstance(tensor, Tensor) for tensor in found.values()):
        raise CheckpointError(f"{path} should hold tensors by name, and nothing else")
    for name, tensor in found.items():
        _refuse_shape(path, str(name), tuple(tensor.shape), expected)
    return {name: _float(path, name, tensor) for name, tensor in found.items() if name in expected}


def _refuse_shape(path: Path, name: str, shape: tuple[int, ...], expected: Mapping[str, tuple[int, ...]]) -> None:
    if name in POSITIONS:
        return
    if name not in expected:
        raise CheckpointError(f"{path}: tensor {name[:100]} does not belong to a Marian model of this form")
    if shape != expected[name]:
        raise CheckpointError(f"{path}: {name} has shape {list(shape)}, but {CONFIG} asks for {list(expected[name])}")


def _float(path: Path, name: str, tensor: Tensor) -> Tensor:
    if tensor.dtype not in _FLOATS:
        raise CheckpointError(f"{path}: {name} is of type {tensor.dtype}, but weights are floating-point numbers")
    return tensor.float()
