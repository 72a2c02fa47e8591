"""One layer of each stack, in the order of the paper (Vaswani et al. 2017, section 3.1, figure 1).

`SelfBlock` is the encoder's layer; with a causal mask it is a language model's. `CrossBlock` is the decoder's.
"""

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.model.attention.cache import Cache, CrossKeys
from dragoman.model.attention.keys import split_rows
from dragoman.model.attention.multi_head import Attention
from dragoman.model.dropout import Noise
from dragoman.model.layers import FeedForward, Residual
from dragoman.model.observer import Observer, Show, shower
from dragoman.model.packing import Packing
from dragoman.model.positions import Rope


class Pass(NamedTuple):
    """What every layer of one forward pass shares."""

    packing: Packing
    causal: bool
    """Whether self-attention sees nothing of the future."""
    rope: Rope | None
    """The rotation of the rows, if positions are rotary."""
    noise: Noise | None = None
    cache: Cache | None = None
    positions: Int[Tensor, "N"] | None = None
    """Where the rows stand in their sentences; given with a cache."""
    observer: Observer | None = None

    @property
    def shown(self) -> Show | None:
        """Shows rows to the observer, if there is one."""
        return shower(self.observer, self.packing)

    def show(self, site: str, x: Float[Tensor, "N D"]) -> None:
        """Shows these rows to the observer, if there is one."""
        if show := self.shown:
            show(site, x)


class LayerParts(NamedTuple):
    """Makes the parts of one layer; each is given its own name, which also names its dropout."""

    layer: str
    """The layer's name: `decoder.3`."""
    attention: Callable[[str], Attention]
    feed_forward: Callable[[str], FeedForward]
    residual: Callable[[str], Residual]


class SelfBlock(nn.Module):
    """Self-attention, then the feed-forward network, each on its residual path."""

    def __init__(self, index: int, parts: LayerParts) -> None:
        super().__init__()
        self.index, self.name = index, parts.layer
        self.self_attention = parts.attention("self_attention")
        self.feed_forward = parts.feed_forward("feed_forward")
        self.self_residual, self.feed_residual = parts.residual("self_residual"), parts.residual("feed_residual")

    def forward(self, x: Float[Tensor, "N D"], given: Pass) -> Float[Tensor, "N D"]:
        noise, show = given.noise, given.shown
        x = self.self_residual(x, lambda h: attend_to_self(self.self_attention, self.index, h, given), noise, show)
        return self.feed_residual(x, lambda h: self.feed_forward(h, noise, show), noise, show)


class CrossBlock(nn.Module):
    """Causal self-attention, attention to the memory, then the feed-forward network, each on its residual path."""

    def __init__(self, index: int, parts: LayerParts) -> None:
        super().__init__()
        self.index, self.name = index, parts.layer
        self.self_attention = parts.attention("self_attention")
        self.cross_attention = parts.attention("cross_attention")
        self.feed_forward = parts.feed_forward("feed_forward")
        self.self_residual = parts.residual("self_residual")
        self.cross_residual = parts.residual("cross_residual")
        self.feed_residual = parts.residual("feed_residual")

    def forward(self, x: Float[Tensor, "N D"], given: Pass, cross_keys: CrossKeys) -> Float[Tensor, "N D"]:
        noise, show = given.noise, given.shown
        x = self.self_residual(x, lambda h: attend_to_self(self.self_attention, self.index, h, given), noise, show)
        x = self.cross_residual(x, lambda h: self._attend_to_memory(h, given, cross_keys), noise, show)
        return self.feed_residual(x, lambda h: self.feed_forward(h, noise, show), noise, show)

    def _attend_to_memory(self, x: Float[Tensor, "N D"], given: Pass, cross_keys: CrossKeys) -> Float[Tensor, "N D"]:
        attention, keys = self.cross_attention, cross_keys.layer(self.index)
        given.show(f"{attention.name}.input", x)
        return attention.attend(attention.queries(x), keys, given.packing, noise=given.noise, observer=given.observer)


def attend_to_self(attention: Attention, layer: int, x: Float[Tensor, "N D"], given: Pass) -> Float[Tensor, "N D"]:
    """Self-attention of packed rows; with a cache, also to what the rows wrote before."""
    given.show(f"{attention.name}.input", x)
    rows, keys, rope = attention.self_projections(x), None, given.rope
    if given.cache is not None and given.positions is not None:
        rows, key, value = split_rows(rows, attention.heads, rope)
        keys, rope = given.cache.append(layer, given.packing, given.positions, key, value), None
    return attention.attend(rows, keys, given.packing, given.causal, rope, given.noise, given.observer)
