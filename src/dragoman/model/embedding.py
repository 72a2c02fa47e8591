"""Token ids to vectors: the embedding scaled by sqrt(d_model) (section 3.4), positions, an optional norm, dropout."""

import math
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.model.dropout import Noise, drop
from dragoman.model.layers import LayerNorm, RMSNorm
from dragoman.model.observer import Show
from dragoman.model.positions import Learned, Sinusoidal
from dragoman.model.projection import Role


class Embedding(nn.Module):
    """Rows of a table (V, D), one for each id.

    `positions` is None where they are rotary, because then attention rotates queries and keys. `name` is its dropout
    site.
    """

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
        noise: Noise | None = None,
        show: Show | None = None,
    ) -> Float[Tensor, "N D"]:
        x = F.embedding(ids, self.weight) * self.scale
        places = self.positions(position).to(x.dtype) if self.positions is not None else None
        if show is not None:
            show(f"{self.name}.tokens", x)
            if places is not None:
                show(f"{self.name}.positions", places)
        x = x + places if places is not None else x
        x = self.norm(x) if self.norm is not None else x
        return drop(x, self.dropout, self.name, noise)


def table(vocabulary: int, d_model: int) -> nn.Parameter:
    """An empty embedding matrix (V, D)."""
    return nn.Parameter(torch.empty(vocabulary, d_model))
