"""The objective of translation and of language models: each next token, given those before it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from dragoman.data.batch import Batch, BatchSize
from dragoman.model import StepNoise
from dragoman.training.loss import Loss, label_smoothed_loss, r_drop_loss
from dragoman.training.settings import TrainSettings
from dragoman.training.task import BatchSource, CountedBatches


@dataclass(frozen=True)
class OnDevice:
    """Batches, each brought to a device when it is fetched."""

    source: CountedBatches
    device: str

    @property
    def tokens(self) -> int:
        return self.source.tokens

    def epoch(self, number: int) -> Sequence[Any]:
        return self.source.epoch(number)

    def batch(self, indices: Any) -> Batch:
        return self.source.batch(indices).to(self.device)

    def size_of(self, indices: Any) -> BatchSize:
        return self.source.size_of(indices)


@dataclass(frozen=True)
class NextToken:
    """Label-smoothed cross-entropy of every target token; with R-Drop, of two passes whose dropout differs."""

    batches: BatchSource
    label_smoothing: float = 0.0
    r_drop: float = 0.0

    @classmethod
    def of(cls, batches: BatchSource, settings: TrainSettings) -> "NextToken":
        return cls(batches, settings.label_smoothing, settings.r_drop)

    def loss(self, model: nn.Module, batch: Batch, noise: StepNoise) -> Loss:
        output = cast("Tensor", model.output)
        hidden = model(*batch.inputs, noise=noise)
        if not self.r_drop:
            return label_smoothed_loss(hidden, output, batch.labels, self.label_smoothing)
        again = model(*batch.inputs, noise=replace(noise, pass_index=noise.pass_index + 1))
        return r_drop_loss(hidden, again, output, batch.labels, self.label_smoothing, self.r_drop)


def mean_loss(model: nn.Module, batches: Sequence[Batch]) -> float:
    """Negative log-likelihood in nats a target token, without dropout or smoothing."""
    model.eval()
    output = cast("Tensor", model.output)
    with torch.inference_mode():
        losses = [float(label_smoothed_loss(model(*batch.inputs), output, batch.labels).plain) for batch in batches]
    return sum(losses) / max(1, sum(batch.labels.numel() for batch in batches))
