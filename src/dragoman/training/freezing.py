"""Freezing and adapting a finished model before training: `tune` does it as `[tuning]` says.

A frozen weight takes no gradient and no optimiser state. If nothing below a module trains, its pass is not recorded, so
it keeps no activations either.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import nn

from dragoman.errors import ConfigError
from dragoman.model.adapters import adapt, is_named, offered
from dragoman.training.settings import TuningSettings

log = logging.getLogger(__name__)

ALL_BUT = "all but "


def freeze(model: nn.Module, parts: Sequence[str]) -> None:
    """Freeze the parts with these names, or raise `ConfigError`; any name of a tied matrix freezes all of it."""
    names = _names(model)
    frozen = set[nn.Parameter]().union(*(_frozen_by(part, names) for part in parts))
    if len(frozen) == len(names):
        raise ConfigError(f"tuning.freeze = {list(parts)} leaves nothing to train; freeze less")
    for weight in frozen:
        weight.requires_grad_(False)
    for weight, aliases in names.items():
        if any(_splits(part, aliases) for part in parts):
            status = "is frozen" if weight in frozen else "trains"
            log.info("%s are one matrix, so all of it %s", " and ".join(aliases), status)


def _names(model: nn.Module) -> dict[nn.Parameter, list[str]]:
    """Return every name of every weight."""
    names: dict[nn.Parameter, list[str]] = {}
    for name, weight in model.named_parameters(remove_duplicate=False):
        names.setdefault(weight, []).append(name)
    return names


def _frozen_by(part: str, names: Mapping[nn.Parameter, Sequence[str]]) -> set[nn.Parameter]:
    if not part.startswith(ALL_BUT):
        return _named(part, names)
    return names.keys() - set[nn.Parameter]().union(*(_named(kept, names) for kept in _parts(part)))


def _named(part: str, names: Mapping[nn.Parameter, Sequence[str]]) -> set[nn.Parameter]:
    weights = {weight for weight, aliases in names.items() if any(_fits(name, part) for name in aliases)}
    if not weights:
        every = [name for aliases in names.values() for name in aliases]
        raise ConfigError(
            f"tuning.freeze: no weight of this model is called {part!r}; it has {offered(every)}, layers and parts "
            "joined by dots, and shell patterns such as '*.bias'"
        )
    return weights


def _parts(part: str) -> list[str]:
    """Return the names in one entry of `tuning.freeze`."""
    return [name.strip() for name in part.removeprefix(ALL_BUT).split(",")]


def _fits(name: str, part: str) -> bool:
    """Return True if a weight's name belongs to a part. The part `output` is the model's, not that of attention."""
    return is_named(name, part) and (part != "output" or name == part)


def _splits(part: str, aliases: Sequence[str]) -> bool:
    """Return True if some names of a tied matrix fit and others do not."""
    return 0 < sum(any(_fits(name, piece) for piece in _parts(part)) for name in aliases) < len(aliases)


class Trained(NamedTuple):
    """Number of weights of a model that train, and of all its weights."""

    trained: int
    all: int

    def __str__(self) -> str:
        return f"{self.trained:,} of {self.all:,} weights train ({self.trained / self.all:.2%})"


def tune(model: nn.Module, settings: TuningSettings | None, seed: int = 0) -> None:
    """Freeze and adapt a model as the settings say; without settings, all weights train."""
    if settings is not None and settings.lora is not None:
        adapt(model, settings.lora, seed)
    elif settings is not None:
        freeze(model, settings.freeze)


def count_trained(model: nn.Module) -> Trained:
    """Count the weights of a model that train, and all its weights; a shared weight counts once."""
    sizes = [(weight.numel(), weight.requires_grad) for weight in model.parameters()]
    return Trained(sum(size for size, trains in sizes if trains), sum(size for size, _ in sizes))
