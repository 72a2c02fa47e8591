"""A request to the search, in ids. `inference` makes it from text and options, which have the defaults."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dragoman.decoding.processors import LogitsProcessor
from dragoman.decoding.sampling import Sampling, source_hash
from dragoman.errors import DecodeError


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
    processors: tuple[LogitsProcessor, ...] = ()
    """What may not be written. A processor that several requests share is applied once a step."""
    sampling: Sampling | None = None
    """Draws one output instead of searching for the best."""
    start: int | None = None
    """The token that is fed first. For a language model it is the last token of the prompt, and `source` is all before
    it. None: the engine's own."""
    early_stopping: bool = True
    """Whether a search also ends when as many hypotheses have ended as the beam is wide, the usual rule. Else it ends
    only when no live hypothesis can become better than those that have ended."""
    context: int | None = None
    """The most tokens that a row of a language model holds at a time; None: all of them."""
    stops: Callable[[Sequence[int] | np.ndarray], bool] | None = None
    """Whether an output that was written so far is complete, although it has no end symbol; asked after each token."""

    def __post_init__(self) -> None:
        if self.beam_size > 1 and (self.sampling is not None or self.stops is not None):
            raise DecodeError(f"a sample, or an output that stops, has one row, but beam_size is {self.beam_size}")

    @property
    def kind(self) -> tuple[int, bool]:
        """What requests have in common that are continued together: their width, and whether they draw samples."""
        return self.beam_size, self.sampling is not None

    @property
    def room(self) -> int:
        """Tokens of a row, by which an engine is full: of the source, and of an output that goes on with it."""
        tokens = len(self.source) + (0 if self.start is None else self.limit)
        return tokens if self.context is None else min(tokens, self.context)

    def uniform(self, position: int) -> float:
        """The random number by which a sample's token at this position is drawn."""
        assert self.sampling is not None, "a search draws nothing"
        return self.sampling.uniform(self._source_hash, position)

    @cached_property
    def _source_hash(self) -> bytes:
        return source_hash(self.source if self.start is None else [*self.source, self.start])

    def samples(self, count: int) -> "list[Request]":
        """So many samples, each a request of its own; a request that searches stays one."""
        if self.sampling is None:
            return [self]
        return [replace(self, sampling=replace(self.sampling, sample=number)) for number in range(count)]
