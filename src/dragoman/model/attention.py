"""Attention: `attend` is the equation, `Attention` the projections around it.

Boolean masks are named for what True means: `visible`. The weights of every layer and head are there on request:

    with attention_weights() as seen:
        model.encode(source, packing)
    seen["encoder.0.self"]  # (B, H, T, S)
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from dragoman.errors import ConfigError
from dragoman.model import kernels
from dragoman.model.dropout import Noise, drop_weights
from dragoman.model.heads import from_heads
from dragoman.model.packing import Packing

_FUSED_FROM = {torch.float32: 128, torch.bfloat16: 512}
"""Queries of a sentence from which on torch's fused attention is faster on a CPU; never in float64."""

_seen: ContextVar[dict[str, Tensor] | None] = ContextVar("attention weights", default=None)


@contextmanager
def attention_weights() -> Iterator[dict[str, Tensor]]:
    """Within the block, every attention leaves its weights (B, H, T, S) here, by name; a later call replaces an
    earlier.
    """
    seen: dict[str, Tensor] = {}
    token = _seen.set(seen)
    try:
        yield seen
    finally:
        _seen.reset(token)


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
    key, value = _for_all_heads(key, query), _for_all_heads(value, query)
    weights = masked_softmax(query @ key.transpose(-2, -1), visible, 1.0 / math.sqrt(query.size(-1)))
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


def pays_to_fuse(query: Float[Tensor, "B H T K"]) -> bool:
    """Whether torch's fused kernel is the faster one: on a CPU for long rows alone (benchmarks/attention.py)."""
    return query.device.type != "cpu" or query.size(2) >= _FUSED_FROM.get(query.dtype, math.inf)


def _for_all_heads(x: Float[Tensor, "B G S K"], query: Float[Tensor, "B H T K"]) -> Float[Tensor, "B H S K"]:
    shared = query.size(1) // x.size(1)
    return x.repeat_interleave(shared, 1) if shared > 1 else x


def masked_softmax(
    scores: Float[Tensor, "B H T S"], visible: Bool[Tensor, "#B #H #T S"], scale: float
) -> Float[Tensor, "B H T S"]:
    """softmax(scale * scores) over the visible keys, zero on the others; a query that sees nothing gets zeros."""
    if visible.size(1) == 1 and kernels.usable("masked_softmax", scores):
        return _FusedSoftmax.apply(scores, visible, scale)
    hidden = ~visible
    # Filling twice: the first keeps hidden keys out of the sum, the second gives zeros to a query that sees nothing,
    # whose softmax is undefined. A NaN of a diverged model stands on visible keys, and stays to be seen.
    return (scores * scale).masked_fill(hidden, -math.inf).softmax(-1).masked_fill(hidden, 0.0)


class _FusedSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores, visible, scale):
        scores, visible = scores.contiguous(), visible.contiguous()
        weights, keys = torch.empty_like(scores), scores.size(-1)
        by_query = keys if visible.size(2) > 1 else 0
        by_sentence = visible.size(2) * keys if visible.size(0) > 1 else 0
        kernels.run("masked_softmax", scores, visible, weights, *scores.shape, by_sentence, by_query, scale)
        ctx.save_for_backward(weights)
        ctx.scale = scale
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        (weights,) = ctx.saved_tensors
        gradient, of_scores, keys = gradient.contiguous(), torch.empty_like(weights), weights.size(-1)
        rows = weights.numel() // max(1, keys)
        kernels.run("masked_softmax_back", gradient, weights, of_scores, rows, keys, ctx.scale)
        return of_scores, None, None


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
        query: Float[Tensor, "B H T K"],
        packing: Packing,
        key: Float[Tensor, "B G S K"],
        value: Float[Tensor, "B G S K"],
        visible: Bool[Tensor, "#B #H #T S"],
        noise: Noise | None = None,
    ) -> Float[Tensor, "N D"]:
        """Attends, and projects the mixed values as rows again (the W^O of the paper). Every query sees some key."""
        seen, dropped = _seen.get(), noise is not None and self.dropout > 0
        if seen is None and not dropped and pays_to_fuse(query):
            mixed = fused_attend(query, key, value, visible)
        else:
            tokens = packing.pad(noise.tokens) if noise is not None and dropped else None
            mixed, weights = attend(query, key, value, visible, self.dropout, self.site, noise, tokens)
            if seen is not None:
                seen[self.name] = weights
        return self.output(from_heads(mixed, packing).flatten(1))  # (B, H, T, K) -> (N, H * K)


def joined_linear(x: Float[Tensor, "N D"], layers: list[nn.Linear]) -> Float[Tensor, "N F"]:
    """Several linear layers of one input as a single matrix product: one large is faster than many small."""
    weight = torch.cat([layer.weight for layer in layers])
    biases: list[Tensor] = [layer.bias for layer in layers if layer.bias is not None]
    return nn.functional.linear(x, weight, torch.cat(biases) if biases else None)
