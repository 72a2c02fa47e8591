"""The decoder: a causal stack, which with a memory also attends to it (section 3.1)."""

from collections.abc import Callable, Iterable

from jaxtyping import Float
from torch import Tensor, nn

from dragoman.model.attention.cache import Cache, CrossKeys
from dragoman.model.attention.multi_head import Attention
from dragoman.model.blocks import CrossBlock, Pass, SelfBlock
from dragoman.model.dropout import Noise
from dragoman.model.layers import LayerNorm, RMSNorm
from dragoman.model.observer import Observer
from dragoman.model.packing import Packing
from dragoman.model.positions import Rotary
from dragoman.model.projection import Projection, join, join_for_good


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
        noise: Noise | None = None,
        observer: Observer | None = None,
    ) -> Float[Tensor, "N D"]:
        """With a cache, the rows continue what it holds, and are appended to it."""
        position = cache.positions(packing) if cache is not None else packing.position
        rope = self.rotary.rope(position, x.dtype) if self.rotary else None
        given = Pass(packing, True, rope, noise, cache, position, observer)
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
