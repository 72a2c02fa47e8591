"""The computation of a step as a GPU replays it: two recordings, the gradient of a micro-batch and the update.

Everything that changes from step to step is a tensor: the batch, in bins, so that its shape never changes; the keys of
dropout; the number of target tokens; the learning rate. Batches that do not fit in bins, and everything on other
devices, are computed by the same functions, one operation after the other.
"""

from contextlib import nullcontext
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from dragoman.compiled.fusing import fusing
from dragoman.data.bins import BinnedBatch, BinnedBatches, choose_shape
from dragoman.model.dropout import StepKey
from dragoman.model.transformer import EncoderDecoder
from dragoman.recording import Recorded
from dragoman.training.objective import BatchSource, Objective, add_gradient
from dragoman.training.optimiser import MasterWeights


class RecordedStep:
    """The gradient of a micro-batch in bins, and the update, each recorded by its first calls on a GPU."""

    def __init__(self, model: nn.Module, objective: Objective, masters: MasterWeights, clip_norm: float) -> None:
        self.model, self.objective, self.masters = model, objective, masters
        self.device, self.dtype = masters.flat.device, masters.flat.dtype
        self.sites = sites_of(model)
        self._gradient = Recorded(self._add_gradient, self.device)
        self._update = Recorded(partial(masters.step, longest=clip_norm), self.device)

    def add_gradient(self, batch: BinnedBatch, target_tokens: int, dropout_key: StepKey) -> Tensor:
        """Add a micro-batch's part of the gradient of the step's mean loss; return its sums of both losses."""
        count = torch.tensor(target_tokens, dtype=self.dtype)
        return self._call(self._gradient, dropout_key.numbers(self.sites), count, *batch.parts)

    def update(self, rate: float) -> Tensor:
        """Take the step; return the norm of the gradient."""
        return self._call(self._update, torch.tensor(rate, dtype=self.dtype))

    def _call(self, recorded: Recorded[Tensor], *arguments: Tensor) -> Tensor:
        with nullcontext() if recorded.is_recorded else fusing(self.device):
            return recorded(*arguments).clone()

    def _add_gradient(self, numbers: Tensor, target_tokens: Tensor, *parts: Tensor) -> Tensor:
        dropout_key = StepKey.from_numbers(numbers, self.sites)
        return add_gradient(self.model, self.objective, self.masters, BinnedBatch(*parts), target_tokens, dropout_key)


def sites_of(model: nn.Module) -> list[str]:
    """Return the names of all places where a model drops something."""
    names = [module.name for module in model.modules() if isinstance(getattr(module, "name", None), str)]
    return sorted({name for site in cast("list[str]", names) for name in (site, f"{site}.adapter")})


def packed_in_bins(batches: BatchSource, model: nn.Module) -> BatchSource:
    """Return the batches packed in bins, if a model computes the same on them up to rounding: a translator without
    dropout of attention weights, which depends on the place of a key.
    """
    if not isinstance(model, EncoderDecoder) or model.config.attention_dropout:
        return batches
    return BinnedBatches(batches, choose_shape(batches))
