"""Export of a model folder to CTranslate2: `export_ctranslate2`."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ctranslate2 import specs
from numpy.typing import NDArray

from dragoman.config import check
from dragoman.errors import ConfigError
from dragoman.exporting.portable_tokenizer import names, portable, tokenizer_obstacles
from dragoman.exporting.proof import Ids, Proof, prove, suppressed_ids
from dragoman.exporting.translate_script import text_rules
from dragoman.files import write_file
from dragoman.inference.options import SearchOptions
from dragoman.model.config import ModelConfig
from dragoman.store.description import StoredModel
from dragoman.store.marian import MODELS
from dragoman.tokenizing.sentencepiece import SentencePieceTokenizer
from dragoman.tokenizing.special_tokens import UNKNOWN

Weights = Mapping[str, NDArray[np.float32]]

_ACTIVATIONS = {
    "relu": specs.Activation.RELU,
    "gelu": specs.Activation.GELU,
    "silu": specs.Activation.SWISH,
    "swiglu": specs.Activation.SWISH,
    "geglu": specs.Activation.GELU,
}
_ROTARY_ALL = 0
"""Number of features per head that CTranslate2 rotates; 0 means all."""

TOKENIZER, TARGET_TOKENIZER = "tokenizer.json", "target_tokenizer.json"
_FEWEST_POSITIONS = 512


def specify(config: ModelConfig, weights: Weights, positions: int) -> specs.TransformerSpec:
    """Build the specification of a model; `positions` is the number of sinusoids to write, if it uses them."""
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
    """Weights of a model, assigned to the layers of a specification."""

    def __init__(self, config: ModelConfig, weights: Weights) -> None:
        self.config, self.weights = config, weights

    def table(self, name: str) -> NDArray[np.float32]:
        """Return the weights of an embedding or of the output, which may be tied."""
        tied = self.config.tied or "target"
        own = {"source_embedding.weight": tied != "all", "target_embedding.weight": tied == "none"}
        return self.weights[name if own.get(name) else "output"]

    def stack(self, spec: Any, stack: str, embeddings: Any, side: str, positions: int) -> None:
        """Set an encoder or a decoder with its embedding."""
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
            projections = [("query",), ("key", "value"), ("output",)]
            self.attention(spec.attention, f"{block}.cross_attention", projections)
        self.norm(spec.ffn.layer_norm, f"{block}.feed_residual.norm")
        gated = hasattr(spec.ffn, "linear_0_noact")
        self.matrices(spec.ffn.linear_0, f"{block}.feed_forward", ("gate" if gated else "inner",))
        if gated:
            self.matrices(spec.ffn.linear_0_noact, f"{block}.feed_forward", ("inner",))
        self.matrices(spec.ffn.linear_1, f"{block}.feed_forward", ("outer",))

    def attention(self, spec: Any, module: str, projections: list[tuple[str, ...]]) -> None:
        for linear, modules in zip(spec.linear, projections, strict=True):
            self.matrices(linear, module, modules)

    def matrices(self, spec: Any, module: str, names: tuple[str, ...]) -> None:
        """Set several projections as one concatenated layer."""
        biases = [self.weights[key] for name in names if (key := f"{module}.{name}.bias") in self.weights]
        bias = np.concatenate(biases) if biases else None
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
    """Return the sinusoids of Vaswani et al. (2017, section 3.5), sines and cosines interleaved."""
    exponent = np.arange(0, config.d_model, 2) / config.d_model
    angle = ((np.arange(positions) + config.position_offset)[:, None] / config.position_base**exponent).astype(
        np.float32
    )
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(positions, -1)


def export_ctranslate2(stored: StoredModel, folder: Path, texts: Sequence[str]) -> Proof:
    """Write a CTranslate2 model into a folder, and prove that it translates as our model does.

    Raises:
        ConfigError: CTranslate2 does not support a part of this model, or the proof failed; the message names it.
    """
    if reasons := list(obstacles(stored)):
        raise ConfigError(f"{stored.folder} cannot be exported to CTranslate2: {'; '.join(reasons)}")
    options = check(stored.files.generation, str(stored.folder), SearchOptions)
    longest = int(options.length_ratio * options.max_source_tokens) + options.length_extra
    spec = specify(stored.config, stored.weights, max(_FEWEST_POSITIONS, longest + 2))
    source, target = stored.tokenizers
    spec.register_source_vocabulary(names(source))
    spec.register_target_vocabulary(names(target))
    symbols, framing = names(target), stored.files.framing
    facts: Any = spec.config
    facts.decoder_start_token, facts.eos_token = symbols[framing.target_start], symbols[framing.target_end]
    facts.bos_token, facts.unk_token = facts.decoder_start_token, symbols[target.unknown]
    facts.add_source_bos = facts.add_source_eos = False  # the tokenizer adds them
    spec.validate()
    spec.optimize()
    spec.save(str(folder))
    if isinstance(source, SentencePieceTokenizer) and isinstance(target, SentencePieceTokenizer):
        for name, tokenizer in zip(MODELS, (source, target), strict=True):
            write_file(folder / name, tokenizer.model)
    else:
        write_file(folder / TOKENIZER, portable(source, framing).to_str())
        if not stored.tokenizers.joint:
            write_file(folder / TARGET_TOKENIZER, portable(target, framing).to_str())
    return prove(stored, CTranslate2Model(folder, stored), texts, "CTranslate2")


def obstacles(stored: StoredModel) -> Iterator[str]:
    """Yield the parts of a model that CTranslate2 does not support, by the names of the settings."""
    config = stored.config
    if config.norm_position == "post" and config.final_norm:
        yield "model.final_norm must be false where model.norm_position is 'post'"
    yield from tokenizer_obstacles(stored)


class CTranslate2Model:
    """Exported folder loaded by CTranslate2, in float32."""

    def __init__(self, folder: Path, stored: StoredModel) -> None:
        import ctranslate2

        self.model = ctranslate2.Translator(str(folder), device="cpu", compute_type="float32", intra_threads=1)
        self.split, self.join = text_rules(folder)
        self.source, self.target = map(names, stored.tokenizers)
        self.source_ids, self.target_ids = (
            {name: id_ for id_, name in enumerate(side)} for side in (self.source, self.target)
        )
        self.suppressed = [[self.target[id_]] for id_ in suppressed_ids(stored.tokenizers, stored.files.framing)]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[self.source_ids.get(token, UNKNOWN) for token in self.split(text)] for text in texts]

    def decode(self, ids: Ids) -> str:
        return self.join([self.target[id_] for id_ in ids])

    def translate(self, source: Ids, longest: int) -> list[int]:
        (translation,) = self.model.translate_batch(
            [[self.source[id_] for id_ in source]],
            beam_size=1,
            max_decoding_length=longest,
            suppress_sequences=self.suppressed,
        )
        return [self.target_ids[name] for name in translation.hypotheses[0]]

    def score(self, source: Ids, target: Ids) -> list[float]:
        sources, targets = [self.source[id_] for id_ in source], [self.target[id_] for id_ in target]
        (scores,) = self.model.score_batch([sources], [targets], max_input_length=0)
        return scores.log_probs
