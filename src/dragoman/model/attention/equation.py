"""Scaled dot-product attention on padded heads: the equation, and torch's fused form of it.

Boolean masks are named for what True means: `visible`.
"""

import math

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.model.dropout import Noise, drop_weights


def attend(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B G S K"],
    value: Float[Tensor, "B G S K"],
    visible: Bool[Tensor, "#B #H #T S"],
    dropout: float = 0.0,
    site: str = "attention",
    noise: Noise | None = None,
    tokens: Int[Tensor, "B T"] | None = None,
) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B H T S"]]:
    """Scaled dot-product attention (Vaswani et al. 2017, eq. 1): softmax(Q K^T / sqrt(d_k)) V.

    Returns the mixed values and the weights, each row of which sums to one; a query that may look nowhere gets zeros.
    H is a multiple of G: each key head serves H / G query heads (Ainslie et al. 2023). Dropout falls on the weights
    that mix, not on those returned; `site`, `noise` and `tokens` key its mask.
    """
    weights = weigh(hide(score(query, key), visible), visible)
    return drop_weights(weights, dropout, site, noise, tokens) @ _for_all_heads(value, query), weights


def score(query: Float[Tensor, "B H T K"], key: Float[Tensor, "B G S K"]) -> Float[Tensor, "B H T S"]:
    """Q K^T / sqrt(d_k)."""
    return query @ _for_all_heads(key, query).transpose(-2, -1) / math.sqrt(query.size(-1))


def hide(products: Float[Tensor, "B H T S"], visible: Bool[Tensor, "#B #H #T S"]) -> Float[Tensor, "B H T S"]:
    """The scores, with -inf where a query may not look."""
    return products.masked_fill(~visible, -math.inf)


def weigh(scores: Float[Tensor, "B H T S"], visible: Bool[Tensor, "#B #H #T S"]) -> Float[Tensor, "B H T S"]:
    """The softmax of the scores, and zeros where a query may not look.

    A query that sees nothing has no softmax; the mask gives it zeros. The NaNs of a diverged model are at visible keys,
    so the mask does not hide them.
    """
    return scores.softmax(-1).masked_fill(~visible, 0.0)


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
