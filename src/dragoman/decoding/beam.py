"""The arithmetic of beam search, and the hypotheses of one sentence. Knows no model and no text: start with `expand`.

At each step the `width` live hypotheses of a sentence are continued by every token, and the best 2 * width
continuations looked at in order: those that end, if among the first `width`, are set aside as ended; the first `width`
that go on live. A beam of width 1 is greedy search. Exact ties go to the earlier hypothesis, then to the likelier
token, then to the lower token id.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


def penalty(length: int, exponent: float) -> float:
    """The divisor of log-probabilities that keeps beams from favouring short outputs: ((5 + length) / 6)^exponent.

    Wu et al. (2016), eq. 14; the end symbol counts.

    >>> penalty(1, 0.6), penalty(7, 1.0)
    (1.0, 2.0)
    """
    return ((5 + length) / 6) ** exponent


class Hypothesis(NamedTuple):
    """A beginning of a translation, or all of it. The end symbol is one of its tokens, if it has `ended`."""

    tokens: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()
    total: float = 0.0
    ended: bool = False

    def score(self, exponent: float) -> float:
        """Log-probability over length penalty, by which hypotheses of different lengths compare."""
        return self.total / penalty(len(self.tokens), exponent)


class Expansion(NamedTuple):
    """The C best continuations of each sentence, best first."""

    total: Float[Tensor, "B C"]
    parent: Int[Tensor, "B C"]  # which of the sentence's W hypotheses is continued
    token: Int[Tensor, "B C"]
    log_prob: Float[Tensor, "B C"]  # of the token


def expand(total: Float[Tensor, "B W"], log_prob: Float[Tensor, "R V"]) -> Expansion:
    """Continues W hypotheses of each of B sentences by every token.

    `total` is their log-probability so far, -inf where there is none; rows of `log_prob` are sentences times W.
    As many continuations return as a search can use: one where W is 1, else 2 W, for W of them may be ends.
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
    """The best `count` tokens of each row in order, the lower id first among equals, which `topk` does not promise."""
    if count == 1:
        return log_prob.max(dim=1, keepdim=True)  # the first of equals, as documented
    value, token = log_prob.topk(min(count + 1, log_prob.size(1)))
    # Reading one value back costs nothing on a processor; a GPU would have to be waited for, and sorts quickly.
    if log_prob.device.type == "cpu" and not (value[:, 1:] == value[:, :-1]).any():
        return value[:, :count], token[:, :count]
    value, token = value[:, :count], token[:, :count]
    edge = value[:, -1:]  # the last place's equals: topk took any of them
    id_ = torch.arange(log_prob.size(1), device=log_prob.device)
    lowest = torch.where(log_prob == edge, -id_, -log_prob.size(1)).topk(count).indices
    place = torch.arange(count, device=log_prob.device) - (value > edge).sum(1, keepdim=True)
    token = torch.where(value > edge, token, lowest.gather(1, place.clamp(min=0)))
    token, order = token.sort(dim=1)
    value, order = value.gather(1, order).sort(dim=1, descending=True, stable=True)
    return value, token.gather(1, order)


class Beam:
    """The live and the ended hypotheses of one sentence; live ones are all of one length, likeliest first."""

    def __init__(self, sentence: int, width: int, wanted: int, limit: int, exponent: float, end: int) -> None:
        self.sentence, self.width, self.wanted = sentence, width, wanted
        self.limit, self.exponent, self.end = limit, exponent, end
        self.live = [Hypothesis()]
        self.ended: list[Hypothesis] = []
        self.stuck = False

    @property
    def length(self) -> int:
        """Tokens of every live hypothesis."""
        return len(self.live[0].tokens) if self.live else 0

    def take(self, candidates: Iterable[tuple[float, int, int, float]]) -> list[tuple[int, int, float]]:
        """Takes in one sentence's row of an `Expansion`; returns parent, token and total of what now lives."""
        live: list[tuple[int, int, float]] = []
        hypotheses: list[Hypothesis] = []
        ended = len(self.ended)
        for rank, (total, parent, token, log_prob) in enumerate(candidates):
            if total == -torch.inf or len(live) == self.width:
                break
            tokens, log_probs, _, _ = self.live[parent]
            hypothesis = Hypothesis((*tokens, token), (*log_probs, log_prob), total, token == self.end)
            if not hypothesis.ended:
                live.append((parent, token, total))
                hypotheses.append(hypothesis)
            elif rank < self.width:
                self.ended.append(hypothesis)
        self.stuck = not live and len(self.ended) == ended
        if not self.stuck:
            self.live = hypotheses
        return live

    @property
    def done(self) -> bool:
        """Nothing that lives can change the result: see each line."""
        if self.stuck or not self.live or self.length == self.limit:
            return True  # the rules leave nothing, all have ended, or it is as long as may be
        if len(self.ended) >= self.width:
            return True  # as many have ended as the beam is wide
        if len(self.ended) < self.wanted:
            return False
        worst = self.best()[-1].score(self.exponent)
        return self.live[0].total / penalty(self.limit, self.exponent) <= worst  # what the best could still become

    def best(self) -> list[Hypothesis]:
        """The ended hypotheses by score, the earlier first among equals, as many as are wanted."""
        return sorted(self.ended, key=lambda h: -h.score(self.exponent))[: self.wanted]

    def result(self) -> list[Hypothesis]:
        """What the search found, best first: the ended, and only where they are too few those that were stopped."""
        found = self.best()
        return found + self.live[: self.wanted - len(found)]

    def agreed(self) -> tuple[int, ...]:
        """The tokens that every possible result begins with."""
        rivals = [h.tokens for h in (*self.best()[:1], *self.live)]
        shortest, longest = min(rivals), max(rivals)
        same = next((i for i, (a, b) in enumerate(zip(shortest, longest, strict=False)) if a != b), None)
        return shortest[: min(len(shortest), len(longest)) if same is None else same]
