"""Lets a caller watch a search: every candidate of every step, and what became of it.

A search without an observer does no work for one.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import torch

from dragoman.decoding.beam import Beam, Continuation, Hypothesis
from dragoman.model.observer import Observer

Fate = Literal["live", "ended", "dropped"]
"""`live`: continued at the next step. `ended`: a finished hypothesis. `dropped`: better candidates filled the beam."""


class Candidate(NamedTuple):
    """A hypothesis that a search considered, and what became of it."""

    hypothesis: Hypothesis
    fate: Fate


@runtime_checkable
class SearchObserver(Observer, Protocol):
    """Watches a search, and the model below it where the stepper shows it: one observer may be handed to both."""

    def candidates(self, ticket: int, candidates: Sequence[Candidate]) -> None:
        """Takes every candidate that one step considered for the request with this ticket, best first.

        They are the `expand`ed ones: one for a greedy search, else twice the beam size; fewer where rules forbid the
        others.
        """
        ...


def judged(parents: Sequence[Hypothesis], continuations: Iterable[Continuation], beam: Beam) -> list[Candidate]:
    """The candidates of one step: the continuations of `parents`, and what `beam` made of each when it took them in."""
    live = {hypothesis.tokens for hypothesis in beam.live}
    ended = {hypothesis.tokens for hypothesis in beam.ended}
    candidates: list[Candidate] = []
    for total, parent, token, log_prob in continuations:
        if total > -torch.inf:
            hypothesis = parents[parent].continued(token, log_prob, total, beam.end)
            fate = "live" if hypothesis.tokens in live else "ended" if hypothesis.tokens in ended else "dropped"
            candidates.append(Candidate(hypothesis, fate))
    return candidates
