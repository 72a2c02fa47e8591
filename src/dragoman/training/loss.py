"""Cross-entropy with label smoothing, without ever holding the logits of a whole batch.

The vocabulary is the widest dimension of the model. So the loss and its gradient are computed a chunk of rows at a
time, and memory holds the logits of one chunk. The forward pass computes the gradient and keeps it (D wide, not V).
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from dragoman.compiled import kernels
from dragoman.compiled.fusing import fusible
from dragoman.model.attention_backends import KeyValues, hide, score
from dragoman.model.packing import NO_TOKEN, ROW_MULTIPLE, Packing
from dragoman.shapes import Float, Int

_CHUNK_ELEMENTS = {"cpu": 1 << 24, "cuda": 1 << 26}
"""Logits held at a time: 32 MiB in bf16; with a quarter of it the loss is an eighth slower on a processor. A GPU needs
more to do at once.
"""


class Loss(NamedTuple):
    """Sums over target tokens, in nats."""

    smoothed: Float[Tensor, ""]
    """Cross-entropy with label smoothing, which training minimises."""
    plain: Float[Tensor, ""]
    """Negative log-likelihood without smoothing; carries no gradient."""
    alignment: Float[Tensor, ""] | None = None
    """Weighted loss of the alignment head; None if no head learns alignments."""

    @property
    def minimised(self) -> Float[Tensor, ""]:
        """The sum that training minimises."""
        return self.smoothed if self.alignment is None else self.smoothed + self.alignment


def label_smoothed_loss(
    hidden: Float[Tensor, "M D"],
    output: Float[Tensor, "V D"],
    labels: Int[Tensor, "M"],
    smoothing: float = 0.0,
    *,
    bias: Float[Tensor, "V"] | None = None,
) -> Loss:
    """Compute the cross-entropy against (1 - smoothing) on the label and smoothing / V on every token (Szegedy et al.
    2016, section 7; Vaswani et al. 2017, section 5.4). It equals `F.cross_entropy(..., label_smoothing=smoothing,
    reduction="sum")`.

    Every row is a token, except those with the label `NO_TOKEN`, which count as zero. `bias` is added to the logits.

    Raises:
        IndexError: a label is outside the vocabulary (checked on a processor only).
    """
    return Loss(*_ChunkedLoss.apply(hidden, output, bias, labels, smoothing, torch.is_grad_enabled()))


def alignment_loss(
    query: Float[Tensor, "N K"],
    key: Float[Tensor, "M K"],
    queries: Packing,
    keys: Packing,
    links: Int[Tensor, "tokens"],
) -> Float[Tensor, ""]:
    """Return the negative log of the weight that one head of cross-attention gives to the source token of each target
    token, summed over target tokens (Garg et al. 2019, eq. 5). Target tokens without a source token (-1) count as zero.
    """
    products = score(queries.pad(query)[:, None], keys.pad(key)[:, None]).float()  # (B, 1, T, S)
    visible = KeyValues.from_rows(key[:, None], key[:, None], keys).visible(queries, causal=False)
    log_weights = hide(products, visible).log_softmax(-1)
    picked = queries.unpad(log_weights[:, 0])[: queries.tokens].gather(1, links.clamp(min=0)[:, None])
    return -torch.where(links >= 0, picked[:, 0], 0.0).sum()


class _ChunkedLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, output, bias, labels, smoothing, differentiate):
        _refuse_unknown(labels, output.size(0))
        exact = torch.promote_types(output.dtype, torch.float32)
        sums = torch.zeros(2, dtype=exact, device=output.device)
        output_trains = differentiate and ctx.needs_input_grad[1]
        output_gradient = torch.zeros(output.shape if output_trains else 0, dtype=exact, device=output.device)
        bias_gradient = (
            None if bias is None else torch.zeros(bias.shape if differentiate else 0, dtype=exact, device=bias.device)
        )
        tokens, filler = labels.size(0), -labels.size(0) % ROW_MULTIPLE
        labels = F.pad(labels, (0, filler), value=NO_TOKEN)
        hidden = F.pad(hidden, (0, 0, 0, filler))
        hidden_gradient = torch.empty_like(hidden) if differentiate else None
        most = _CHUNK_ELEMENTS.get(output.device.type, _CHUNK_ELEMENTS["cpu"])
        chunks = 1 + len(labels) * output.size(0) // most

        def add(chunk: slice) -> None:  # a function, so that its logits are freed before the next chunk's are made
            logits = hidden[chunk] @ output.T
            if bias is not None:
                logits.add_(bias)
            gradient, losses = smoothed_cross_entropy(logits, labels[chunk], smoothing)
            sums.add_(losses)
            if hidden_gradient is None:
                return
            torch.mm(gradient, output, out=hidden_gradient[chunk])
            if output_trains:
                output_gradient.add_(gradient.T @ hidden[chunk])
            if bias_gradient is not None:
                bias_gradient.add_(gradient.sum(0, dtype=exact))

        for chunk in _even_slices(len(labels), chunks):
            add(chunk)
        if hidden_gradient is not None:
            bias_gradient = None if bias is None or bias_gradient is None else bias_gradient.to(bias.dtype)
            ctx.save_for_backward(hidden_gradient[:tokens], output_gradient.to(output.dtype), bias_gradient)
        smoothed, plain = sums.unbind()
        ctx.mark_non_differentiable(plain)
        return smoothed.clone(), plain

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient, _plain_gradient):
        saved = (part if part is None else part * gradient for part in ctx.saved_tensors)
        hidden_gradient, output_gradient, bias_gradient = saved
        return hidden_gradient, output_gradient if ctx.needs_input_grad[1] else None, bias_gradient, None, None, None


def _refuse_unknown(labels: Int[Tensor, "M"], vocabulary: int) -> None:
    """Refuse unknown labels, for which a kernel would write out of bounds. A GPU checks by itself, without waiting."""
    if (
        labels.device.type == "cpu"
        and len(labels)
        and not NO_TOKEN <= int(labels.min()) <= int(labels.max()) < vocabulary
    ):
        raise IndexError(f"labels must be from 0 to {vocabulary - 1}")


def _even_slices(rows: int, count: int) -> Iterator[slice]:
    """Return about `count` slices that cover `rows`, each a multiple of `ROW_MULTIPLE` long."""
    size = -(-rows // (count * ROW_MULTIPLE)) * ROW_MULTIPLE or ROW_MULTIPLE
    return (slice(first, first + size) for first in range(0, rows, size))


def smoothed_cross_entropy(
    logits: Float[Tensor, "R V"], labels: Int[Tensor, "R"], smoothing: float
) -> tuple[Float[Tensor, "R V"], Float[Tensor, "2"]]:
    """Return the gradient with respect to the logits (softmax - target distribution), and the sums of the smoothed and
    the plain loss. Rows labelled `NO_TOKEN` count as zero. The logits are overwritten.
    """
    if kernels.usable("smoothed_loss", logits):
        losses = torch.empty(logits.size(0), 2)
        kernels.run("smoothed_loss", logits, labels.contiguous(), losses, *logits.shape, smoothing)
        return logits, losses.sum(0)
    return _smoothed_cross_entropy(logits, labels, smoothing)


@fusible
def _smoothed_cross_entropy(logits: Tensor, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    exact, label = logits.to(torch.promote_types(logits.dtype, torch.float32)), labels.clamp(min=0)[:, None]
    token = (labels[:, None] != NO_TOKEN).to(exact.dtype)
    norm = exact.logsumexp(-1, keepdim=True)
    picked, mean = exact.gather(1, label), exact.mean(-1, keepdim=True)
    row_losses = [norm - (1 - smoothing) * picked - smoothing * mean, norm - picked]
    losses = torch.stack([(token * losses).sum() for losses in row_losses])
    gradient = exact.sub_(norm).exp_().sub_(smoothing / logits.size(1))
    is_label = torch.arange(logits.size(1), device=logits.device) == label
    gradient.add_(is_label, alpha=smoothing - 1)
    return gradient.mul_(token).to(logits.dtype), losses
