"""Weights of a Marian model, mapped to ours and back: pure functions of names and tensors. M2M-100 and mBART have the
same names, and some more.

Both models compute the same, but Marian's sinusoids are ordered in halves, all sines first, where ours alternate
(Vaswani et al. 2017, section 3.5). Nothing else in the model depends on the order of the features of the residual path.
So every weight that reads or writes this path has its features reordered, and the outputs are equal.

Rows of the vocabulary are reordered too, because our special symbols come first. Our start symbol has no counterpart;
`NEVER` keeps it out of every softmax.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from dragoman.model.config import ModelConfig
from dragoman.model.shapes import weight_shapes
from dragoman.shapes import Float, Int

NEVER = -1_000.0
"""Logit of a token that Marian does not have. Its probability is zero in float32, and label smoothing, which gives each
token a share of the loss, stays finite.
"""
BIAS = "final_logits_bias"
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
SINUSOIDS = (*POSITIONS, *(f"{name}s" for name in POSITIONS))
"""Names of sinusoids, which some folders hold; transformers computes them again."""
OMITTED_POSITIONS = 2
"""Learned positions of mBART that are never used; the first token has the next one."""
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
    """Rows of both vocabularies."""

    source: Rows
    target: Rows


class Twin(NamedTuple):
    """The Marian names of one of our weights, and the content of its axes."""

    names: tuple[str, ...]
    """Names of one tensor; the first is written."""
    axes: tuple[str, ...]
    """Content of each axis: residual `features`, rows of the `source` or `target` vocabulary, learned `positions`, or
    something else.
    """


def twins(config: ModelConfig) -> dict[str, Twin]:
    """Return the twin of every weight of our model."""
    tables = _tables(config)
    return {name: tables.get(name) or _inside(name) for name in weight_shapes(config)}


def from_marian(
    theirs: dict[str, Tensor], config: ModelConfig, vocabularies: Vocabularies
) -> dict[str, Float[Tensor, "..."]]:
    """Return our weights, in float32. Each tensor is taken out of `theirs`, so that memory never holds all twice."""
    places = {"features": _order(config.d_model), **{side: _places(rows) for side, rows in _sides(vocabularies)}}
    places["positions"] = torch.arange(config.max_positions or 0) + OMITTED_POSITIONS
    ours: dict[str, Tensor] = {}
    for name, twin in twins(config).items():
        weight = theirs.pop(twin.names[0]).float()
        ours[name] = _reorder(weight.flatten() if twin.names == (BIAS,) else weight, twin, places)
    return ours


def to_marian(
    ours: Mapping[str, Tensor], config: ModelConfig, vocabularies: Vocabularies
) -> dict[str, Float[Tensor, "..."]]:
    """Return the weights under Marian's names; a tensor with several names is returned under the first."""
    places = {"features": _order(config.d_model).argsort()}
    for side, rows in _sides(vocabularies):
        missing = sum(row is None for row in rows)
        places[side] = _places(rows).argsort()[missing:]
    theirs = {BIAS: torch.zeros(1, len(places["target"]))}
    for name, twin in twins(config).items():
        weight = _reorder(ours[name], twin, places)
        theirs[twin.names[0]] = weight[None] if twin.names == (BIAS,) else weight
    return theirs


def _reorder(weight: Tensor, twin: Twin, places: Mapping[str, Int[Tensor, "N"]]) -> Tensor:
    """Reorder a weight. `places` gives, for each kind of axis, the old place of each new index; -1 if it had none."""
    for axis, holds in enumerate(twin.axes):
        if holds in places:
            place = places[holds]
            weight = weight.index_select(axis, place.clamp(min=0))
            empty = NEVER if twin.names == (BIAS,) else 0.0
            weight = weight.index_fill(axis, (place < 0).nonzero().flatten(), empty)
    return weight.contiguous()


def _sides(vocabularies: Vocabularies) -> Iterator[tuple[str, Rows]]:
    yield from zip(Vocabularies._fields, vocabularies, strict=True)


def _places(rows: Rows) -> Int[Tensor, "V"]:
    return torch.tensor([-1 if row is None else row for row in rows])


def _order(width: int) -> Int[Tensor, "D"]:
    """Return, for each of our features, the number of Marian's: sine and cosine of one angle are neighbours in ours."""
    return torch.arange(width).unflatten(0, (2, -1)).T.flatten()


def _tables(config: ModelConfig) -> dict[str, Twin]:
    """Return the counterparts of everything outside the layers; a tied matrix has its first name."""
    source, target = ("source", "features"), ("target", "features")
    tables = {"output_bias": Twin((BIAS,), ("target",))}
    for side, stack, name in zip(Vocabularies._fields, ("encoder", "decoder"), POSITIONS, strict=True):
        tables[f"{side}_embedding.positions.weight"] = Twin((name,), ("positions", "features"))
        for kind in ("weight", "bias"):
            norms = (f"model.{stack}.layernorm_embedding.{kind}",), (f"model.{stack}.layer_norm.{kind}",)
            tables[f"{side}_embedding.norm.{kind}"] = Twin(norms[0], ("features",))
            tables[f"{stack}.final_norm.{kind}"] = Twin(norms[1], ("features",))
    if config.tied == "all":
        return tables | {"output": Twin((_SHARED, _SOURCE, _TARGET, _OUTPUT), target)}
    tables |= {"source_embedding.weight": Twin((_SOURCE,), source)}
    if config.tied == "none":
        return tables | {"output": Twin((_OUTPUT,), target), "target_embedding.weight": Twin((_TARGET,), target)}
    return tables | {"output": Twin((_TARGET, _OUTPUT), target)}


def _inside(name: str) -> Twin:
    """Return the twin of a weight inside a stack: `encoder.blocks.0.self_attention.query.weight`."""
    stack, _, number, sublayer, part, kind = name.split(".")
    layer = f"model.{stack}.layers.{number}"
    if sublayer in _NORMS:
        return Twin((f"{layer}.{_NORMS[sublayer]}.{kind}",), ("features",))
    inside = f"{layer}.{_SUBLAYERS[sublayer]}" if sublayer in _SUBLAYERS else layer
    if part in _READ:
        return Twin((f"{inside}.{_READ[part]}.{kind}",), ("others", "features") if kind == "weight" else ("others",))
    return Twin((f"{inside}.{_WRITE[part]}.{kind}",), ("features", "others") if kind == "weight" else ("features",))
