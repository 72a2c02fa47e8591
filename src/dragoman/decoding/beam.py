"""Beam search for one request in plain Python: the definition of what `engine` does for many requests as arrays.

A step continues the live hypotheses by every token and considers the best 2 * width continuations in order. Those among
the first `width` that end are finished. The first `width` of those that do not end stay live. A beam of width 1 is
greedy search. Exact ties go to the earlier hypothesis, then to the likelier token, then to the lower id.
"""

from collections.abc import Callable, Sequence

from dragoman.decoding.hypothesis import Hypothesis, common_prefix, length_penalty
from dragoman.decoding.request import Request

Follow = Callable[[tuple[int, ...]], Sequence[float]]
"""A function that returns the log-probability of every token after a prefix; minus infinity for forbidden tokens."""


class Beam:
    """The finished hypotheses of one request, and, for a search in plain Python, the live ones, likeliest first."""

    def __init__(self, request: Request, end: int, ticket: int = 0) -> None:
        """Create the beam of a request; `ticket` identifies it in an engine."""
        self.request, self.end, self.ticket = request, end, ticket
        self.kind = self.width, _ = request.kind
        self.live = [Hypothesis()]
        self.finished: list[Hypothesis] = []

    def search(self, follow: Follow) -> list[Hypothesis]:
        """Return the `n_best` hypotheses of the request, best first."""
        while not self.done(self.live):
            continuations = self.continuations(follow)
            if not continuations:
                break  # every token is forbidden
            self.take(continuations)
        return self.result(self.live)

    def continuations(self, follow: Follow) -> list[Hypothesis]:
        """Return the best continuations of the live hypotheses: 1 if the width is 1, else 2 * width, because `width` of
        them may end.
        """
        width = self.width
        ranked = sorted(
            (-(parent.total + log_prob), place, -log_prob, token)
            for place, parent in enumerate(self.live)
            for token, log_prob in enumerate(follow(parent.tokens))
            if log_prob > float("-inf")
        )
        return [
            self.live[place].continued(token, -cost, -total, self.end)
            for total, place, cost, token in ranked[: 1 if width == 1 else 2 * width]
        ]

    def take(self, continuations: Sequence[Hypothesis]) -> None:
        """Store the finished hypotheses and keep the best of the rest live."""
        width = self.width
        self.live = [hypothesis for hypothesis in continuations if not hypothesis.finished][:width]
        self.finished += [hypothesis for hypothesis in continuations[:width] if hypothesis.finished]

    def done(self, live: Sequence[Hypothesis]) -> bool:
        """Return True if none of these live hypotheses can change the result."""
        if not live or len(live[0].tokens) == self.request.limit:
            return True  # all have finished, or the maximum length is reached
        if live[0].tokens and self.request.stops is not None and self.request.stops(live[0].tokens):
            return True
        return self.settled(live[0].total)

    def settled(self, total: float) -> bool:
        """Return True if no live hypothesis, the best of which has this `total`, can still enter the n-best list, or if
        early stopping applies.
        """
        request = self.request
        if request.early_stopping and len(self.finished) >= request.beam_size:
            return True
        if len(self.finished) < request.n_best:
            return False
        worst = self.best()[-1].score(request.length_penalty)
        return total / length_penalty(request.limit, request.length_penalty) <= worst  # its best possible score

    def best(self) -> list[Hypothesis]:
        """Return the best `n_best` finished hypotheses by score, the earlier first among equals."""
        return sorted(self.finished, key=lambda h: -h.score(self.request.length_penalty))[: self.request.n_best]

    def result(self, live: Sequence[Hypothesis]) -> list[Hypothesis]:
        """Return `n_best` hypotheses, best first: finished ones, then live ones if too few have finished."""
        finished = self.best()
        return finished + list(live[: self.request.n_best - len(finished)])

    def stable_prefix(self, live: Sequence[Hypothesis]) -> tuple[int, ...]:
        """Return the common prefix of all possible results."""
        return common_prefix([h.tokens for h in (*self.best()[:1], *live)])
