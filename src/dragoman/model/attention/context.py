"""What the queries of one attention have in common."""

from typing import NamedTuple

from dragoman.model.dropout import Noise
from dragoman.model.packing import Packing
from dragoman.model.positions import Rope


class AttentionContext(NamedTuple):
    """What the queries of one attention have in common."""

    queries: Packing
    causal: bool
    """Whether no query looks past its own place."""
    rope: Rope | None = None
    """Rotates the queries, and the keys that lie beside them."""
    noise: Noise | None = None
    """What dropout of the weights is keyed by; None where nothing is dropped."""
    dropout: float = 0.0
    site: str = "attention"
    """Names the attention, for dropout and for observers."""
