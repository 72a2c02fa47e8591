"""Page 6, attention. Shapes: B sentences, H heads, T queries, S keys, D = d_model, K = D / H features of a head."""

import math

import torch
from torch import nn


def padding_mask(ids, pad=0):
    """Return (B, 1, 1, S) of bool for ids (B, S): True where a key is a real token, and so may be seen."""
    return (ids != pad)[:, None, None]


def causal_mask(ids):
    """Return (T, T) of bool for ids (B, T), on their device: True where a position (row) may see another (column)."""
    length = ids.size(1)
    return torch.ones(length, length, dtype=torch.bool, device=ids.device).tril()


def attend(query, key, value, visible):
    """Return softmax(Q K^T / sqrt(d_k)) V, (B, H, T, K). A query sees the keys where `visible` is True.

    query is (B, H, T, K), key and value are (B, H, S, K); visible broadcasts to (B, H, T, S).
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    weights = scores.masked_fill(~visible, -math.inf).softmax(-1)
    return weights @ value


def split_heads(x, heads):
    """Return x (B, T, D) as (B, H, T, K): head 0 has the first K features of each token."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def join_heads(x):
    """Return x (B, H, T, K) as (B, T, D), which undoes `split_heads`."""
    return x.transpose(1, 2).flatten(2)


class Attention(nn.Module):
    """Multi-head attention, section 3.2.2."""

    def __init__(self, d_model, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, memory, visible):
        """Return (B, T, D): queries are from x (B, T, D), keys and values from the memory (B, S, D)."""
        projected = self.query(x), self.key(memory), self.value(memory)
        query, key, value = (split_heads(rows, self.heads) for rows in projected)
        mixed = attend(query, key, value, visible)
        return self.output(join_heads(mixed))
