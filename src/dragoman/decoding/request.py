"""Requests to a search, in ids. `inference` creates them from text and options, which define the defaults."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dragoman.decoding.processors import LogitsProcessor
from dragoman.decoding.sampling import Sampling, source_hash
from dragoman.errors import DecodeError


@dataclass  # not frozen: creating one would take several times as long
class Request:
    """A source and the settings of its search. Requests with different settings can run concurrently."""

    source: Sequence[int]
    """Ids, including the special symbols that the model expects."""
    limit: int
    """Maximum number of tokens of a hypothesis, its end symbol included."""
    beam_size: int = 1
    """Hypotheses kept at each step; 1 is greedy search."""
    n_best: int = 1
    """Number of hypotheses to return, at most `beam_size`."""
    length_penalty: float = 0.0
    """Exponent of `length_penalty`."""
    processors: tuple[LogitsProcessor, ...] = ()
    """Rules that forbid tokens. A processor that several requests share is applied once per step."""
    sampling: Sampling | None = None
    """Settings to sample one output instead of searching for the best; None: search."""
    start: int | None = None
    """First input of the decoder. For a language model it is the last token of the prompt, and `source` holds the
    tokens before it. None: the engine's start symbol.
    """
    early_stopping: bool = True
    """True to end the search once `beam_size` hypotheses are finished, the usual rule. False to end it only when no
    live hypothesis can become better than the finished ones.
    """
    context: int | None = None
    """Maximum number of tokens in a row of a language model; None: no limit."""
    stops: Callable[[Sequence[int] | np.ndarray], bool] | None = None
    """Function that returns True if the output so far is complete without an end symbol; called after every token."""

    def __post_init__(self) -> None:
        if self.beam_size > 1 and (self.sampling is not None or self.stops is not None):
            raise DecodeError(f"a sample, or an output that stops, has one row, but beam_size is {self.beam_size}")

    @property
    def kind(self) -> tuple[int, bool]:
        """Beam size, and True for a sample; requests of the same kind are continued together."""
        return self.beam_size, self.sampling is not None

    @property
    def row_tokens(self) -> int:
        """Tokens of a row that count towards an engine's capacity: the source, and an output that continues it."""
        tokens = len(self.source) + (0 if self.start is None else self.limit)
        return tokens if self.context is None else min(tokens, self.context)

    def uniform(self, position: int) -> float:
        """Return the random number for a sample's token at this position."""
        assert self.sampling is not None, "a search does not sample"
        return self.sampling.uniform(self._source_hash, position)

    @cached_property
    def _source_hash(self) -> bytes:
        return source_hash(self.source if self.start is None else [*self.source, self.start])

    def samples(self, count: int) -> "list[Request]":
        """Return `count` requests, one per sample; a request without sampling is returned alone."""
        if self.sampling is None:
            return [self]
        return [replace(self, sampling=replace(self.sampling, sample=number)) for number in range(count)]
