"""Key/value caches for incremental decoding: keys of cross-attention, and keys of tokens that are already written.

Both are passed as values. `CrossKeys` are computed once for a batch of sources, in training and in decoding; `Cache`
holds them and grows by the keys of every decoded token. Rows can be reordered, dropped, repeated and joined.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from dragoman.model.attention_backends import KeyValues
from dragoman.model.packing import Packing
from dragoman.shapes import Int

_GROWTH = 32  # positions by which the capacity for keys grows


class CrossKeys:
    """Keys and values of the memory for every layer: rows (M, G, K) of a packing, or padded (R, G, S, K)."""

    def __init__(
        self, keys: Sequence[Tensor], values: Sequence[Tensor], lengths: Int[Tensor, "R"], packing: Packing | None
    ) -> None:
        self.keys, self.values, self.lengths, self.packing = keys, values, lengths, packing

    @property
    def rows(self) -> int:
        return self.lengths.size(0)

    def layer(self, index: int) -> KeyValues:
        return KeyValues(self.keys[index], self.values[index], self.lengths, self.packing)

    def padded(self) -> "CrossKeys":
        """Return padded keys and values, every layer in separate memory."""
        layers = [self.layer(index).padded() for index in range(len(self.keys))]
        keys, values = ([part.contiguous() for part in parts] for parts in zip(*layers, strict=True))
        return CrossKeys(keys, values, self.lengths, None)

    def select(self, rows: Int[Tensor, "R2"]) -> "CrossKeys":
        """Return the padded keys of these rows, in this order; rows may repeat or be left out."""
        assert self.packing is None, "only padded keys have rows to choose from"
        lengths = self.lengths[rows]
        longest = int(lengths.max()) if len(rows) else 0
        keys, values = (
            [part[:, :, :longest].index_select(0, rows) for part in parts] for parts in (self.keys, self.values)
        )
        return CrossKeys(keys, values, lengths, None)

    def join(self, more: "CrossKeys") -> "CrossKeys":
        """Return the padded rows of both, one after the other."""
        keys, values = (
            list(map(_stack, mine, theirs)) for mine, theirs in ((self.keys, more.keys), (self.values, more.values))
        )
        return CrossKeys(keys, values, torch.cat([self.lengths, more.lengths]), None)


class Cache:
    """The keys of R active rows of a decoder: of the memory, if there is one, and of the tokens written so far."""

    def __init__(self, cross_keys: CrossKeys | None, layers: int, rows: int, device: torch.device) -> None:
        self.cross_keys = cross_keys
        self.keys: list[Tensor | None] = [None] * layers
        self.values: list[Tensor | None] = [None] * layers
        self.lengths: Int[Tensor, "R"] = torch.zeros(rows, dtype=torch.int64, device=device)
        self._filled = 0  # at least the longest length, known without reading from the device

    @property
    def rows(self) -> int:
        return self.lengths.size(0)

    def positions(self, packing: Packing) -> Int[Tensor, "M"]:
        """Return the positions of the new tokens in their sentences."""
        return packing.position + self.lengths[packing.sentence]

    def append(
        self, layer: int, packing: Packing, positions: Int[Tensor, "M"], key: Tensor, value: Tensor
    ) -> KeyValues:
        """Append the new tokens' keys and values (M, G, K) of one layer in place; return all of that layer's."""
        needed = self._filled + packing.longest
        grown = []
        for held, new in ((self.keys, key), (self.values, value)):
            buffer = _or_empty(held[layer], self.rows, new.unsqueeze(2))  # (M, G, K) -> (M, G, 1, K)
            if buffer.size(2) < needed:
                buffer = _widen(buffer, needed + _GROWTH)
            buffer[packing.sentence, :, positions] = new
            held[layer] = buffer
            grown.append(buffer[:, :, :needed])
        return KeyValues(grown[0], grown[1], self.lengths + packing.lengths)

    def advance(self, packing: Packing) -> None:
        """Count the tokens that all layers have now appended."""
        self.lengths = self.lengths + packing.lengths
        self._filled += packing.longest

    def reorder(self, rows: Int[Tensor, "R2"]) -> None:
        """Keep these rows, in this order. A row may repeat (a beam that splits) or be left out (one that ended)."""
        self.cross_keys = self.cross_keys.select(rows) if self.cross_keys is not None else None
        self.lengths = self.lengths[rows]
        self.keys = [key.index_select(0, rows) if key is not None else None for key in self.keys]
        self.values = [value.index_select(0, rows) if value is not None else None for value in self.values]
        self._filled = int(self.lengths.max()) if len(rows) else 0

    def join(self, more: "Cache") -> None:
        """Append another cache's rows; rows of both may have written tokens."""
        if self.cross_keys is not None and more.cross_keys is not None:
            self.cross_keys = self.cross_keys.join(more.cross_keys)
        for held, added in ((self.keys, more.keys), (self.values, more.values)):
            for layer, (mine, theirs) in enumerate(zip(held, added, strict=True)):
                like = mine if mine is not None else theirs
                if like is not None:  # at least one has tokens
                    held[layer] = _stack(_or_empty(mine, self.rows, like), _or_empty(theirs, more.rows, like))
        self.lengths = torch.cat([self.lengths, more.lengths])
        self._filled = max(self._filled, more._filled)


def _or_empty(keys: Tensor | None, rows: int, like: Tensor) -> Tensor:
    """Return the keys of one layer, or, before its first token, rows of length 0."""
    return keys if keys is not None else like.new_zeros((rows, like.size(1), 0, like.size(3)))


def _stack(mine: Tensor, theirs: Tensor) -> Tensor:
    """Concatenate rows, padded to the longer of both lengths."""
    longest = max(mine.size(2), theirs.size(2))
    return torch.cat([_widen(mine, longest), _widen(theirs, longest)])


def _widen(x: Tensor, length: int) -> Tensor:
    """Append zeros to (..., S, K) until S is `length`."""
    missing = length - x.size(-2)
    return x if missing == 0 else torch.cat([x, x.new_zeros((*x.shape[:-2], missing, x.size(-1)))], dim=-2)
