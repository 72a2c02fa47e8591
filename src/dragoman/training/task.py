"""What training asks of a task: rows to batch, the loss of a batch, what to validate, and what a model folder holds.

The loop needs the `Objective` alone. `tasks/` holds the tasks that a run can have.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from dragoman.data.batch import BatchSize
from dragoman.model import StepNoise
from dragoman.store import ModelFiles
from dragoman.training.loss import Loss


class BatchSource(Protocol):
    """The batches of every epoch. What a batch is, the objective alone knows."""

    def epoch(self, number: int, /) -> Sequence[Any]:
        """The batches of an epoch, in order: a pure function of its number."""
        ...

    def batch(self, indices: Any, /) -> Any: ...

    def size_of(self, indices: Any, /) -> BatchSize:
        """How many tokens a batch has, without making it."""
        ...


class CountedBatches(BatchSource, Protocol):
    """Batches of a corpus whose size is known."""

    @property
    def tokens(self) -> int:
        """Source and target tokens of an epoch."""
        ...


class Objective(Protocol):
    """What the loop minimises: batches, and the loss of each."""

    @property
    def batches(self) -> BatchSource: ...

    def loss(self, model: nn.Module, batch: Any, noise: StepNoise) -> Loss:
        """Sums over the target tokens of one micro-batch, as many as its `BatchSize` says."""
        ...


class Validated(NamedTuple):
    """How good some weights are."""

    score: float
    """The best model is the one with the highest score."""
    facts: Mapping[str, float]
    """What stands in the metrics: `dev_loss` and others."""
    summary: str
    """The same in words, for people."""
    brief: str
    """The same in few characters, beside a bar."""
    samples: str = ""
    """What the model makes of some examples, a line each."""
    quality: str = ""
    """What the model card says of the quality."""


class Task(Objective, Protocol):
    """What a run asks besides: what to validate, and which files a model folder holds."""

    @property
    def batches(self) -> CountedBatches: ...

    @property
    def identity(self) -> Mapping[str, str]:
        """What a resumed run must find unchanged, such as data and tokenizer."""
        ...

    def validate(self, weights: Mapping[str, Tensor]) -> Validated | None:
        """How good these weights are; None where there is nothing to validate on.

        Raises:
            DecodeError: the weights are no numbers any more.
        """
        ...

    def files(self, weights: int, steps: int, tokens: int, found: Validated | None) -> ModelFiles:
        """What a model folder holds beside the weights. The card says how many `weights` there are, after how many
        `steps` and `tokens` of training, and what validation `found`.
        """
        ...
