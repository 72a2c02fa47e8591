"""Optimisers over float32 masters, and the weights of the model that follow them.

In bf16 the model computes with 8 bits of mantissa, too few to add small steps to; so every weight has a float32 master
that an optimiser moves, and the model's copy follows (Micikevicius et al. 2018). In float32 the model computes with
the masters themselves.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from dragoman.model import is_table
from dragoman.training.muon import Muon

Optimiser = Literal["adamw", "adam", "muon"]
Precision = Literal["float32", "bf16"]


class ParameterGroup(NamedTuple):
    """A part of the row whose weights are moved alike."""

    names: list[str]
    part: nn.Parameter
    optimiser: torch.optim.Optimizer


class MasterWeights:
    """The float32 weights of a model that train, laid end to end as one row, and the optimisers that move it.

    So a norm, a step or an exchange between processes is one call over one row, and not one for every matrix.

    Attributes:
        row, gradient: all weights that train, and the gradient of the step so far.
        weights: every weight of the model by name, the frozen ones too; those that train are views of `row`.
        gradients: the gradients by name, views of `gradient`.
        working: the model's own parameters: the same memory in float32; in bf16 copies, a row of their own.
        groups: what each optimiser moves.
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
        self.working = dict(model.named_parameters(remove_duplicate=True))
        self.copied = precision == "bf16"
        training = {name: weight for name, weight in self.working.items() if weight.requires_grad}
        place = {name: _place(name, weight, optimiser) for name, weight in training.items()}
        ordered = sorted(training, key=lambda name: place[name])
        self._shapes = {name: training[name].shape for name in ordered}
        self.row = torch.cat([_exact(training[name]).flatten() for name in ordered])
        self.gradient, self._has_gradient = torch.zeros_like(self.row), False
        self.gradients = self._views(self.gradient)
        trained = self._views(self.row)
        self.weights = {name: trained.get(name, _exact(weight)) for name, weight in self.working.items()}
        if self.copied:
            model.to(torch.bfloat16)
            self._copies = self.row.bfloat16()
            placed = self._views(self._copies)
        else:
            placed = self.weights
        for name, weight in placed.items():
            self.working[name].data = weight
        kinds = [list(names) for _, names in groupby(ordered, lambda name: place[name][0])]
        self.groups = list(self._make(kinds, optimiser, betas, epsilon, weight_decay))

    def _make(
        self, kinds: list[list[str]], kind: Optimiser, betas: tuple[float, float], epsilon: float, weight_decay: float
    ) -> Iterator[ParameterGroup]:
        """Muon for the inner matrices if it is asked for, Adam for all else; norms and biases do not decay."""
        sizes = [sum(self._shapes[name].numel() for name in names) for names in kinds]
        for names, weights, gradient in zip(kinds, self.row.split(sizes), self.gradient.split(sizes), strict=True):
            part, shapes = nn.Parameter(weights), [self._shapes[name] for name in names]
            part.grad = gradient
            decay = weight_decay if len(shapes[0]) > 1 else 0.0
            if kind == "muon" and _is_inner(names[0], shapes[0]):
                yield ParameterGroup(names, part, Muon(part, shapes, weight_decay=decay))
                continue
            # Adam's decay is coupled: a part of the gradient, and scaled with it. AdamW's is not.
            adam = torch.optim.Adam if kind == "adam" else torch.optim.AdamW
            yield ParameterGroup(names, part, adam([part], 0.0, betas, epsilon, decay, fused=True))

    def _views(self, row: Tensor, names: Iterable[str] | None = None) -> dict[str, Tensor]:
        """What is laid end to end in `row`, by the names of its weights: these, or all."""
        shapes = self._shapes if names is None else {name: self._shapes[name] for name in names}
        parts = row.split([shape.numel() for shape in shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}

    @torch.no_grad()
    def collect_gradients(self) -> None:
        """Adds the gradients of one micro-batch to the row, in float32, and clears the model's."""
        for name, sum_so_far in self.gradients.items():
            gradient = self.working[name].grad
            if gradient is not None:
                sum_so_far.add_(gradient) if self._has_gradient else sum_so_far.copy_(gradient)
            elif not self._has_gradient:
                sum_so_far.zero_()
            self.working[name].grad = None
        self._has_gradient = True

    def step(self, rate: float, longest: float = torch.inf) -> Tensor:
        """One step at this learning rate with the gradients collected, scaled so that their common norm is at most
        `longest`; the model's weights follow. Returns the norm before; where it is not finite, nothing moves.
        """
        norm = torch.linalg.vector_norm(self.gradient)
        scale, overflow = (norm / longest).clamp_(min=1.0).float(), (~norm.isfinite()).float()
        for group in self.groups:
            optimiser = group.optimiser
            optimiser.grad_scale, optimiser.found_inf = scale, overflow  # pyright: ignore[reportAttributeAccessIssue]
            optimiser.param_groups[0]["lr"] = rate
            optimiser.step()
        self._has_gradient = False
        self.follow()
        return norm

    @torch.no_grad()
    def follow(self) -> None:
        """Copies the masters into the model."""
        if self.copied:
            self._copies.copy_(self.row)

    def state(self) -> dict[str, Tensor]:
        """The optimisers' moments and counts, as named tensors: `exp_avg.decoder.…`."""
        named: dict[str, Tensor] = {}
        for names, part, optimiser in self.groups:
            for kind, row in optimiser.state.get(part, {}).items():
                values = {name: row.clone() for name in names} if kind == "step" else self._views(row, names)
                named |= {f"{kind}.{name}": value for name, value in values.items()}
        return named

    @torch.no_grad()
    def restore(self, weights: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
        """Takes back what `weights` and `state()` were."""
        for name, weight in self.weights.items():
            weight.copy_(weights[name])
            self.working[name].copy_(weight)
        kinds = {key.partition(".")[0] for key in state}
        for names, part, optimiser in self.groups:
            optimiser.state.clear()
            for kind in (kind for kind in kinds if f"{kind}.{names[0]}" in state):
                values = [state[f"{kind}.{name}"].flatten().to(part.device) for name in names]
                optimiser.state[part][kind] = values[0].reshape(()).clone() if kind == "step" else torch.cat(values)


def _exact(weight: Tensor) -> Tensor:
    """A copy in float32, or in float64 where the weight is."""
    return weight.detach().to(torch.promote_types(weight.dtype, torch.float32), copy=True)


def _place(name: str, weight: Tensor, kind: Optimiser) -> tuple[int, tuple[int, ...]]:
    """Where a weight stands in the row: Muon's matrices first, like by like; then what else decays; then the rest."""
    if kind == "muon" and _is_inner(name, weight.shape):
        return 0, tuple(weight.shape)
    return (1 if weight.dim() > 1 else 2), ()


def _is_inner(name: str, shape: torch.Size) -> bool:
    """Whether this is a matrix between embeddings and output."""
    return len(shape) == 2 and not is_table(name)
