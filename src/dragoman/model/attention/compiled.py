"""Attention on rows as they lie on a processor, by our own kernel (`kernels/attention.cpp`).

Nothing is padded, and no attention weights are kept: the backward pass computes them again (Dao et al. 2022).
"""

import ctypes
import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from dragoman import kernels
from dragoman.model.attention.context import AttentionContext
from dragoman.model.attention.keys import Keys, split_rows
from dragoman.model.dropout import draw


def compiled_takes(rows: Float[Tensor, "N P K"], keys: Keys | None, context: AttentionContext) -> bool:
    """Whether the kernel takes these tensors. For padded keys it has no backward pass."""
    tensors = [rows, *(context.rope or ()), *((keys.key, keys.value) if keys is not None else ())]
    only_forward = keys is not None and keys.packing is None
    return kernels.usable("attention", *tensors) and not (only_forward and torch.is_grad_enabled())


def compiled_attention(
    rows: Float[Tensor, "N P K"], heads: int, keys: Keys | None, context: AttentionContext
) -> Float[Tensor, "N H K"]:
    """What `attend` computes, on rows as they lie."""
    key, value = (None, None) if keys is None else (keys.key, keys.value)
    return _CompiledAttention.apply(rows, key, value, heads, keys, context)


class _CompiledAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, key, value, heads, keys, context):
        ctx.save_for_backward(rows, key, value)
        ctx.heads, ctx.context = heads, context
        # The keys themselves are not kept, because what is kept here outlives the pass back.
        ctx.of_keys, ctx.lengths = (None, context.queries.lengths) if keys is None else (keys.packing, keys.lengths)
        query, key, value = _parts(rows, heads, key, value)
        mixed = rows.new_empty(query.shape)
        mixed[context.queries.tokens :] = 0
        layout, _alive = _layout(query, key, value, ctx.lengths, context)
        kernels.run("attention", query, key, value, mixed, ctypes.byref(layout))
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        rows, key, value = ctx.saved_tensors
        of_rows = rows.new_empty(rows.shape)
        of_rows[ctx.context.queries.tokens :] = 0
        of_key = of_value = None
        if ctx.of_keys is not None:
            of_key, of_value = (rows.new_empty(key.shape) for _ in range(2))
            of_key[ctx.of_keys.tokens :] = of_value[ctx.of_keys.tokens :] = 0
        query, key, value = _parts(rows, ctx.heads, key, value)
        gradients = _parts(of_rows, ctx.heads, of_key, of_value)
        layout, _alive = _layout(query, key, value, ctx.lengths, ctx.context)
        strides = gradients[0].stride(0), gradients[1].stride(0)
        given = gradient.contiguous()
        kernels.run("attention_back", query, key, value, given, *gradients, ctypes.byref(layout), *strides)
        return of_rows, of_key, of_value, None, None, None


def _parts(rows: Tensor, heads: int, key: Tensor | None, value: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values: parts of the same rows, or of their own."""
    return split_rows(rows, heads) if key is None or value is None else (rows, key, value)


class _Layout(ctypes.Structure):
    """Where everything lies: the `Layout` of attention.cpp."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("queries", "keys", "tokens", "cosine", "sine")),
        *((name, ctypes.c_int64) for name in ("sentences", "heads", "key_heads", "width")),
        *((name, ctypes.c_int64) for name in ("query_row", "key_row", "key_head", "key_sentence")),
        *((name, ctypes.c_float) for name in ("scale", "kept_scale")),
        ("noise", ctypes.c_uint32),
        ("threshold", ctypes.c_int32),
        ("causal", ctypes.c_bool),
    ]


def _layout(
    query: Tensor, key: Tensor, value: Tensor, lengths: Int[Tensor, "B"], context: AttentionContext
) -> tuple[_Layout, list[Tensor | None]]:
    """The layout, and the tensors whose addresses it holds; `lengths` are those of the keys."""
    width, noise = query.size(2), context.noise
    alive = [
        x if x is None else x.contiguous()
        for x in (context.queries.lengths, lengths, noise.tokens if noise else None, *(context.rope or (None, None)))
    ]
    row, sentence = (0, 0) if key.dim() == 3 else (2, key.stride(0))
    assert query.stride()[1:] == (width, 1) and key.stride() == value.stride() and key.stride(-1) == 1, (
        "the kernel reads whole heads"
    )
    layout = _Layout(
        *(None if x is None else x.data_ptr() for x in alive),
        *(context.queries.sentences, query.size(1), key.size(1), width),
        *(query.stride(0), key.stride(row), key.stride(1), sentence),
        1.0 / math.sqrt(width),
        *(draw(context.dropout, context.site, noise) if noise else (1.0, 0, 0)),
        context.causal,
    )
    return layout, alive
