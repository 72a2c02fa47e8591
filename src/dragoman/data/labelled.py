"""Batches for an encoder alone: texts with labels, and texts some of whose words are masked.

`Batches` decides which rows share a batch, as for pairs. Here they become what `EncoderModel` takes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from dragoman.data.batch import BatchSize
from dragoman.data.batching import Batches, Indices, gather
from dragoman.data.corpus import EncodedCorpus
from dragoman.tokenizing.framing import Framing


@dataclass(frozen=True)
class LabelledBatch:
    """B texts, N tokens in all, special symbols included; M of the tokens, or the B texts themselves, have labels."""

    source: Int[Tensor, "N"]
    source_lengths: Int[Tensor, "B"]
    chosen: Int[Tensor, "M"] | None
    """The rows whose labels are predicted; None where each text has one label."""
    labels: Int[Tensor, "M"]
    pairs: Int[Tensor, "B"]
    """Index in the corpus of each text."""

    @property
    def inputs(self) -> tuple[Tensor | None, ...]:
        """The arguments of a model's `forward`, in order."""
        return self.source, self.source_lengths, self.chosen

    def to(self, device: torch.device | str) -> "LabelledBatch":
        """The same batch on `device`. Lengths stay on the host, which reads them."""
        is_cuda = torch.device(device).type == "cuda"
        parts = {"source": self.source, "chosen": self.chosen, "labels": self.labels}
        moved = {name: part.to(device, non_blocking=is_cuda) for name, part in parts.items() if part is not None}
        return replace(self, **moved)


class LabelledBatches:
    """The labelled batches of a corpus, in the order of `Batches`."""

    def __init__(self, order: Batches) -> None:
        self.order, self.corpus, self.framing = order, order.corpus, order.framing

    @property
    def tokens(self) -> int:
        """Source tokens and labels of an epoch."""
        return self._tokens

    @cached_property
    def _tokens(self) -> int:
        return sum(self.size_of(indices).tokens for indices in self.order.epoch(0))

    def epoch(self, number: int) -> Sequence[Indices]:
        """The rows of each batch of an epoch, in order."""
        return self.order.epoch(number)

    def size_of(self, rows: Indices) -> BatchSize:
        """The sizes that `batch` would have."""
        size = self.order.size_of(rows)
        return replace(size, target_tokens=int(np.count_nonzero(self._targets(rows))) if self._of_words else len(rows))

    def batch(self, rows: Indices) -> LabelledBatch:
        """Some rows, laid end to end, with their labels."""
        source, lengths = framed(self.corpus, rows, self.framing)
        targets, chosen = self._targets(rows), None
        if self._of_words:
            targets, chosen = targets[targets > 0] - 1, torch.from_numpy(self._places(lengths, targets))
        return LabelledBatch(
            source=torch.from_numpy(source),
            source_lengths=torch.from_numpy(lengths),
            chosen=chosen,
            labels=torch.from_numpy(targets),
            pairs=torch.from_numpy(rows),
        )

    @property
    def _of_words(self) -> bool:
        return self.corpus.labelled == "words"

    def _targets(self, rows: Indices) -> Indices:
        return gather(self.corpus.target, rows)[0]

    def _places(self, lengths: Indices, targets: Indices) -> Indices:
        """Where the first pieces of words lie among all tokens; the symbols around each text have no label."""
        before, after = len(self.framing.source_before), len(self.framing.source_after)
        inside = lengths - before - after
        shift = np.repeat(np.cumsum(lengths) - lengths + before - (np.cumsum(inside) - inside), inside)
        return (np.arange(len(targets)) + shift)[targets > 0]


def framed(corpus: EncodedCorpus, rows: Indices, framing: Framing) -> tuple[Indices, Indices]:
    """The ids of some sources, laid end to end, each with the framing's symbols around it; and their lengths."""
    assert corpus.source is not None, "a corpus for an encoder has sources"
    return gather(corpus.source, rows, framing.source_before, framing.source_after)
