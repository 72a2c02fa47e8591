"""`attend` for rows of tokens as they lie: compiled on a processor (`attention.cpp`), torch's FlashAttention on a GPU.

Nothing is padded, and no weights are kept: they are made again on the way back (Dao et al. 2022).
"""

import ctypes
import inspect
import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from dragoman import kernels
from dragoman.model.dropout import Noise, draw
from dragoman.model.keys import Keys
from dragoman.model.packing import Packing
from dragoman.model.positions import Turns, rotate

_FUSED_FROM = {torch.float32: 128, torch.bfloat16: 512}
"""Queries of a sentence from which on torch's fused attention beats the equation on a CPU; never in float64."""
_FUSED_BEATS_PACKED_FROM = {torch.float32: 2_048, torch.bfloat16: 1_024}
"""And from which it beats what is here; never under a causal mask (benchmarks/attention.py)."""


class Sight(NamedTuple):
    """What the queries of one attention have in common."""

    queries: Packing
    causal: bool
    """No query looks past its own place."""
    turns: Turns | None = None
    noise: Noise | None = None
    """What dropout of the weights is keyed by; None where nothing is dropped."""
    dropout: float = 0.0
    site: int = 0


def takes(rows: Tensor, keys: Keys | None, sight: Sight) -> bool:
    """Whether `packed_attention` can be called here."""
    if rows.is_cuda:
        return _flash_takes(rows, keys, sight)
    tensors = [rows, *(sight.turns or ()), *((keys.key, keys.value) if keys is not None else ())]
    only_forward = keys is not None and keys.packing is None
    return kernels.usable("attention", *tensors) and not (only_forward and torch.is_grad_enabled())


def pays_to_fuse(rows: Tensor, sight: Sight, packed: bool) -> bool:
    """Whether torch's fused attention is the fastest way; `packed`: ours is there too. It drops nothing out."""
    if sight.noise is not None or rows.device.type != "cpu":
        return sight.noise is None and not packed
    table = _FUSED_BEATS_PACKED_FROM if packed else _FUSED_FROM
    pays = not (packed and sight.causal) and sight.queries.longest >= table.get(rows.dtype, math.inf)
    return pays and _fused_runs(rows.dtype)


@cache
def _fused_runs(dtype: torch.dtype) -> bool:
    """Whether torch's fused attention runs here: version 2.13 raises for bf16 on a processor with AMX, if
    `ATEN_CPU_CAPABILITY` keeps it from AVX-512.
    """
    some = torch.ones(1, 1, 64, 16, dtype=dtype)
    try:
        torch.nn.functional.scaled_dot_product_attention(some, some, some)
    except RuntimeError:
        return False
    return True


def packed_attention(
    rows: Float[Tensor, "N P K"], heads: int, keys: Keys | None, sight: Sight
) -> Float[Tensor, "N H K"]:
    """What the first `heads` parts of `rows` find in `keys`; without keys in themselves, whose keys and values are the
    other parts.
    """
    if rows.is_cuda:
        return _flash(rows, heads, keys, sight)
    key, value = (None, None) if keys is None else (keys.key, keys.value)
    return _PackedAttention.apply(rows, key, value, heads, keys, sight)


def _flash_takes(rows: Tensor, keys: Keys | None, sight: Sight) -> bool:
    """Half precision, heads of at most 256 in eights, no dropout of weights, a GPU of 2020 or newer."""
    half, width = rows.dtype in (torch.bfloat16, torch.float16), rows.size(2)
    if not half or width % 8 or width > 256 or sight.noise is not None or (keys is not None and keys.packing is None):
        return False
    return _varlen_attn() is not None and torch.cuda.get_device_capability(rows.device) >= (8, 0)


@cache
def _varlen_attn() -> Callable[..., Any] | None:
    """torch's own, where this version has it with the settings that are used here."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    return varlen_attn if {"window_size", "enable_gqa"} <= inspect.signature(varlen_attn).parameters.keys() else None


def _flash(rows: Float[Tensor, "N P K"], heads: int, keys: Keys | None, sight: Sight) -> Float[Tensor, "N H K"]:
    flash, queries, of_keys = _varlen_attn(), sight.queries, sight.queries
    assert flash is not None, "not taken"
    if keys is None:
        query, key, value = _parts(rows, heads, None, None)
        if sight.turns is not None:
            query, key = rotate(query, sight.turns), rotate(key, sight.turns)
    else:
        assert keys.packing is not None, "rows"
        query, key, value, of_keys = rows, keys.key, keys.value, keys.packing
    mixed = flash(
        *(query[: queries.tokens], key[: of_keys.tokens], value[: of_keys.tokens]),
        *(queries.edges, of_keys.edges, queries.longest, of_keys.longest),
        window_size=(-1, 0 if sight.causal else -1),
        enable_gqa=key.size(1) < heads,
    )
    return queries.fill(mixed)


class _PackedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, key, value, heads, keys, sight):
        ctx.save_for_backward(rows, key, value)
        ctx.heads, ctx.sight = heads, sight
        # Not the keys themselves: what is kept here outlives the pass back, and they are as large as the memory.
        ctx.of_keys, ctx.lengths = (None, sight.queries.lengths) if keys is None else (keys.packing, keys.lengths)
        query, key, value = _parts(rows, heads, key, value)
        mixed = rows.new_empty(query.shape)
        mixed[sight.queries.tokens :] = 0
        layout, _alive = _layout(query, key, value, ctx.lengths, sight)
        kernels.run("attention", query, key, value, mixed, ctypes.byref(layout))
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        rows, key, value = ctx.saved_tensors
        of_rows = rows.new_empty(rows.shape)
        of_rows[ctx.sight.queries.tokens :] = 0
        of_key = of_value = None
        if ctx.of_keys is not None:
            of_key, of_value = (rows.new_empty(key.shape) for _ in range(2))
            of_key[ctx.of_keys.tokens :] = of_value[ctx.of_keys.tokens :] = 0
        query, key, value = _parts(rows, ctx.heads, key, value)
        gradients = _parts(of_rows, ctx.heads, of_key, of_value)
        layout, _alive = _layout(query, key, value, ctx.lengths, ctx.sight)
        strides = gradients[0].stride(0), gradients[1].stride(0)
        given = gradient.contiguous()
        kernels.run("attention_back", query, key, value, given, *gradients, ctypes.byref(layout), *strides)
        return of_rows, of_key, of_value, None, None, None


def _parts(rows: Tensor, heads: int, key: Tensor | None, value: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values: three parts of the same rows, or of their own."""
    if key is not None and value is not None:
        return rows, key, value
    others = (rows.size(1) - heads) // 2
    query, key, value = rows.split([heads, others, others], dim=1)
    return query, key, value


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
    query: Tensor, key: Tensor, value: Tensor, lengths: Int[Tensor, "B"], sight: Sight
) -> tuple[_Layout, list[Tensor | None]]:
    """And the tensors whose addresses it holds; `lengths` are those of the keys."""
    width, noise = query.size(2), sight.noise
    alive = [
        x if x is None else x.contiguous()
        for x in (sight.queries.lengths, lengths, noise.tokens if noise else None, *(sight.turns or (None, None)))
    ]
    row, sentence = (0, 0) if key.dim() == 3 else (2, key.stride(0))
    assert query.stride()[1:] == (width, 1) and key.stride() == value.stride() and key.stride(-1) == 1, "laid out so"
    layout = _Layout(
        *(None if x is None else x.data_ptr() for x in alive),
        *(sight.queries.sentences, query.size(1), key.size(1), width),
        *(query.stride(0), key.stride(row), key.stride(1), sentence),
        1.0 / math.sqrt(width),
        *(draw(sight.dropout, sight.site, noise) if noise else (1.0, 0, 0)),
        sight.causal,
    )
    return layout, alive
