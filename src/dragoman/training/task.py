"""What training asks of a task: batches, the loss of a batch, a validation, and the files of a model folder.

The loop needs only the `Objective`. `runs/` holds the tasks that a run can have.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from dragoman.data.batch import BatchSize
from dragoman.model import StepNoise
from dragoman.store import ModelFiles
from dragoman.training.loss import Loss


class BatchSource(Protocol):
    """The batches of every epoch. Only the objective knows what a batch is."""

    def epoch(self, number: int, /) -> Sequence[Any]:
        """The indices of each batch of an epoch, in order: a pure function of the epoch's number."""
        ...

    def batch(self, indices: Any, /) -> Any:
        """The batch of these indices."""
        ...

    def size_of(self, indices: Any, /) -> BatchSize:
        """How many tokens a batch has, without making it."""
        ...


class CountedBatches(BatchSource, Protocol):
    """Batches of a corpus whose number of tokens is known."""

    @property
    def tokens(self) -> int:
        """Source and target tokens of an epoch."""
        ...


class Objective(Protocol):
    """What the loop minimises: batches, and the loss of each."""

    @property
    def batches(self) -> BatchSource:
        """The batches to train on."""
        ...

    def loss(self, model: nn.Module, batch: Any, noise: StepNoise) -> Loss:
        """Sums over the target tokens of one micro-batch, as many as its `BatchSize` says."""
        ...


class Validated(NamedTuple):
    """The result of one validation."""

    score: float
    """The model with the highest score is the best."""
    facts: Mapping[str, float]
    """The numbers for the metrics: `dev_loss` and others."""
    summary: str
    """The same in a sentence, for the log."""
    brief: str
    """The same in a few characters, for the progress bar."""
    samples: str = ""
    """The model's output for some examples, one a line."""
    quality: str = ""
    """The paragraph about quality in the model card."""


class Task(Objective, Protocol):
    """An objective that a run can also validate and save."""

    @property
    def batches(self) -> CountedBatches:
        """The batches to train on."""
        ...

    @property
    def identity(self) -> Mapping[str, str]:
        """What must be unchanged when a run resumes, such as data and tokenizer."""
        ...

    def validate(self, weights: Mapping[str, Tensor]) -> Validated | None:
        """Measures these weights on held-out data; None if there is none.

        Raises:
            DecodeError: the weights are no longer finite.
        """
        ...

    def files(self, weights: int, steps: int, tokens: int, found: Validated | None) -> ModelFiles:
        """The files of a model folder beside its weights. The model card says how many `weights` there are, how many
        `steps` and `tokens` they were trained for, and what validation `found`.
        """
        ...
