"""Projections, the matrices between features, and the role that each weight of a model has.

A projection owns its weight. In training it computes with its effective weight; decoding asks it once for its prepared
form (`prepare_for_decoding`), and joins plain matrices. So whatever replaces a projection works everywhere: a low-rank
adapter, a frozen weight, a quantised one.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

Role = Literal["projection", "table", "vector"]
"""What a weight is to initialisation and optimiser: a matrix between features; a row for each token or position
(an embedding, the output); the weight of a norm, or a bias.
"""


def weight_roles(model: nn.Module) -> dict[str, Role]:
    """The role of every weight; a tied one is listed under its first name. Matrices are projections and all else is a
    vector, but for the tables that modules declare in `roles`.
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
    """A linear map of rows. Abstract: `Dense` owns its weight, others compute theirs."""

    def effective(self) -> Affine:
        """The weight and bias that take part in this pass; gradients flow through them."""
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N F"]:
        return self.effective()(x)

    def prepared(self) -> "Projection":
        """The same map in the form that decodes: one plain matrix that does not learn, unless a class has a better one.

        A matrix that is plain already is not copied.
        """
        weight, bias = self.effective()
        with torch.device("meta"):
            dense = Dense(weight.size(1), weight.size(0), bias is not None)
        dense.place(Affine(weight, bias))
        return dense


class Dense(Projection):
    """One matrix (F, D), and a bias (F) if asked for. Fresh: Xavier uniform (Glorot and Bengio 2010), no bias yet."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None
        nn.init.xavier_uniform_(self.weight)

    def effective(self) -> Affine:
        return Affine(self.weight, self.bias)

    def place(self, affine: Affine) -> None:
        """Takes these tensors, as they lie in memory, as weights that do not learn."""
        self.weight = nn.Parameter(affine.weight.detach(), requires_grad=False)
        self.bias = None if affine.bias is None else nn.Parameter(affine.bias.detach(), requires_grad=False)


def join(projections: Sequence[Projection]) -> Affine:
    """Several projections of one input as one: a large matrix product is faster than many small ones."""
    weights, biases = zip(*(projection.effective() for projection in projections), strict=True)
    some = [bias for bias in biases if bias is not None]
    assert len(some) in (0, len(biases)), "joined projections have a bias all together, or none has"
    return Affine(torch.cat(weights), torch.cat(some) if some else None)


def join_for_good(projections: Sequence[Projection]) -> Callable[[Tensor], Tensor]:
    """The same, once and for all: plain matrices become parts of the joined one, so that nothing is held twice.

    Prepared forms that are not plain matrices compute one after the other, each in its own way.
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
