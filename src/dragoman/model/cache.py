"""What a decoder need not compute twice: the keys of the memory, and the keys of the tokens already written.

Both are values passed in. `Memory` is made once for a batch of sources, in training and in decoding alike; `Cache`
holds a memory and grows by the keys of every token decoded. Rows can be reordered, dropped, doubled and joined at any
time.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.model.packing import Packing

_GROWTH = 32  # positions by which the room for keys grows


class Memory:
    """Keys and values of the encoder's output for the cross-attention of every layer, padded to (R, G, S, K)."""

    def __init__(
        self, keys: list[Float[Tensor, "R G S K"]], values: list[Float[Tensor, "R G S K"]], visible: Bool[Tensor, "R S"]
    ) -> None:
        self.keys, self.values, self.visible = keys, values, visible

    @property
    def rows(self) -> int:
        return self.visible.size(0)

    def select(self, rows: Int[Tensor, "R2"]) -> "Memory":
        """The memory of these rows, in this order; a row may be named twice or not at all."""
        visible = self.visible[rows]
        longest = int(visible.sum(1).max()) if len(rows) else 0
        return Memory(
            [key[:, :, :longest].index_select(0, rows) for key in self.keys],
            [value[:, :, :longest].index_select(0, rows) for value in self.values],
            visible[:, :longest],
        )

    def join(self, other: "Memory") -> "Memory":
        """Both memories' rows, one after the other."""
        longest = max(self.visible.size(1), other.visible.size(1))
        return Memory(
            [torch.cat([_widen(a, longest), _widen(b, longest)]) for a, b in zip(self.keys, other.keys, strict=True)],
            [
                torch.cat([_widen(a, longest), _widen(b, longest)])
                for a, b in zip(self.values, other.values, strict=True)
            ],
            torch.cat([_widen(m.visible[..., None], longest)[..., 0] for m in (self, other)]),
        )


class Cache:
    """R rows under way in a decoder of any number of layers: their memory, and the self-attention keys of what they
    wrote.
    """

    def __init__(self, memory: Memory | None, layers: int, rows: int, device: torch.device) -> None:
        self.memory = memory
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

    def visible(self, packing: Packing) -> Bool[Tensor, "R 1 T S"]:
        """True where a new token may look: at all before it in its row, and at itself."""
        ahead = torch.arange(packing.longest, device=self.lengths.device)
        keys = torch.arange(self._filled + packing.longest, device=self.lengths.device)
        return (keys <= (self.lengths[:, None] + ahead)[..., None])[:, None]

    def append(
        self, layer: int, packing: Packing, positions: Int[Tensor, "M"], key: Tensor, value: Tensor
    ) -> tuple[Float[Tensor, "R G S K"], Float[Tensor, "R G S K"]]:
        """Writes the new tokens' keys and values (M, G, K) of one layer in place; returns all of that layer's."""
        needed = self._filled + packing.longest
        grown = []
        for held, new in ((self.keys, key), (self.values, value)):
            room = held[layer]
            if room is None:
                room = new.new_zeros((self.rows, new.size(1), 0, new.size(2)))
            if room.size(2) < needed:
                room = _widen(room, needed + _GROWTH)
            room[packing.sentence, :, positions] = new
            held[layer] = room
            grown.append(room[:, :, :needed])
        return grown[0], grown[1]

    def advance(self, packing: Packing) -> None:
        """Counts the tokens that every layer has now appended."""
        self.lengths = self.lengths + packing.lengths
        self._filled += packing.longest

    def reorder(self, rows: Int[Tensor, "R2"]) -> None:
        """Keeps these rows, in this order; a row may be named twice (a beam that splits) or not at all (one that
        ended).
        """
        self.memory = self.memory.select(rows) if self.memory is not None else None
        self.lengths = self.lengths[rows]
        self.keys = [key.index_select(0, rows) if key is not None else None for key in self.keys]
        self.values = [value.index_select(0, rows) if value is not None else None for value in self.values]
        self._filled = int(self.lengths.max()) if len(rows) else 0

    def join(self, other: "Cache") -> None:
        """Takes another cache's rows in after its own, also while its own are under way."""
        if self.memory is not None and other.memory is not None:
            self.memory = self.memory.join(other.memory)
        for held, more in ((self.keys, other.keys), (self.values, other.values)):
            for layer, (mine, theirs) in enumerate(zip(held, more, strict=True)):
                held[layer] = _stack(mine, self.rows, theirs, other.rows)
        self.lengths = torch.cat([self.lengths, other.lengths])
        self._filled = max(self._filled, other._filled)


def _stack(mine: Tensor | None, rows: int, theirs: Tensor | None, other_rows: int) -> Tensor | None:
    """Two layers' keys as one, where either may not have begun."""
    if mine is None and theirs is None:
        return None
    like = mine if mine is not None else theirs
    assert like is not None, "one of the two has begun"
    mine = mine if mine is not None else like.new_zeros((rows, like.size(1), 0, like.size(3)))
    theirs = theirs if theirs is not None else like.new_zeros((other_rows, like.size(1), 0, like.size(3)))
    longest = max(mine.size(2), theirs.size(2))
    return torch.cat([_widen(mine, longest), _widen(theirs, longest)])


def _widen(x: Tensor, length: int) -> Tensor:
    """(..., S, K) with zeros (False) appended until S is `length`."""
    missing = length - x.size(-2)
    return x if missing == 0 else torch.cat([x, x.new_zeros((*x.shape[:-2], missing, x.size(-1)))], dim=-2)
