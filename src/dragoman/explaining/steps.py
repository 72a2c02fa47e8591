"""What was written step by step, and what could have been."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.aligning.passes import Given
from dragoman.explaining.record import TEMPERATURES, Candidate, Step, Token
from dragoman.explaining.stacks import read_tokens
from dragoman.tokenizing.tokenizer import Tokenizer

CANDIDATES = 10
"""Likeliest tokens that are recorded at each step."""


def read_written(tokenizer: Tokenizer, given: Given) -> tuple[tuple[Token, ...], tuple[str, ...]]:
    """What was written, and its words. What a language model foretells after the text belongs to no word."""
    if given.source is not None:
        return read_tokens(tokenizer, given.labels)
    tokens, words = read_tokens(tokenizer, given.labels[:-1])
    (foretold,), _ = read_tokens(tokenizer, given.labels[-1:])
    return (*tokens, replace(foretold, word=None)), words


def read_steps(logits: Float[Tensor, "T V"], tokens: Sequence[Token], tokenizer: Tokenizer) -> tuple[Step, ...]:
    """What was written at each step, and what could have been."""
    labels = [token.id for token in tokens]
    logits = logits.float()
    log_probs = logits.log_softmax(-1)
    label = torch.tensor(labels)[:, None]
    own = log_probs.gather(1, label)
    ranks = (log_probs > own).sum(1) + 1
    best = logits.topk(min(CANDIDATES, logits.size(1)))
    normalisers = torch.stack([(logits / temperature).logsumexp(-1) for temperature in TEMPERATURES], dim=1)
    columns = zip(tokens, own[:, 0], ranks, best.indices, best.values, log_probs, normalisers, strict=True)
    return tuple(
        Step(
            token,
            float(log_prob),
            int(rank),
            tuple(
                Candidate(id_, tokenizer.tokens([id_])[0], logit, float(row[id_]))
                for id_, logit in zip(ids.tolist(), values.tolist(), strict=True)
            ),
            tuple(normaliser.tolist()),
        )
        for token, log_prob, rank, ids, values, row, normaliser in columns
    )
