"""Packing of sentences of different lengths: their tokens are concatenated as rows, so that no computation is spent on
padding.

Code that works on one token at a time (embedding, projections, norms, feed-forward, loss) sees N rows; only attention
needs to know where sentences begin and end. If no kernel supports packed rows, it pads them to (B, T) and back.

A GPU prefers steps that all have the same shape. There, sentences share bins of one length (`Bins`).
"""

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor, nn

from dragoman.shapes import Bool, Int

ROW_MULTIPLE = 64
"""Multiple to which the rows of a training batch are rounded up, so that batches have few different shapes: torch
prepares the product of matrices of a new shape, which takes a tenth of the product's own time.
"""


NO_TOKEN = -1
"""The label of a row without a token."""


class Packing:
    """The lengths of B sentences whose tokens are concatenated to N rows, followed by `filler` rows without tokens.

    >>> packing = Packing.of([2, 1])
    >>> packing.pad(torch.tensor([7, 8, 9]))
    tensor([[7, 8],
            [9, 0]])
    """

    def __init__(self, lengths: Int[Tensor, "B"], longest: int, tokens: int, filler: int = 0) -> None:
        self.lengths, self.longest, self.tokens, self.filler = lengths, longest, tokens, filler
        self.sentences, self.rows = lengths.size(0), tokens + filler
        self.full = tokens == self.sentences * longest  # nothing to pad: padding and unpadding are views

    token: Int[Tensor, "N"] | None = None
    """Index of every row's token among all tokens; None if that is the index of the row."""

    @cached_property
    def sentence(self) -> Int[Tensor, "tokens"]:
        """Index of every token's sentence."""
        numbers = torch.arange(self.sentences, device=self.lengths.device)
        return torch.repeat_interleave(numbers, self.lengths, output_size=self.tokens)

    @cached_property
    def position(self) -> Int[Tensor, "N"]:
        """Position of every row in its sentence, from 0."""
        offsets = self.lengths.cumsum(0) - self.lengths
        positions = torch.arange(self.tokens, device=self.lengths.device) - offsets[self.sentence]
        return self.fill(positions)

    @cached_property
    def edges(self) -> Int[Tensor, "E"]:
        """First rows of the sentences and the end of the last one, as 32-bit numbers for GPUs."""
        return nn.functional.pad(self.lengths.cumsum(0), (1, 0)).int()

    @cached_property
    def _slot(self) -> Int[Tensor, "tokens"]:
        """Index of every token in the padded (B * T)."""
        return self.sentence * self.longest + self.position[: self.tokens]

    @classmethod
    def of(
        cls, lengths: "Sequence[int] | Tensor | Packing", device: torch.device | str | None = None, multiple: int = 1
    ) -> "Packing":
        """Pack sentences of these lengths, with rows rounded up to a `multiple`. No other function reads lengths on the
        host. A packing is returned as it is.
        """
        if isinstance(lengths, Packing):
            return lengths
        on_host = torch.as_tensor(lengths, dtype=torch.int64, device="cpu")
        longest = int(on_host.max()) if len(on_host) else 0
        target = device if device is not None else lengths.device if isinstance(lengths, Tensor) else "cpu"
        tokens = int(on_host.sum())
        non_blocking = torch.device(target).type == "cuda"
        return cls(on_host.to(target, non_blocking=non_blocking), longest, tokens, -tokens % multiple)

    @classmethod
    def even(cls, sentences: int, length: int, device: torch.device | str | None = None) -> "Packing":
        """Pack sentences of equal length, without reading anything from the device."""
        return cls(torch.full((sentences,), length, device=device), length, sentences * length)

    def pad(self, rows: Tensor) -> Tensor:
        """Pad rows: (N, ...) -> (B, T, ...), with zeros after the tokens of a sentence."""
        rows = rows[: self.tokens]
        if not self.full:
            rows = _Pad.apply(rows, self._slot, self.sentences * self.longest)
        return rows.unflatten(0, (self.sentences, self.longest))

    def unpad(self, padded: Tensor) -> Tensor:
        """Remove padding: (B, T, ...) -> (N, ...), with zeros in the filler."""
        rows = padded.flatten(0, 1)
        return self.fill(rows if self.full else _Unpad.apply(rows, self._slot))

    def fill(self, tokens: Tensor) -> Tensor:
        """Append filler rows of zeros to the rows of the tokens: -> (N, ...)."""
        return nn.functional.pad(tokens, (*[0] * (2 * tokens.dim() - 1), self.filler)) if self.filler else tokens


class Bins(Packing):
    """Bins of T tokens that hold one or more sentences each, so that batches of any sentences have one shape. A bin
    takes the place of a sentence in padded tensors (B, T, ...), but attention sees only the query's own sentence.

    >>> bins = Bins(torch.tensor([[0, 0, 1, -1]]))
    >>> bins.position, bins.token
    (tensor([0, 1, 0, 0]), tensor([0, 1, 2, 2]))
    """

    def __init__(self, sentence_in_bin: Int[Tensor, "B T"]) -> None:
        """Create bins; `sentence_in_bin` holds the sentence of each token, as its index in the bin: -1 for no token."""
        self.sentence_in_bin = sentence_in_bin
        lengths = torch.full_like(sentence_in_bin[:, 0], sentence_in_bin.size(1), dtype=torch.int64)
        super().__init__(lengths, sentence_in_bin.size(1), sentence_in_bin.numel())
        self._masks: dict[tuple[int, bool], Tensor] = {}
        self.token = ((sentence_in_bin.flatten() >= 0).cumsum(0) - 1).clamp(min=0)

    @cached_property
    def position(self) -> Int[Tensor, "N"]:
        places = torch.arange(self.longest, device=self.lengths.device)
        begins = nn.functional.pad(self.sentence_in_bin[:, 1:] != self.sentence_in_bin[:, :-1], (1, 0))
        positions = places - (places * begins).cummax(1).values
        return (positions * (self.sentence_in_bin >= 0)).flatten()  # rows without a token may be many

    def visible(self, keys: "Bins", causal: bool) -> Bool[Tensor, "B 1 T S"]:
        """Return the mask of the keys that each query sees: those of the same sentence, and, if causal, none after the
        query's position. A query without a token sees keys of any sentence: a softmax over nothing is undefined.
        """
        if (id(keys), causal) not in self._masks:  # all layers see the same
            queries = self.sentence_in_bin[:, :, None]
            mask = (queries == keys.sentence_in_bin[:, None]) | (queries < 0)
            self._masks[id(keys), causal] = (mask.tril() if causal else mask)[:, None]
        return self._masks[id(keys), causal]


def pick(rows: Tensor, places: Int[Tensor, "M"]) -> Tensor:
    """Return the rows at these indices, which must not repeat: (N, ...) -> (M, ...)."""
    return _Unpad.apply(rows, places)


class _Pad(torch.autograd.Function):
    """Copy of rows to their slots. Forward and backward copy without summing, so results are bit for bit equal."""

    @staticmethod
    def forward(ctx, rows, slot, size):
        ctx.save_for_backward(slot)
        return rows.new_zeros((size, *rows.shape[1:])).index_copy_(0, slot, rows)

    @staticmethod
    def backward(ctx, gradient):
        (slot,) = ctx.saved_tensors
        return gradient.index_select(0, slot), None, None


class _Unpad(torch.autograd.Function):
    """Copy of slots to rows; the inverse of `_Pad`."""

    @staticmethod
    def forward(ctx, padded, slot):
        ctx.save_for_backward(slot)
        ctx.size = padded.size(0)
        return padded.index_select(0, slot)

    @staticmethod
    def backward(ctx, gradient):
        (slot,) = ctx.saved_tensors
        return gradient.new_zeros((ctx.size, *gradient.shape[1:])).index_copy_(0, slot, gradient), None
