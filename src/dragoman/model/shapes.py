"""Names and shapes of all weights from the settings, without torch; a test compares them with `transformer.py`."""

import math
from collections.abc import Iterator

from dragoman.model.config import ModelConfig, check_vocabularies

Shape = tuple[int, ...]
"""Shape of a tensor."""
Weight = tuple[str, Shape | None]
"""Name and shape; None if the settings omit this weight or tie it to the matrix `output`."""


def weight_shapes(config: ModelConfig) -> dict[str, Shape]:
    """Return name and shape of every weight of the model that `build_model` would build. Tied weights appear once."""
    return {name: shape for name, shape in possible_weights(config) if shape is not None}


def count_weights(config: ModelConfig) -> int:
    """Return the number of trainable parameters of the model that `build_model` would build."""
    return sum(map(math.prod, weight_shapes(config).values()))


def possible_weights(config: ModelConfig) -> Iterator[Weight]:
    """Yield all weights that a model of this family can have, in the order in which decoder.cpp reads them."""
    check_vocabularies(config)
    width, source, target = config.d_model, config.source_vocabulary or 0, config.target_vocabulary or 0
    if config.family == "encoder":
        rows, output_bias = config.labels or source, False
        yield from _embedding(config, "source", source, tied=config.labels is None and config.tied != "none")
        yield from _stack(config, "encoder", config.encoder_layers)
        yield from _dense("head.dense", width, width, bias=True)
        yield from _norm(config, "head.norm")
    else:
        rows, output_bias, cross = target, config.output_bias, config.family == "encoder_decoder"
        if cross:
            yield from _embedding(config, "source", source, tied=config.tied == "all")
            yield from _stack(config, "encoder", config.encoder_layers)
        yield from _embedding(config, "target", target, tied=config.tied != "none")
        yield from _stack(config, "decoder", config.decoder_layers, cross)
    yield "output", (rows, width)
    yield "output_bias", (rows,) if output_bias else None


def _embedding(config: ModelConfig, side: str, vocabulary: int, tied: bool) -> Iterator[Weight]:
    width, learned = config.d_model, config.positions == "learned"
    yield f"{side}_embedding.weight", None if tied else (vocabulary, width)
    yield f"{side}_embedding.positions.weight", (config.max_positions or 0, width) if learned else None
    yield from _norm(config, f"{side}_embedding.norm", config.embedding_norm)


def _stack(config: ModelConfig, stack: str, layers: int, cross: bool = False) -> Iterator[Weight]:
    width, inner = config.d_model, config.d_ff
    for layer in range(layers):
        block = f"{stack}.blocks.{layer}"
        yield from _norm(config, f"{block}.self_residual.norm")
        yield from _attention(config, f"{block}.self_attention")
        if cross:
            yield from _norm(config, f"{block}.cross_residual.norm")
            yield from _attention(config, f"{block}.cross_attention")
        yield from _norm(config, f"{block}.feed_residual.norm")
        gated = config.activation in ("swiglu", "geglu")
        yield from _dense(f"{block}.feed_forward.gate", width, inner, config.bias, gated)
        yield from _dense(f"{block}.feed_forward.inner", width, inner, config.bias)
        yield from _dense(f"{block}.feed_forward.outer", inner, width, config.bias)
    yield from _norm(config, f"{stack}.final_norm", config.final_norm)


def _attention(config: ModelConfig, name: str) -> Iterator[Weight]:
    width = config.d_model
    key_width = width // config.heads * (config.kv_heads or config.heads)
    for matrix, outputs in (("query", width), ("key", key_width), ("value", key_width), ("output", width)):
        yield from _dense(f"{name}.{matrix}", width, outputs, config.bias)


def _dense(name: str, inputs: int, outputs: int, bias: bool, present: bool = True) -> Iterator[Weight]:
    yield f"{name}.weight", (outputs, inputs) if present else None
    yield f"{name}.bias", (outputs,) if present and bias else None


def _norm(config: ModelConfig, name: str, present: bool = True) -> Iterator[Weight]:
    yield f"{name}.weight", (config.d_model,) if present else None
    yield f"{name}.bias", (config.d_model,) if present and config.norm == "layer" and config.bias else None
