"""What `[tuning]` does to a model: `tune`, before the loop's optimiser sees its weights."""

from typing import NamedTuple

from torch import nn

from dragoman.tuning.freeze import freeze
from dragoman.tuning.lora import adapt
from dragoman.tuning.settings import TuningSettings


class Trained(NamedTuple):
    """How many weights of a model train, and how many it has."""

    trained: int
    all: int

    def __str__(self) -> str:
        return f"{self.trained:,} of {self.all:,} weights train ({self.trained / self.all:.2%})"


def tune(model: nn.Module, settings: TuningSettings | None, seed: int = 0) -> None:
    """Freezes and adapts a model as the settings say; without any, all of it goes on training.

    Raises:
        ConfigError: a name fits nothing in this model, or a rank does not fit.
    """
    if settings is not None and settings.lora is not None:
        adapt(model, settings.lora, seed)
    elif settings is not None:
        freeze(model, settings.freeze)


def count_trained(model: nn.Module) -> Trained:
    """Counts each weight once."""
    sizes = [(weight.numel(), weight.requires_grad) for weight in model.parameters()]
    return Trained(sum(size for size, trains in sizes if trains), sum(size for size, _ in sizes))
