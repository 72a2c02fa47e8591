"""Settings of the architecture: the key `model` in a model folder's `config.json`, and `[model]` in a recipe.

`preset` and `size` determine the values that are not given:

    >>> ModelConfig(preset="modern", size="small", dropout=0.2).norm
    'rms'
"""

from typing import Annotated, Any, Literal, cast, get_args

import pydantic

from dragoman.config import Settings
from dragoman.errors import ConfigError

Size = Literal["nano", "micro", "tiny", "mini", "small", "base", "big"]
Name = Annotated[str, pydantic.Field(min_length=1, max_length=200)]
"""Name of weights or modules, interpreted by `model/adapters.py`."""

_SIZES: dict[Size, dict[str, int]] = {
    "nano": {"d_model": 64, "encoder_layers": 4, "decoder_layers": 1, "heads": 2, "d_ff": 256},
    "micro": {"d_model": 128, "encoder_layers": 6, "decoder_layers": 1, "heads": 4, "d_ff": 384},
    "tiny": {"d_model": 128, "encoder_layers": 4, "decoder_layers": 4, "heads": 4, "d_ff": 384},
    "mini": {"d_model": 192, "encoder_layers": 4, "decoder_layers": 4, "heads": 6, "d_ff": 768},
    "small": {"d_model": 256, "encoder_layers": 3, "decoder_layers": 3, "heads": 4, "d_ff": 1024},
    "base": {"d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "heads": 8, "d_ff": 2048},
    "big": {"d_model": 1024, "encoder_layers": 6, "decoder_layers": 6, "heads": 16, "d_ff": 4096},
}


def paper(size: Size) -> dict[str, Any]:
    """Return the settings of Vaswani et al. (2017): post-norm, sinusoids, ReLU; `base` and `big` are the paper's sizes.

    Attention has biases, as in torch's `nn.Transformer`; the paper's formulas have none.
    """
    return {
        **_SIZES[size],
        "positions": "sinusoidal",
        "norm": "layer",
        "norm_position": "post",
        "final_norm": False,
        "activation": "relu",
        "bias": True,
        "dropout": 0.1,
    }


def modern(size: Size) -> dict[str, Any]:
    """Return the settings of a modern Transformer: pre-norm, RMSNorm, rotary positions, a gated feed-forward network
    with the same number of weights, no biases.
    """
    sizes = _SIZES[size]
    return {
        **sizes,
        "d_ff": round(sizes["d_ff"] * 2 / 3 / 32) * 32,  # three matrices instead of two
        "positions": "rotary",
        "norm": "rms",
        "norm_position": "pre",
        "final_norm": True,
        "activation": "swiglu",
        "bias": False,
        "dropout": 0.1,
    }


_VOCABULARIES = {
    "encoder_decoder": ("source_vocabulary", "target_vocabulary"),
    "language_model": ("target_vocabulary",),
    "encoder": ("source_vocabulary",),
}
"""The vocabularies that each family needs."""


class ModelConfig(Settings):
    """The architecture of a model: family, sizes, and choices whose defaults depend on `preset`."""

    family: Literal["encoder_decoder", "language_model", "encoder"] = "encoder_decoder"
    """Encoder and decoder (translation), a decoder alone (language model), or an encoder alone (labels, masked words).
    """
    preset: Literal["paper", "modern"] = "modern"
    """Defaults for settings that are not given."""
    size: Size = "small"
    """Default width and depth: nano and micro (with one decoder layer), tiny and mini (narrow and deep), small, base or
    big."""
    source_vocabulary: int | None = pydantic.Field(default=None, ge=5, lt=2**31)
    """Source tokens; taken from the tokenizer. None in a language model."""
    target_vocabulary: int | None = pydantic.Field(default=None, ge=5, lt=2**31)
    """Target tokens; taken from the tokenizer. None in an encoder alone."""
    labels: int | None = pydantic.Field(default=None, ge=2, lt=2**16)
    """Number of labels of an encoder alone; taken from the data. Not given: it fills in masked words."""
    pooling: Literal["first", "mean"] | None = None
    """Reduction of a text with one label to one vector, in an encoder alone: the first symbol's vector, or the mean.
    Not given: every word has a label, or is filled in."""
    d_model: int = pydantic.Field(ge=2, le=65_536)
    """Width of the residual path."""
    encoder_layers: int = pydantic.Field(ge=1, le=1_000)
    """Blocks of the encoder."""
    decoder_layers: int = pydantic.Field(ge=1, le=1_000)
    """Blocks of the decoder."""
    heads: int = pydantic.Field(ge=1, le=65_536)
    """Query heads; must divide d_model."""
    kv_heads: int | None = pydantic.Field(default=None, ge=1, le=65_536)
    """Key and value heads; must divide heads. Not given: the same number as heads."""
    d_ff: int = pydantic.Field(ge=1, le=1_048_576)
    """Inner width of the feed-forward network."""
    activation: Literal["relu", "gelu", "silu", "swiglu", "geglu"]
    """The feed-forward network's nonlinearity; swiglu and geglu are gated."""
    norm: Literal["layer", "rms"]
    """LayerNorm (the paper), or RMSNorm, which subtracts no mean."""
    norm_position: Literal["pre", "post"]
    """Normalise before each sublayer, or after adding it (the paper)."""
    final_norm: bool
    """One more norm after each stack; pre-norm needs it."""
    norm_epsilon: float = pydantic.Field(default=1e-5, gt=0)
    """Added to the variance, so that no norm divides by zero."""
    positions: Literal["sinusoidal", "learned", "rotary"]
    """Encoding of the order of tokens: sinusoids (the paper) or learned vectors added to the embeddings, or a rotation
    of queries and keys."""
    position_base: float = pydantic.Field(default=10_000.0, gt=1)
    """Base of the sinusoids or of the rotation."""
    position_offset: int = pydantic.Field(default=0, ge=0, le=1_000)
    """Number of the first position of the sinusoids: 0 (the paper); 2 in models of M2M-100 and NLLB."""
    max_positions: int | None = pydantic.Field(default=None, ge=2, le=1_048_576)
    """Longest sentence in tokens; given with learned positions, and only with them."""
    embedding_norm: bool = False
    """Normalise the sum of embedding and positions."""
    embedding_scale: bool = True
    """Multiply embeddings by sqrt(d_model)."""
    bias: bool
    """Biases in projections, feed-forward networks and LayerNorm."""
    output_bias: bool = False
    """A bias for each target token, added to the logits (models of Marian have one)."""
    tied: Literal["none", "target", "all"] | None = None
    """Shared matrices: none; target embedding and output; or both embeddings and the output.
    Not given: target; with a joint tokenizer all."""
    alignment_head: Annotated[tuple[int, int], pydantic.Strict(False)] | None = None
    """Layer and head of the cross-attention that learns word alignments, both counted from 0: when the decoder reads a
    word, this head attends to its source word. Not given: chosen if the run trains one (train.alignment_weight)."""
    dropout: float = pydantic.Field(ge=0, lt=1)
    """Dropout of every sublayer's output and of embeddings (the paper's section 5.4)."""
    attention_dropout: float = pydantic.Field(default=0.0, ge=0, lt=1)
    """Dropout of attention weights."""
    activation_dropout: float = pydantic.Field(default=0.0, ge=0, lt=1)
    """Dropout inside the feed-forward network."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, settings: Any) -> Any:
        if not isinstance(settings, dict):
            return settings
        # An unknown preset or size is refused by its own field only.
        preset = paper if settings.get("preset") == "paper" else modern
        size = cast("Size", settings.get("size"))
        filled = {**preset(size if size in get_args(Size) else "small"), **settings}
        if filled["positions"] == "learned" and "max_positions" not in settings:
            filled["max_positions"] = 512
        return filled

    @pydantic.model_validator(mode="after")
    def _refuse_contradictions(self) -> "ModelConfig":
        if self.d_model % self.heads:
            raise ValueError(f"model.heads must divide model.d_model, but {self.heads} does not divide {self.d_model}")
        if self.heads % (self.kv_heads or self.heads):
            raise ValueError(
                f"model.kv_heads must divide model.heads, but {self.kv_heads} does not divide {self.heads}"
            )
        if self.positions == "rotary" and (self.d_model // self.heads) % 2:
            raise ValueError(
                f"rotary positions need an even model.d_model / model.heads, but it is {self.d_model // self.heads}"
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(f"sinusoidal positions need an even model.d_model, but it is {self.d_model}")
        if self.position_offset and self.positions != "sinusoidal":
            raise ValueError("model.position_offset goes with model.positions = 'sinusoidal'")
        if (self.positions == "learned") != (self.max_positions is not None):
            raise ValueError("model.max_positions goes with model.positions = 'learned', and only with it")
        if self.norm_position == "pre" and not self.final_norm:
            raise ValueError(
                "model.norm_position = 'pre' needs model.final_norm = true: nothing else normalises the residual path"
            )
        if self.family != "encoder" and (self.labels, self.pooling) != (None, None):
            raise ValueError("model.labels and model.pooling belong to an encoder alone (model.family = 'encoder')")
        if self.alignment_head is not None:
            layer, head = self.alignment_head
            if self.family != "encoder_decoder" or not (0 <= layer < self.decoder_layers and 0 <= head < self.heads):
                raise ValueError(
                    f"model.alignment_head names a layer below {self.decoder_layers} and a head below {self.heads} of "
                    f"the cross-attention of a translation model, not {layer}, {head}"
                )
        if self.tied == "all" and self.source_vocabulary != self.target_vocabulary:
            raise ValueError("model.tied = 'all' needs one joint vocabulary (tokenizer.joint = true)")
        return self


def check_vocabularies(config: ModelConfig) -> None:
    """Raise `ConfigError` if a vocabulary size that the model's family needs is not set."""
    if any(getattr(config, name) is None for name in _VOCABULARIES[config.family]):
        raise ConfigError("the vocabulary sizes are not set; train or load a tokenizer first")


class LoraSettings(Settings):
    """Low-rank adapters (Hu et al. 2021): all other weights are frozen, and the run saves only the adapters."""

    rank: int = pydantic.Field(default=16, ge=1, le=65_536)
    """Rank of the adapters: rows of the matrix A and columns of B, whose product is added to a frozen matrix."""
    alpha: float | None = pydantic.Field(default=None, gt=0, le=1_000_000)
    """The product is multiplied by alpha / rank. Not given: twice the rank."""
    dropout: float = pydantic.Field(default=0.0, ge=0, lt=1)
    """Share of the adapters' input features to drop in a step; 0 turns it off."""
    projections: tuple[Name, ...] = pydantic.Field(default=("all",), min_length=1, max_length=100)
    """Projections with an adapter: query, key, value, output, attention, cross_attention, feed_forward, all; parts
    joined by dots, such as decoder.value; or shell patterns over the names of modules.
    """

    @property
    def scale(self) -> float:
        """The factor of the product B A."""
        return 2.0 if self.alpha is None else self.alpha / self.rank
