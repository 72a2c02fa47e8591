"""Optimisers: torch's own, fused, over float32 masters, and the weights of the model that follow them.

In bf16 the model computes with 8 bits of mantissa, too few to add small steps to; so every weight has a float32 master
that the optimiser moves, and the model's copy follows (Micikevicius et al. 2018). In float32 the model computes with
the masters themselves.
"""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

Optimiser = Literal["adamw", "adam"]
Precision = Literal["float32", "bf16"]


class Masters:
    """The float32 weights of a model that train, laid end to end as one row, and the optimiser that moves it.

    So a norm, a step or an exchange between processes is one call over one row, and not one for every matrix.

    Attributes:
        row, gradient: all weights that train, and the gradient of the step so far.
        weights: every weight of the model by name, the frozen ones too; those that train are views of `row`.
        gradients: the gradients by name, views of `gradient`.
        working: the model's own parameters: the same memory in float32, copies in bf16.
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
        ordered = sorted(training.items(), key=lambda item: item[1].dim() <= 1)  # matrices first: they alone decay
        self._shapes = {name: weight.shape for name, weight in ordered}
        self.row = torch.cat([_exact(weight).flatten() for _, weight in ordered])
        self.gradient, self._has_gradient = torch.zeros_like(self.row), False
        self.gradients = self._views(self.gradient)
        trained = self._views(self.row)
        self.weights = {name: trained.get(name, _exact(weight)) for name, weight in self.working.items()}
        if self.copied:
            model.to(torch.bfloat16)
        else:
            for name, weight in self.working.items():
                weight.data = self.weights[name]
        matrices = sum(weight.numel() for _, weight in ordered if weight.dim() > 1)
        self.optimiser = _make([self.row[:matrices], self.row[matrices:]], optimiser, betas, epsilon, weight_decay)
        for part, gradient in zip(
            self._parts, self.gradient.split([part.numel() for part in self._parts]), strict=True
        ):
            part.grad = gradient

    @property
    def _parts(self) -> list[Tensor]:
        """The stretches of the row that the optimiser moves: what decays, and what does not."""
        return [part for group in self.optimiser.param_groups for part in group["params"]]

    def _views(self, row: Tensor) -> dict[str, Tensor]:
        """A row like `row` by the names of its weights."""
        parts = row.split([shape.numel() for shape in self._shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(self._shapes.items(), parts, strict=True)}

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
        self.optimiser.grad_scale = (norm / longest).clamp_(min=1.0).float()  # pyright: ignore[reportAttributeAccessIssue]
        self.optimiser.found_inf = (~norm.isfinite()).float()  # pyright: ignore[reportAttributeAccessIssue]
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        self._has_gradient = False
        self.follow()
        return norm

    @torch.no_grad()
    def follow(self) -> None:
        """Copies the masters into the model."""
        if self.copied:
            for name, weight in self.weights.items():
                self.working[name].copy_(weight)

    def state(self) -> dict[str, Tensor]:
        """The optimiser's moments and counts, as named tensors: `exp_avg.decoder.…`."""
        states = [self.optimiser.state[part] for part in self._parts if part in self.optimiser.state]
        if not states:
            return {}
        step = states[0]["step"]
        moments = {kind: torch.cat([state[kind] for state in states]) for kind in states[0].keys() - {"step"}}
        named = {f"{kind}.{name}": part for kind, row in moments.items() for name, part in self._views(row).items()}
        return {**named, **{f"step.{name}": step.clone() for name in self._shapes}}

    @torch.no_grad()
    def restore(self, weights: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
        """Takes back what `weights` and `state()` were."""
        for name, weight in self.weights.items():
            weight.copy_(weights[name])
        self.optimiser.state.clear()
        for kind in {key.partition(".")[0] for key in state}:
            values = [state[f"{kind}.{name}"].flatten() for name in self._shapes]
            if kind == "step":
                rows = [values[0].reshape(()).clone() for _ in self._parts]
            else:
                rows = torch.cat(values).split([part.numel() for part in self._parts])
            for part, row in zip(self._parts, rows, strict=True):
                self.optimiser.state[part][kind] = row.clone()
        self.follow()


def _exact(weight: Tensor) -> Tensor:
    """A copy in float32, or in float64 where the weight is."""
    return weight.detach().to(torch.promote_types(weight.dtype, torch.float32), copy=True)


def _make(
    parts: list[Tensor], kind: Optimiser, betas: tuple[float, float], epsilon: float, weight_decay: float
) -> torch.optim.Optimizer:
    """Matrices, the first part, decay; norms and biases, the second, do not."""
    groups = [
        {"params": [nn.Parameter(part)], "weight_decay": decay}
        for part, decay in zip(parts, (weight_decay, 0.0), strict=True)
        if part.numel()
    ]
    make = torch.optim.AdamW if kind == "adamw" else torch.optim.Adam
    return make(groups, lr=0.0, betas=betas, eps=epsilon, fused=True)
