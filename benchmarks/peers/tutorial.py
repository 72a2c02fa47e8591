"""The well-known tutorial "the Transformer from scratch": its model, and its batches of eight sentences padded to 350.

The modules are as published: pre-norm with a hand-written norm (sample deviation, epsilon outside the root),
projections without bias, explicit attention in float32 with masks of 350 × 350, dropout on attention weights and inside
the feed-forward layer too, three separate matrices for embeddings and output, Glorot's initialisation, Adam at 1e-4
without clipping. Two bugs are fixed here, because otherwise it could not be scored: when it translates, its causal mask
is inverted, so each position sees only what follows; and when it resumes, it loads the optimiser but not the weights.
(Here nothing resumes, and one function makes the mask for training and translating.)
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.data.batching import Batch
from dragoman.tokenizing.special_tokens import PADDING
from peers.contest import SMOOTHING, Contender, Padded, Shape, Way, contender

LENGTH = 350
"""Every sentence is padded to this length."""
SENTENCES = 8
DROPOUT, RATE = 0.1, 1e-4


class Norm(nn.Module):
    """Layer normalisation with the sample deviation and epsilon outside the root, unlike the paper's."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return self.scale * centred / (x.std(-1, keepdim=True) + 1e-6) + self.shift


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor, memory: Tensor, visible: Tensor) -> Tensor:
        # (B, T, D) -> (B, H, T, K)
        query, key, value = (
            project(rows).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for project, rows in ((self.query, x), (self.key, memory), (self.value, memory))
        )
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
        weight = self.dropout(scores.masked_fill_(~visible, -1e9).softmax(-1))
        return self.output((weight @ value).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.first, self.second, self.dropout = nn.Linear(width, inner), nn.Linear(inner, width), nn.Dropout(DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.dropout(self.first(x).relu()))


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.dropout = Norm(width), nn.Dropout(DROPOUT)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return x + self.dropout(sublayer(self.norm(x)))


class Layer(nn.Module):
    """An encoder layer, or a decoder layer with `crosses`."""

    def __init__(self, width: int, heads: int, inner: int, crosses: bool) -> None:
        super().__init__()
        self.attention, self.feed_forward = Attention(width, heads), FeedForward(width, inner)
        self.cross = Attention(width, heads) if crosses else None
        self.residuals = nn.ModuleList(Residual(width) for _ in range(3 if crosses else 2))

    def forward(self, x: Tensor, visible: Tensor, memory: Tensor | None, memory_visible: Tensor | None) -> Tensor:
        x = self.residuals[0](x, lambda normed: self.attention(normed, normed, visible))
        if (cross := self.cross) is not None:
            x = self.residuals[1](x, lambda normed: cross(normed, memory, memory_visible))
        return self.residuals[-1](x, self.feed_forward)


class Positions(nn.Module):
    table: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        angle = torch.arange(LENGTH)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
        self.register_buffer("table", torch.stack([angle.sin(), angle.cos()], -1).flatten(1))
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x + self.table[: x.size(1)])


class Tutorial(nn.Module):
    """Padded source and target ids to logits."""

    def __init__(
        self, source_vocabulary: int, target_vocabulary: int, width: int, layers: int, heads: int, inner: int
    ) -> None:
        super().__init__()
        self.width = width
        self.source, self.target = nn.Embedding(source_vocabulary, width), nn.Embedding(target_vocabulary, width)
        self.source_positions, self.target_positions = Positions(width), Positions(width)
        self.encoder = nn.ModuleList(Layer(width, heads, inner, crosses=False) for _ in range(layers))
        self.decoder = nn.ModuleList(Layer(width, heads, inner, crosses=True) for _ in range(layers))
        self.encoder_norm, self.decoder_norm = Norm(width), Norm(width)
        self.projection = nn.Linear(width, target_vocabulary)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.xavier_uniform_(weight)

    def forward(self, source: Tensor, target: Tensor, padding: int = PADDING) -> Tensor:
        visible = (source != padding)[:, None, None]
        return self.decode(self.encode(source, visible), visible, target, padding)

    def encode(self, source: Tensor, visible: Tensor) -> Tensor:
        x = self.source_positions(self.source(source) * math.sqrt(self.width))
        for layer in self.encoder:
            x = layer(x, visible, None, None)
        return self.encoder_norm(x)

    def decode(self, memory: Tensor, memory_visible: Tensor, target: Tensor, padding: int = PADDING) -> Tensor:
        # Lower triangle: each position sees itself and what precedes it. The tutorial inverts this when it translates.
        past = torch.ones(target.size(1), target.size(1), dtype=torch.bool).tril()
        visible = (target != padding)[:, None, None] & past
        x = self.target_positions(self.target(target) * math.sqrt(self.width))
        for layer in self.decoder:
            x = layer(x, visible, memory, memory_visible)
        return self.projection(self.decoder_norm(x))


def to_length(ids: Tensor, length: int = LENGTH, padding: int = PADDING) -> Tensor:
    """Pads a rectangle further, to the fixed length."""
    return F.pad(ids, (0, length - ids.size(1)), value=padding)


def of_shape(shape: Shape) -> Tutorial:
    ours = shape.config()
    return Tutorial(shape.vocabulary, shape.vocabulary, ours.d_model, ours.encoder_layers, ours.heads, ours.d_ff)


def build(batches: Sequence[Batch], shape: Shape, way: Way, _: str) -> Contender:
    """The tutorial's model on the batches of all others, padded only to their longest sentence."""
    model = of_shape(shape)
    return contender(model, lambda padded: model(padded.source, padded.target), batches, way)


def build_as_written(batches: Sequence[Batch], shape: Shape, way: Way, _: str) -> Contender:
    """The tutorial's model trained its way: everything padded to 350, its optimiser, no clipping."""
    assert way == "float32"
    model = of_shape(shape).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE, eps=1e-9)
    padded = [Padded.of(batch) for batch in batches]
    fed = [[to_length(ids) for ids in (batch.source, batch.target, batch.labels)] for batch in padded]

    def step(number: int) -> float:
        source, target, labels = fed[number]
        said = model(source, target)
        loss = F.cross_entropy(said.flatten(0, 1), labels.flatten(), ignore_index=PADDING, label_smoothing=SMOOTHING)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return float(loss.detach())

    return Contender(model, step)
