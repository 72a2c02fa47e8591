"""Searches as plain loops over a function from a beginning to the log-probabilities of what follows; a toy model."""

import itertools
import math
import zlib
from collections.abc import Callable, Sequence

import numpy as np
import torch

from dragoman.decoding.beam import Beam
from dragoman.decoding.engine import Engine
from dragoman.decoding.hypothesis import Hypothesis, Outputs
from dragoman.decoding.model_stepper import TensorScores
from dragoman.decoding.request import Request
from dragoman.decoding.sampling import Sampling

Beginning = tuple[int, ...]
Model = Callable[[Beginning], list[float]]


def normalised(total: float, length: int, exponent: float) -> float:
    return total / ((5 + length) / 6) ** exponent


def greedy(model: Model, limit: int, end: int) -> tuple[Beginning, float]:
    """Always the likeliest token, the lower id among equals."""
    tokens, total = [], 0.0
    while len(tokens) < limit and end not in tokens:
        log_probs = model(tuple(tokens))
        token = log_probs.index(max(log_probs))
        tokens.append(token)
        total += log_probs[token]
    return tuple(tokens), total


def every_ended(model: Model, size: int, limit: int, end: int, exponent: float) -> list[tuple[Beginning, float]]:
    """All outputs that end within the limit, best score first."""
    found = []
    for length in range(limit):
        for words in itertools.product([token for token in range(size) if token != end], repeat=length):
            tokens = (*words, end)
            total = sum(model(tokens[:i])[token] for i, token in enumerate(tokens))
            if total > -math.inf:
                found.append((tokens, total))
    return sorted(found, key=lambda pair: -normalised(pair[1], len(pair[0]), exponent))


def beam_search(
    model: Model, width: int, wanted: int, limit: int, exponent: float, end: int
) -> list[tuple[Beginning, float]]:
    """All continuations of all live hypotheses sorted, at each step."""
    live: list[tuple[Beginning, float]] = [((), 0.0)]
    ended: list[tuple[Beginning, float]] = []

    def best() -> list[tuple[Beginning, float]]:
        return sorted(ended, key=lambda pair: -normalised(pair[1], len(pair[0]), exponent))[:wanted]

    for length in range(1, limit + 1):
        continuations = []
        for parent, (tokens, total) in enumerate(live):
            for token, log_prob in enumerate(model(tokens)):
                if log_prob > -math.inf:
                    continuations.append((-(total + log_prob), parent, -log_prob, token))
        continuations.sort()
        if not continuations:
            break
        following = []
        for rank, (cost, parent, _, token) in enumerate(continuations[: 2 * width]):
            tokens = (*live[parent][0], token)
            if len(following) == width:
                break
            if token != end:
                following.append((tokens, -cost))
            elif rank < width:
                ended.append((tokens, -cost))
        live = following
        if not live or length == limit or len(ended) >= width:
            break
        if len(ended) >= wanted:
            tokens, total = best()[-1]
            if normalised(live[0][1], limit, exponent) <= normalised(total, len(tokens), exponent):
                break
    return (best() + live)[:wanted]


def search(engine: Engine, requests: Sequence[Request]) -> list[list[Hypothesis]]:
    """What an idle engine finds for requests that are admitted together."""
    tickets = [engine.admit(request) for request in requests]
    found = {ended.ticket: ended.hypotheses for ended in engine.run()}
    return [found[ticket] for ticket in tickets]


class Toy:
    """A `Stepper` whose log-probabilities are random, but a pure function of source and beginning. Its start is 0.

    Powers of two make sums exact, and few of them make many ties.
    """

    def __init__(self, size: int, seed: int = 0, ties: bool = False) -> None:
        self.size, self.seed, self.ties = size, seed, ties
        self.rows: list[tuple[Beginning, Beginning]] = []
        self.most_rows = 0

    def log_probs(self, source: Sequence[int], tokens: Sequence[int]) -> torch.Tensor:
        key = zlib.crc32(repr((self.seed, tuple(source), tuple(tokens))).encode())
        generator = torch.Generator().manual_seed(key)
        if self.ties:
            return -torch.randint(1, 4, (self.size,), generator=generator) * 0.5
        return (2 * torch.randn(self.size, generator=generator)).log_softmax(-1)

    def model(self, source: Sequence[int]) -> Model:
        """The same for the plain loops."""
        return lambda tokens: self.log_probs(source, tokens).tolist()

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        self.rows += [(tuple(source), ()) for source in sources]

    def advance(self, token: np.ndarray) -> TensorScores:
        self.most_rows = max(self.most_rows, len(self.rows))
        self.rows = [(s, (*tokens, new)) for (s, tokens), new in zip(self.rows, token.tolist(), strict=True)]
        return TensorScores(torch.stack([self.log_probs(source, tokens[1:]) for source, tokens in self.rows]))

    def select(self, row: np.ndarray) -> None:
        self.rows = [self.rows[i] for i in row.tolist()]


def defined(toy: Toy, request: Request, end: int) -> list[Hypothesis]:
    """What `Beam` finds, the search in plain Python, for a model that obeys the rules of the request."""

    def follow(tokens: Beginning) -> list[float]:
        step = TensorScores(toy.log_probs(request.source, tokens)[None].clone())
        outputs = Outputs()
        outputs.tokens, outputs.lengths = np.array([[*tokens, 0]]), np.array([len(tokens)])
        for processor in request.processors:
            processor(step, np.zeros(1, np.int64), outputs)
        return step.log_probs()[0].tolist()

    return Beam(request, end).search(follow)


def drawn(model: Model, limit: int, end: int, uniforms: Sequence[float], sampling: Sampling) -> tuple[Beginning, float]:
    """Tokens sorted by probability, those outside of the top k and of the nucleus taken away, and a walk along the
    others until their sum exceeds a uniform number.
    """
    tokens, total = [], 0.0
    while len(tokens) < limit and end not in tokens:
        log_probs = model(tuple(tokens))
        best = max(log_probs)
        ordered = sorted(range(len(log_probs)), key=lambda token: (-log_probs[token], token))[: sampling.top_k]
        weights = [math.exp((log_probs[token] - best) / sampling.temperature) for token in ordered]
        kept, reached = [], 0.0
        for token, weight in zip(ordered, weights, strict=True):
            if reached < sampling.top_p * sum(weights):
                kept.append((token, weight))
                reached += weight
        walked, aim = 0.0, uniforms[len(tokens)] * reached
        chosen = next(token for token, weight in kept if (walked := walked + weight) > aim)
        tokens.append(chosen)
        total += log_probs[chosen]
    return tuple(tokens), total
