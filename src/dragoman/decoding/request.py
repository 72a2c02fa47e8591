"""A request to the search, in ids. `translating` makes it from text and `SearchOptions`, which have the defaults."""

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.decoding.rules import Rule


@dataclass(frozen=True)
class Request:
    """One source and how to search for its translations. Requests with different settings run side by side."""

    source: Sequence[int]
    """Ids with the symbols that the model expects around them."""
    limit: int
    """The most tokens that a hypothesis may have, its end symbol included."""
    beam_size: int = 1
    """Hypotheses kept at each step; 1 is greedy search."""
    n_best: int = 1
    """Hypotheses handed back, at most `beam_size`."""
    length_penalty: float = 0.0
    """Exponent of `length_penalty`."""
    rules: tuple[Rule, ...] = ()
    """What may not be written. A rule object that several requests share is applied once a step."""
