"""The decoder: a causal stack, which with a memory also attends to it (section 3.1)."""

from collections.abc import Iterable

from jaxtyping import Float
from torch import Tensor, nn

from dragoman.model.attention import joined_linear
from dragoman.model.blocks import CrossBlock, Pass, SelfBlock
from dragoman.model.cache import Cache, Memory
from dragoman.model.dropout import Noise
from dragoman.model.layers import LayerNorm, RMSNorm
from dragoman.model.packing import Packing
from dragoman.model.positions import Rotary


class Decoder(nn.Module):
    """Rows in, rows out; position t sees only positions up to t. Its blocks all attend to a memory, or none does."""

    def __init__(
        self, blocks: Iterable[CrossBlock | SelfBlock], final_norm: LayerNorm | RMSNorm | None, rotary: Rotary | None
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.final_norm, self.rotary = final_norm, rotary

    def forward(
        self,
        x: Float[Tensor, "N D"],
        packing: Packing,
        memory: Memory | None = None,
        cache: Cache | None = None,
        noise: Noise | None = None,
    ) -> Float[Tensor, "N D"]:
        """With a cache, the rows continue what it holds, and are appended to it."""
        position = cache.positions(packing) if cache is not None else packing.position
        turns = self.rotary.turns(position, x.dtype) if self.rotary else None
        given = Pass(packing, True, turns, noise, cache, position)
        for block in self.blocks:
            x = block(x, given, memory) if isinstance(block, CrossBlock) else block(x, given)
        if cache is not None:
            cache.advance(packing)
        return self.final_norm(x) if self.final_norm is not None else x

    def remember(self, encoded: Float[Tensor, "N D"], packing: Packing) -> Memory:
        """The memory's keys and values for all layers, in one matrix product, since all layers read the same rows."""
        attentions = [block.cross_attention for block in self.blocks if isinstance(block, CrossBlock)]
        projections = [layer for attention in attentions for layer in (attention.key, attention.value)]
        heads, width = attentions[0].kv_heads, attentions[0].d_head
        rows = joined_linear(encoded, projections).unflatten(-1, (len(projections) * heads, width))
        parts = rows.split(heads, dim=1)  # (N, 2LG, K) -> 2L of (N, G, K)
        return Memory(parts[0::2], parts[1::2], packing.lengths, packing)
