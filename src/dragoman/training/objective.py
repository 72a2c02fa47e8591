"""Objectives of training: batches and their loss.

The loop needs only an `Objective`. `CrossEntropy` is that of every task: a translation or language model predicts each
next token, an encoder alone the labels of texts or words, or masked words.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from dragoman.data.batching import Batch, BatchSize, LabelledBatch
from dragoman.data.bins import BinnedBatch
from dragoman.model.attention import WatchedHead
from dragoman.model.blocks import CrossBlock, SelfBlock
from dragoman.model.dropout import StepKey
from dragoman.model.packing import Packing
from dragoman.model.transformer import EncoderDecoder
from dragoman.training.loss import Loss, alignment_loss, label_smoothed_loss
from dragoman.training.optimiser import MasterWeights


class BatchSource(Protocol):
    """The batches of every epoch. Only the objective knows what a batch is."""

    def epoch(self, number: int, /) -> Sequence[Any]:
        """Return the indices of each batch of an epoch, in order: a pure function of the epoch's number."""
        ...

    def batch(self, indices: Any, /) -> Any:
        """Return the batch of these indices, on the host."""
        ...

    def size_of(self, indices: Any, /) -> BatchSize:
        """Return the number of tokens of a batch, without making it."""
        ...


class Objective(Protocol):
    """An objective of the loop: batches, and the loss of each."""

    @property
    def batches(self) -> BatchSource:
        """Batches to train on."""
        ...

    def loss(self, model: nn.Module, batch: Any, dropout_key: StepKey) -> Loss:
        """Return sums over the target tokens of one micro-batch; their number is in its `BatchSize`."""
        ...


@dataclass(frozen=True)
class CrossEntropy:
    """Label-smoothed cross-entropy of target tokens; with an `alignment_weight`, also the alignment head's loss."""

    batches: BatchSource
    label_smoothing: float = 0.0
    alignment_weight: float = 0.0

    def loss(self, model: nn.Module, batch: Batch | BinnedBatch | LabelledBatch, dropout_key: StepKey) -> Loss:
        """Return sums over the target tokens of one micro-batch, which moves to the model's device."""
        output = cast("Tensor", model.output)
        batch = batch.to(output.device)
        if self.alignment_weight and isinstance(batch, Batch | BinnedBatch) and batch.links is not None:
            return self._with_alignment(cast("EncoderDecoder", model), batch, batch.links, dropout_key)
        hidden = model(*batch.inputs, dropout_key=dropout_key)
        return label_smoothed_loss(hidden, output, batch.labels, self.label_smoothing, bias=_bias(model))

    def _with_alignment(
        self, model: EncoderDecoder, batch: Batch | BinnedBatch, links: Tensor, dropout_key: StepKey
    ) -> Loss:
        assert model.config.alignment_head is not None, "a run that learns alignments has a head for them"
        watched = WatchedHead(*model.config.alignment_head)
        hidden = model(*batch.inputs, dropout_key=dropout_key, watched=watched)
        loss = label_smoothed_loss(hidden, model.output, batch.labels, self.label_smoothing, bias=model.output_bias)
        assert watched.recorded is not None and batch.source_lengths is not None, "the decoder attends to a source"
        queries, keys = (Packing.of(sides, links.device) for sides in (batch.target_lengths, batch.source_lengths))
        alignment = alignment_loss(*watched.recorded, queries, keys, links)
        return loss._replace(alignment=self.alignment_weight * alignment)


def add_gradient(
    model: nn.Module,
    objective: Objective,
    masters: MasterWeights,
    batch: Any,
    target_tokens: int | Tensor,
    dropout_key: StepKey,
) -> Tensor:
    """Add a micro-batch's part of the gradient of the mean loss over the `target_tokens` of a step; return its sums of
    both losses.
    """
    loss = objective.loss(model, batch, dropout_key)
    (loss.minimised / target_tokens).backward()
    masters.collect_gradients()
    return torch.stack([loss.smoothed.detach(), loss.plain])


def recompute_blocks(model: nn.Module) -> None:
    """Keep only the inputs of each layer for the backward pass, which runs the layer again (Chen et al. 2016). That is
    exact, because dropout has no state.
    """
    for block in model.modules():
        if isinstance(block, SelfBlock | CrossBlock):
            block.forward = partial(checkpoint, block.forward, use_reentrant=False, preserve_rng_state=False)


def mean_loss(model: nn.Module, batches: Iterable[Batch | LabelledBatch]) -> float:
    """Return the loss in nats a target token, without dropout or smoothing; leaves the model in evaluation mode."""
    model.eval()
    output, bias = cast("Tensor", model.output), _bias(model)
    loss, tokens = 0.0, 0
    with torch.inference_mode():
        for batch in batches:
            loss += float(label_smoothed_loss(model(*batch.inputs), output, batch.labels, bias=bias).plain)
            tokens += batch.labels.numel()
    return loss / max(1, tokens)


def _bias(model: nn.Module) -> Tensor | None:
    """Return the bias of a model's output, if it has one."""
    return getattr(model, "output_bias", None)
