"""Draws tokens by their probabilities: temperature, the likeliest k, and the nucleus (Holtzman et al. 2020).

What is drawn is a pure function of the log-probabilities, the `Sampling`, the source and the position, so it depends
neither on other requests nor on when a request comes.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.errors import DecodeError


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


def draw(
    log_prob: Float[Tensor, "R V"], samplings: Sequence[Sampling], uniforms: Sequence[float]
) -> Int[Tensor, "R 1"]:
    """One token for each row. The likeliest comes first, the lower id first among equals, and the token drawn is the
    one at which the sum of the probabilities first exceeds the row's uniform number.

    A row in which every token is forbidden, or a log-probability is NaN, gives a token that is so itself.
    """
    ordered, token = log_prob.sort(dim=1, descending=True, stable=True)
    device, exact = log_prob.device, torch.float64 if log_prob.device.type != "mps" else torch.float32

    def column(values: Sequence[float]) -> Float[Tensor, "R 1"]:
        return torch.tensor(values, dtype=exact, device=device)[:, None]

    temperature = column([each.temperature for each in samplings])
    most = column([float(each.top_k or log_prob.size(1)) for each in samplings])
    nucleus = column([each.top_p for each in samplings])
    uniform = column(uniforms)

    weight = ((ordered - ordered[:, :1]).to(exact) / temperature).exp()
    weight[torch.arange(weight.size(1), device=device) >= most] = 0
    reached = weight.cumsum(1)
    before = torch.nn.functional.pad(reached, (1, -1))
    outside = before >= nucleus * reached[:, -1:]
    mass = reached.masked_fill(outside, 0).amax(1, keepdim=True)
    place = (reached <= uniform * mass).sum(1, keepdim=True)
    return token.gather(1, place.clamp(max=log_prob.size(1) - 1))
