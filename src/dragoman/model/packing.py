"""Sentences of different lengths, laid end to end as rows of tokens, so that no arithmetic is spent on padding.

Everything that works on one token at a time (embedding, projections, norms, feed-forward, loss) sees N rows; attention
alone needs to know where sentences begin and end, and pads its rows to (B, T) for as long as it takes.
"""

from collections.abc import Sequence
from functools import cached_property

import torch
from jaxtyping import Bool, Int
from torch import Tensor


class Packing:
    """The lengths of B sentences whose tokens lie end to end as N rows.

    >>> packing = Packing.of([2, 1])
    >>> packing.pad(torch.tensor([7, 8, 9]))
    tensor([[7, 8],
            [9, 0]])
    """

    def __init__(self, lengths: Int[Tensor, "B"], longest: int, rows: int) -> None:
        self.lengths, self.longest, self.rows = lengths, longest, rows
        self.sentences = lengths.size(0)
        self.full = rows == self.sentences * longest  # nothing to pad: padding and unpadding are views

    @cached_property
    def sentence(self) -> Int[Tensor, "N"]:
        """Which sentence each row belongs to."""
        numbers = torch.arange(self.sentences, device=self.lengths.device)
        return torch.repeat_interleave(numbers, self.lengths, output_size=self.rows)

    @cached_property
    def position(self) -> Int[Tensor, "N"]:
        """Where each row stands in its sentence, from 0."""
        offsets = self.lengths.cumsum(0) - self.lengths
        return torch.arange(self.rows, device=self.lengths.device) - offsets[self.sentence]

    @cached_property
    def _slot(self) -> Int[Tensor, "N"]:
        """Each row's place in the padded (B * T)."""
        return self.sentence * self.longest + self.position

    @classmethod
    def of(cls, lengths: Sequence[int] | Tensor, device: torch.device | str | None = None) -> "Packing":
        """Packing of sentences of these lengths; the one place where lengths are read by the host."""
        on_host = torch.as_tensor(lengths, dtype=torch.int64, device="cpu")
        longest = int(on_host.max()) if len(on_host) else 0
        target = device if device is not None else lengths.device if isinstance(lengths, Tensor) else "cpu"
        return cls(on_host.to(target), longest, int(on_host.sum()))

    @classmethod
    def even(cls, sentences: int, length: int, device: torch.device | str | None = None) -> "Packing":
        """Packing of sentences that are all of one length, made without reading anything back."""
        return cls(torch.full((sentences,), length, device=device), length, sentences * length)

    @property
    def visible(self) -> Bool[Tensor, "B T"]:
        """True where the padded batch holds a token."""
        return torch.arange(self.longest, device=self.lengths.device) < self.lengths[:, None]

    def pad(self, rows: Tensor) -> Tensor:
        """(N, ...) -> (B, T, ...), zeros where there is no token."""
        if not self.full:
            rows = _Pad.apply(rows, self._slot, self.sentences * self.longest)
        return rows.unflatten(0, (self.sentences, self.longest))

    def unpad(self, padded: Tensor) -> Tensor:
        """(B, T, ...) -> (N, ...): the rows that are tokens."""
        rows = padded.flatten(0, 1)
        return rows if self.full else _Unpad.apply(rows, self._slot)


class _Pad(torch.autograd.Function):
    """Rows to their slots. Its gradient is the other way round, and both are plain copies: no sums, so always the same
    bits.
    """

    @staticmethod
    def forward(ctx, rows, slot, size):
        ctx.save_for_backward(slot)
        return rows.new_zeros((size, *rows.shape[1:])).index_copy_(0, slot, rows)

    @staticmethod
    def backward(ctx, gradient):
        (slot,) = ctx.saved_tensors
        return gradient.index_select(0, slot), None, None


class _Unpad(torch.autograd.Function):
    """Slots to rows; the inverse of `_Pad`."""

    @staticmethod
    def forward(ctx, padded, slot):
        ctx.save_for_backward(slot)
        ctx.size = padded.size(0)
        return padded.index_select(0, slot)

    @staticmethod
    def backward(ctx, gradient):
        (slot,) = ctx.saved_tensors
        return gradient.new_zeros((ctx.size, *gradient.shape[1:])).index_copy_(0, slot, gradient), None
