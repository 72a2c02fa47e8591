"""The layers of each stack, and the stacks (Vaswani et al. 2017, section 3.1, figure 1).

`SelfBlock` is the encoder's layer; with a causal mask it is a language model's. `CrossBlock` is the decoder's. The
encoder's self-attention sees the whole sentence; the decoder is causal, and attends to a memory if there is one.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from torch import Tensor, nn

from dragoman.model.attention import Attention, WatchedHead
from dragoman.model.attention_backends import KeyValues, split_rows
from dragoman.model.cache import Cache, CrossKeys
from dragoman.model.dropout import DropoutKey
from dragoman.model.embedding import Rope, Rotary
from dragoman.model.layers import FeedForward, LayerNorm, Residual, RMSNorm
from dragoman.model.observer import Observer, RowObserver, row_observer
from dragoman.model.packing import Packing
from dragoman.model.projection import Projection, join, join_permanently
from dragoman.shapes import Float, Int


class LayerContext(NamedTuple):
    """Values shared by all layers of one forward pass."""

    packing: Packing
    causal: bool
    """True if self-attention does not see later positions."""
    rope: Rope | None = None
    """Rotation of the rows, if positions are rotary."""
    dropout_key: DropoutKey | None = None
    cache: Cache | None = None
    positions: Int[Tensor, "N"] | None = None
    """Positions of the rows in their sentences; set if there is a cache."""
    observer: Observer | None = None
    watched: WatchedHead | None = None

    @property
    def observe(self) -> RowObserver:
        """The function that shows rows to the observer, if there is one."""
        return row_observer(self.observer, self.packing)


class SelfBlock(nn.Module):
    """Self-attention, then the feed-forward network, each on its residual path."""

    def __init__(
        self,
        index: int,
        name: str,
        self_attention: Attention,
        feed_forward: FeedForward,
        self_residual: Residual,
        feed_residual: Residual,
    ) -> None:
        super().__init__()
        self.index, self.name = index, name
        self.self_attention, self.feed_forward = self_attention, feed_forward
        self.self_residual, self.feed_residual = self_residual, feed_residual

    def forward(self, x: Float[Tensor, "N D"], context: LayerContext) -> Float[Tensor, "N D"]:
        dropout_key, observe = context.dropout_key, context.observe
        attention = partial(attend_to_self, self.self_attention, self.index, context)
        feed_forward = partial(self.feed_forward, dropout_key=dropout_key, observe=observe)
        x = self.self_residual(x, attention, dropout_key, observe)
        return self.feed_residual(x, feed_forward, dropout_key, observe)


class CrossBlock(nn.Module):
    """Causal self-attention, attention to the memory, then the feed-forward network, each on its residual path."""

    def __init__(
        self,
        index: int,
        name: str,
        self_attention: Attention,
        cross_attention: Attention,
        feed_forward: FeedForward,
        self_residual: Residual,
        cross_residual: Residual,
        feed_residual: Residual,
    ) -> None:
        super().__init__()
        self.index, self.name = index, name
        self.self_attention, self.cross_attention, self.feed_forward = self_attention, cross_attention, feed_forward
        self.self_residual, self.cross_residual, self.feed_residual = self_residual, cross_residual, feed_residual

    def forward(self, x: Float[Tensor, "N D"], context: LayerContext, cross_keys: CrossKeys) -> Float[Tensor, "N D"]:
        dropout_key, observe = context.dropout_key, context.observe
        attention = partial(attend_to_self, self.self_attention, self.index, context)
        keys = cross_keys.layer(self.index)
        watched = context.watched if context.watched is not None and context.watched.layer == self.index else None
        cross_attention = partial(attend_to_memory, self.cross_attention, keys, context, watched)
        feed_forward = partial(self.feed_forward, dropout_key=dropout_key, observe=observe)
        x = self.self_residual(x, attention, dropout_key, observe)
        x = self.cross_residual(x, cross_attention, dropout_key, observe)
        return self.feed_residual(x, feed_forward, dropout_key, observe)


def attend_to_self(
    attention: Attention, layer: int, context: LayerContext, x: Float[Tensor, "N D"]
) -> Float[Tensor, "N D"]:
    """Compute self-attention of packed rows; with a cache, also over earlier tokens."""
    context.observe(f"{attention.name}.input", x)
    rows, keys, rope = attention.self_projections(x), None, context.rope
    if context.cache is not None and context.positions is not None:
        rows, key, value = split_rows(rows, attention.heads, rope)
        keys, rope = context.cache.append(layer, context.packing, context.positions, key, value), None
    return attention.attend(rows, keys, context.packing, context.causal, rope, context.dropout_key, context.observer)


def attend_to_memory(
    attention: Attention, keys: KeyValues, context: LayerContext, watched: WatchedHead | None, x: Float[Tensor, "N D"]
) -> Float[Tensor, "N D"]:
    """Compute cross-attention of packed rows to this layer's keys of the memory."""
    context.observe(f"{attention.name}.input", x)
    queries = attention.queries(x)
    if watched is not None:
        watched.record(queries, keys.key)
    return attention.attend(queries, keys, context.packing, dropout_key=context.dropout_key, observer=context.observer)


class Encoder(nn.Module):
    """A stack of self-attention blocks. A pre-norm stack needs `final_norm`, because its residual path has no norm."""

    def __init__(
        self, blocks: Iterable[SelfBlock], final_norm: LayerNorm | RMSNorm | None, rotary: Rotary | None
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.final_norm, self.rotary = final_norm, rotary

    def join_projections(self) -> None:
        """Join the projections of every layer for decoding."""
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
        context = LayerContext(packing, causal=False, rope=rope, dropout_key=dropout_key, observer=observer)
        context.observe("encoder.embedding", x)
        for block in self.blocks:
            x = block(x, context)
        x = self.final_norm(x) if self.final_norm is not None else x
        context.observe("encoder.output", x)
        return x


class Decoder(nn.Module):
    """A causal stack: position t sees only positions up to t. Either all blocks attend to a memory, or none does."""

    def __init__(
        self, blocks: Iterable[CrossBlock | SelfBlock], final_norm: LayerNorm | RMSNorm | None, rotary: Rotary | None
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.final_norm, self.rotary = final_norm, rotary
        self.joined: Callable[[Tensor], Tensor] | None = None
        """Joint projection to all layers' cross-attention keys and values for decoding; None in training."""

    def join_projections(self) -> None:
        """Join the projections of every layer, and the keys and values of all layers' cross-attention, for decoding."""
        for block in self.blocks:
            assert isinstance(block, CrossBlock | SelfBlock)
            block.self_attention.join_projections()
        self.joined = join_permanently(self._cross_projections) if self._cross_attentions else None

    def forward(
        self,
        x: Float[Tensor, "N D"],
        packing: Packing,
        cross_keys: CrossKeys | None = None,
        cache: Cache | None = None,
        dropout_key: DropoutKey | None = None,
        observer: Observer | None = None,
        watched: WatchedHead | None = None,
    ) -> Float[Tensor, "N D"]:
        """Compute the decoder's output. With a cache, the rows continue its rows and are appended to it."""
        position = cache.positions(packing) if cache is not None else packing.position
        rope = self.rotary.rope(position, x.dtype) if self.rotary else None
        context = LayerContext(packing, True, rope, dropout_key, cache, position, observer, watched)
        context.observe("decoder.embedding", x)
        for block in self.blocks:
            x = block(x, context, cross_keys) if isinstance(block, CrossBlock) else block(x, context)
        if cache is not None:
            cache.advance(packing)
        x = self.final_norm(x) if self.final_norm is not None else x
        context.observe("decoder.output", x)
        return x

    def cross_keys(self, memory: Float[Tensor, "N D"], packing: Packing) -> CrossKeys:
        """Compute the keys and values of all layers in one matrix product, because all layers read the same memory."""
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
        """Key and value projections, layer by layer."""
        return [part for attention in self._cross_attentions for part in (attention.key, attention.value)]
