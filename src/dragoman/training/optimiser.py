"""Optimisers over float32 master weights, from which the model's weights are copied.

In bf16 the model computes with 8 bits of mantissa, too few for small updates to add up. So the optimiser moves a
float32 master of every weight, and the model gets a copy (Micikevicius et al. 2018). In float32 the model computes with
the masters themselves.

Muon makes the momentum of each matrix orthogonal before it moves the weights (Jordan et al. 2024). A gradient has a few
large singular values, so a step along it moves a matrix in few directions. With all of them set to one, the step moves
equally far in every direction. Newton-Schulz iterations approximate that with matrix products.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from dragoman.model.projection import Role, weight_roles
from dragoman.shapes import Float
from dragoman.system import choose_precision
from dragoman.training.settings import Optimiser

Precision = Literal["float32", "bf16"]
"""The numbers that the model computes with; master weights are float32 in both."""


class ParameterGroup(NamedTuple):
    """Weights that one optimiser moves: their names, their part of the flat parameter, and the optimiser."""

    names: list[str]
    part: nn.Parameter
    optimiser: torch.optim.Optimizer


class MasterWeights:
    """The trainable weights of a model in float32, laid end to end as one tensor, and the optimisers that move it.

    The norm of the gradient, a step, and a sum over processes then take one call each, not one for every matrix. The
    masters begin as copies of the model's weights, except frozen ones; `attach` makes the model compute with them.

    Attributes:
        flat, gradient: all trainable weights laid end to end, and the gradient of the step so far.
        trained: the trainable weights by name, views of `flat`.
        weights: every weight of the model by name, frozen ones included.
        groups: the weights that each optimiser moves.
    """

    def __init__(
        self,
        model: nn.Module,
        precision: Precision,
        optimiser: Optimiser,
        betas: tuple[float, float],
        epsilon: float,
        weight_decay: float,
    ) -> None:
        named, roles = dict(model.named_parameters()), weight_roles(model)
        training = {name: weight for name, weight in named.items() if weight.requires_grad}
        ranks = {name: _rank(roles[name], weight.shape, optimiser) for name, weight in training.items()}
        ordered = sorted(training, key=lambda name: ranks[name])
        self._precision, self._roles = precision, roles
        self._shapes = {name: training[name].shape for name in ordered}
        self.flat = torch.cat([_exact(training[name]).flatten() for name in ordered])
        self.gradient = torch.zeros_like(self.flat)
        self.trained = self.views(self.flat)
        self.weights = {name: self.trained[name] if name in ranks else _exact(named[name]) for name in named}
        self._parameters: dict[str, nn.Parameter] = {}
        """The model's own parameters; empty until `attach`."""
        self._copies: Tensor | None = None
        """The weights that the model computes with in bf16, laid out like `flat`."""
        self._gradient_of_copies: Tensor | None = None
        ranked = [list(names) for _, names in groupby(ordered, lambda name: ranks[name][0])]
        self.groups = list(self._make(ranked, optimiser, betas, epsilon, weight_decay))

    def attach(self, model: nn.Module) -> None:
        """Make the model compute with these weights: with the masters themselves in float32, with copies in bf16.

        Its parameters stay the same objects but point to other memory. So do their gradients: backward passes add to
        `gradient` itself in float32, to that of the copies in bf16.
        """
        self._parameters = dict(model.named_parameters())
        placed, gradient = self.weights, self.gradient
        if self._precision == "bf16":
            model.to(torch.bfloat16)
            self._copies = self.flat.bfloat16()
            self._gradient_of_copies = gradient = torch.zeros_like(self._copies)
            placed = self.views(self._copies)
        for name, weight in placed.items():
            self._parameters[name].data = weight
        for name, part in self.views(gradient).items():
            self._parameters[name].grad = part

    def _make(
        self,
        ranked: list[list[str]],
        kind: Optimiser,
        betas: tuple[float, float],
        epsilon: float,
        weight_decay: float,
    ) -> Iterator[ParameterGroup]:
        """Yield a group for each list of names: Muon for projections if asked for, else Adam. Vectors do not decay."""
        sizes = [sum(self._shapes[name].numel() for name in names) for names in ranked]
        for names, weights, gradient in zip(ranked, self.flat.split(sizes), self.gradient.split(sizes), strict=True):
            part, shapes, role = nn.Parameter(weights), [self._shapes[name] for name in names], self._roles[names[0]]
            part.grad = gradient
            decay = 0.0 if role == "vector" else weight_decay
            if kind == "muon" and role == "projection":
                yield ParameterGroup(names, part, Muon(part, shapes, weight_decay=decay))
                continue
            # Adam's decay is coupled: a part of the gradient, and scaled with it. AdamW's is not.
            adam = torch.optim.Adam if kind == "adam" else torch.optim.AdamW
            optimiser = adam([part], 0.0, betas, epsilon, decay, fused=True, capturable=part.is_cuda)
            yield ParameterGroup(names, part, optimiser)

    def views(self, flat: Tensor, names: Iterable[str] | None = None) -> dict[str, Tensor]:
        """Return views of a flat tensor, by name: of all trainable weights, or of the part that has these names."""
        shapes = self._shapes if names is None else {name: self._shapes[name] for name in names}
        parts = flat.split([shape.numel() for shape in shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}

    def join(self, kind: str, named: Mapping[str, Tensor], names: Iterable[str] | None = None) -> Tensor:
        """Concatenate tensors that are named `kind.weight` into one flat tensor: the inverse of `views`."""
        parts = [named[f"{kind}.{name}"].flatten() for name in (self._shapes if names is None else names)]
        return torch.cat(parts).to(self.flat.device)

    def collect_gradients(self) -> None:
        """Add the gradient of one micro-batch to `gradient`, in float32, if the model computes with copies."""
        assert self._parameters, "attach the model before its first step"
        if self._gradient_of_copies is not None:
            self.gradient.add_(self._gradient_of_copies)
            self._gradient_of_copies.zero_()

    def step(self, rate: float | Tensor, longest: float = torch.inf) -> Tensor:
        """Take one step at this learning rate along the gradient, clipped to a norm of `longest`; then update the model
        and clear the gradient. Return the norm before clipping. If it is not finite, nothing moves. A recorded step
        reads the rate from a tensor on the device.
        """
        norm = torch.linalg.vector_norm(self.gradient)
        scale, overflow = (norm / longest).clamp_(min=1.0).float(), (~norm.isfinite()).float()
        for group in self.groups:
            optimiser = group.optimiser
            optimiser.grad_scale, optimiser.found_inf = scale, overflow  # pyright: ignore[reportAttributeAccessIssue]
            optimiser.param_groups[0]["lr"] = rate
            optimiser.step()
        self.gradient.zero_()
        self.sync()
        return norm

    @torch.no_grad()
    def sync(self) -> None:
        """Copy the masters into the model, if it computes with copies."""
        if self._copies is not None:
            self._copies.copy_(self.flat)

    def state(self) -> dict[str, Tensor]:
        """Return the optimisers' moments and step counts as named tensors: `exp_avg.decoder.…`."""
        named: dict[str, Tensor] = {}
        for names, part, optimiser in self.groups:
            for kind, flat in optimiser.state.get(part, {}).items():
                values = {name: flat.clone() for name in names} if kind == "step" else self.views(flat, names)
                named |= {f"{kind}.{name}": value for name, value in values.items()}
        return named

    @torch.no_grad()
    def restore(self, weights: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
        """Restore earlier `weights` and an earlier `state()`, and update the model. A missing one is a KeyError."""
        for name, weight in self.weights.items():
            weight.copy_(weights[name])
            if name in self._parameters:
                self._parameters[name].copy_(weight)
        kinds = {key.partition(".")[0] for key in state}
        for names, part, optimiser in self.groups:
            optimiser.state.clear()
            for kind in (kind for kind in kinds if f"{kind}.{names[0]}" in state):
                flat = self.join(kind, state, names)
                optimiser.state[part][kind] = flat[0].clone() if kind == "step" else flat


def _exact(weight: Tensor) -> Tensor:
    """Return the weight in float32 or float64, without copying it if it is."""
    return weight.detach().to(torch.promote_types(weight.dtype, torch.float32))


def _rank(role: Role, shape: torch.Size, kind: Optimiser) -> tuple[int, tuple[int, ...]]:
    """Return a sort key: Muon's matrices first, by shape; then other weights that decay; then vectors."""
    if kind == "muon" and role == "projection":
        return 0, tuple(shape)
    return (2 if role == "vector" else 1), ()


_MOMENTUM = 0.95
_ITERATIONS = 5
_COEFFICIENTS = 3.4445, -4.7750, 2.0315  # the published ones: steep at zero, so that small values rise fast
_SIZE = 0.2  # root mean square of an update, about AdamW's (Liu et al. 2025, section 2.2)


class Muon(torch.optim.Optimizer):
    """An optimiser of matrices that are laid end to end in one flat parameter. Its updates are as large as AdamW's, so
    both take the same learning rate and weight decay.

    Like torch's fused optimisers, it divides gradients by `grad_scale`, and moves nothing if `found_inf` is one. The
    Muon of torch has neither, and multiplies in bf16 everywhere, one matrix after another: two to five times as slow on
    a processor (tiny: 2.0 s instead of 0.4 s a step), because matrices of one shape are multiplied together here.
    """

    def __init__(self, flat: nn.Parameter, shapes: Iterable[Sequence[int]], weight_decay: float = 0.0) -> None:
        super().__init__([flat], {"lr": 0.0, "weight_decay": weight_decay})
        self.grad_scale, self.found_inf = flat.new_ones(()), flat.new_zeros(())
        self._blocks = [(len(list(group)), *shape) for shape, group in groupby(shapes)]

    @torch.no_grad()
    def step(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Update the momentum, make it orthogonal, and move the weights along it."""
        (group,) = self.param_groups
        (flat,), rate = group["params"], group["lr"]
        assert flat.grad is not None, "the master weights set it"
        gradient = (flat.grad / self.grad_scale).where(self.found_inf == 0, 0.0)
        moves = 1 - self.found_inf.to(flat.dtype)  # a factor of each update
        mean = self.state[flat].setdefault("momentum", torch.zeros_like(flat)).lerp_(gradient, (1 - _MOMENTUM) * moves)
        lookahead = mean.lerp(gradient, 1 - _MOMENTUM)  # Nesterov: the mean if this gradient came once more
        flat.mul_(1 - rate * group["weight_decay"] * moves)
        sizes = [math.prod(block) for block in self._blocks]
        for block, weights, steps in zip(self._blocks, flat.split(sizes), lookahead.split(sizes), strict=True):
            size = rate * _SIZE * max(block[1:]) ** 0.5
            weights.addcmul_(orthogonalise(steps.view(block)).flatten(), moves * -size)


def orthogonalise(matrices: Float[Tensor, "L R C"]) -> Float[Tensor, "L R C"]:
    """Return approximately U V^T of each matrix U S V^T.

    A singular value of at least 0.002 of the matrix's Frobenius norm ends between 0.68 and 1.21. A smaller one grows by
    up to 485 times (3.4445^5) and may stay far below. If the device has instructions for bf16, float32 input is
    multiplied in bf16, and the values end between 0.67 and 1.22.
    """
    wide = matrices.size(-2) <= matrices.size(-1)  # use the smaller of the two Gram matrices
    x = matrices if wide else matrices.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    if x.dtype == torch.float32 and choose_precision("auto", x.device.type)[0] == "bf16":
        x = x.bfloat16()  # without such instructions it would take many times as long
    a, b, c = _COEFFICIENTS
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x if wide else x.mT).to(matrices.dtype)
