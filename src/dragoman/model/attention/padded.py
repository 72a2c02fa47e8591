"""Attention on packed rows that are padded first: by the equation, or by torch's fused kernel."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from dragoman.model.attention.context import AttentionContext
from dragoman.model.attention.equation import attend, fused_attend, hide, score, weigh
from dragoman.model.attention.keys import Keys, split_rows
from dragoman.model.observer import Observer


class Padded(NamedTuple):
    """Heads of B sentences, padded to equal lengths, and where each query may look."""

    query: Float[Tensor, "B H T K"]
    key: Float[Tensor, "B G S K"]
    value: Float[Tensor, "B G S K"]
    visible: Bool[Tensor, "#B 1 #T S"]


def pad(rows: Float[Tensor, "N P K"], heads: int, keys: Keys | None, context: AttentionContext) -> Padded:
    """What `rows` and `keys` hold (see `Attention.attend`), sentence by sentence."""
    query, queries = rows, context.queries
    if keys is None:
        query, key, value = split_rows(rows, heads, context.rope)
        keys = Keys.of_rows(key, value, queries)
    return Padded(queries.pad(query).transpose(1, 2), *keys.padded(), keys.visible(queries, context.causal))


def equation_attention(
    rows: Float[Tensor, "N P K"], heads: int, keys: Keys | None, context: AttentionContext
) -> Float[Tensor, "N H K"]:
    """By the equation, which holds all weights; takes everything, anywhere."""
    queries, noise = context.queries, context.noise
    tokens = queries.pad(noise.tokens) if noise is not None else None
    mixed, _ = attend(*pad(rows, heads, keys, context), context.dropout, context.site, noise, tokens)
    return queries.unpad(mixed.transpose(1, 2))


def fused_attention(
    rows: Float[Tensor, "N P K"], heads: int, keys: Keys | None, context: AttentionContext
) -> Float[Tensor, "N H K"]:
    """By torch's fused kernel; drops nothing out."""
    assert context.noise is None, "torch's fused attention does not know our dropout"
    return context.queries.unpad(fused_attend(*pad(rows, heads, keys, context)).transpose(1, 2))


@torch.no_grad()
def show_weights(
    observer: Observer, rows: Float[Tensor, "N P K"], heads: int, keys: Keys | None, context: AttentionContext
) -> None:
    """Shows an observer what attention sees and where it looks, computed apart from the result."""
    query, key, value, visible = pad(rows, heads, keys, context)
    products = score(query, key)
    scores = hide(products, visible)
    seen = {"query": query, "key": key, "value": value, "products": products, "scores": scores}
    for name, tensor in {**seen, "weights": weigh(scores, visible)}.items():
        observer.tensor(f"{context.site}.{name}", tensor.detach())
