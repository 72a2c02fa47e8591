"""A batch, the input of a model in training: sentences as ids, laid end to end without padding."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor


@dataclass(frozen=True)
class BatchSize:
    """The sizes of a batch, without its ids: all that a process needs to know of a batch that another one computes."""

    source_tokens: int
    target_tokens: int
    longest: int
    """Tokens of the longest sentence, on either side."""
    pairs: Int[Tensor, "B"]
    """Index in the corpus of each pair."""

    @property
    def tokens(self) -> int:
        """Source and target tokens together."""
        return self.source_tokens + self.target_tokens


@dataclass(frozen=True)
class Batch:
    """B sentence pairs; N source tokens and M target tokens in all, special symbols included.

    The decoder reads `target` (start, then y) and should predict `labels` (y, then end): the next token at each
    position. A decoder-only model has no source.
    """

    source: Int[Tensor, "N"] | None
    source_lengths: Int[Tensor, "B"] | None
    target: Int[Tensor, "M"]
    labels: Int[Tensor, "M"]
    target_lengths: Int[Tensor, "B"]
    pairs: Int[Tensor, "B"]
    """Index in the corpus of each pair."""

    def __len__(self) -> int:
        return self.pairs.numel()

    @property
    def source_tokens(self) -> int:
        """The number of source tokens, N."""
        return 0 if self.source is None else self.source.numel()

    @property
    def target_tokens(self) -> int:
        """The number of target tokens, M."""
        return self.labels.numel()

    @property
    def tokens(self) -> int:
        """Source and target tokens together."""
        return self.source_tokens + self.target_tokens

    @property
    def size(self) -> BatchSize:
        """The sizes of this batch."""
        lengths = [self.target_lengths, *([] if self.source_lengths is None else [self.source_lengths])]
        longest = int(torch.cat(lengths).max())
        return BatchSize(self.source_tokens, self.target_tokens, longest, self.pairs)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The arguments of a model's `forward`, in order."""
        target = (self.target, self.target_lengths)
        return (
            target
            if self.source is None or self.source_lengths is None
            else (self.source, self.source_lengths, *target)
        )

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch with its ids on `device`. Lengths stay on the host, which reads them."""
        ids = {"source": self.source, "target": self.target, "labels": self.labels}
        is_cuda = torch.device(device).type == "cuda"
        ids = {name: part.to(device, non_blocking=is_cuda) for name, part in ids.items() if part is not None}
        return replace(self, **ids)
