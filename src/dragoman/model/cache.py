"""Key/value caches for incremental decoding: keys of cross-attention, and keys of tokens that are already written.

Both are passed as values. `CrossKeys` are computed once for a batch of sources, in training and in decoding; `Cache`
holds them and grows by the keys of every decoded token. Rows can be reordered, dropped, repeated and joined.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from dragoman.model.attention_backends import KeyValues
from dragoman.model.packing import Packing
from dragoman.shapes import Bool, Int

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
        self.filled = 0  # at least the longest length, known without reading from the device

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
        needed = self.filled + packing.longest
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
        self.filled += packing.longest

    def reorder(self, rows: Int[Tensor, "R2"]) -> None:
        """Keep these rows, in this order. A row may repeat (a beam that splits) or be left out (one that ended)."""
        self.cross_keys = self.cross_keys.select(rows) if self.cross_keys is not None else None
        self.lengths = self.lengths[rows]
        self.keys = [key.index_select(0, rows) if key is not None else None for key in self.keys]
        self.values = [value.index_select(0, rows) if value is not None else None for value in self.values]
        self.filled = int(self.lengths.max()) if len(rows) else 0

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
        self.filled = max(self.filled, more.filled)


@dataclass(frozen=True)
class BeamKeys(KeyValues):
    """Padded keys and values that the rows of a beam share; each row sees those of its hypothesis."""

    seen: Bool[Tensor, "B W S"] = field(kw_only=True)

    def visible(self, queries: Packing, causal: bool) -> Bool[Tensor, "B 1 W S"]:
        return self.seen[:, None]


class BeamSizes(NamedTuple):
    """Numbers of beams, rows of a beam, positions for written tokens, and positions of the memory."""

    beams: int
    width: int
    positions: int
    source: int


class BeamCache(Cache):
    """The keys of B beams of W rows in tensors of fixed shapes, which change only in place, so that a GPU can record a
    step. A beam is a sentence of W queries to attention: `Packing.even(B, W)`.

    The rows of a beam share all their keys (B, G, W, T, K), and a mask marks those of each row's hypothesis. So a beam
    that reorders its rows moves no keys. The keys of the memory are held once per beam.
    """

    def __init__(self, sizes: BeamSizes, layers: int, heads: tuple[int, int], like: Tensor) -> None:
        """Create an empty cache for heads (G, K); `like` has the model's precision and device."""
        beams, width, positions, source = sizes
        shapes = (beams, heads[0], source, heads[1]), (beams, heads[0], width, positions, heads[1])
        memory, written = ([like.new_zeros(shape) for _ in range(2 * layers)] for shape in shapes)
        lengths = like.new_ones(beams, dtype=torch.int64)
        self._memory = CrossKeys(memory[:layers], memory[layers:], lengths, None)
        super().__init__(self._memory, layers, beams, like.device)
        self._written = [*zip(written[:layers], written[layers:], strict=True)]
        self._seen = like.new_zeros((beams, width, width, positions), dtype=torch.bool)
        self._beams, self._rows, self._places = (torch.arange(n, device=like.device) for n in sizes[:3])
        self._own = (self._rows == self._rows[:, None])[..., None]

    def fill(self, cache: Cache) -> None:
        """Replace all beams by the rows of a cache, of which W consecutive ones are a beam."""
        assert cache.cross_keys is not None, "a beam has a memory"
        width, self.filled = len(self._rows), cache.filled
        count = cache.rows // width
        self.lengths.zero_()[:count] = cache.lengths[::width]
        self._seen.copy_(self._own & (self._places < self.lengths[:, None])[:, None, None])
        for layer, parts in enumerate(self._written):
            for held, rows in zip(parts, (cache.keys[layer], cache.values[layer]), strict=True):
                held.zero_()  # because NaN of an earlier request would spread through masks
                if rows is not None:
                    by_beam = rows[:, :, : cache.filled].unflatten(0, (count, width))
                    held[:count, :, :, : cache.filled] = by_beam.transpose(1, 2)
        mine, theirs = self._memory, cache.cross_keys
        mine.lengths.fill_(1)[:count] = theirs.lengths[::width]
        for held, rows in zip((*mine.keys, *mine.values), (*theirs.keys, *theirs.values), strict=True):
            held.zero_()[:count, :, : rows.size(2)] = rows[::width]

    def rows_of(self, beams: Int[Tensor, "B2"]) -> Cache:
        """Return the rows of these beams as an ordinary cache."""
        each_row = beams.repeat_interleave(len(self._rows))
        cache = Cache(self._memory.select(each_row), len(self._written), len(each_row), beams.device)
        cache.lengths = self.lengths[each_row]
        cache.filled = int(cache.lengths.max()) if cache.rows else 0
        ancestor = self._seen[beams, :, :, : cache.filled].byte().argmax(2)  # (B2, W, T)
        where = beams[:, None, None], slice(None), ancestor, self._places[: cache.filled]
        for layer, parts in enumerate(self._written):
            by_row = (part[where].transpose(2, 3).flatten(0, 1) for part in parts)  # (B2, W, T, G, K) -> (R2, G, T, K)
            cache.keys[layer], cache.values[layer] = by_row
        return cache

    def open(self, last: int) -> None:
        """Begin the next position of every beam, at most `last`, where beams that are no longer needed remain."""
        self._position = self.lengths.clamp(max=last)[:, None]
        self._seen.logical_or_(self._own & (self._places == self._position)[:, None, None])

    def positions(self, packing: Packing) -> Int[Tensor, "M"]:
        return self._position.expand(-1, len(self._rows)).flatten()

    def append(
        self, layer: int, packing: Packing, positions: Int[Tensor, "M"], key: Tensor, value: Tensor
    ) -> KeyValues:
        for held, new in zip(self._written[layer], (key, value), strict=True):
            new = new.unflatten(0, (-1, len(self._rows)))  # (B, W, G, K)
            held[self._beams[:, None], :, self._rows, self._position] = new
        held_key, held_value = (held.flatten(2, 3) for held in self._written[layer])
        return BeamKeys(held_key, held_value, self.lengths, seen=self._seen.flatten(2))

    def advance(self, packing: Packing) -> None:
        self.lengths.add_(1)

    def move(self, parent: Int[Tensor, "B W"]) -> None:
        """Let every row continue its parent, a row of the same beam."""
        self._seen.copy_(self._seen.gather(1, parent[..., None, None].expand_as(self._seen)))


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
