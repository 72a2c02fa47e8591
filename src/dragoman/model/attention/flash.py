"""Attention on rows as they lie on a GPU: torch's FlashAttention for sentences of any lengths (Dao et al. 2022)."""

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.model.attention.context import AttentionContext
from dragoman.model.attention.keys import Keys, split_rows

_SETTINGS = {"window_size", "enable_gqa"}


def flash_takes(rows: Float[Tensor, "N P K"], keys: Keys | None, context: AttentionContext) -> bool:
    """Whether FlashAttention runs here: a GPU of 2020 or newer, half precision, heads of at most 256 in eights, keys in
    rows, no dropout of weights.
    """
    if not rows.is_cuda or context.noise is not None or (keys is not None and keys.packing is None):
        return False
    if rows.dtype not in (torch.bfloat16, torch.float16) or rows.size(2) % 8 or rows.size(2) > 256:
        return False
    return varlen_attention() is not None and torch.cuda.get_device_capability(rows.device) >= (8, 0)


def flash_attention(
    rows: Float[Tensor, "N P K"], heads: int, keys: Keys | None, context: AttentionContext
) -> Float[Tensor, "N H K"]:
    """What `attend` computes, on rows as they lie."""
    attention, queries = varlen_attention(), context.queries
    assert attention is not None, "this torch has no FlashAttention for sentences of any lengths"
    query, of_keys = rows, queries
    if keys is None:
        query, key, value = split_rows(rows, heads, context.rope)
    else:
        assert keys.packing is not None, "padded keys do not lie in rows"
        key, value, of_keys = keys.key, keys.value, keys.packing
    mixed = attention(
        *(query[: queries.tokens], key[: of_keys.tokens], value[: of_keys.tokens]),
        *(queries.edges, of_keys.edges, queries.longest, of_keys.longest),
        window_size=(-1, 0 if context.causal else -1),
        enable_gqa=key.size(1) < heads,
    )
    return queries.fill(mixed)


def varlen_attention() -> Callable[..., Any] | None:
    """torch's `varlen_attn`, if this version has it with the settings that we use."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    return varlen_attn if _knows_settings(varlen_attn) else None


@cache
def _knows_settings(function: Callable[..., Any]) -> bool:
    return inspect.signature(function).parameters.keys() >= _SETTINGS
