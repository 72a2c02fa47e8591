"""Multi-head attention: the projections around the equation."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from dragoman.errors import ConfigError
from dragoman.model.attention_backends import (
    BACKENDS,
    AttentionContext,
    Backend,
    KeyValues,
    choose_backend,
    show_weights,
)
from dragoman.model.cache import BeamKeys
from dragoman.model.dropout import DropoutKey
from dragoman.model.embedding import Rope
from dragoman.model.observer import Observer, row_observer
from dragoman.model.packing import Packing
from dragoman.model.projection import Dense, Projection, join, join_permanently
from dragoman.shapes import Float


@dataclass
class WatchedHead:
    """A recorder of the queries and keys of one head of cross-attention, with gradients, unlike an observer."""

    layer: int
    head: int
    recorded: tuple[Float[Tensor, "N K"], Float[Tensor, "M K"]] | None = None
    """Queries and keys, packed; None before the pass."""

    def record(self, query: Float[Tensor, "N H K"], key: Float[Tensor, "M G K"]) -> None:
        """Record this head's part of the queries and keys of its layer."""
        self.recorded = query[:, self.head], key[:, self.head * key.size(1) // query.size(1)]


class Attention(nn.Module):
    """Multi-head attention (section 3.2.2) on rows of tokens, with one matrix per projection of the paper.

    `heads` query heads of width d_model / heads; `kv_heads` key and value heads (fewer: grouped-query attention).
    `name` is its site for dropout and observers.
    """

    query: Projection
    key: Projection
    value: Projection
    output: Projection

    def __init__(
        self,
        d_model: int,
        heads: int,
        kv_heads: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        name: str = "attention",
    ) -> None:
        super().__init__()
        kv_heads = kv_heads or heads
        if d_model % heads:
            raise ConfigError(f"heads must divide d_model, but {heads} does not divide {d_model}")
        if heads % kv_heads:
            raise ConfigError(f"kv_heads must divide heads, but {kv_heads} does not divide {heads}")
        self.heads, self.kv_heads, self.d_head = heads, kv_heads, d_model // heads
        self.dropout, self.name = dropout, name
        self.backend: Backend | None = None
        """The backend; None chooses the fastest."""
        self.query = Dense(d_model, heads * self.d_head, bias)
        self.key = Dense(d_model, kv_heads * self.d_head, bias)
        self.value = Dense(d_model, kv_heads * self.d_head, bias)
        self.output = Dense(heads * self.d_head, d_model, bias)
        self.joined: Callable[[Tensor], Tensor] | None = None
        """Joint projection to queries, keys and values for decoding; training joins them in every pass instead."""

    def join_projections(self) -> None:
        """Join the projections to queries, keys and values permanently, so that decoding need not join them again."""
        self.joined = join_permanently([self.query, self.key, self.value])

    def queries(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N H K"]:
        return self.query(x).unflatten(-1, (self.heads, self.d_head))

    def self_projections(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N P K"]:
        """Return the concatenated queries, keys and values of the rows (P = H + 2 G), from one matrix product."""
        joined = join([self.query, self.key, self.value]) if self.joined is None else self.joined
        return joined(x).unflatten(-1, (self.heads + 2 * self.kv_heads, self.d_head))

    def attend(
        self,
        rows: Float[Tensor, "N P K"],
        keys: KeyValues | None,
        packing: Packing,
        causal: bool = False,
        rope: Rope | None = None,
        dropout_key: DropoutKey | None = None,
        observer: Observer | None = None,
    ) -> Float[Tensor, "N D"]:
        """Attend from the queries in `rows` to `keys`, or to the keys and values in `rows` if `keys` is None; then
        project the result (W^O in the paper). Every query must see at least one key.

        `causal` hides later positions from a query. `rope` rotates the queries and the keys in `rows`.
        """
        weights_key = dropout_key if self.dropout > 0 else None
        context = AttentionContext(self.heads, packing, causal, rope, weights_key, self.dropout, self.name)
        if observer is not None:
            show_weights(observer, rows, keys, context)
        masked = isinstance(keys, BeamKeys)  # our own kernel knows lengths, but no masks
        backend = self.backend or ("fused" if masked else choose_backend(rows, keys, context))
        mixed = BACKENDS[backend](rows, keys, context)
        output = self.output(mixed.flatten(1))  # (N, H, K) -> (N, H * K)
        observe = row_observer(observer, packing)
        observe(f"{self.name}.mixed", mixed)
        observe(f"{self.name}.output", output)
        return output
