"""Scaled dot-product attention (Vaswani et al. 2017, section 3.2.1): the equation, and faster backends with the same
result.

The module contains, in this order: the equation on padded heads; keys, values and masks; the backends, which work on
rows of tokens; the table that selects a backend. Boolean masks are named for the meaning of True: `visible`.
"""

import ctypes
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from dragoman.compiled import kernels
from dragoman.model.dropout import DropoutKey, drop_weights, mask_parameters
from dragoman.model.embedding import Rope, rotate
from dragoman.model.observer import Observer
from dragoman.model.packing import Bins, Packing
from dragoman.shapes import Bool, Float, Int


def attend(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B G S K"],
    value: Float[Tensor, "B G S K"],
    visible: Bool[Tensor, "#B #H #T S"],
    dropout: float = 0.0,
    site: str = "attention",
    dropout_key: DropoutKey | None = None,
    tokens: Int[Tensor, "B T"] | None = None,
) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B H T S"]]:
    """Compute scaled dot-product attention (Vaswani et al. 2017, eq. 1): softmax(Q K^T / sqrt(d_k)) V.

    Returns the mixed values and the weights. Every row of weights sums to one, or is zero if the query may look
    nowhere. H is a multiple of G: a key head serves H / G query heads (Ainslie et al. 2023). Dropout applies to the
    weights that mix values, not to the returned ones; `site`, `dropout_key` and `tokens` determine its mask.
    """
    weights = weigh(hide(score(query, key), visible), visible)
    return drop_weights(weights, dropout, site, dropout_key, tokens) @ _for_all_heads(value, query), weights


def score(query: Float[Tensor, "B H T K"], key: Float[Tensor, "B G S K"]) -> Float[Tensor, "B H T S"]:
    """Return Q K^T / sqrt(d_k)."""
    return query @ _for_all_heads(key, query).transpose(-2, -1) / math.sqrt(query.size(-1))


def hide(products: Float[Tensor, "B H T S"], visible: Bool[Tensor, "#B #H #T S"]) -> Float[Tensor, "B H T S"]:
    """Return the scores with -inf where a query may not look."""
    return products.masked_fill(~visible, -math.inf)


def weigh(scores: Float[Tensor, "B H T S"], visible: Bool[Tensor, "#B #H #T S"]) -> Float[Tensor, "B H T S"]:
    """Return the softmax of the scores, with zeros where a query may not look.

    The softmax of a query that sees nothing is undefined; the mask sets it to zeros. The NaNs of a diverged model are
    at visible keys, so the mask does not hide them.
    """
    return scores.softmax(-1).masked_fill(~visible, 0.0)


def _for_all_heads(x: Float[Tensor, "B G S K"], query: Float[Tensor, "B H T K"]) -> Float[Tensor, "B H S K"]:
    shared = query.size(1) // x.size(1)
    return x.repeat_interleave(shared, 1) if shared > 1 else x


@dataclass(frozen=True)
class KeyValues:
    """Keys and values of B sentences: rows (M, G, K) of a packing, or padded (B, G, S, K) without one."""

    key: Tensor
    value: Tensor
    lengths: Int[Tensor, "B"]
    packing: Packing | None = None

    @classmethod
    def from_rows(cls, key: Float[Tensor, "M G K"], value: Float[Tensor, "M G K"], packing: Packing) -> "KeyValues":
        return cls(key, value, packing.lengths, packing)

    def padded(self) -> tuple[Float[Tensor, "B G S K"], Float[Tensor, "B G S K"]]:
        if self.packing is None:
            return self.key, self.value
        return self.packing.pad(self.key).transpose(1, 2), self.packing.pad(self.value).transpose(1, 2)

    def visible(self, queries: Packing, causal: bool) -> Bool[Tensor, "#B 1 #T S"]:
        """Return the mask of visible keys: those of the same sentence (section 3.2.3), and, if causal, none after the
        query's own position. The last query of a sentence is at its last key, unless sentences share bins.
        """
        if isinstance(queries, Bins) and isinstance(self.packing, Bins):
            return queries.visible(self.packing, causal)
        longest = self.key.size(2) if self.packing is None else self.packing.longest
        places = torch.arange(longest, device=self.lengths.device)
        if not causal:
            return (places < self.lengths[:, None])[:, None, None]
        query_places = torch.arange(queries.longest, device=self.lengths.device)[None]
        if self.packing is not queries:
            query_places = query_places + (self.lengths - queries.lengths)[:, None]
        return (places <= query_places[..., None])[:, None]


class AttentionContext(NamedTuple):
    """Settings shared by all queries of one attention."""

    heads: int
    """Query heads."""
    queries: Packing
    causal: bool
    """True if a query sees no later positions."""
    rope: Rope | None = None
    """Rotation of the queries, and of keys in the same rows."""
    dropout_key: DropoutKey | None = None
    """Key of the dropout of weights; None for no dropout."""
    dropout: float = 0.0
    site: str = "attention"
    """Name of the attention, for dropout and observers."""


def split_rows(
    rows: Float[Tensor, "N P K"], heads: int, rope: Rope | None = None
) -> tuple[Float[Tensor, "N H K"], Float[Tensor, "N G K"], Float[Tensor, "N G K"]]:
    """Split rows of concatenated queries, keys and values; `rope` rotates queries and keys."""
    kv_heads = (rows.size(1) - heads) // 2
    query, key, value = rows.split([heads, kv_heads, kv_heads], dim=1)
    return (query, key, value) if rope is None else (rotate(query, rope), rotate(key, rope), value)


def pad(
    rows: Float[Tensor, "N P K"], keys: KeyValues | None, context: AttentionContext
) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B G S K"], Float[Tensor, "B G S K"], Bool[Tensor, "#B 1 #T S"]]:
    """Return padded queries, keys and values of `rows` and `keys` (see `Attention.attend`), and the visible mask."""
    query, queries = rows, context.queries
    if keys is None:
        query, key, value = split_rows(rows, context.heads, context.rope)
        keys = KeyValues.from_rows(key, value, queries)
    return queries.pad(query).transpose(1, 2), *keys.padded(), keys.visible(queries, context.causal)


@torch.no_grad()
def show_weights(
    observer: Observer, rows: Float[Tensor, "N P K"], keys: KeyValues | None, context: AttentionContext
) -> None:
    """Show inputs, scores and weights to an observer, computed separately from the result."""
    query, key, value, visible = pad(rows, keys, context)
    products = score(query, key)
    scores = hide(products, visible)
    tensors = {"query": query, "key": key, "value": value, "products": products, "scores": scores}
    for name, tensor in {**tensors, "weights": weigh(scores, visible)}.items():
        observer.tensor(f"{context.site}.{name}", tensor.detach())


def equation_attention(
    rows: Float[Tensor, "N P K"], keys: KeyValues | None, context: AttentionContext
) -> Float[Tensor, "N H K"]:
    """Compute attention by the equation, with explicit weights. Supports every option on every device."""
    queries, dropout_key = context.queries, context.dropout_key
    tokens = queries.pad(dropout_key.tokens) if dropout_key is not None else None
    mixed, _ = attend(*pad(rows, keys, context), context.dropout, context.site, dropout_key, tokens)
    return queries.unpad(mixed.transpose(1, 2))


def fused_attention(
    rows: Float[Tensor, "N P K"], keys: KeyValues | None, context: AttentionContext
) -> Float[Tensor, "N H K"]:
    """Compute attention by torch's fused kernel, which never stores all weights (Dao et al. 2022). Does not support
    dropout, and every query must see at least one key.
    """
    assert context.dropout_key is None, "torch's fused attention does not know our dropout"
    query, key, value, visible = pad(rows, keys, context)
    key, value = _for_all_heads(key, query), _for_all_heads(value, query)
    mixed = nn.functional.scaled_dot_product_attention(query, key, value, visible)
    return context.queries.unpad(mixed.transpose(1, 2))


_HALF = torch.bfloat16, torch.float16


def flash_takes(rows: Float[Tensor, "N P K"], keys: KeyValues | None, context: AttentionContext) -> bool:
    """Return True if FlashAttention supports these tensors: a GPU of 2020 or newer, half precision, head widths up to
    256 that are multiples of 8, keys that are packed (not padded), no dropout of attention weights.
    """
    if not rows.is_cuda or context.dropout_key is not None or (keys is not None and keys.packing is None):
        return False
    if rows.dtype not in _HALF or rows.size(2) % 8 or rows.size(2) > 256:
        return False
    return varlen_attention() is not None and torch.cuda.get_device_capability(rows.device) >= (8, 0)


def flash_attention(
    rows: Float[Tensor, "N P K"], keys: KeyValues | None, context: AttentionContext
) -> Float[Tensor, "N H K"]:
    """Compute the result of `attend` directly on packed rows."""
    attention, queries = varlen_attention(), context.queries
    assert attention is not None, "this torch has no FlashAttention for sentences of any lengths"
    query, key_packing = rows, queries
    if keys is None:
        query, key, value = split_rows(rows, context.heads, context.rope)
    else:
        assert keys.packing is not None, "padded keys do not lie in rows"
        key, value, key_packing = keys.key, keys.value, keys.packing
    known, causal, settings = _settings(attention), context.causal, dict[str, Any]()
    settings |= {"window_size": (-1, 0 if causal else -1)} if "window_size" in known else {"is_causal": causal}
    if key.size(1) < context.heads and "enable_gqa" in known:
        settings["enable_gqa"] = True
    elif key.size(1) < context.heads:
        key, value = (part.repeat_interleave(context.heads // key.size(1), 1) for part in (key, value))
    mixed = attention(
        *(query[: queries.tokens], key[: key_packing.tokens], value[: key_packing.tokens]),
        *(queries.edges, key_packing.edges, queries.longest, key_packing.longest),
        **settings,
    )
    return queries.fill(mixed)


def varlen_attention() -> Callable[..., Any] | None:
    """Return torch's `varlen_attn` if this version has it."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    return varlen_attn


@cache
def _settings(function: Callable[..., Any]) -> frozenset[str]:
    """Return the names of the settings of `varlen_attn`, of which torch 2.10 and 2.11 have fewer."""
    return frozenset(inspect.signature(function).parameters)


def compiled_takes(rows: Float[Tensor, "N P K"], keys: KeyValues | None, context: AttentionContext) -> bool:
    """Return True if the kernel supports these tensors. It has no backward pass for padded keys."""
    tensors = [rows, *(context.rope or ()), *((keys.key, keys.value) if keys is not None else ())]
    only_forward = keys is not None and keys.packing is None
    return kernels.usable("attention", *tensors) and not (only_forward and torch.is_grad_enabled())


def compiled_attention(
    rows: Float[Tensor, "N P K"], keys: KeyValues | None, context: AttentionContext
) -> Float[Tensor, "N H K"]:
    """Compute the result of `attend` directly on packed rows."""
    key, value = (None, None) if keys is None else (keys.key, keys.value)
    return _CompiledAttention.apply(rows, key, value, keys, context)


class _CompiledAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, key, value, keys, context):
        ctx.save_for_backward(rows, key, value)
        ctx.context = context
        # The keys themselves are not stored, because attributes of ctx outlive the backward pass.
        ctx.key_packing, ctx.lengths = (None, context.queries.lengths) if keys is None else (keys.packing, keys.lengths)
        query, key, value = _parts(rows, context.heads, key, value)
        mixed = rows.new_empty(query.shape)
        mixed[context.queries.tokens :] = 0
        layout, _alive = _layout(query, key, value, ctx.lengths, context)
        kernels.run("attention", query, key, value, mixed, ctypes.byref(layout))
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        rows, key, value = ctx.saved_tensors
        rows_gradient = rows.new_empty(rows.shape)
        rows_gradient[ctx.context.queries.tokens :] = 0
        key_gradient = value_gradient = None
        if ctx.key_packing is not None:
            key_gradient, value_gradient = (rows.new_empty(key.shape) for _ in range(2))
            key_gradient[ctx.key_packing.tokens :] = value_gradient[ctx.key_packing.tokens :] = 0
        query, key, value = _parts(rows, ctx.context.heads, key, value)
        gradients = _parts(rows_gradient, ctx.context.heads, key_gradient, value_gradient)
        layout, _alive = _layout(query, key, value, ctx.lengths, ctx.context)
        strides = gradients[0].stride(0), gradients[1].stride(0)
        mixed_gradient = gradient.contiguous()
        kernels.run("attention_back", query, key, value, mixed_gradient, *gradients, ctypes.byref(layout), *strides)
        return rows_gradient, key_gradient, value_gradient, None, None


def _parts(rows: Tensor, heads: int, key: Tensor | None, value: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values, which are parts of the same rows or separate tensors."""
    return split_rows(rows, heads) if key is None or value is None else (rows, key, value)


class _Layout(ctypes.Structure):
    """Addresses, sizes and strides of all tensors: the `Layout` of attention.cpp."""

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
    """Return the layout, and the tensors whose addresses it holds; `lengths` are those of the keys."""
    width, dropout_key = query.size(2), context.dropout_key
    alive = [
        x if x is None else x.contiguous()
        for x in (
            context.queries.lengths,
            lengths,
            dropout_key.tokens if dropout_key else None,
            *(context.rope or (None, None)),
        )
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
        *(mask_parameters(context.dropout, context.site, dropout_key) if dropout_key else (1.0, 0, 0)),
        context.causal,
    )
    return layout, alive


Backend = Literal["flash", "fused", "compiled", "equation"]

BACKENDS: dict[Backend, Callable[[Tensor, KeyValues | None, AttentionContext], Tensor]] = {
    "flash": flash_attention,
    "fused": fused_attention,
    "compiled": compiled_attention,
    "equation": equation_attention,
}
"""Backends by name. A backend takes rows (N, P, K), keys and context, and returns mixed rows (N, H, K)."""

FUSED_FROM = {torch.float32: 128, torch.bfloat16: 512}
"""Minimum queries per sentence at which torch's fused attention beats the equation on a CPU; never in float64."""
FUSED_BEATS_COMPILED_FROM = {torch.float32: 2_048, torch.bfloat16: 1_024}
"""Minimum queries at which it beats our kernel; never with a causal mask (benchmarks/results/attention.json)."""


LONGEST_BY_EQUATION = 256
"""Maximum queries per sentence for which the equation is used on a GPU that FlashAttention does not serve."""


def choose_backend(rows: Float[Tensor, "N P K"], keys: KeyValues | None, context: AttentionContext) -> Backend:
    """Return the fastest backend that supports these tensors: the first that applies. Two of them know bins."""
    if isinstance(context.queries, Bins):
        return "fused" if rows.is_cuda and context.dropout_key is None else "equation"
    compiled = compiled_takes(rows, keys, context)
    table: dict[Backend, bool] = {
        "flash": flash_takes(rows, keys, context),  # on a GPU, on packed rows
        "fused": _fused_pays(rows, context, compiled),  # on a GPU without flash; on a CPU for the longest sentences
        "compiled": compiled,  # on a CPU, on packed rows
        "equation": True,  # anything, anywhere
    }
    return next(backend for backend, applies in table.items() if applies)


def _fused_pays(rows: Float[Tensor, "N P K"], context: AttentionContext, compiled: bool) -> bool:
    """Return True if torch's fused attention, which has no dropout, beats the backends below it in the table.

    In half precision with CUDA, it may prepare itself for each new shape, which takes longer than a step of short
    sentences.
    """
    if context.dropout_key is not None:
        return False
    if rows.device.type != "cpu":
        return not (rows.is_cuda and rows.dtype in _HALF) or context.queries.longest > LONGEST_BY_EQUATION
    shortest = (FUSED_BEATS_COMPILED_FROM if compiled else FUSED_FROM).get(rows.dtype, math.inf)
    pays = context.queries.longest >= shortest and not (compiled and context.causal)
    return pays and fused_runs(rows.dtype)


@cache
def fused_runs(dtype: torch.dtype) -> bool:
    """Return True if torch's fused attention runs on this CPU: version 2.13 raises for bf16 on a CPU with AMX if
    `ATEN_CPU_CAPABILITY` disables AVX-512.
    """
    ones = torch.ones(1, 1, 64, 16, dtype=dtype)
    try:
        torch.nn.functional.scaled_dot_product_attention(ones, ones, ones)
    except RuntimeError:
        return False
    return True
