"""Page 7, the rest of a layer. Shapes: B sentences, T tokens, D = d_model."""

import torch
from step_6_attention import Attention
from torch import nn


class LayerNorm(nn.Module):
    """Layer norm, with a learned scale and shift."""

    def __init__(self, d_model, epsilon=1e-5):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))
        self.epsilon = epsilon

    def forward(self, x):
        """Return x (B, T, D), each token normalised over its features. Compute it, without torch's layer_norm."""
        difference = x - x.mean(-1, keepdim=True)
        variance = difference.pow(2).mean(-1, keepdim=True)
        return difference / (variance + self.epsilon).sqrt() * self.scale + self.shift


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2, equation 2."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.inner, self.outer = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        """Return (B, T, D) for x (B, T, D)."""
        return self.outer(self.inner(x).relu())


class Residual(nn.Module):
    """A sublayer with dropout, residual path and norm, in the paper's order (post-norm)."""

    def __init__(self, d_model, dropout):
        super().__init__()
        self.norm, self.dropout = LayerNorm(d_model), nn.Dropout(dropout)

    def forward(self, x, sublayer):
        """Return (B, T, D) for x (B, T, D) and a function of x."""
        return self.norm(x + self.dropout(sublayer(x)))


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network, each in its own residual path."""

    def __init__(self, d_model, heads, d_ff, dropout):
        super().__init__()
        self.self_attention, self.feed_forward = Attention(d_model, heads), FeedForward(d_model, d_ff)
        self.self_residual, self.feed_residual = (Residual(d_model, dropout) for _ in range(2))

    def forward(self, x, visible):
        """Return (B, T, D) for x (B, T, D) and a mask."""
        x = self.self_residual(x, lambda x: self.self_attention(x, x, visible))
        return self.feed_residual(x, self.feed_forward)
