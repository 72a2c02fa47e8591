"""What a decoder does not compute twice: cross-attention's keys, and the keys of the tokens already written.

Both are values passed in. `CrossKeys` are made once for a batch of sources, in training and in decoding alike; `Cache`
holds them and grows by the keys of every token decoded. Rows can be reordered, dropped, doubled and joined at any time.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from dragoman.model.attention_backends import Keys
from dragoman.model.packing import Packing

_GROWTH = 32  # positions by which the room for keys grows


class CrossKeys:
    """Keys and values that the cross-attention of every layer makes of the memory: rows (M, G, K) of a packing, or
    padded (R, G, S, K) so that rows can be reordered.
    """

    def __init__(
        self, keys: Sequence[Tensor], values: Sequence[Tensor], lengths: Int[Tensor, "R"], packing: Packing | None
    ) -> None:
        self.keys, self.values, self.lengths, self.packing = keys, values, lengths, packing

    @property
    def rows(self) -> int:
        return self.lengths.size(0)

    def layer(self, index: int) -> Keys:
        return Keys(self.keys[index], self.values[index], self.lengths, self.packing)

    def padded(self) -> "CrossKeys":
        """The same, padded, each layer in memory of its own."""
        layers = [self.layer(index).padded() for index in range(len(self.keys))]
        keys, values = ([part.contiguous() for part in parts] for parts in zip(*layers, strict=True))
        return CrossKeys(keys, values, self.lengths, None)

    def select(self, rows: Int[Tensor, "R2"]) -> "CrossKeys":
        """The padded keys of these rows, in this order; a row may be named twice or not at all."""
        assert self.packing is None, "only padded keys have rows to choose from"
        lengths = self.lengths[rows]
        longest = int(lengths.max()) if len(rows) else 0
        keys, values = (
            [part[:, :, :longest].index_select(0, rows) for part in parts] for parts in (self.keys, self.values)
        )
        return CrossKeys(keys, values, lengths, None)

    def join(self, other: "CrossKeys") -> "CrossKeys":
        """The padded rows of both, one after the other."""
        keys, values = (
            list(map(_stack, mine, theirs)) for mine, theirs in ((self.keys, other.keys), (self.values, other.values))
        )
        return CrossKeys(keys, values, torch.cat([self.lengths, other.lengths]), None)


class Cache:
    """R rows under way in a decoder: their cross-attention keys, if it has any, and the self-attention keys of what
    they wrote.
    """

    def __init__(self, cross_keys: CrossKeys | None, layers: int, rows: int, device: torch.device) -> None:
        self.cross_keys = cross_keys
        self.keys: list[Tensor | None] = [None] * layers
        self.values: list[Tensor | None] = [None] * layers
        self.lengths: Int[Tensor, "R"] = torch.zeros(rows, dtype=torch.int64, device=device)
        self._filled = 0  # at least the longest length, known without asking the device

    @property
    def rows(self) -> int:
        return self.lengths.size(0)

    def positions(self, packing: Packing) -> Int[Tensor, "M"]:
        """Where the new tokens of every row stand in their sentences."""
        return packing.position + self.lengths[packing.sentence]

    def append(self, layer: int, packing: Packing, positions: Int[Tensor, "M"], key: Tensor, value: Tensor) -> Keys:
        """Writes the new tokens' keys and values (M, G, K) of one layer in place; returns all of that layer's."""
        needed = self._filled + packing.longest
        grown = []
        for held, new in ((self.keys, key), (self.values, value)):
            room = _begun(held[layer], self.rows, new.unsqueeze(2))  # (M, G, K) -> (M, G, 1, K)
            if room.size(2) < needed:
                room = _widen(room, needed + _GROWTH)
            room[packing.sentence, :, positions] = new
            held[layer] = room
            grown.append(room[:, :, :needed])
        return Keys(grown[0], grown[1], self.lengths + packing.lengths)

    def advance(self, packing: Packing) -> None:
        """Counts the tokens that every layer has now appended."""
        self.lengths = self.lengths + packing.lengths
        self._filled += packing.longest

    def reorder(self, rows: Int[Tensor, "R2"]) -> None:
        """Keeps these rows, in this order; a row may be named twice (a beam that splits) or not at all (one that
        ended).
        """
        self.cross_keys = self.cross_keys.select(rows) if self.cross_keys is not None else None
        self.lengths = self.lengths[rows]
        self.keys = [key.index_select(0, rows) if key is not None else None for key in self.keys]
        self.values = [value.index_select(0, rows) if value is not None else None for value in self.values]
        self._filled = int(self.lengths.max()) if len(rows) else 0

    def join(self, other: "Cache") -> None:
        """Appends another cache's rows, even while its own are under way."""
        if self.cross_keys is not None and other.cross_keys is not None:
            self.cross_keys = self.cross_keys.join(other.cross_keys)
        for held, more in ((self.keys, other.keys), (self.values, other.values)):
            for layer, (mine, theirs) in enumerate(zip(held, more, strict=True)):
                like = mine if mine is not None else theirs
                if like is not None:  # one of the two has begun
                    held[layer] = _stack(_begun(mine, self.rows, like), _begun(theirs, other.rows, like))
        self.lengths = torch.cat([self.lengths, other.lengths])
        self._filled = max(self._filled, other._filled)


def _begun(keys: Tensor | None, rows: int, like: Tensor) -> Tensor:
    """The keys of one layer, or, before its first token, as many rows without any."""
    return keys if keys is not None else like.new_zeros((rows, like.size(1), 0, like.size(3)))


def _stack(mine: Tensor, theirs: Tensor) -> Tensor:
    """The rows of both, one after the other, as wide as the wider."""
    longest = max(mine.size(2), theirs.size(2))
    return torch.cat([_widen(mine, longest), _widen(theirs, longest)])


def _widen(x: Tensor, length: int) -> Tensor:
    """(..., S, K) with zeros appended until S is `length`."""
    missing = length - x.size(-2)
    return x if missing == 0 else torch.cat([x, x.new_zeros((*x.shape[:-2], missing, x.size(-1)))], dim=-2)
