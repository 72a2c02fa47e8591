"""Beam search of one request in plain Python: the definition of what `engine` does for many at once, as arrays.

Each step continues the live hypotheses of a request by every token and looks at the best 2 * width continuations in
order. Those among the first `width` that end are set aside. The first `width` of those that do not end live on. A beam
of width 1 is greedy search. Exact ties go to the earlier hypothesis, then to the likelier token, then to the lower id.
"""

from collections.abc import Callable, Sequence

from dragoman.decoding.hypothesis import Hypothesis, common_beginning, length_penalty
from dragoman.decoding.request import Request

Follow = Callable[[tuple[int, ...]], Sequence[float]]
"""The log-probability of every token after a beginning; minus infinity where it is forbidden."""


class Beam:
    """The ended hypotheses of one request, and the live ones, likeliest first, while plain Python searches."""

    def __init__(self, request: Request, end: int, ticket: int = 0) -> None:
        """`ticket` tells the beams of an engine apart."""
        self.request, self.end, self.ticket = request, end, ticket
        self.live = [Hypothesis()]
        self.ended: list[Hypothesis] = []

    def search(self, follow: Follow) -> list[Hypothesis]:
        """What the request finds, best first."""
        while not self.done(self.live):
            continuations = self.continuations(follow)
            if not continuations:
                break  # every token is forbidden
            self.take(continuations)
        return self.result(self.live)

    def continuations(self, follow: Follow) -> list[Hypothesis]:
        """The best continuations, as many as a step can use: one if the width is 1, else 2 * width, because `width` of
        them may end.
        """
        width = self.request.beam_size
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
        """Sets aside what has ended, and lets the best of the others live."""
        width = self.request.beam_size
        self.live = [hypothesis for hypothesis in continuations if not hypothesis.ended][:width]
        self.ended += [hypothesis for hypothesis in continuations[:width] if hypothesis.ended]

    def done(self, live: Sequence[Hypothesis]) -> bool:
        """Whether none of these live hypotheses can change the result; each line gives a reason."""
        if not live or len(live[0].tokens) == self.request.limit:
            return True  # all have ended, or the longest length is reached
        if live[0].tokens and self.request.stops is not None and self.request.stops(live[0].tokens):
            return True  # it says so itself
        return self.settled(live[0].total)

    def settled(self, total: float) -> bool:
        """Whether so many have ended that a live hypothesis of this `total`, the best of them, is not waited for."""
        request = self.request
        if request.early_stopping and len(self.ended) >= request.beam_size:
            return True  # as many have ended as the beam is wide
        if len(self.ended) < request.n_best:
            return False
        worst = self.best()[-1].score(request.length_penalty)
        return total / length_penalty(request.limit, request.length_penalty) <= worst  # the best it could become

    def best(self) -> list[Hypothesis]:
        """The best `n_best` of the ended hypotheses by score, the earlier first among equals."""
        return sorted(self.ended, key=lambda h: -h.score(self.request.length_penalty))[: self.request.n_best]

    def result(self, live: Sequence[Hypothesis]) -> list[Hypothesis]:
        """`n_best` hypotheses, best first: ended ones, followed by live ones only where too few have ended."""
        ended = self.best()
        return ended + list(live[: self.request.n_best - len(ended)])

    def agreed(self, live: Sequence[Hypothesis]) -> tuple[int, ...]:
        """The tokens that every possible result begins with."""
        return common_beginning([h.tokens for h in (*self.best()[:1], *live)])
