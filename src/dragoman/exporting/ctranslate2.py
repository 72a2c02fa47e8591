"""A model folder into a folder of CTranslate2: `export_ctranslate2`. Our weights go where CTranslate2 wants them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from ctranslate2 import specs
from numpy.typing import NDArray

from dragoman.config import check
from dragoman.errors import ConfigError
from dragoman.exporting.portable_tokenizer import names, portable, tokenizer_obstacles
from dragoman.exporting.proof import Ids, Proof, never_written, prove
from dragoman.files import new_folder, write_file
from dragoman.inference.options import SearchOptions
from dragoman.model.config import ModelConfig
from dragoman.store.description import StoredModel

Weights = Mapping[str, NDArray[np.float32]]

_ACTIVATIONS = {
    "relu": specs.Activation.RELU,
    "gelu": specs.Activation.GELU,
    "silu": specs.Activation.SWISH,
    "swiglu": specs.Activation.SWISH,
    "geglu": specs.Activation.GELU,
}
_ROTARY_ALL = 0
"""How many features of a head CTranslate2 rotates; 0 stands for all."""

TOKENIZER, TARGET_TOKENIZER, SCRIPT = "tokenizer.json", "target_tokenizer.json", "translate.py"
_FEWEST_POSITIONS = 512


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


def export_ctranslate2(stored: StoredModel, to: Path, texts: Sequence[str]) -> Proof:
    """Writes a folder that CTranslate2 translates with, after the proof that it does so as our model does.

    Raises:
        ConfigError: CTranslate2 cannot hold something of this model; it is named. Or the proof failed.
        DataError: `to` exists already.
    """
    if reasons := list(obstacles(stored)):
        raise ConfigError(f"{stored.folder} cannot become a folder of CTranslate2: {'; '.join(reasons)}")
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
    with new_folder(to) as aside:
        spec.validate()
        spec.optimize()
        spec.save(str(aside))
        write_file(aside / TOKENIZER, portable(source, framing).to_str())
        if not stored.tokenizers.joint:
            write_file(aside / TARGET_TOKENIZER, portable(target, framing).to_str())
        write_file(aside / SCRIPT, Path(__file__).with_name("ctranslate2_script.py").read_text("utf-8"))
        return prove(stored, Exported(aside, never_written(stored.tokenizers, framing)), texts, "CTranslate2")


def obstacles(stored: StoredModel) -> Iterator[str]:
    """What CTranslate2 cannot hold, in the words of the settings."""
    config = stored.config
    if config.family != "encoder_decoder":
        yield "it does not translate"
        return
    if config.norm_position == "post" and config.final_norm:
        yield "model.final_norm must be false where model.norm_position is 'post'"
    yield from tokenizer_obstacles(stored.tokenizers)


class Exported:
    """A folder as CTranslate2 loads it, in float32."""

    def __init__(self, folder: Path, never: Sequence[int]) -> None:
        import ctranslate2

        self.model = ctranslate2.Translator(str(folder), device="cpu", compute_type="float32", intra_threads=1)
        self.source = _library(folder / TOKENIZER)
        target = folder / TARGET_TOKENIZER
        self.target = _library(target) if target.exists() else self.source
        self.ids = self.target.get_vocab()
        self.never = [self._names(self.target, [id_]) for id_ in never]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [each.ids for each in self.source.encode_batch(list(texts))]

    def decode(self, ids: Ids) -> str:
        return self.target.decode(list(ids))

    def translate(self, source: Ids, longest: int) -> list[int]:
        (translation,) = self.model.translate_batch(
            [self._names(self.source, source)],
            beam_size=1,
            max_decoding_length=longest,
            suppress_sequences=self.never,
        )
        return [self.ids[name] for name in translation.hypotheses[0]]

    def score(self, source: Ids, target: Ids) -> list[float]:
        (scores,) = self.model.score_batch(
            [self._names(self.source, source)], [self._names(self.target, target)], max_input_length=0
        )
        return scores.log_probs

    @staticmethod
    def _names(side: tokenizers.Tokenizer, ids: Ids) -> list[str]:
        return [name for id_ in ids if (name := side.id_to_token(id_)) is not None]


def _library(path: Path) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    tokenizer.encode_special_tokens = True  # text spelled like a symbol stays text; the file does not keep this
    return tokenizer
