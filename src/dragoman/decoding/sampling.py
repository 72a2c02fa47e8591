"""Sampling of tokens with temperature, top k and top p, the nucleus (Holtzman et al. 2020).

The sampled token is a pure function of the log-probabilities, the `Sampling`, the source and the position, so it does
not depend on other requests or on time.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dragoman.decoding.steppers import StepScores, TopTokens
from dragoman.errors import DecodeError
from dragoman.shapes import Float, Int

_LIKELIEST = 64
"""Number of top tokens to sort first; the whole row is sorted only if the sample falls outside them."""


@dataclass(frozen=True)
class Sampling:
    """Settings of sampling. `top_k` is applied first, then `top_p` to the remaining tokens.

    Raises:
        DecodeError: a value is out of range.
    """

    temperature: float = 1.0
    """Divisor of log-probabilities; above 0. Values below 1 favour likely tokens."""
    top_k: int | None = None
    """Number of likeliest tokens to sample from; None: all."""
    top_p: float = 1.0
    """Sample only from the fewest likeliest tokens whose probabilities reach this sum, above 0, at most 1."""
    seed: int = 1
    sample: int = 0
    """Index among the samples of one request, which are independent of each other."""

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
        """Return a random number in [0, 1) for the token at this position of the output for a source, identified by its
        `source_hash`; computed by the counter-based generator Philox.
        """
        key = np.array([self.seed, self.sample], np.uint64)
        counter = np.array([position, *np.frombuffer(source, "<u8")], np.uint64)
        bits = np.random.Philox(key=key, counter=counter).random_raw()
        return float((bits >> 11) * 2.0**-53)


def source_hash(ids: Sequence[int]) -> bytes:
    """Return a hash of 24 bytes that identifies a source."""
    return hashlib.blake2b(np.array(ids, "<i8").tobytes(), digest_size=24).digest()


def draw(
    step: StepScores, rows: Int[np.ndarray, "Q"], samplings: Sequence[Sampling], uniforms: Sequence[float]
) -> TopTokens:
    """Sample a token for each of these rows: with the likeliest tokens first, the lower id first among equals, the
    token at which the cumulative probability first exceeds the row's uniform number.

    A row in which every token is forbidden, or a log-probability is NaN, returns such a token.
    """
    log_probs = step.log_probs()[rows]
    likeliest = TopTokens(*(part[rows] for part in step.best(_LIKELIEST)))
    token = np.empty((len(rows), 1), np.int64)
    for i, (sampling, uniform) in enumerate(zip(samplings, uniforms, strict=True)):
        token[i] = _draw(log_probs[i], likeliest.log_prob[i], likeliest.token[i], sampling, uniform)
    return TopTokens(np.take_along_axis(log_probs, token, 1), token)


def _draw(
    log_prob: Float[np.ndarray, "V"],
    likeliest: Float[np.ndarray, "C"],
    token: Int[np.ndarray, "C"],
    sampling: Sampling,
    uniform: float,
) -> int:
    """Sample a token for one row. Its likeliest tokens, in order, are enough in most cases."""
    best = float(likeliest[0])
    if not best > -np.inf:
        return int(token[0])
    allowed = min(sampling.top_k or len(log_prob), len(log_prob))  # number of tokens to sample from
    weights = _weigh(likeliest[:allowed], best, sampling)
    total: float | None = None
    if allowed <= len(likeliest):
        total = float(weights.sum())
    elif sampling.top_k is None:
        total = float(_weigh(log_prob, best, sampling).sum())
    if total is not None:
        rank = _rank(weights.cumsum(), total, sampling.top_p, uniform)
        if rank is not None:
            return int(token[rank])

    # The sample is not among the likeliest; or the sum over the best `top_k` is known only after sorting all tokens.
    order = np.argsort(-log_prob, kind="stable")[:allowed]
    cumulative = _weigh(log_prob[order], best, sampling).cumsum()
    if total is None:
        total = float(cumulative[-1])
    rank = _rank(cumulative, total, sampling.top_p, uniform)
    return int(order[-1] if rank is None else order[rank])


def _weigh(x: Float[np.ndarray, "N"], best: float, sampling: Sampling) -> Float[np.ndarray, "N"]:
    """Return the probabilities of tokens relative to the best, at this temperature."""
    return np.exp((x - best).astype(np.float64) / sampling.temperature)


def _rank(cumulative: Float[np.ndarray, "C"], total: float, top_p: float, uniform: float) -> int | None:
    """Return the rank at which the cumulative weight first exceeds the uniform share of `total`; None if beyond."""
    mass = total
    if top_p < 1:
        last = int(np.searchsorted(cumulative, top_p * total))
        if last == len(cumulative):
            return None
        mass = float(cumulative[last])
    rank = int(np.searchsorted(cumulative, uniform * mass, side="right"))
    return rank if rank < len(cumulative) else None
