"""Lets a caller watch a model compute. An observer changes no result; without one, nothing is computed for it."""

from typing import Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class Observer(Protocol):
    """Is shown tensors at named sites, in the order in which they are made. B sentences are padded to equal lengths.

    In layer 0 of the encoder, say, and likewise `decoder.0.self_attention` and `decoder.0.cross_attention`:

        encoder.embedding                  (B, T, D)     what enters the first layer
        encoder.0.self_attention.query     (B, H, T, K)  rotated, where positions are rotary
        encoder.0.self_attention.key       (B, G, S, K)  rotated too
        encoder.0.self_attention.value     (B, G, S, K)
        encoder.0.self_attention.scores    (B, H, T, S)  scaled; -inf where a query may not look
        encoder.0.self_attention.weights   (B, H, T, S)  softmax of the scores, before dropout
        encoder.0.residual                 (B, T, D)     what leaves the layer

    Decoding from a cache shows every step: T are the step's tokens, S what the cache has room for.
    """

    def tensor(self, site: str, value: Tensor) -> None:
        """Shows one tensor, which carries no gradient and is not to be written to."""
        ...
