"""One layer of each stack, in the order of the paper (Vaswani et al. 2017, section 3.1, figure 1).

`SelfBlock` is the encoder's layer; with a causal mask it is a language model's. `CrossBlock` is the decoder's.
"""

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.model.attention import Attention, cut
from dragoman.model.cache import Cache, Memory
from dragoman.model.dropout import Noise
from dragoman.model.layers import FeedForward, Residual
from dragoman.model.packing import Packing
from dragoman.model.positions import Turns


class Pass(NamedTuple):
    """What every layer of one forward pass shares."""

    packing: Packing
    causal: bool
    """Whether self-attention sees nothing of the future."""
    turns: Turns | None
    """Cosines and sines of the rows' positions, if positions are rotary."""
    noise: Noise | None = None
    cache: Cache | None = None
    positions: Int[Tensor, "N"] | None = None
    """Where the rows stand in their sentences; given with a cache."""


class LayerParts(NamedTuple):
    """Makes the parts of layer `index` of one stack, each with its own dropout site."""

    attention: Callable[[str], Attention]
    feed_forward: Callable[[], FeedForward]
    residual: Callable[[], Residual]


class SelfBlock(nn.Module):
    """Self-attention, then the feed-forward network, each on its residual path."""

    def __init__(self, index: int, parts: LayerParts) -> None:
        super().__init__()
        self.index = index
        self.self_attention = parts.attention("self")
        self.feed_forward = parts.feed_forward()
        self.self_residual, self.feed_residual = parts.residual(), parts.residual()

    def forward(self, x: Float[Tensor, "N D"], given: Pass) -> Float[Tensor, "N D"]:
        x = self.self_residual(x, lambda h: attend_to_self(self.self_attention, self.index, h, given), given.noise)
        return self.feed_residual(x, lambda h: self.feed_forward(h, given.noise), given.noise)


class CrossBlock(nn.Module):
    """Causal self-attention, attention to the memory, then the feed-forward network, each on its residual path."""

    def __init__(self, index: int, parts: LayerParts) -> None:
        super().__init__()
        self.index = index
        self.self_attention, self.cross_attention = parts.attention("self"), parts.attention("cross")
        self.feed_forward = parts.feed_forward()
        self.self_residual, self.cross_residual, self.feed_residual = (parts.residual() for _ in range(3))

    def forward(self, x: Float[Tensor, "N D"], given: Pass, memory: Memory) -> Float[Tensor, "N D"]:
        x = self.self_residual(x, lambda h: attend_to_self(self.self_attention, self.index, h, given), given.noise)
        x = self.cross_residual(x, lambda h: self._attend_to_memory(h, given, memory), given.noise)
        return self.feed_residual(x, lambda h: self.feed_forward(h, given.noise), given.noise)

    def _attend_to_memory(self, x: Float[Tensor, "N D"], given: Pass, memory: Memory) -> Float[Tensor, "N D"]:
        attention = self.cross_attention
        return attention.mix(attention.queries(x), memory.layer(self.index), given.packing, noise=given.noise)


def attend_to_self(attention: Attention, layer: int, x: Float[Tensor, "N D"], given: Pass) -> Float[Tensor, "N D"]:
    """Self-attention of packed rows; with a cache, also to what the rows wrote before."""
    rows, keys, turns = attention.self_projections(x), None, given.turns
    if given.cache is not None and given.positions is not None:
        rows, key, value = cut(rows, attention.parts, turns)
        keys, turns = given.cache.append(layer, given.packing, given.positions, key, value), None
    return attention.mix(rows, keys, given.packing, given.causal, turns, given.noise)
