"""What queries look at: the keys and values of some sentences, as rows of tokens or padded."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.model.packing import Packing
from dragoman.model.positions import Rope, rotate


@dataclass(frozen=True)
class Keys:
    """Keys and values of B sentences: rows (M, G, K) of a packing, or padded (B, G, S, K) without one."""

    key: Tensor
    value: Tensor
    lengths: Int[Tensor, "B"]
    packing: Packing | None = None

    @classmethod
    def of_rows(cls, key: Float[Tensor, "M G K"], value: Float[Tensor, "M G K"], packing: Packing) -> "Keys":
        return cls(key, value, packing.lengths, packing)

    def padded(self) -> tuple[Float[Tensor, "B G S K"], Float[Tensor, "B G S K"]]:
        if self.packing is None:
            return self.key, self.value
        return self.packing.pad(self.key).transpose(1, 2), self.packing.pad(self.value).transpose(1, 2)

    def visible(self, queries: Packing, causal: bool) -> Bool[Tensor, "#B 1 #T S"]:
        """Where queries may look: at the tokens of their own sentence (section 3.2.3), and, if causal, not past their
        own place. The last query of a sentence stands at its last key.
        """
        longest = self.key.size(2) if self.packing is None else self.packing.longest
        places = torch.arange(longest, device=self.lengths.device)
        if not causal:
            return (places < self.lengths[:, None])[:, None, None]
        own = torch.arange(queries.longest, device=self.lengths.device)[None]
        if self.packing is not queries:
            own = own + (self.lengths - queries.lengths)[:, None]
        return (places <= own[..., None])[:, None]


def split_rows(
    rows: Float[Tensor, "N P K"], heads: int, rope: Rope | None = None
) -> tuple[Float[Tensor, "N H K"], Float[Tensor, "N G K"], Float[Tensor, "N G K"]]:
    """Queries, keys and values that stand side by side in the same rows; `rope` rotates all but the values."""
    others = (rows.size(1) - heads) // 2
    query, key, value = rows.split([heads, others, others], dim=1)
    return (query, key, value) if rope is None else (rotate(query, rope), rotate(key, rope), value)
