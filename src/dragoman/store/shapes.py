"""The weights that a configuration asks for, by arithmetic: no module is built, and torch is not loaded.

A test compares them with the modules that `build_model` builds.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

from dragoman.model.config import ModelConfig, check_vocabularies


class Weight(NamedTuple):
    """A weight of the model, or of every block of a stack."""

    name: str
    shape: tuple[int, ...]
    stack: str = ""
    """`encoder` or `decoder` if its blocks hold one each; all blocks of a stack are alike."""


def weight_shapes(config: ModelConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of every weight of the model that `build_model` would build, one after another. A tied weight has
    the first of its names. Names that the caller never reaches cost nothing.

    Raises:
        ConfigError: the vocabulary is not known yet.
    """
    for name, shape, stack in _weights(config):
        for number in range(_blocks(config, stack)):
            yield f"{stack}.blocks.{number}.{name}" if stack else name, shape


def count_weights(config: ModelConfig) -> int:
    """How many numbers the model that `build_model` would build learns."""
    return sum(math.prod(shape) * _blocks(config, stack) for _, shape, stack in _weights(config))


def _blocks(config: ModelConfig, stack: str) -> int:
    return {"": 1, "encoder": config.encoder_layers, "decoder": config.decoder_layers}[stack]


def _weights(config: ModelConfig) -> Iterator[Weight]:
    check_vocabularies(config)
    width, source, target = config.d_model, config.source_vocabulary or 0, config.target_vocabulary or 0
    if config.family == "encoder":
        yield Weight("output", (config.labels or source, width))
        if config.labels is not None or config.tied == "none":
            yield Weight("source_embedding.weight", (source, width))
        yield from _embedding(config, "source_embedding")
        yield from _stack(config, "encoder", cross=False)
        yield from _dense("head.dense", width, width, bias=True)
        yield from _norm(config, "head.norm")
        return
    yield Weight("output", (target, width))
    if config.output_bias:
        yield Weight("output_bias", (target,))
    cross = config.family == "encoder_decoder"
    if cross:
        if config.tied != "all":
            yield Weight("source_embedding.weight", (source, width))
        yield from _embedding(config, "source_embedding")
        yield from _stack(config, "encoder", cross=False)
    if config.tied == "none":
        yield Weight("target_embedding.weight", (target, width))
    yield from _embedding(config, "target_embedding")
    yield from _stack(config, "decoder", cross)


def _embedding(config: ModelConfig, name: str) -> Iterator[Weight]:
    """What an embedding holds beside its table."""
    if config.positions == "learned":
        yield Weight(f"{name}.positions.weight", (config.max_positions or 0, config.d_model))
    if config.embedding_norm:
        yield from _norm(config, f"{name}.norm")


def _stack(config: ModelConfig, stack: str, cross: bool) -> Iterator[Weight]:
    attentions = ("self_attention", "cross_attention") if cross else ("self_attention",)
    residuals = ("self_residual", "cross_residual", "feed_residual") if cross else ("self_residual", "feed_residual")
    for attention in attentions:
        for weight in _attention(config, attention):
            yield weight._replace(stack=stack)
    for weight in _feed_forward(config):
        yield weight._replace(stack=stack)
    for residual in residuals:
        for weight in _norm(config, f"{residual}.norm"):
            yield weight._replace(stack=stack)
    if config.final_norm:
        yield from _norm(config, f"{stack}.final_norm")


def _attention(config: ModelConfig, name: str) -> Iterator[Weight]:
    width = config.d_model
    of_keys = width // config.heads * (config.kv_heads or config.heads)
    for matrix, out in (("query", width), ("key", of_keys), ("value", of_keys), ("output", width)):
        yield from _dense(f"{name}.{matrix}", width, out, config.bias)


def _feed_forward(config: ModelConfig) -> Iterator[Weight]:
    for matrix in ("gate", "inner") if config.activation in ("swiglu", "geglu") else ("inner",):
        yield from _dense(f"feed_forward.{matrix}", config.d_model, config.d_ff, config.bias)
    yield from _dense("feed_forward.outer", config.d_ff, config.d_model, config.bias)


def _dense(name: str, width: int, out: int, bias: bool) -> Iterator[Weight]:
    yield Weight(f"{name}.weight", (out, width))
    if bias:
        yield Weight(f"{name}.bias", (out,))


def _norm(config: ModelConfig, name: str) -> Iterator[Weight]:
    yield Weight(f"{name}.weight", (config.d_model,))
    if config.norm == "layer" and config.bias:
        yield Weight(f"{name}.bias", (config.d_model,))
