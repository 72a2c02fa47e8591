"""Page 5, embeddings and positions. Shapes: B sentences, T tokens, D = d_model, V words of the vocabulary."""

import math

import torch


def positions(length, d_model):
    """Return (T, D): sin and cos of position / 10000^(2i / D), next to each other for each i; positions start at 0."""
    wave = 10_000 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angle = (torch.arange(length)[:, None] / wave).float()
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


def embed(table, ids):
    """Return (B, T, D): the rows of the table, an nn.Embedding, for ids (B, T), times the root of D, plus positions."""
    x = table(ids) * math.sqrt(table.embedding_dim)
    return x + positions(ids.size(1), table.embedding_dim).to(x)
