"""One layer of each stack, in the order of the paper (Vaswani et al. 2017, section 3.1, figure 1).

`SelfBlock` is the encoder's layer; with a causal mask it is a language model's. `CrossBlock` is the decoder's.

The encoder: a stack of self-attention blocks that see the whole sentence (section 3.1).

The decoder: a causal stack, which with a memory also attends to it (section 3.1).
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.model.attention import Attention
from dragoman.model.attention_backends import split_rows
from dragoman.model.cache import Cache, CrossKeys
from dragoman.model.dropout import DropoutKey
from dragoman.model.embedding import Rope, Rotary
from dragoman.model.layers import FeedForward, LayerNorm, Residual, RMSNorm
from dragoman.model.observer import Observer, Show, shower
from dragoman.model.packing import Packing
from dragoman.model.projection import Projection, join, join_for_good


class Pass(NamedTuple):
    """What every layer of one forward pass shares."""

    packing: Packing
    causal: bool
    """Whether self-attention sees nothing of the future."""
    rope: Rope | None
    """The rotation of the rows, if positions are rotary."""
    dropout_key: DropoutKey | None = None
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
        dropout_key, show = given.dropout_key, given.shown
        x = self.self_residual(
            x, lambda h: attend_to_self(self.self_attention, self.index, h, given), dropout_key, show
        )
        return self.feed_residual(x, lambda h: self.feed_forward(h, dropout_key, show), dropout_key, show)


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
        dropout_key, show = given.dropout_key, given.shown
        x = self.self_residual(
            x, lambda h: attend_to_self(self.self_attention, self.index, h, given), dropout_key, show
        )
        x = self.cross_residual(x, lambda h: self._attend_to_memory(h, given, cross_keys), dropout_key, show)
        return self.feed_residual(x, lambda h: self.feed_forward(h, dropout_key, show), dropout_key, show)

    def _attend_to_memory(self, x: Float[Tensor, "N D"], given: Pass, cross_keys: CrossKeys) -> Float[Tensor, "N D"]:
        attention, keys = self.cross_attention, cross_keys.layer(self.index)
        given.show(f"{attention.name}.input", x)
        return attention.attend(
            attention.queries(x), keys, given.packing, dropout_key=given.dropout_key, observer=given.observer
        )


def attend_to_self(attention: Attention, layer: int, x: Float[Tensor, "N D"], given: Pass) -> Float[Tensor, "N D"]:
    """Self-attention of packed rows; with a cache, also to what the rows wrote before."""
    given.show(f"{attention.name}.input", x)
    rows, keys, rope = attention.self_projections(x), None, given.rope
    if given.cache is not None and given.positions is not None:
        rows, key, value = split_rows(rows, attention.heads, rope)
        keys, rope = given.cache.append(layer, given.packing, given.positions, key, value), None
    return attention.attend(rows, keys, given.packing, given.causal, rope, given.dropout_key, given.observer)


class Encoder(nn.Module):
    """Rows in, rows out. `final_norm` closes a pre-norm stack, whose residual path is never normalised on its way."""

    def __init__(
        self, blocks: Iterable[SelfBlock], final_norm: LayerNorm | RMSNorm | None, rotary: Rotary | None
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.final_norm, self.rotary = final_norm, rotary

    def join_projections(self) -> None:
        """Joins for good what `prepare_for_decoding` joins in every layer."""
        for block in self.blocks:
            assert isinstance(block, SelfBlock)
            block.self_attention.join_projections()

    def forward(
        self,
        x: Float[Tensor, "N D"],
        packing: Packing,
        dropout_key: DropoutKey | None = None,
        observer: Observer | None = None,
    ) -> Float[Tensor, "N D"]:
        rope = self.rotary.rope(packing.position, x.dtype) if self.rotary else None
        given = Pass(packing, causal=False, rope=rope, dropout_key=dropout_key, observer=observer)
        given.show("encoder.embedding", x)
        for block in self.blocks:
            x = block(x, given)
        x = self.final_norm(x) if self.final_norm is not None else x
        given.show("encoder.output", x)
        return x


class Decoder(nn.Module):
    """Rows in, rows out; position t sees only positions up to t. Its blocks all attend to a memory, or none does."""

    def __init__(
        self, blocks: Iterable[CrossBlock | SelfBlock], final_norm: LayerNorm | RMSNorm | None, rotary: Rotary | None
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.final_norm, self.rotary = final_norm, rotary
        self.joined: Callable[[Tensor], Tensor] | None = None
        """Keys and values of all cross-attention as one projection; kept for decoding, made anew in training."""

    def join_projections(self) -> None:
        """Joins for good what `prepare_for_decoding` joins: in every layer, and over all layers' cross-attention."""
        for block in self.blocks:
            assert isinstance(block, CrossBlock | SelfBlock)
            block.self_attention.join_projections()
        self.joined = join_for_good(self._cross_projections) if self._cross_attentions else None

    def forward(
        self,
        x: Float[Tensor, "N D"],
        packing: Packing,
        cross_keys: CrossKeys | None = None,
        cache: Cache | None = None,
        dropout_key: DropoutKey | None = None,
        observer: Observer | None = None,
    ) -> Float[Tensor, "N D"]:
        """With a cache, the rows continue what it holds, and are appended to it."""
        position = cache.positions(packing) if cache is not None else packing.position
        rope = self.rotary.rope(position, x.dtype) if self.rotary else None
        given = Pass(packing, True, rope, dropout_key, cache, position, observer)
        given.show("decoder.embedding", x)
        for block in self.blocks:
            x = block(x, given, cross_keys) if isinstance(block, CrossBlock) else block(x, given)
        if cache is not None:
            cache.advance(packing)
        x = self.final_norm(x) if self.final_norm is not None else x
        given.show("decoder.output", x)
        return x

    def cross_keys(self, memory: Float[Tensor, "N D"], packing: Packing) -> CrossKeys:
        """The keys and values of all layers in one matrix product, because all layers read the same memory."""
        joined = join(self._cross_projections) if self.joined is None else self.joined
        first = self._cross_attentions[0]
        rows = joined(memory).unflatten(-1, (-1, first.d_head))
        parts = rows.split(first.kv_heads, dim=1)  # (N, 2LG, K) -> 2L of (N, G, K)
        return CrossKeys(parts[0::2], parts[1::2], packing.lengths, packing)

    @property
    def _cross_attentions(self) -> list[Attention]:
        return [block.cross_attention for block in self.blocks if isinstance(block, CrossBlock)]

    @property
    def _cross_projections(self) -> list[Projection]:
        """Keys and values of each layer in turn."""
        return [part for attention in self._cross_attentions for part in (attention.key, attention.value)]
