"""Optimisers: torch's own, fused, over float32 masters, and the bf16 weights that follow them.

In bf16 the model computes with 8 bits of mantissa, too few to add small steps to; so every weight has a float32 master
that the optimiser moves, and the model's copy follows (Micikevicius et al. 2018). In float32 the masters are the
weights.
"""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

Optimiser = Literal["adamw", "adam"]
Precision = Literal["float32", "bf16"]


class Masters:
    """The float32 weights of a model, by name, their gradients, and the optimiser that moves them."""

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
        self.weights: dict[str, Tensor] = {
            name: weight.detach().clone().float() if self.copied else weight for name, weight in self.working.items()
        }
        for name, weight in self.weights.items():
            weight.requires_grad_(self.working[name].requires_grad)
        if self.copied:
            model.to(torch.bfloat16)
        self.optimiser = _make(self.moved, optimiser, betas, epsilon, weight_decay)

    @property
    def moved(self) -> dict[str, Tensor]:
        """The weights that train: all but the frozen."""
        return {name: weight for name, weight in self.weights.items() if self.working[name].requires_grad}

    def collect_gradients(self) -> None:
        """Adds the gradients of one micro-batch to the masters', in float32, and clears the model's."""
        if not self.copied:
            return
        for name, master in self.moved.items():
            gradient = self.working[name].grad
            if gradient is None:
                continue
            master.grad = gradient.float() if master.grad is None else master.grad.add_(gradient)
            self.working[name].grad = None

    def clip(self, longest: float) -> Tensor:
        """Scales all gradients so that their common norm is at most `longest`; returns the norm before."""
        gradients = [weight.grad for weight in self.moved.values() if weight.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        torch.nn.utils.clip_grads_with_norm_(list(self.moved.values()), longest, norm)
        return norm

    def step(self, rate: float) -> None:
        """One step of the optimiser at this learning rate; the model's weights follow."""
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        self.follow()

    def forget_gradients(self) -> None:
        for weight in self.weights.values():
            weight.grad = None

    @torch.no_grad()
    def follow(self) -> None:
        """Copies the masters into the model."""
        if self.copied:
            for name, weight in self.weights.items():
                self.working[name].copy_(weight)

    def state(self) -> dict[str, Tensor]:
        """The optimiser's moments and counts, as named tensors: `exp_avg.decoder.…`."""
        return {
            f"{kind}.{name}": torch.as_tensor(value)
            for name, weight in self.moved.items()
            for kind, value in self.optimiser.state.get(weight, {}).items()
        }

    @torch.no_grad()
    def restore(self, weights: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
        """Takes back what `weights` and `state()` were."""
        for name, weight in self.weights.items():
            weight.copy_(weights[name])
        self.optimiser.state.clear()
        for key, value in state.items():
            kind, _, name = key.partition(".")
            self.optimiser.state[self.weights[name]][kind] = value.clone()
        self.follow()


def _make(
    weights: Mapping[str, Tensor], kind: Optimiser, betas: tuple[float, float], epsilon: float, weight_decay: float
) -> torch.optim.Optimizer:
    """Matrices decay, norms and biases do not."""
    decayed = [weight for weight in weights.values() if weight.dim() > 1]
    free = [weight for weight in weights.values() if weight.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": free, "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    if kind == "adamw":
        return torch.optim.AdamW(groups, lr=0.0, betas=betas, eps=epsilon, fused=True)
    return torch.optim.Adam(groups, lr=0.0, betas=betas, eps=epsilon, fused=True)
