"""Settings to modules: the only place that builds what a `ModelConfig` says, and where weights get their first
values.
"""

import torch
from torch import nn

from dragoman.model.attention import Attention
from dragoman.model.blocks import CrossBlock, Decoder, Encoder, LayerParts, SelfBlock
from dragoman.model.config import ModelConfig, check_vocabularies
from dragoman.model.embedding import Embedding, Learned, Rotary, Sinusoidal, table
from dragoman.model.families import AnyModel, EncoderDecoder, EncoderModel, LanguageModel
from dragoman.model.layers import FeedForward, Head, LayerNorm, Residual, RMSNorm, make_norm
from dragoman.model.projection import weight_roles


def build_model(config: ModelConfig, seed: int | None = 0) -> AnyModel:
    """A model with fresh weights, the same for the same seed. With None they are arbitrary.

    Raises:
        ConfigError: the vocabulary is not known yet.
    """
    check_vocabularies(config)
    model = _FAMILIES[config.family](config)
    if seed is not None:
        initialise(model, torch.Generator().manual_seed(seed))
    return model


def initialise(model: nn.Module, generator: torch.Generator) -> None:
    """Fresh values by role: Xavier uniform for projections (Glorot and Bengio 2010), normal with deviation d_model^-0.5
    for tables. Vectors keep what their modules begin with: ones in norms, zeros in biases.
    """
    roles = weight_roles(model)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if roles[name] == "table":
                weight.normal_(0.0, weight.size(1) ** -0.5, generator=generator)
            elif roles[name] == "projection":
                nn.init.xavier_uniform_(weight, generator=generator)


def _encoder_decoder(config: ModelConfig) -> EncoderDecoder:
    assert config.source_vocabulary and config.target_vocabulary, "checked by build_model"
    tied = config.tied or "target"
    source = table(config.source_vocabulary, config.d_model)
    target = source if tied == "all" else table(config.target_vocabulary, config.d_model)
    output = target if tied != "none" else table(config.target_vocabulary, config.d_model)
    source_embedding = _embedding(config, source, "source_embedding")
    target_embedding = _embedding(config, target, "target_embedding")
    encoder = Encoder(
        [SelfBlock(i, _parts(config, f"encoder.{i}")) for i in range(config.encoder_layers)],
        _norm(config) if config.final_norm else None,
        _rotary(config),
    )
    decoder = Decoder(
        [CrossBlock(i, _parts(config, f"decoder.{i}")) for i in range(config.decoder_layers)],
        _norm(config) if config.final_norm else None,
        _rotary(config),
    )
    output_bias = _output_bias(config.target_vocabulary) if config.output_bias else None
    return EncoderDecoder(config, source_embedding, target_embedding, encoder, decoder, output, output_bias)


def _language_model(config: ModelConfig) -> LanguageModel:
    assert config.target_vocabulary, "checked by build_model"
    target = table(config.target_vocabulary, config.d_model)
    output = table(config.target_vocabulary, config.d_model) if config.tied == "none" else target
    embedding = _embedding(config, target, "target_embedding")
    decoder = Decoder(
        [SelfBlock(i, _parts(config, f"decoder.{i}")) for i in range(config.decoder_layers)],
        _norm(config) if config.final_norm else None,
        _rotary(config),
    )
    output_bias = _output_bias(config.target_vocabulary) if config.output_bias else None
    return LanguageModel(config, embedding, decoder, output, output_bias)


def _output_bias(vocabulary: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(vocabulary))


def _encoder_model(config: ModelConfig) -> EncoderModel:
    assert config.source_vocabulary, "checked by build_model"
    source = table(config.source_vocabulary, config.d_model)
    output = source
    if config.labels is not None or config.tied == "none":
        output = table(config.labels or config.source_vocabulary, config.d_model)
    encoder = Encoder(
        [SelfBlock(i, _parts(config, f"encoder.{i}")) for i in range(config.encoder_layers)],
        _norm(config) if config.final_norm else None,
        _rotary(config),
    )
    head = Head(config.d_model, _norm(config), config.dropout)
    return EncoderModel(config, _embedding(config, source, "source_embedding"), encoder, head, output)


_FAMILIES = {"encoder_decoder": _encoder_decoder, "language_model": _language_model, "encoder": _encoder_model}


def _parts(config: ModelConfig, layer: str) -> LayerParts:
    width, bias = config.d_model, config.bias

    def attention(name: str) -> Attention:
        return Attention(width, config.heads, config.kv_heads, bias, config.attention_dropout, f"{layer}.{name}")

    def feed_forward(name: str) -> FeedForward:
        return FeedForward(width, config.d_ff, config.activation, bias, config.activation_dropout, f"{layer}.{name}")

    def residual(name: str) -> Residual:
        return Residual(_norm(config), config.norm_position, config.dropout, f"{layer}.{name}")

    return LayerParts(layer, attention, feed_forward, residual)


def _norm(config: ModelConfig) -> LayerNorm | RMSNorm:
    return make_norm(config.norm, config.d_model, config.norm_epsilon, config.bias)


def _rotary(config: ModelConfig) -> Rotary | None:
    return Rotary(config.d_model // config.heads, config.position_base) if config.positions == "rotary" else None


def _embedding(config: ModelConfig, weight: nn.Parameter, name: str) -> Embedding:
    positions = {
        "sinusoidal": lambda: Sinusoidal(config.d_model, config.position_base),
        "learned": lambda: Learned(config.max_positions or 0, config.d_model),
        "rotary": lambda: None,
    }[config.positions]()
    norm = _norm(config) if config.embedding_norm else None
    return Embedding(weight, positions, config.embedding_scale, norm, config.dropout, name)
