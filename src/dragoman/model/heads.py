"""From rows of tokens to what attention multiplies, and back: (N, P, K) to parts of (B, H, T, K), each head by itself.

Padding, cutting a joined projection into its parts and turning queries and keys by position are one pass over memory.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from dragoman.model import kernels
from dragoman.model.packing import Packing
from dragoman.model.positions import Turns, rotate


def to_heads(
    rows: Float[Tensor, "N P K"], heads: Sequence[int], packing: Packing, turns: Turns | None = None
) -> tuple[Float[Tensor, "B _ T K"], ...]:
    """The parts of `rows`, of so many heads each, padded with zeros; `turns` turn all but the last, the values."""
    if kernels.usable("to_heads", rows, *(turns or ())) and rows.stride()[1:] == (rows.size(2), 1):
        return _ToHeads.apply(rows, heads, packing, turns)
    return tuple(packing.pad(part).transpose(1, 2) for part in cut(rows, heads, turns))


def cut(rows: Float[Tensor, "N P K"], heads: Sequence[int], turns: Turns | None = None) -> list[Float[Tensor, "N _ K"]]:
    """The same parts, still as rows."""
    *turned, last = rows.split(list(heads), dim=1)
    return [part if turns is None else rotate(part, turns) for part in turned] + [last]


def from_heads(padded: Float[Tensor, "B H T K"], packing: Packing) -> Float[Tensor, "N H K"]:
    """One part as rows again."""
    if kernels.usable("to_heads", padded):
        return _FromHeads.apply(padded, packing)
    return packing.unpad(padded.transpose(1, 2))


class _ToHeads(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, heads, packing, turns):
        ctx.heads, ctx.packing, ctx.turns = heads, packing, turns
        sizes = packing.sentences, packing.longest, rows.size(2)
        parts = tuple(rows.new_empty((sizes[0], width, *sizes[1:])) for width in heads)
        _copy_parts(rows, parts, packing, turns, back=False)
        return parts

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients):
        rows = gradients[0].new_empty((ctx.packing.rows, sum(ctx.heads), gradients[0].size(3)))
        _copy_parts(rows, gradients, ctx.packing, ctx.turns, back=True)
        return rows, None, None, None


class _FromHeads(torch.autograd.Function):
    @staticmethod
    def forward(ctx, padded, packing):
        ctx.packing = packing
        rows = padded.new_empty((packing.rows, padded.size(1), padded.size(3)))
        _copy(rows, padded, packing, None, back=True)
        return rows

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        packing = ctx.packing
        padded = gradient.new_empty((packing.sentences, gradient.size(1), packing.longest, gradient.size(2)))
        _copy(gradient.contiguous(), padded, packing, None, back=False)
        return padded, None


def _copy_parts(rows: Tensor, parts: Sequence[Tensor], packing: Packing, turns: Turns | None, back: bool) -> None:
    places = rows.split([part.size(1) for part in parts], dim=1)
    for number, (place, part) in enumerate(zip(places, parts, strict=True), 1):
        _copy(place, part, packing, turns if number < len(parts) else None, back)


def _copy(rows: Tensor, padded: Tensor, packing: Packing, turns: Turns | None, back: bool) -> None:
    cosine, sine = (None, None) if turns is None else (turn.contiguous() for turn in turns)
    sizes = packing.sentences, packing.longest, *rows.shape[1:], rows.stride(0)
    lengths = packing.lengths.contiguous()
    kernels.run("to_heads", rows, lengths, padded.contiguous(), cosine, sine, *sizes, back)
