"""Lets a caller watch a model compute. An observer changes no result; without one, nothing is computed for it."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from torch import Tensor

from dragoman.model.packing import Packing


@runtime_checkable
class Observer(Protocol):
    """Is shown tensors at named sites, in the order in which they are made. B sentences are padded to equal lengths.

    On the way into the encoder, in its layer 0, and on the way out; likewise `target_embedding` and `decoder`, whose
    layers have a `cross_attention` and a `cross_residual` too:

        source_embedding.tokens              (B, T, D)     rows of the table, scaled
        source_embedding.positions           (B, T, D)     what is added to them, unless positions are rotary
        encoder.embedding                    (B, T, D)     what enters the first layer
        encoder.0.self_attention.input       (B, T, D)     what is projected; keys of cross-attention see the memory
        encoder.0.self_attention.query       (B, H, T, K)  rotated, where positions are rotary
        encoder.0.self_attention.key         (B, G, S, K)  rotated too
        encoder.0.self_attention.value       (B, G, S, K)
        encoder.0.self_attention.products    (B, H, T, S)  Q K^T / sqrt(d_k)
        encoder.0.self_attention.scores      (B, H, T, S)  products; -inf where a query may not look
        encoder.0.self_attention.weights     (B, H, T, S)  softmax of the scores, before dropout
        encoder.0.self_attention.mixed       (B, T, H, K)  values mixed by the weights
        encoder.0.self_attention.output      (B, T, D)     the heads side by side, projected
        encoder.0.self_residual              (B, T, D)     the residual path after the sublayer
        encoder.0.feed_forward.input         (B, T, D)
        encoder.0.feed_forward.hidden        (B, T, F)     after the nonlinearity
        encoder.0.feed_residual              (B, T, D)     what leaves the layer
        encoder.output                       (B, T, D)     after the final norm: the memory

    Decoding from a cache shows every step: T are the step's tokens, S what the cache has room for.
    """

    def tensor(self, site: str, value: Tensor) -> None:
        """Shows one tensor, which carries no gradient and is not to be written to."""
        ...


RowObserver = Callable[[str, Tensor], None]
"""Is shown rows (N, ...) at named sites."""


def ignore(site: str, rows: Tensor) -> None:
    """The `RowObserver` of a pass that nobody observes."""


def row_observer(observer: Observer | None, packing: Packing) -> RowObserver:
    """Shows the rows of a packing to an observer, padded to (B, T, ...)."""
    if observer is None:
        return ignore
    return lambda site, rows: observer.tensor(site, packing.pad(rows.detach()))
