"""Our weights in the places where CTranslate2 wants them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from ctranslate2 import specs
from numpy.typing import NDArray

from dragoman.model import ModelConfig

Weights = Mapping[str, NDArray[np.float32]]

_ACTIVATIONS = {
    "relu": specs.Activation.RELU,
    "gelu": specs.Activation.GELU,
    "silu": specs.Activation.SWISH,
    "swiglu": specs.Activation.SWISH,
    "geglu": specs.Activation.GELU,
}
_ROTARY_ALL = 0
"""CTranslate2 rotates so many features of a head; 0 are all."""


def specify(config: ModelConfig, weights: Weights, positions: int) -> specs.TransformerSpec:
    """The specification of a model; `positions` is how many sinusoids are written where it has them."""
    layers = _Layers(config, weights)
    shape: dict[str, Any] = {
        "num_heads": config.heads,
        "pre_norm": config.norm_position == "pre",
        "activation": _ACTIVATIONS[config.activation],
        "layernorm_embedding": config.embedding_norm,
        "ffn_glu": config.activation in ("swiglu", "geglu"),
        "rms_norm": config.norm == "rms",
        "num_heads_kv": config.kv_heads,
        "rotary_dim": _ROTARY_ALL if config.positions == "rotary" else None,
        "rotary_interleave": False,
        "rotary_base": config.position_base,
    }
    encoder = specs.TransformerEncoderSpec(config.encoder_layers, **shape)
    decoder = specs.TransformerDecoderSpec(config.decoder_layers, **shape)
    layers.stack(encoder, "encoder", encoder.embeddings[0], "source", positions)
    layers.stack(decoder, "decoder", decoder.embeddings, "target", positions)
    layers.linear(decoder.projection, layers.table("output"), weights.get("output_bias"))
    spec = specs.TransformerSpec(encoder, decoder)
    facts: Any = spec.config
    facts.layer_norm_epsilon = config.norm_epsilon
    return spec


class _Layers:
    """Puts the weights of one model in their places."""

    def __init__(self, config: ModelConfig, weights: Weights) -> None:
        self.config, self.weights = config, weights

    def table(self, name: str) -> NDArray[np.float32]:
        """An embedding or the output, which may be tied."""
        tied = self.config.tied or "target"
        own = {"source_embedding.weight": tied != "all", "target_embedding.weight": tied == "none"}
        return self.weights[name if own.get(name) else "output"]

    def stack(self, spec: Any, stack: str, embeddings: Any, side: str, positions: int) -> None:
        """An encoder or a decoder with its embedding."""
        embeddings.weight = self.table(f"{side}_embedding.weight")
        spec.scale_embeddings = self.config.embedding_scale
        if self.config.positions == "sinusoidal":
            spec.position_encodings.encodings = _sinusoids(positions, self.config)
        elif self.config.positions == "learned":
            spec.position_encodings.encodings = self.weights[f"{side}_embedding.positions.weight"]
        if self.config.embedding_norm:
            self.norm(spec.layernorm_embedding, f"{side}_embedding.norm")
        if self.config.final_norm:
            self.norm(spec.layer_norm, f"{stack}.final_norm")
        for number, layer in enumerate(spec.layer):
            self.layer(layer, f"{stack}.blocks.{number}")

    def layer(self, spec: Any, block: str) -> None:
        self.norm(spec.self_attention.layer_norm, f"{block}.self_residual.norm")
        self.attention(spec.self_attention, f"{block}.self_attention", [("query", "key", "value"), ("output",)])
        if hasattr(spec, "attention"):
            self.norm(spec.attention.layer_norm, f"{block}.cross_residual.norm")
            parts = [("query",), ("key", "value"), ("output",)]
            self.attention(spec.attention, f"{block}.cross_attention", parts)
        self.norm(spec.ffn.layer_norm, f"{block}.feed_residual.norm")
        gated = hasattr(spec.ffn, "linear_0_noact")
        self.matrices(spec.ffn.linear_0, f"{block}.feed_forward", ("gate" if gated else "inner",))
        if gated:
            self.matrices(spec.ffn.linear_0_noact, f"{block}.feed_forward", ("inner",))
        self.matrices(spec.ffn.linear_1, f"{block}.feed_forward", ("outer",))

    def attention(self, spec: Any, module: str, parts: list[tuple[str, ...]]) -> None:
        for linear, names in zip(spec.linear, parts, strict=True):
            self.matrices(linear, module, names)

    def matrices(self, spec: Any, module: str, names: tuple[str, ...]) -> None:
        """Several projections as one."""
        biases = [self.weights.get(f"{module}.{name}.bias") for name in names]
        bias = np.concatenate([each for each in biases if each is not None]) if biases[0] is not None else None
        self.linear(spec, np.concatenate([self.weights[f"{module}.{name}.weight"] for name in names]), bias)

    def linear(self, spec: Any, weight: NDArray[np.float32], bias: NDArray[np.float32] | None) -> None:
        spec.weight = weight
        if bias is not None:
            spec.bias = bias

    def norm(self, spec: Any, module: str) -> None:
        spec.gamma = self.weights[f"{module}.weight"]
        if self.config.norm == "layer":
            spec.beta = self.weights.get(f"{module}.bias", np.zeros(self.config.d_model, np.float32))


def _sinusoids(positions: int, config: ModelConfig) -> NDArray[np.float32]:
    """The sinusoids of Vaswani et al. (2017, section 3.5), sines and cosines in turn."""
    exponent = np.arange(0, config.d_model, 2) / config.d_model
    angle = (np.arange(positions)[:, None] / config.position_base**exponent).astype(np.float32)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(positions, -1)
