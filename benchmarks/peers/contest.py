"""Parts that all contenders share: sizes, batches as rectangles, and one training step around a model's logits."""

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
    """Sizes of all contenders."""

    size: str
    vocabulary: int

    def config(self, preset: str = "paper") -> ModelConfig:
        """Return the settings of our model; dropout applies to embeddings and sublayer outputs, as in the paper."""
        return ModelConfig.model_validate(
            {
                "preset": preset,
                "size": self.size,
                "source_vocabulary": self.vocabulary,
                "target_vocabulary": self.vocabulary,
                "tied": "all",
                "dropout": DROPOUT,
                "attention_dropout": 0.0,
                "activation_dropout": 0.0,
            }
        )


class TextShape(NamedTuple):
    """Sizes of all contenders that model running text."""

    vocabulary: int
    d_model: int
    layers: int
    heads: int
    window: int
    """Tokens of a window; the positions of a model."""

    @property
    def size(self) -> str:
        """Return the size in words."""
        return f"{self.layers} layers of width {self.d_model}"

    def config(self, preset: str = "modern") -> ModelConfig:
        """Return the settings of our model."""
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
    def from_batch(cls, batch: Batch) -> "Padded":
        """Pad both sides of a batch."""
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
    def from_batch(cls, batch: Batch) -> "Windows":
        """Pad the windows of a batch."""
        return cls(_rectangle(batch.target, batch.target_lengths), _rectangle(batch.labels, batch.target_lengths))


class Contender(NamedTuple):
    model: nn.Module
    step: Callable[[int], float]
    """A whole training step on one of the batches; returns its loss in nats a target token."""


Logits = Callable[[Padded], Tensor]
"""The logits of a model for each position of the padded target, (B, T, V)."""
Rectangles = TypeVar("Rectangles", Padded, Windows)


def contender(model: nn.Module, logits: Logits, batches: Sequence[Batch], way: Way) -> Contender:
    """Return a model with the step of all other toolkits: the same loss, masters, clipping and optimiser as ours."""
    return padded_contender(model, logits, [Padded.from_batch(batch) for batch in batches], way)


def padded_contender(
    model: nn.Module, logits: Callable[[Rectangles], Tensor], padded: Sequence[Rectangles], way: Way
) -> Contender:
    """Return the same for batches that are padded beforehand, outside the timing."""
    model.train()
    masters = MasterWeights(model, "bf16" if way == "bf16 weights" else "float32", "adamw", BETAS, EPSILON, DECAY)
    masters.attach(model)

    def step(number: int) -> float:
        batch = padded[number]
        with torch.autocast("cpu", torch.bfloat16) if way == "autocast" else nullcontext():
            rows = logits(batch).flatten(0, 1)  # logits stay in bf16, whose cross-entropy is faster
            loss = F.cross_entropy(rows, batch.labels.flatten(), ignore_index=PADDING, label_smoothing=SMOOTHING)
        loss.backward()
        masters.collect_gradients()
        masters.step(RATE, CLIP)
        return float(loss.detach())

    return Contender(model, step)


def timed(contender: Contender, numbers: Sequence[int]) -> tuple[float, float]:
    """Return the seconds of one step on each of these batches, and their mean loss."""
    start = time.perf_counter()
    losses = [contender.step(number) for number in numbers]
    return time.perf_counter() - start, sum(losses) / len(losses)


def initialise(model: nn.Module) -> None:
    """Initialise weights by Glorot, for toolkits whose own trainer would do it."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
    for module in model.modules():
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


def _rectangle(ids: Tensor, lengths: Tensor) -> Tensor:
    return pad_sequence(list(ids.split(lengths.tolist())), batch_first=True, padding_value=PADDING)
