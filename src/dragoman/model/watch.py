"""The attention weights of every layer and head, on request:

with attention_weights() as seen:
    model.encode(source, packing)
seen["encoder.0.self"]  # (B, H, T, S)
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor

_seen: ContextVar[dict[str, Tensor] | None] = ContextVar("attention weights", default=None)


@contextmanager
def attention_weights() -> Iterator[dict[str, Tensor]]:
    """Within the block, every attention leaves its weights (B, H, T, S) here, by name; a later call replaces an
    earlier.
    """
    seen: dict[str, Tensor] = {}
    token = _seen.set(seen)
    try:
        yield seen
    finally:
        _seen.reset(token)


def weights_wanted() -> dict[str, Tensor] | None:
    """Where to leave them; None outside of such a block."""
    return _seen.get()
