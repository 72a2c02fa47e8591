"""Draws tokens by their probabilities: temperature, the likeliest k, and the nucleus (Holtzman et al. 2020).

What is drawn is a pure function of the log-probabilities, the `Sampling`, the source and the position, so it depends
neither on other requests nor on when a request comes.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from dragoman.decoding.steppers import Best, Step
from dragoman.errors import DecodeError

_LIKELIEST = 64
"""So many tokens of a row are put in order at first; all of them only where the draw lies beyond."""


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn. First `top_k`, then `top_p` of what is left says from which tokens.

    Raises:
        DecodeError: a value that no draw can have.
    """

    temperature: float = 1.0
    """Log-probabilities are divided by it; above 0. Lower than 1 favours likely tokens."""
    top_k: int | None = None
    """Only so many of the likeliest tokens are drawn; None: any."""
    top_p: float = 1.0
    """Only the fewest likeliest tokens whose probabilities reach this sum are drawn, above 0, at most 1."""
    seed: int = 1
    sample: int = 0
    """Which of the samples of one request this is; each is drawn independently of the others."""

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise DecodeError(
                f"temperature must be above 0 and finite, but is {self.temperature}; without sampling, a search is "
                "greedy"
            )
        if self.top_k is not None and self.top_k < 1:
            raise DecodeError(f"top_k must be at least 1, but is {self.top_k}; leave it out to draw from all tokens")
        if not 0 < self.top_p <= 1:
            raise DecodeError(f"top_p must be above 0 and at most 1, but is {self.top_p}; 1 draws from all tokens")
        for name, value in (("seed", self.seed), ("sample", self.sample)):
            if not 0 <= value < 2**63:
                raise DecodeError(f"{name} must be from 0 to 2^63 - 1, but is {value}")

    def uniform(self, source: bytes, position: int) -> float:
        """A number from 0 to 1, without 1, for the token at this position of the output for a source, which is given by
        its `source_hash`: random bits of a counter (Philox).
        """
        key = np.array([self.seed, self.sample], np.uint64)
        counter = np.array([position, *np.frombuffer(source, "<u8")], np.uint64)
        bits = np.random.Philox(key=key, counter=counter).random_raw()
        return float((bits >> 11) * 2.0**-53)


def source_hash(ids: Sequence[int]) -> bytes:
    """24 bytes that tell one source from another."""
    return hashlib.blake2b(np.array(ids, "<i8").tobytes(), digest_size=24).digest()


def draw(step: Step, rows: Int[np.ndarray, "Q"], samplings: Sequence[Sampling], uniforms: Sequence[float]) -> Best:
    """One token for each of these rows. The likeliest comes first, the lower id first among equals, and the token drawn
    is the one at which the sum of the probabilities first exceeds the row's uniform number.

    A row in which every token is forbidden, or a log-probability is NaN, gives a token that is so itself.
    """
    log_probs = step.log_probs()[rows]
    likeliest = Best(*(part[rows] for part in step.best(_LIKELIEST)))
    token = np.empty((len(rows), 1), np.int64)
    for i, (sampling, uniform) in enumerate(zip(samplings, uniforms, strict=True)):
        token[i] = _draw(log_probs[i], likeliest.log_prob[i], likeliest.token[i], sampling, uniform)
    return Best(np.take_along_axis(log_probs, token, 1), token)


def _draw(
    log_prob: Float[np.ndarray, "V"],
    likeliest: Float[np.ndarray, "C"],
    token: Int[np.ndarray, "C"],
    sampling: Sampling,
    uniform: float,
) -> int:
    """The token that one row draws. Its likeliest tokens, in order, are enough for most draws."""
    best = float(likeliest[0])
    if not best > -np.inf:
        return int(token[0])
    allowed = min(sampling.top_k or len(log_prob), len(log_prob))  # so many tokens may be drawn
    weights = _weigh(likeliest[:allowed], best, sampling)
    everything: float | None = None
    if allowed <= len(likeliest):
        everything = float(weights.sum())
    elif sampling.top_k is None:
        everything = float(_weigh(log_prob, best, sampling).sum())
    if everything is not None:
        place = _place(weights.cumsum(), everything, sampling.top_p, uniform)
        if place is not None:
            return int(token[place])

    # The draw lies beyond the likeliest; or the sum over the best `top_k` is known only when all tokens are in order.
    order = np.argsort(-log_prob, kind="stable")[:allowed]
    reached = _weigh(log_prob[order], best, sampling).cumsum()
    if everything is None:
        everything = float(reached[-1])
    place = _place(reached, everything, sampling.top_p, uniform)
    return int(order[-1] if place is None else order[place])


def _weigh(x: Float[np.ndarray, "N"], best: float, sampling: Sampling) -> Float[np.ndarray, "N"]:
    """How likely tokens are beside the best, at this temperature."""
    return np.exp((x - best).astype(np.float64) / sampling.temperature)


def _place(reached: Float[np.ndarray, "C"], everything: float, top_p: float, uniform: float) -> int | None:
    """At which of the likeliest tokens the sum first exceeds the uniform number; None if that lies after them.

    `reached` are the sums of their weights, `everything` the sum over all tokens that may be drawn.
    """
    mass = everything
    if top_p < 1:
        last = int(np.searchsorted(reached, top_p * everything))
        if last == len(reached):
            return None
        mass = float(reached[last])
    place = int(np.searchsorted(reached, uniform * mass, side="right"))
    return place if place < len(reached) else None
