"""Embeddings of token ids: table rows scaled by sqrt(d_model) (Vaswani et al. 2017, section 3.4), positions, an
optional norm, dropout.

Positions are sinusoids (section 3.5), learned vectors, or a rotation of queries and keys (Su et al. 2021). All take
positions as rows (N,), so that packed and cached decoding compute only those they need.
"""

import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.compiled.fusing import fusible
from dragoman.errors import ConfigError
from dragoman.model.dropout import DropoutKey, drop
from dragoman.model.layers import LayerNorm, RMSNorm
from dragoman.model.observer import RowObserver, ignore
from dragoman.model.projection import Role
from dragoman.shapes import Float, Int

Rope = tuple[Float[Tensor, "N 1 K"], Float[Tensor, "N 1 K"]]
"""Cosine and sine of the rotation angles of every row."""


def sinusoids(position: Int[Tensor, "N"], d_model: int, base: float = 10_000.0) -> Float[Tensor, "N D"]:
    """Return sin and cos of position / base^(2i / d_model), interleaved, 0 <= i < d_model / 2 (section 3.5)."""
    angle = _angles(position, d_model, base)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


class Sinusoidal(nn.Module):
    """Sinusoids to add to embeddings, without weights and without a maximum length. The first position is `offset`."""

    def __init__(self, d_model: int, base: float = 10_000.0, offset: int = 0) -> None:
        super().__init__()
        self.d_model, self.base, self.offset = d_model, base, offset

    def forward(self, position: Int[Tensor, "N"]) -> Float[Tensor, "N D"]:
        return sinusoids(position + self.offset, self.d_model, self.base)


class Learned(nn.Module):
    """Learned vectors to add to embeddings, for up to `max_positions` positions."""

    roles: ClassVar[dict[str, Role]] = {"weight": "table"}

    def __init__(self, max_positions: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_positions, d_model))

    def forward(self, position: Int[Tensor, "N"]) -> Float[Tensor, "N D"]:
        return F.embedding(position, self.weight)


class Rotary:
    """Rotation of features i and i + d_head / 2 by position (as in Llama), so that scores depend only on distances."""

    def __init__(self, d_head: int, base: float = 10_000.0) -> None:
        if d_head % 2:
            raise ConfigError(f"rotary positions need an even d_model / heads, but it is {d_head}")
        self.d_head, self.base = d_head, base

    def rope(self, position: Int[Tensor, "N"], dtype: torch.dtype) -> Rope:
        """Return the rotation of rows at these positions; computed once per pass for all layers."""
        angle = _angles(position, self.d_head, self.base).repeat(1, 2)[:, None]  # (N, K/2) -> (N, 1, K)
        return angle.cos().to(dtype), angle.sin().to(dtype)


@fusible
def rotate(x: Float[Tensor, "N H K"], rope: Rope) -> Float[Tensor, "N H K"]:
    """Rotate every pair of features (a, b) to (a cos - b sin, b cos + a sin)."""
    cosine, sine = rope
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat([-second, first], dim=-1) * sine


def _angles(position: Int[Tensor, "N"], width: int, base: float) -> Float[Tensor, "N half"]:
    """Return position / base^(2i / width), computed in float64 so that large positions stay exact."""
    if position.device.type == "mps":  # Apple's GPUs have no float64
        return _angles(position.cpu(), width, base).to(position.device)
    exponent = torch.arange(0, width, 2, device=position.device, dtype=torch.float64) / width
    return (position[:, None] / base**exponent).float()


class Embedding(nn.Module):
    """Rows of a table (V, D), one per id. `positions` is None if attention rotates; `name` is its dropout site."""

    roles: ClassVar[dict[str, Role]] = {"weight": "table"}

    def __init__(
        self,
        weight: nn.Parameter,
        positions: Sinusoidal | Learned | None,
        scaled: bool = True,
        norm: LayerNorm | RMSNorm | None = None,
        dropout: float = 0.0,
        name: str = "embedding",
    ) -> None:
        super().__init__()
        self.weight, self.positions, self.norm = weight, positions, norm
        self.scale = math.sqrt(weight.size(1)) if scaled else 1.0
        self.dropout, self.name = dropout, name

    def forward(
        self,
        ids: Int[Tensor, "N"],
        position: Int[Tensor, "N"],
        dropout_key: DropoutKey | None = None,
        observe: RowObserver = ignore,
    ) -> Float[Tensor, "N D"]:
        x = F.embedding(ids, self.weight) * self.scale
        observe(f"{self.name}.tokens", x)
        if self.positions is not None:
            vectors = self.positions(position).to(x.dtype)
            observe(f"{self.name}.positions", vectors)
            x = x + vectors
        x = self.norm(x) if self.norm is not None else x
        return drop(x, self.dropout, self.name, dropout_key)
