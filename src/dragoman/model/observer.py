"""Observers of a model's computation. An observer changes no result; without one, nothing extra is computed."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from torch import Tensor

from dragoman.model.packing import Packing


@runtime_checkable
class Observer(Protocol):
    """A receiver of tensors at named sites, in the order of computation. B sentences are padded to equal lengths.

    The sites of the encoder and its layer 0 follow. `target_embedding` and `decoder` have the same ones, and decoder
    layers also have a `cross_attention` and a `cross_residual`:

        source_embedding.tokens              (B, T, D)     rows of the table, scaled
        source_embedding.positions           (B, T, D)     added to them, unless positions are rotary
        encoder.embedding                    (B, T, D)     input of the first layer
        encoder.0.self_attention.input       (B, T, D)     projected; keys of cross-attention project the memory
        encoder.0.self_attention.query       (B, H, T, K)  rotated if positions are rotary
        encoder.0.self_attention.key         (B, G, S, K)  rotated too
        encoder.0.self_attention.value       (B, G, S, K)
        encoder.0.self_attention.products    (B, H, T, S)  Q K^T / sqrt(d_k)
        encoder.0.self_attention.scores      (B, H, T, S)  products; -inf where a query may not look
        encoder.0.self_attention.weights     (B, H, T, S)  softmax of the scores, before dropout
        encoder.0.self_attention.mixed       (B, T, H, K)  values mixed by the weights
        encoder.0.self_attention.output      (B, T, D)     concatenated heads, projected
        encoder.0.self_residual              (B, T, D)     the residual path after the sublayer
        encoder.0.feed_forward.input         (B, T, D)
        encoder.0.feed_forward.hidden        (B, T, F)     after the nonlinearity
        encoder.0.feed_residual              (B, T, D)     output of the layer
        encoder.output                       (B, T, D)     after the final norm: the memory

    Decoding from a cache shows every step: T is the number of the step's tokens, S the filled length of the cache.
    """

    def tensor(self, site: str, value: Tensor) -> None:
        """Receive one tensor, which has no gradient and must not be modified."""
        ...


RowObserver = Callable[[str, Tensor], None]
"""A function that receives the name of a site and its rows (N, ...)."""


def ignore(site: str, rows: Tensor) -> None:
    """Ignore the rows: the `RowObserver` of a pass without an observer."""


def row_observer(observer: Observer | None, packing: Packing) -> RowObserver:
    """Return a function that shows the rows of a packing to an observer, padded to (B, T, ...)."""
    if observer is None:
        return ignore
    return lambda site, rows: observer.tensor(site, packing.pad(rows.detach()))
