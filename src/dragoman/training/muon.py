"""Muon: makes the momentum of each matrix orthogonal before it moves the weights (Jordan et al. 2024).

A gradient has a few large singular values, so a step along it moves a matrix in few directions. With all of them set to
one, the step moves equally far in every direction. Newton-Schulz iterations approximate that with matrix products.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import groupby

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.machine import choose_precision

_ITERATIONS = 5
_COEFFICIENTS = 3.4445, -4.7750, 2.0315  # the published ones: steep at zero, so that small values rise fast
_SIZE = 0.2  # root mean square of an update, about AdamW's (Liu et al. 2025, section 2.2)


class Muon(torch.optim.Optimizer):
    """Moves matrices that lie end to end in one row, all of one shape together. Its updates are as large as AdamW's, so
    both take the same learning rate and weight decay.

    Like torch's fused optimisers, it divides gradients by `grad_scale`, and moves nothing if `found_inf` is one.
    """

    grad_scale: Tensor | None = None
    found_inf: Tensor | None = None

    def __init__(
        self, row: nn.Parameter, shapes: Iterable[Sequence[int]], momentum: float = 0.95, weight_decay: float = 0.0
    ) -> None:
        super().__init__([row], {"lr": 0.0, "momentum": momentum, "weight_decay": weight_decay})
        self._blocks = [(len(list(alike)), *shape) for shape, alike in groupby(shapes)]

    @torch.no_grad()
    def step(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Updates the momentum, makes it orthogonal, and moves the weights along it."""
        (group,) = self.param_groups
        ((row,), rate, momentum) = group["params"], group["lr"], group["momentum"]
        gradient, moves = self._gradient(row)
        mean = self.state[row].setdefault("momentum", torch.zeros_like(row)).lerp_(gradient, (1 - momentum) * moves)
        ahead = mean.lerp(gradient, 1 - momentum)  # Nesterov: the mean if this gradient came once more
        row.mul_(1 - rate * group["weight_decay"] * moves)
        sizes = [math.prod(block) for block in self._blocks]
        for block, weights, steps in zip(self._blocks, row.split(sizes), ahead.split(sizes), strict=True):
            size = rate * _SIZE * max(block[1:]) ** 0.5
            weights.addcmul_(orthogonalise(steps.view(block)).flatten(), moves * -size)

    def _gradient(self, row: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient and one; or zeros and zero, if the step must move nothing."""
        assert row.grad is not None, "the master weights set it"
        gradient = row.grad if self.grad_scale is None else row.grad / self.grad_scale
        if self.found_inf is None:
            return gradient, gradient.new_ones(())
        return gradient.where(self.found_inf == 0, 0.0), 1 - self.found_inf.to(row.dtype)


def orthogonalise(matrices: Float[Tensor, "L R C"]) -> Float[Tensor, "L R C"]:
    """Approximately U V^T of each matrix U S V^T.

    A singular value of at least 0.002 of the matrix's Frobenius norm ends between 0.68 and 1.21. A smaller one grows by
    up to 485 times (3.4445^5) and may stay far below. Where the device has instructions for bf16, float32 input is
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
