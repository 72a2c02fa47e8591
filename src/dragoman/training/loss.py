"""Cross-entropy with label smoothing, without ever holding the logits of a whole batch.

The vocabulary is the widest thing in the model. Rows are projected, measured and differentiated a chunk at a time, so
that the memory is that of one chunk; the gradient is made on the way forward and kept (D wide, not V).
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from dragoman.model import kernels

_CHUNK_ELEMENTS = 1 << 23  # logits held at a time: 32 MiB in float32


class Loss(NamedTuple):
    """Sums over target tokens, in nats."""

    smoothed: Float[Tensor, ""]
    """What is minimised."""
    plain: Float[Tensor, ""]
    """The negative log-likelihood itself, without smoothing; carries no gradient."""


def label_smoothed_loss(
    hidden: Float[Tensor, "M D"], output: Float[Tensor, "V D"], labels: Int[Tensor, "M"], smoothing: float = 0.0
) -> Loss:
    """Cross-entropy against (1 - smoothing) on the label and smoothing / V on every token (Szegedy et al. 2016,
    section 7; Vaswani et al. 2017, section 5.4). Equal to `F.cross_entropy(..., label_smoothing=smoothing,
    reduction="sum")`.

    Rows are real tokens: there is no padding to ignore.
    """
    return Loss(*_ChunkedLoss.apply(hidden, output, labels, smoothing, torch.is_grad_enabled()))


class _ChunkedLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, output, labels, smoothing, differentiate):
        exact = torch.promote_types(hidden.dtype, torch.float32)
        sums = torch.zeros(2, dtype=exact, device=hidden.device)
        of_hidden = torch.empty_like(hidden) if differentiate else None
        of_output = torch.zeros(output.shape, dtype=exact, device=output.device) if differentiate else None
        rows = max(1, _CHUNK_ELEMENTS // output.size(0))
        for first in range(0, hidden.size(0), rows):
            part, label = hidden[first : first + rows], labels[first : first + rows]
            gradient, losses = smoothed_cross_entropy(part @ output.T, label, smoothing)
            sums += losses
            if of_hidden is not None and of_output is not None:
                torch.mm(gradient, output, out=of_hidden[first : first + rows])
                of_output += gradient.T @ part
        if of_hidden is not None and of_output is not None:
            ctx.save_for_backward(of_hidden, of_output.to(output.dtype))
        smoothed, plain = sums.unbind()
        ctx.mark_non_differentiable(plain)
        return smoothed.clone(), plain

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient, _of_plain):
        of_hidden, of_output = ctx.saved_tensors
        return of_hidden * gradient.to(of_hidden.dtype), of_output * gradient.to(of_output.dtype), None, None, None


def smoothed_cross_entropy(
    logits: Float[Tensor, "R V"], labels: Int[Tensor, "R"], smoothing: float
) -> tuple[Float[Tensor, "R V"], Float[Tensor, "2"]]:
    """The gradient with respect to the logits, softmax - target distribution, and the sums of the smoothed and the
    plain loss. The logits are overwritten.
    """
    if kernels.usable("smoothed_loss", logits):
        if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < logits.size(1):
            raise IndexError(f"labels must be from 0 to {logits.size(1) - 1}")
        losses = torch.empty(logits.size(0), 2)
        kernels.run("smoothed_loss", logits, labels.contiguous(), losses, *logits.shape, smoothing)
        return logits, losses.sum(0)
    exact, label = logits.to(torch.promote_types(logits.dtype, torch.float32)), labels[:, None]
    norm = exact.logsumexp(-1, keepdim=True)
    picked, mean = exact.gather(1, label), exact.mean(-1, keepdim=True)
    losses = torch.stack([(norm - (1 - smoothing) * picked - smoothing * mean).sum(), (norm - picked).sum()])
    gradient = exact.sub_(norm).exp_().sub_(smoothing / logits.size(1))
    gradient.scatter_add_(1, label, gradient.new_full((1, 1), smoothing - 1).expand_as(label))
    return gradient.to(logits.dtype), losses
