"""Whole models, assembled from the stacks, and the builder, the only part that uses settings.

The three families take and return rows of tokens; only `project` depends on the vocabulary. `build_model` builds the
model of a `ModelConfig` and initialises its weights.
"""

import copy
from typing import ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.model.attention import Attention, WatchedHead
from dragoman.model.blocks import CrossBlock, Decoder, Encoder, SelfBlock
from dragoman.model.cache import Cache, CrossKeys
from dragoman.model.config import ModelConfig, check_vocabularies
from dragoman.model.dropout import StepKey
from dragoman.model.embedding import Embedding, Learned, Rotary, Sinusoidal
from dragoman.model.layers import FeedForward, LayerNorm, PredictionHead, Residual, RMSNorm
from dragoman.model.observer import Observer, row_observer
from dragoman.model.packing import ROW_MULTIPLE, Packing, pick
from dragoman.model.projection import Projection, Role, weight_roles
from dragoman.shapes import Float, Int


class _Reader(nn.Module):
    """The part of a model that reads a text: an encoder over embedded ids."""

    source_embedding: Embedding
    encoder: Encoder

    def encode(
        self,
        source: Int[Tensor, "N"],
        packing: Packing,
        dropout_key: StepKey | None = None,
        *,
        observer: Observer | None = None,
    ) -> Float[Tensor, "N D"]:
        """Return the encoder's output for source ids: a vector per token, the memory of a decoder."""
        row_key = dropout_key.source(packing.rows, source.device, packing.token) if dropout_key else None
        x = self.source_embedding(source, packing.position, row_key, row_observer(observer, packing))
        return self.encoder(x, packing, row_key, observer)


class EncoderDecoder(_Reader):
    """The Transformer of the paper: `encode`, `decode`, `project`.

    `output` is the pre-softmax matrix (V, D), which may be the target embedding itself (section 3.4). `output_bias` (V)
    is added to the logits; None in the paper.
    """

    roles: ClassVar[dict[str, Role]] = {"output": "table"}

    def __init__(
        self,
        config: ModelConfig,
        source_embedding: Embedding,
        target_embedding: Embedding,
        encoder: Encoder,
        decoder: Decoder,
        output: nn.Parameter,
        output_bias: nn.Parameter | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.source_embedding, self.target_embedding = source_embedding, target_embedding
        self.encoder, self.decoder, self.output, self.output_bias = encoder, decoder, output, output_bias

    def cross_keys(self, memory: Float[Tensor, "N D"], packing: Packing) -> CrossKeys:
        """Return the cross-attention keys and values of every layer for this memory."""
        return self.decoder.cross_keys(memory, packing)

    def start(self, memory: Float[Tensor, "N D"], packing: Packing) -> Cache:
        """Return a cache with an empty row for every source sentence."""
        keys = self.cross_keys(memory, packing).padded()
        return Cache(keys, len(self.decoder.blocks), keys.rows, memory.device)

    def decode(
        self,
        target: Int[Tensor, "M"],
        packing: Packing,
        keys: CrossKeys | Cache,
        dropout_key: StepKey | None = None,
        *,
        observer: Observer | None = None,
        watched: WatchedHead | None = None,
    ) -> Float[Tensor, "M D"]:
        """Return the decoder's output: for whole targets with `CrossKeys`, or for the next tokens of a `Cache`."""
        cross_keys, cache = (keys.cross_keys, keys) if isinstance(keys, Cache) else (keys, None)
        row_key = dropout_key.target(packing.rows, target.device, packing.token) if dropout_key else None
        position = cache.positions(packing) if cache is not None else packing.position
        x = self.target_embedding(target, position, row_key, row_observer(observer, packing))
        return self.decoder(x, packing, cross_keys, cache, row_key, observer, watched)

    def project(self, hidden: Float[Tensor, "M D"]) -> Float[Tensor, "M V"]:
        """Project the decoder's output to logits."""
        return F.linear(hidden, self.output, self.output_bias)

    def forward(
        self,
        source: Int[Tensor, "N"],
        source_lengths: Int[Tensor, "B"] | Packing,
        target: Int[Tensor, "M"],
        target_lengths: Int[Tensor, "B"] | Packing,
        dropout_key: StepKey | None = None,
        *,
        observer: Observer | None = None,
        watched: WatchedHead | None = None,
    ) -> Float[Tensor, "M D"]:
        """Return the decoder's output for every target token, before `project`: a loss projects it in parts."""
        source_packing = Packing.of(source_lengths, source.device, ROW_MULTIPLE)
        target_packing = Packing.of(target_lengths, target.device, ROW_MULTIPLE)
        memory = self.encode(source_packing.fill(source), source_packing, dropout_key, observer=observer)
        keys = self.cross_keys(memory, source_packing)
        rows = target_packing.fill(target)
        hidden = self.decode(rows, target_packing, keys, dropout_key, observer=observer, watched=watched)
        return hidden[: target_packing.tokens]


class LanguageModel(nn.Module):
    """A decoder without a memory, which predicts a token from those before it."""

    roles: ClassVar[dict[str, Role]] = {"output": "table"}

    def __init__(
        self,
        config: ModelConfig,
        target_embedding: Embedding,
        decoder: Decoder,
        output: nn.Parameter,
        output_bias: nn.Parameter | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.target_embedding, self.decoder = target_embedding, decoder
        self.output, self.output_bias = output, output_bias

    def start(self, rows: int) -> Cache:
        """Return a cache with `rows` empty rows."""
        return Cache(None, len(self.decoder.blocks), rows, self.output.device)

    def decode(
        self,
        target: Int[Tensor, "M"],
        packing: Packing,
        cache: Cache | None = None,
        dropout_key: StepKey | None = None,
        *,
        observer: Observer | None = None,
    ) -> Float[Tensor, "M D"]:
        """Return the decoder's output for ids: whole texts, or the next tokens of a cache's rows, appended to it."""
        row_key = dropout_key.target(packing.rows, target.device, packing.token) if dropout_key else None
        position = cache.positions(packing) if cache is not None else packing.position
        x = self.target_embedding(target, position, row_key, row_observer(observer, packing))
        return self.decoder(x, packing, None, cache, row_key, observer)

    def project(self, hidden: Float[Tensor, "M D"]) -> Float[Tensor, "M V"]:
        """Project the decoder's output to logits."""
        return F.linear(hidden, self.output, self.output_bias)

    def forward(
        self,
        target: Int[Tensor, "M"],
        target_lengths: Int[Tensor, "B"],
        dropout_key: StepKey | None = None,
        *,
        observer: Observer | None = None,
    ) -> Float[Tensor, "M D"]:
        """Return the decoder's output for every token, before `project`."""
        packing = Packing.of(target_lengths, target.device, ROW_MULTIPLE)
        return self.decode(packing.fill(target), packing, None, dropout_key, observer=observer)[: packing.tokens]


class EncoderModel(_Reader):
    """An encoder alone: every token sees the whole text. A head predicts from some tokens, or from a pooled vector.

    `output` has a row per label (C, D), or is the embedding itself (V, D) for filling in masked words.
    """

    roles: ClassVar[dict[str, Role]] = {"output": "table"}

    def __init__(
        self,
        config: ModelConfig,
        source_embedding: Embedding,
        encoder: Encoder,
        head: PredictionHead,
        output: nn.Parameter,
    ) -> None:
        super().__init__()
        self.config = config
        self.source_embedding, self.encoder, self.head, self.output = source_embedding, encoder, head, output

    def predict_from(
        self,
        memory: Float[Tensor, "N D"],
        packing: Packing,
        chosen: Int[Tensor, "M"] | None = None,
        dropout_key: StepKey | None = None,
    ) -> Float[Tensor, "M D"]:
        """Return the head's output for the `chosen` rows of the encoder's output, or for every text, pooled."""
        rows = pick(memory, chosen) if chosen is not None else self._pooled(memory, packing)
        return self.head(rows, dropout_key.target(rows.size(0), rows.device) if dropout_key else None)

    def _pooled(self, memory: Float[Tensor, "N D"], packing: Packing) -> Float[Tensor, "B D"]:
        if self.config.pooling == "first":
            return pick(memory, packing.lengths.cumsum(0) - packing.lengths)
        return packing.pad(memory).sum(1) / packing.lengths[:, None]

    def project(self, hidden: Float[Tensor, "M D"]) -> Float[Tensor, "M V"]:
        """Project the head's output to logits."""
        return F.linear(hidden, self.output)

    def forward(
        self,
        source: Int[Tensor, "N"],
        source_lengths: Int[Tensor, "B"],
        chosen: Int[Tensor, "M"] | None = None,
        dropout_key: StepKey | None = None,
        *,
        observer: Observer | None = None,
    ) -> Float[Tensor, "M D"]:
        """Return the head's output, before `project`."""
        packing = Packing.of(source_lengths, source.device, ROW_MULTIPLE)
        memory = self.encode(packing.fill(source), packing, dropout_key, observer=observer)
        return self.predict_from(memory, packing, chosen, dropout_key)


AnyModel = EncoderDecoder | LanguageModel | EncoderModel
"""A model of any family."""
Model = TypeVar("Model", bound=EncoderDecoder | LanguageModel | EncoderModel)


def prepare_for_decoding(model: Model, device: torch.device | str, dtype: torch.dtype) -> Model:
    """Return an equivalent model for decoding only: its projections are prepared, cast to `dtype` and joined.

    `model` is unchanged and shares all weights that need no change. After the weights of `model` change, prepare it
    again, because only the shared weights follow.
    """
    shared = {id(weight): nn.Parameter(weight.detach(), requires_grad=False) for weight in model.parameters()}
    prepared = copy.deepcopy(model, shared)
    _prepare_projections(prepared)
    prepared.to(device, dtype)
    for stack in prepared.children():
        if isinstance(stack, Encoder | Decoder):
            stack.join_projections()
    return prepared


def _prepare_projections(module: nn.Module) -> None:
    for name, child in module.named_children():
        if isinstance(child, Projection):
            setattr(module, name, child.prepared())
        else:
            _prepare_projections(child)


def build_model(config: ModelConfig, seed: int | None = 0) -> AnyModel:
    """Build a model whose weights are initialised from a seed; with None they are arbitrary."""
    check_vocabularies(config)
    model = _FAMILIES[config.family](config)
    if seed is not None:
        initialise(model, torch.Generator().manual_seed(seed))
    return model


def initialise(model: nn.Module, generator: torch.Generator) -> None:
    """Initialise weights by role: Xavier uniform for projections (Glorot and Bengio 2010), normal with deviation
    d_model^-0.5 for tables. Vectors keep the values of their modules: ones in norms, zeros in biases.
    """
    roles = weight_roles(model)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if roles[name] == "table":
                weight.normal_(0.0, weight.size(1) ** -0.5, generator=generator)
            elif roles[name] == "projection":
                nn.init.xavier_uniform_(weight, generator=generator)


def _encoder_decoder(config: ModelConfig) -> EncoderDecoder:
    source = _table(config, config.source_vocabulary)
    target = source if config.tied == "all" else _table(config, config.target_vocabulary)
    output = _table(config, config.target_vocabulary) if config.tied == "none" else target
    return EncoderDecoder(
        config,
        _embedding(config, source, "source_embedding"),
        _embedding(config, target, "target_embedding"),
        _encoder(config),
        Decoder([_cross_block(config, i) for i in range(config.decoder_layers)], _final_norm(config), _rotary(config)),
        output,
        _output_bias(config),
    )


def _language_model(config: ModelConfig) -> LanguageModel:
    target = _table(config, config.target_vocabulary)
    output = _table(config, config.target_vocabulary) if config.tied == "none" else target
    blocks = [_self_block(config, "decoder", i) for i in range(config.decoder_layers)]
    return LanguageModel(
        config,
        _embedding(config, target, "target_embedding"),
        Decoder(blocks, _final_norm(config), _rotary(config)),
        output,
        _output_bias(config),
    )


def _encoder_model(config: ModelConfig) -> EncoderModel:
    source = _table(config, config.source_vocabulary)
    own_output = config.labels is not None or config.tied == "none"
    output = _table(config, config.labels or config.source_vocabulary) if own_output else source
    head = PredictionHead(config.d_model, _norm(config), config.dropout)
    return EncoderModel(config, _embedding(config, source, "source_embedding"), _encoder(config), head, output)


_FAMILIES = {"encoder_decoder": _encoder_decoder, "language_model": _language_model, "encoder": _encoder_model}


def _encoder(config: ModelConfig) -> Encoder:
    blocks = [_self_block(config, "encoder", i) for i in range(config.encoder_layers)]
    return Encoder(blocks, _final_norm(config), _rotary(config))


def _self_block(config: ModelConfig, stack: str, index: int) -> SelfBlock:
    name = f"{stack}.{index}"
    return SelfBlock(
        index,
        name,
        _attention(config, f"{name}.self_attention"),
        _feed_forward(config, f"{name}.feed_forward"),
        _residual(config, f"{name}.self_residual"),
        _residual(config, f"{name}.feed_residual"),
    )


def _cross_block(config: ModelConfig, index: int) -> CrossBlock:
    name = f"decoder.{index}"
    return CrossBlock(
        index,
        name,
        _attention(config, f"{name}.self_attention"),
        _attention(config, f"{name}.cross_attention"),
        _feed_forward(config, f"{name}.feed_forward"),
        _residual(config, f"{name}.self_residual"),
        _residual(config, f"{name}.cross_residual"),
        _residual(config, f"{name}.feed_residual"),
    )


def _attention(config: ModelConfig, name: str) -> Attention:
    return Attention(config.d_model, config.heads, config.kv_heads, config.bias, config.attention_dropout, name)


def _feed_forward(config: ModelConfig, name: str) -> FeedForward:
    return FeedForward(config.d_model, config.d_ff, config.activation, config.bias, config.activation_dropout, name)


def _residual(config: ModelConfig, name: str) -> Residual:
    return Residual(_norm(config), config.norm_position, config.dropout, name)


def _norm(config: ModelConfig) -> LayerNorm | RMSNorm:
    if config.norm == "rms":
        return RMSNorm(config.d_model, config.norm_epsilon)
    return LayerNorm(config.d_model, config.norm_epsilon, config.bias)


def _final_norm(config: ModelConfig) -> LayerNorm | RMSNorm | None:
    return _norm(config) if config.final_norm else None


def _rotary(config: ModelConfig) -> Rotary | None:
    return Rotary(config.d_model // config.heads, config.position_base) if config.positions == "rotary" else None


def _embedding(config: ModelConfig, weight: nn.Parameter, name: str) -> Embedding:
    positions = None
    if config.positions == "sinusoidal":
        positions = Sinusoidal(config.d_model, config.position_base, config.position_offset)
    elif config.positions == "learned":
        positions = Learned(config.max_positions or 0, config.d_model)
    norm = _norm(config) if config.embedding_norm else None
    return Embedding(weight, positions, config.embedding_scale, norm, config.dropout, name)


def _table(config: ModelConfig, rows: int | None) -> nn.Parameter:
    """Return an uninitialised matrix (V, D). `check_vocabularies` has verified that the vocabulary is known."""
    return nn.Parameter(torch.empty(rows or 0, config.d_model))


def _output_bias(config: ModelConfig) -> nn.Parameter | None:
    return nn.Parameter(torch.zeros(config.target_vocabulary or 0)) if config.output_bias else None
