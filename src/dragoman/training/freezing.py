"""What of a finished model trains: `tune` freezes or adapts it as `[tuning]` says, before the optimiser sees it.

A frozen weight takes no gradient and no optimiser state. Where nothing below a module trains, its pass is not recorded,
so it keeps no activations either.
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


def freeze(model: nn.Module, asked: Sequence[str]) -> None:
    """Freezes what each of `asked` names. A matrix that is tied has several names, and is frozen by any of them.

    Raises:
        ConfigError: a name fits no weight, or nothing is left to train.
    """
    names = _names(model)
    frozen = set[nn.Parameter]().union(*(_chosen(names, each) for each in asked))
    if len(frozen) == len(names):
        raise ConfigError(f"tuning.freeze = {list(asked)} leaves nothing to train; freeze less")
    for weight in frozen:
        weight.requires_grad_(False)
    for weight, own in names.items():
        if len(own) > 1 and any(_is_parted(own, each) for each in asked):
            log.info(
                "%s are one matrix, so all of it %s", " and ".join(own), "is frozen" if weight in frozen else "trains"
            )


def _names(model: nn.Module) -> dict[nn.Parameter, list[str]]:
    """Every name of every weight."""
    found: dict[nn.Parameter, list[str]] = {}
    for name, weight in model.named_parameters(remove_duplicate=False):
        found.setdefault(weight, []).append(name)
    return found


def _chosen(names: Mapping[nn.Parameter, Sequence[str]], asked: str) -> set[nn.Parameter]:
    """The weights that one name freezes."""
    if not asked.startswith(ALL_BUT):
        return _named(names, asked)
    kept = (_named(names, each.strip()) for each in asked.removeprefix(ALL_BUT).split(","))
    return names.keys() - set[nn.Parameter]().union(*kept)


def _named(names: Mapping[nn.Parameter, Sequence[str]], asked: str) -> set[nn.Parameter]:
    found = {weight for weight, own in names.items() if any(_fits(name, asked) for name in own)}
    if not found:
        every = [name for own in names.values() for name in own]
        raise ConfigError(
            f"tuning.freeze: no weight of this model is called {asked!r}; it has {offered(every)}, layers and parts "
            "joined by dots, and shell patterns such as '*.bias'"
        )
    return found


def _fits(name: str, asked: str) -> bool:
    """Whether a name is asked for; `output` alone is that of the model, not the one of every attention."""
    return is_named(name, asked) and (asked != "output" or name == asked)


def _is_parted(own: Sequence[str], asked: str) -> bool:
    """Whether a name fits some names of a tied matrix and not the others."""
    parts = asked.removeprefix(ALL_BUT).split(",")
    return 0 < sum(any(_fits(name, part.strip()) for part in parts) for name in own) < len(own)


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
