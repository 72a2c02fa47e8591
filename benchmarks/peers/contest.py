"""What all contenders share: sizes, batches as rectangles, and one training step around any model's logits."""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Literal, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from dragoman.data.batching import Batch
from dragoman.model.config import ModelConfig
from dragoman.tokenizing.special_tokens import PADDING
from dragoman.training.optimiser import MasterWeights

DROPOUT, SMOOTHING, CLIP, RATE = 0.1, 0.1, 1.0, 1e-4
BETAS, EPSILON, DECAY = (0.9, 0.98), 1e-9, 0.01

Way = Literal["float32", "bf16 weights", "autocast"]
"""What a model computes in: float32, bf16 weights with float32 masters, or float32 weights under autocast."""


class Shape(NamedTuple):
    """What all contenders share."""

    size: str
    vocabulary: int
    everywhere: bool
    """Whether dropout also applies to attention weights and the inner feed-forward layer."""

    @property
    def inner_dropout(self) -> float:
        """The dropout rate on attention weights and inside the feed-forward layer."""
        return DROPOUT if self.everywhere else 0.0

    def config(self, preset: str = "paper") -> ModelConfig:
        return ModelConfig.model_validate(
            {
                "preset": preset,
                "size": self.size,
                "source_vocabulary": self.vocabulary,
                "target_vocabulary": self.vocabulary,
                "tied": "all",
                "dropout": DROPOUT,
                "attention_dropout": self.inner_dropout,
                "activation_dropout": self.inner_dropout,
            }
        )


class TextShape(NamedTuple):
    """What all contenders share that model running text."""

    vocabulary: int
    d_model: int
    layers: int
    heads: int
    window: int
    """Tokens of a window; the positions of a model."""

    @property
    def size(self) -> str:
        """The size in words."""
        return f"{self.layers} layers of width {self.d_model}"

    def config(self, preset: str = "modern") -> ModelConfig:
        return ModelConfig.model_validate(
            {
                "family": "language_model",
                "preset": preset,
                "target_vocabulary": self.vocabulary,
                "tied": "target",
                "d_model": self.d_model,
                "decoder_layers": self.layers,
                "heads": self.heads,
                "dropout": DROPOUT,
            }
        )


class Padded(NamedTuple):
    """A batch as rectangles; True in a mask is a real token."""

    source: Tensor
    target: Tensor
    labels: Tensor
    source_lengths: Tensor
    source_mask: Tensor
    target_mask: Tensor

    @classmethod
    def of(cls, batch: Batch) -> "Padded":
        assert batch.source is not None and batch.source_lengths is not None
        source = _rectangle(batch.source, batch.source_lengths)
        target = _rectangle(batch.target, batch.target_lengths)
        labels = _rectangle(batch.labels, batch.target_lengths)
        return cls(source, target, labels, batch.source_lengths, source != PADDING, target != PADDING)


class Windows(NamedTuple):
    """A batch of running text as rectangles."""

    target: Tensor
    labels: Tensor

    @classmethod
    def of(cls, batch: Batch) -> "Windows":
        return cls(_rectangle(batch.target, batch.target_lengths), _rectangle(batch.labels, batch.target_lengths))


class Contender(NamedTuple):
    model: nn.Module
    step: Callable[[int], float]
    """Takes a whole training step on one of the batches, and returns its loss in nats a target token."""


Logits = Callable[[Padded], Tensor]
"""The logits of a model for each position of the padded target, (B, T, V)."""
Rectangles = TypeVar("Rectangles", Padded, Windows)


def contender(model: nn.Module, logits: Logits, batches: Sequence[Batch], way: Way) -> Contender:
    """A model with the step of all other toolkits: the same loss, masters, clipping and optimiser as ours."""
    return contender_of(model, logits, [Padded.of(batch) for batch in batches], way)


def contender_of(
    model: nn.Module, logits: Callable[[Rectangles], Tensor], padded: Sequence[Rectangles], way: Way
) -> Contender:
    """The same on batches that are padded beforehand, outside the timing."""
    model.train()
    masters = MasterWeights(model, "bf16" if way == "bf16 weights" else "float32", "adamw", BETAS, EPSILON, DECAY)
    masters.attach(model)

    def step(number: int) -> float:
        given = padded[number]
        with torch.autocast("cpu", torch.bfloat16) if way == "autocast" else nullcontext():
            said = logits(given).flatten(0, 1)  # logits stay in bf16, whose cross-entropy is faster
            loss = F.cross_entropy(said, given.labels.flatten(), ignore_index=PADDING, label_smoothing=SMOOTHING)
        loss.backward()
        masters.collect_gradients()
        masters.step(RATE, CLIP)
        return float(loss.detach())

    return Contender(model, step)


def timed(contender: Contender, numbers: Sequence[int]) -> tuple[float, float]:
    """Seconds for one step on each of these batches, and their mean loss."""
    start = time.perf_counter()
    losses = [contender.step(number) for number in numbers]
    return time.perf_counter() - start, sum(losses) / len(losses)


def initialise(model: nn.Module) -> None:
    """Glorot's initialisation, for toolkits whose own trainer would initialise the weights."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
    for module in model.modules():
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


def _rectangle(ids: Tensor, lengths: Tensor) -> Tensor:
    return pad_sequence(list(ids.split(lengths.tolist())), batch_first=True, padding_value=PADDING)
