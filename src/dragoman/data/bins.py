"""Batches that all have the same shape, for steps that a GPU records: sentence pairs are packed into bins.

A batch has a fixed number of bins, and a bin room for a fixed number of tokens on each side. A pair keeps its place in
the order of the batch, and its two sentences lie in the same bin, so that cross-attention too stays inside bins. Short
sentences fill bins of 256 tokens to 95 %. A batch that does not fit stays as it is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dragoman.data.batching import Batch, BatchSize, Indices, cut
from dragoman.model.packing import NO_TOKEN, Bins
from dragoman.shapes import Int

_SHORTEST, _MULTIPLE = 256, 128
"""Least tokens of a bin, and the multiple to which more are rounded up: attention on a GPU works on tiles of 128."""
_SEEN, _FIT = 64, 0.95
"""Number of batches from which a shape is chosen, and the share of them that should fit."""


class BinShape(NamedTuple):
    """The shape of all batches of a run."""

    bins: int
    length: int
    """Tokens of a bin on each side."""


@dataclass(frozen=True)
class BinnedBatch:
    """N = B * T tokens of each side in B bins. Rows without a token hold 0, and the label `NO_TOKEN`."""

    source: Int[Tensor, "N"]
    target: Int[Tensor, "N"]
    labels: Int[Tensor, "N"]
    links: Int[Tensor, "N"]
    """For every token that the decoder reads, the place of its aligned source token in the bin; -1 if there is none."""
    source_sentence: Int[Tensor, "B T"]
    """For every source token, the index of its sentence in the bin; -1 for no token."""
    target_sentence: Int[Tensor, "B T"]

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """All tensors, in the order in which they make a batch."""
        return tuple(vars(self).values())

    @property
    def source_lengths(self) -> Bins:
        """Return how the source sentences lie in rows: a model takes it instead of lengths."""
        return Bins(self.source_sentence)

    @property
    def target_lengths(self) -> Bins:
        """Return how the target sentences lie in rows: a model takes it instead of lengths."""
        return Bins(self.target_sentence)

    @property
    def inputs(self) -> tuple[Tensor | Bins, ...]:
        """The arguments of a model's `forward`, in order."""
        return self.source, self.source_lengths, self.target, self.target_lengths

    def to(self, device: torch.device | str) -> "BinnedBatch":
        """Return the batch on `device`."""
        return BinnedBatch(*(part.to(device) for part in self.parts))


class BinnedBatches:
    """The batches of a source of batches, those that fit in bins."""

    def __init__(self, batches: Any, shape: BinShape) -> None:
        self.batches, self.shape = batches, shape

    def epoch(self, number: int) -> Sequence[Any]:
        """Return the indices of each batch of an epoch."""
        return self.batches.epoch(number)

    def size_of(self, indices: Any) -> BatchSize:
        """Return the sizes of a batch, without what fills the bins."""
        return self.batches.size_of(indices)

    def batch(self, indices: Any) -> Batch | BinnedBatch:
        """Return the batch in bins, or as it is if it does not fit."""
        batch = self.batches.batch(indices)
        return in_bins(batch, self.shape) or batch


def choose_shape(batches: Any) -> BinShape:
    """Return the smallest shape into which most batches fit, judged by those at the beginning of the first epoch."""
    seen = [batches.batch(indices) for indices in islice(batches.epoch(0), _SEEN)]
    most = math.ceil(_FIT * (len(seen) - 1))
    longest = sorted(batch.size.longest for batch in seen)[most]
    length = max(_SHORTEST, -(-longest // _MULTIPLE) * _MULTIPLE)
    return BinShape(sorted(len(_cuts(batch, length)) - 1 for batch in seen)[most], length)


def in_bins(batch: Batch, shape: BinShape) -> BinnedBatch | None:
    """Pack the pairs of a batch into bins, in their order; return None if they do not fit."""
    assert batch.source is not None and batch.source_lengths is not None, "pairs have sources"
    cuts = _cuts(batch, shape.length)
    if len(cuts) - 1 > shape.bins or batch.size.longest > shape.length:
        return None
    in_bin = np.arange(len(batch)) - np.repeat(cuts[:-1], np.diff(cuts))
    source_places, source_begins = _places(batch.source_lengths.numpy(), cuts, shape.length)
    places, _ = _places(batch.target_lengths.numpy(), cuts, shape.length)
    target_lengths = batch.target_lengths.numpy()
    links = np.full(len(places), -1)
    if batch.links is not None:
        links = batch.links.numpy()
        links = np.where(links >= 0, links + np.repeat(source_begins, target_lengths), -1)

    def spread(values: Indices, places: Indices, empty: int) -> Tensor:
        rows = np.full(shape.bins * shape.length, empty)
        rows[places] = values
        return torch.from_numpy(rows)

    sentences = (np.repeat(in_bin, lengths) for lengths in (batch.source_lengths.numpy(), target_lengths))
    return BinnedBatch(
        spread(batch.source.numpy(), source_places, 0),
        spread(batch.target.numpy(), places, 0),
        spread(batch.labels.numpy(), places, NO_TOKEN),
        spread(links, places, -1),
        spread(next(sentences), source_places, -1).view(shape),
        spread(next(sentences), places, -1).view(shape),
    )


def _cuts(batch: Batch, length: int) -> list[int]:
    """Return the boundaries of the bins: indices of pairs."""
    assert batch.source_lengths is not None, "pairs have sources"
    return cut(batch.source_lengths.numpy(), batch.target_lengths.numpy(), length)


def _places(lengths: Indices, cuts: Sequence[int], length: int) -> tuple[Indices, Indices]:
    """Return the row of every token of one side, and the place in its bin where each sentence begins."""
    begins, counts = np.cumsum(lengths) - lengths, np.diff(cuts)
    begins_in_bin = begins - np.repeat(begins[cuts[:-1]], counts)
    rows = begins_in_bin + length * np.repeat(np.arange(len(counts)), counts)
    return np.repeat(rows - begins, lengths) + np.arange(lengths.sum()), begins_in_bin
