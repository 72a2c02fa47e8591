"""Projections (the matrices between features), and the roles of a model's weights.

A projection owns its weight. Training computes with its effective weight; decoding uses its prepared form
(`prepare_for_decoding`) and joins plain matrices. A replacement of a projection therefore works everywhere: a low-rank
adapter, a frozen weight, a quantised one.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.shapes import Float

Role = Literal["projection", "table", "vector"]
"""Role of a weight for initialisation and optimiser: a matrix between features; a table with a row per token or
position (an embedding, the output); the weight of a norm, or a bias.
"""


def weight_roles(model: nn.Module) -> dict[str, Role]:
    """Return the role of every weight; a tied weight is listed under its first name. Modules declare their tables in
    `roles`; other matrices are projections, and other weights vectors.
    """
    roles: dict[int, Role] = {}
    for module in model.modules():
        declared = getattr(module, "roles", {})
        for name, weight in module.named_parameters(recurse=False):
            roles.setdefault(id(weight), declared.get(name, "projection" if weight.dim() > 1 else "vector"))
    return {name: roles[id(weight)] for name, weight in model.named_parameters()}


class Affine(NamedTuple):
    """x W^T + b."""

    weight: Float[Tensor, "F D"]
    bias: Float[Tensor, "F"] | None

    def __call__(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N F"]:
        return F.linear(x, self.weight, self.bias)


class Projection(nn.Module):
    """An abstract linear map of rows. `Dense` stores its weight; other subclasses compute theirs."""

    def effective(self) -> Affine:
        """Return the weight and bias for this pass; gradients flow through them."""
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N F"]:
        return self.effective()(x)

    def prepared(self) -> "Projection":
        """Return the same map for decoding: a plain matrix without gradients, unless a subclass has a better form.

        A plain matrix is not copied.
        """
        weight, bias = self.effective()
        with torch.device("meta"):
            dense = Dense(weight.size(1), weight.size(0), bias is not None)
        dense.place(Affine(weight, bias))
        return dense


class Dense(Projection):
    """A matrix (F, D) with an optional bias (F), initialised Xavier uniform (Glorot and Bengio 2010) and zero."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None
        nn.init.xavier_uniform_(self.weight)

    def effective(self) -> Affine:
        return Affine(self.weight, self.bias)

    def place(self, affine: Affine) -> None:
        """Use these tensors, without copying them, as weights without gradients."""
        self.weight = nn.Parameter(affine.weight.detach(), requires_grad=False)
        self.bias = None if affine.bias is None else nn.Parameter(affine.bias.detach(), requires_grad=False)


def join(projections: Sequence[Projection]) -> Affine:
    """Join projections of the same input: one large matrix product is faster than many small ones."""
    weights, biases = zip(*(projection.effective() for projection in projections), strict=True)
    present = [bias for bias in biases if bias is not None]
    assert len(present) in (0, len(biases)), "either all joined projections have a bias, or none has"
    return Affine(torch.cat(weights), torch.cat(present) if present else None)


def join_permanently(projections: Sequence[Projection]) -> Callable[[Tensor], Tensor]:
    """Join projections once for decoding: plain matrices become views of the joined one, so that no weight is stored
    twice. Prepared forms that are not plain matrices are applied one after the other.
    """
    plain = [projection for projection in projections if isinstance(projection, Dense)]
    if len(plain) < len(projections):
        return lambda x: torch.cat([projection(x) for projection in projections], dim=-1)
    joined, first = join(plain), 0
    for projection in plain:
        part = slice(first, first + projection.weight.size(0))
        projection.place(Affine(joined.weight[part], None if joined.bias is None else joined.bias[part]))
        first = part.stop
    return joined
