"""Which way attention is computed: one table, read from the top."""

import math
from collections.abc import Callable
from functools import cache
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.model.attention.compiled import compiled_attention, compiled_takes
from dragoman.model.attention.context import AttentionContext
from dragoman.model.attention.flash import flash_attention, flash_takes
from dragoman.model.attention.keys import Keys
from dragoman.model.attention.padded import equation_attention, fused_attention

Way = Literal["flash", "fused", "compiled", "equation"]

WAYS: dict[Way, Callable[[Tensor, int, Keys | None, AttentionContext], Tensor]] = {
    "flash": flash_attention,
    "fused": fused_attention,
    "compiled": compiled_attention,
    "equation": equation_attention,
}
"""Each takes rows (N, P, K), the number of query heads, keys and context, and returns mixed rows (N, H, K)."""

FUSED_FROM = {torch.float32: 128, torch.bfloat16: 512}
"""Queries of a sentence from which torch's fused attention beats the equation on a processor; never in float64."""
FUSED_BEATS_COMPILED_FROM = {torch.float32: 2_048, torch.bfloat16: 1_024}
"""And from which it beats our kernel; never under a causal mask (benchmarks/attention.py)."""


def choose_way(rows: Float[Tensor, "N P K"], keys: Keys | None, context: AttentionContext) -> Way:
    """The fastest way that takes these tensors: the first line that holds."""
    compiled = compiled_takes(rows, keys, context)
    table: dict[Way, bool] = {
        "flash": flash_takes(rows, keys, context),  # on a GPU, on rows as they lie
        "fused": _fused_pays(rows, context, compiled),  # on a GPU what flash does not take; on a processor the longest
        "compiled": compiled,  # on a processor, on rows as they lie
        "equation": True,  # anything, anywhere
    }
    return next(way for way, holds in table.items() if holds)


def _fused_pays(rows: Float[Tensor, "N P K"], context: AttentionContext, compiled: bool) -> bool:
    """Whether torch's fused attention beats what is below it in the table. It drops nothing out."""
    if context.noise is not None or rows.device.type != "cpu":
        return context.noise is None
    shortest = (FUSED_BEATS_COMPILED_FROM if compiled else FUSED_FROM).get(rows.dtype, math.inf)
    pays = context.queries.longest >= shortest and not (compiled and context.causal)
    return pays and fused_runs(rows.dtype)


@cache
def fused_runs(dtype: torch.dtype) -> bool:
    """Whether torch's fused attention runs on this processor: version 2.13 raises for bf16 on a processor with AMX if
    `ATEN_CPU_CAPABILITY` keeps it from AVX-512.
    """
    some = torch.ones(1, 1, 64, 16, dtype=dtype)
    try:
        torch.nn.functional.scaled_dot_product_attention(some, some, some)
    except RuntimeError:
        return False
    return True
