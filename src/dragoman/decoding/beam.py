"""The arithmetic of beam search, and the hypotheses of one request: start with `expand`.

Knows no model and no text. Each step continues the `width` live hypotheses of a request by every token and looks at
the best 2 * width continuations in order. Those among the first `width` that end are set aside. The first `width` of
those that do not end live on. A beam of width 1 is greedy search. Exact ties go to the earlier hypothesis, then to the
likelier token, then to the lower token id.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.decoding.length_penalty import length_penalty
from dragoman.decoding.request import Request

Continuation = tuple[float, int, int, float]
"""Total, parent, token and the token's log-probability: one entry of an `Expansion`."""


class Hypothesis(NamedTuple):
    """An output, or the beginning of one; if it has `ended`, its last token is the end symbol.

    `total` is the sum of `log_probs`, one natural logarithm a token.
    """

    tokens: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()
    total: float = 0.0
    ended: bool = False

    def score(self, exponent: float) -> float:
        """Total over length penalty, which ranks hypotheses of different lengths."""
        return self.total / length_penalty(len(self.tokens), exponent)

    def continued(self, token: int, log_prob: float, total: float, end: int) -> "Hypothesis":
        """This hypothesis and one more token."""
        return Hypothesis((*self.tokens, token), (*self.log_probs, log_prob), total, token == end)


class Expansion(NamedTuple):
    """The C best continuations of each of B requests, best first."""

    total: Float[Tensor, "B C"]
    parent: Int[Tensor, "B C"]  # which of the request's W hypotheses is continued
    token: Int[Tensor, "B C"]
    log_prob: Float[Tensor, "B C"]  # of the token


def expand(total: Float[Tensor, "B W"], log_prob: Float[Tensor, "R V"]) -> Expansion:
    """Continues W hypotheses of each of B requests by every token; R = B * W.

    `total` holds their log-probabilities so far, -inf for an empty place. Returns as many continuations as a search can
    use: one if W is 1, else 2 W, because W of them may end.
    """
    width = total.size(1)
    count = 1 if width == 1 else 2 * width
    value, token = best_tokens(log_prob, min(count, log_prob.size(1)))
    each = value.size(1)
    candidates = (total.flatten()[:, None] + value).unflatten(0, (-1, width)).flatten(1)  # (R, each) -> (B, W * each)
    best, order = candidates.sort(dim=1, descending=True, stable=True)
    order = order[:, :count]
    return Expansion(
        best[:, :count],
        order // each,
        token.reshape(candidates.shape).gather(1, order),
        value.reshape(candidates.shape).gather(1, order),
    )


def best_tokens(log_prob: Float[Tensor, "R V"], count: int) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
    """The best `count` tokens of each row in order, the lower id first among equals; `topk` alone takes any of them."""
    if count == 1:
        return log_prob.max(dim=1, keepdim=True)  # the first of equals, as documented
    value, token = log_prob.topk(min(count + 1, log_prob.size(1)))
    # Reading a value back is free on a processor. On a GPU it would wait, and sorting is quick there.
    if log_prob.device.type == "cpu" and not (value[:, 1:] == value[:, :-1]).any():
        return value[:, :count], token[:, :count]
    value, token = value[:, :count], token[:, :count]
    edge = value[:, -1:]  # topk took any of those that equal the last
    id_ = torch.arange(log_prob.size(1), device=log_prob.device)
    lowest = torch.where(log_prob == edge, -id_, -log_prob.size(1)).topk(count).indices
    place = torch.arange(count, device=log_prob.device) - (value > edge).sum(1, keepdim=True)
    token = torch.where(value > edge, token, lowest.gather(1, place.clamp(min=0)))
    token, order = token.sort(dim=1)
    value, order = value.gather(1, order).sort(dim=1, descending=True, stable=True)
    return value, token.gather(1, order)


class Beam:
    """The live and the ended hypotheses of one request; the live ones are equally long, likeliest first."""

    def __init__(self, ticket: int, request: Request, end: int) -> None:
        self.ticket, self.request, self.end = ticket, request, end
        self.live = [Hypothesis()]
        self.ended: list[Hypothesis] = []
        self.stuck = False

    @property
    def width(self) -> int:
        """Rows that the request holds."""
        return self.request.beam_size

    @property
    def kind(self) -> tuple[int, bool]:
        """What requests have in common that are continued together: their width, and whether they draw samples."""
        return self.width, self.request.sampling is not None

    @property
    def length(self) -> int:
        """Tokens of every live hypothesis."""
        return len(self.live[0].tokens) if self.live else 0

    def take(self, continuations: Iterable[Continuation]) -> list[tuple[int, int, float]]:
        """Takes in this request's row of an `Expansion`; returns parent, token and total of what lives now."""
        live: list[tuple[int, int, float]] = []
        hypotheses: list[Hypothesis] = []
        ended, width = len(self.ended), self.width
        for rank, (total, parent, token, log_prob) in enumerate(continuations):
            if total == -torch.inf or len(live) == width:
                break
            hypothesis = self.live[parent].continued(token, log_prob, total, self.end)
            if not hypothesis.ended:
                live.append((parent, token, total))
                hypotheses.append(hypothesis)
            elif rank < width:
                self.ended.append(hypothesis)
        self.stuck = not live and len(self.ended) == ended
        if not self.stuck:
            self.live = hypotheses
        return live

    @property
    def done(self) -> bool:
        """Whether no live hypothesis can change the result; each line gives a reason."""
        request = self.request
        if self.stuck or not self.live or self.length == request.limit:
            return True  # the rules forbid every token, all have ended, or the longest length is reached
        if request.stops is not None and request.stops(self.live[0].tokens):
            return True  # it says so itself
        if len(self.ended) >= request.beam_size:
            return True  # as many have ended as the beam is wide
        if len(self.ended) < request.n_best:
            return False
        worst = self.best()[-1].score(request.length_penalty)
        return (
            self.live[0].total / length_penalty(request.limit, request.length_penalty) <= worst
        )  # the best it could become

    def best(self) -> list[Hypothesis]:
        """The best `n_best` of the ended hypotheses by score, the earlier first among equals."""
        return sorted(self.ended, key=lambda h: -h.score(self.request.length_penalty))[: self.request.n_best]

    def result(self) -> list[Hypothesis]:
        """`n_best` hypotheses, best first: ended ones, followed by live ones only where too few have ended."""
        found = self.best()
        return found + self.live[: self.request.n_best - len(found)]

    def agreed(self) -> tuple[int, ...]:
        """The tokens that every possible result begins with."""
        rivals = [h.tokens for h in (*self.best()[:1], *self.live)]
        if len(rivals) == 1:
            return rivals[0]
        first, last = min(rivals), max(rivals)  # in the order of tokens, so what these two share, all share
        same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), None)
        return first[: min(len(first), len(last)) if same is None else same]
