"""Attention: `attend` is the equation, `Attention` the projections around it.

Boolean masks are named for what True means: `visible`.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.errors import ConfigError
from dragoman.model.dropout import Noise, drop_weights
from dragoman.model.keys import Keys
from dragoman.model.packed_attention import Sight, packed_attention, pays_to_fuse, takes
from dragoman.model.packing import Packing
from dragoman.model.positions import Turns, rotate
from dragoman.model.watch import weights_wanted


def attend(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B G S K"],
    value: Float[Tensor, "B G S K"],
    visible: Bool[Tensor, "#B #H #T S"],
    dropout: float = 0.0,
    site: int = 0,
    noise: Noise | None = None,
    tokens: Int[Tensor, "B T"] | None = None,
) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B H T S"]]:
    """Scaled dot-product attention (Vaswani et al. 2017, eq. 1): softmax(Q K^T / sqrt(d_k)) V.

    Returns the mixed values and the weights, each row of which sums to one; a query that may look nowhere gets zeros.
    H is a multiple of G: each key head serves H / G query heads (Ainslie et al. 2023). Dropout falls on the weights
    that mix, not on those returned; `noise` and `tokens` say on which.
    """
    key, value, hidden = _for_all_heads(key, query), _for_all_heads(value, query), ~visible
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    # Filling twice: the first keeps hidden keys out of the sum, the second gives zeros to a query that sees nothing,
    # whose softmax is undefined. A NaN of a diverged model stands on visible keys, and stays to be seen.
    weights = scores.masked_fill(hidden, -math.inf).softmax(-1).masked_fill(hidden, 0.0)
    return drop_weights(weights, dropout, site, noise, tokens) @ value, weights


def fused_attend(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B G S K"],
    value: Float[Tensor, "B G S K"],
    visible: Bool[Tensor, "#B #H #T S"],
) -> Float[Tensor, "B H T K"]:
    """The mixed values of `attend` without dropout, by torch's kernel, which never holds all weights (Dao et al. 2022).

    Every query must see some key.
    """
    key, value = _for_all_heads(key, query), _for_all_heads(value, query)
    return nn.functional.scaled_dot_product_attention(query, key, value, visible)


def _for_all_heads(x: Float[Tensor, "B G S K"], query: Float[Tensor, "B H T K"]) -> Float[Tensor, "B H S K"]:
    shared = query.size(1) // x.size(1)
    return x.repeat_interleave(shared, 1) if shared > 1 else x


class Attention(nn.Module):
    """Multi-head attention (section 3.2.2) on rows of tokens, with one matrix per projection of the paper.

    `heads` query heads of width d_model / heads; `kv_heads` key and value heads (fewer: grouped-query attention).
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        kv_heads: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        site: int = 0,
        name: str = "attention",
    ) -> None:
        super().__init__()
        kv_heads = kv_heads or heads
        if d_model % heads:
            raise ConfigError(f"heads must divide d_model, but {heads} does not divide {d_model}")
        if heads % kv_heads:
            raise ConfigError(f"kv_heads must divide heads, but {kv_heads} does not divide {heads}")
        self.heads, self.kv_heads, self.d_head = heads, kv_heads, d_model // heads
        self.dropout, self.site, self.name = dropout, site, name
        self.query = nn.Linear(d_model, heads * self.d_head, bias=bias)
        self.key = nn.Linear(d_model, kv_heads * self.d_head, bias=bias)
        self.value = nn.Linear(d_model, kv_heads * self.d_head, bias=bias)
        self.output = nn.Linear(heads * self.d_head, d_model, bias=bias)

    def queries(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N H K"]:
        return self.query(x).unflatten(-1, (self.heads, self.d_head))

    @property
    def parts(self) -> list[int]:
        """Heads of queries, keys and values."""
        return [self.heads, self.kv_heads, self.kv_heads]

    def self_projections(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N P K"]:
        """Queries, keys and values of the same rows side by side (see `parts`), in one matrix product."""
        return joined_linear(x, [self.query, self.key, self.value]).unflatten(-1, (sum(self.parts), self.d_head))

    def mix(
        self,
        rows: Float[Tensor, "N P K"],
        keys: Keys | None,
        packing: Packing,
        causal: bool = False,
        turns: Turns | None = None,
        noise: Noise | None = None,
    ) -> Float[Tensor, "N D"]:
        """Attends from the queries in `rows` to `keys`, or, without any, to the keys and values that stand beside them;
        projects what is mixed (the W^O of the paper). Every query sees some key.

        `causal`: no query looks past its own place. `turns` turn the queries, and the keys beside them.
        """
        dropped = noise is not None and self.dropout > 0
        sight = Sight(packing, causal, turns, noise if dropped else None, self.dropout, self.site)
        wanted = weights_wanted()
        packed = wanted is None and takes(rows, keys, sight)
        fused = wanted is None and pays_to_fuse(rows, sight, packed)
        if packed and not fused:
            mixed = packed_attention(rows, self.heads, keys, sight)
        else:
            mixed = self._mix_padded(rows, keys, sight, fused)
        return self.output(mixed.flatten(1))  # (N, H, K) -> (N, H * K)

    def _mix_padded(
        self, rows: Float[Tensor, "N P K"], keys: Keys | None, sight: Sight, fused: bool
    ) -> Float[Tensor, "N H K"]:
        queries, noise, wanted = sight.queries, sight.noise, weights_wanted()
        if keys is None:
            query, key, value = cut(rows, self.parts, sight.turns)
            keys = Keys.of_rows(key, value, queries)
        else:
            query = rows
        padded = queries.pad(query).transpose(1, 2), *keys.padded(), keys.visible(queries, sight.causal)
        if fused:
            mixed = fused_attend(*padded)
        else:
            tokens = queries.pad(noise.tokens) if noise is not None else None
            mixed, weights = attend(*padded, sight.dropout, sight.site, noise, tokens)
            if wanted is not None:
                wanted[self.name] = weights
        return queries.unpad(mixed.transpose(1, 2))


def cut(
    rows: Float[Tensor, "N P K"], parts: Sequence[int], turns: Turns | None = None
) -> tuple[Float[Tensor, "N H K"], Float[Tensor, "N G K"], Float[Tensor, "N G K"]]:
    """Queries, keys and values that stand side by side; `turns` turn all but the values."""
    query, key, value = rows.split(list(parts), dim=1)
    return (query, key, value) if turns is None else (rotate(query, turns), rotate(key, turns), value)


def joined_linear(x: Float[Tensor, "N D"], layers: list[nn.Linear]) -> Float[Tensor, "N F"]:
    """Several linear layers of one input as a single matrix product: one large is faster than many small."""
    weight = torch.cat([layer.weight for layer in layers])
    biases: list[Tensor] = [layer.bias for layer in layers if layer.bias is not None]
    return nn.functional.linear(x, weight, torch.cat(biases) if biases else None)
