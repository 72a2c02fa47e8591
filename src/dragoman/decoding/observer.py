"""Lets a caller watch a search: every candidate of every step, and what became of it.

A search without an observer does no work for one.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

from dragoman.decoding.hypothesis import Hypothesis

if TYPE_CHECKING:
    from torch import Tensor

Fate = Literal["live", "ended", "dropped"]
"""`live`: continued at the next step. `ended`: a finished hypothesis. `dropped`: better candidates filled the beam."""


class Candidate(NamedTuple):
    """A hypothesis that a search considered, and what became of it."""

    hypothesis: Hypothesis
    fate: Fate


@runtime_checkable
class SearchObserver(Protocol):
    """Watches a search, and the model below it where the stepper shows it: one observer is handed to both."""

    def tensor(self, site: str, value: "Tensor") -> None:
        """What the model shows: see `model.observer.Observer`."""
        ...

    def candidates(self, ticket: int, candidates: Sequence[Candidate]) -> None:
        """Takes every candidate that one step considered for the request with this ticket, best first.

        One for a greedy search, else twice the beam size; fewer where rules forbid the
        others.
        """
        ...
