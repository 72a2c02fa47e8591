"""Low-rank adapters (LoRA, Hu et al. 2021): the effective weight of a frozen matrix W is W + (alpha / rank) B A.

The sum is computed once per pass as one effective matrix. Joins, kernels and packing therefore see an ordinary
projection, and decoding, which prepares projections once, pays nothing. The cost is a product of rank x D x F per pass
and memory for the gradient of the effective matrix; the frozen matrix has no gradient.

Projections are selected by readable names: `encoder`, `decoder.0`, `cross_attention`, or a shell pattern.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.errors import ConfigError
from dragoman.model.config import LoraSettings
from dragoman.model.dropout import StepKey, drop
from dragoman.model.projection import Affine, Dense, Projection
from dragoman.shapes import Float


class LowRank(Projection):
    """A frozen matrix (F, D) with the trainable matrices `down` (A: r, D) and `up` (B: F, r).

    A is initialised with a normal distribution of deviation D^-0.5 and B with zeros, so training starts from the frozen
    matrix. Dropout drops input features of the adapter, the same ones for all tokens of a step, so it applies to A and
    the sum stays one matrix; PEFT draws them separately for every token.
    """

    def __init__(self, frozen: Dense, rank: int, scale: float, dropout: float = 0.0, name: str = "adapter") -> None:
        super().__init__()
        self.weight, self.bias = frozen.weight, frozen.bias
        self.requires_grad_(False)
        self.down = nn.Parameter(self.weight.new_zeros(rank, self.weight.size(1)))
        self.up = nn.Parameter(self.weight.new_zeros(self.weight.size(0), rank))
        self.scale, self.dropout, self.name = scale, dropout, name
        self.dropout_key: StepKey | None = None
        """The dropout key of the last pass, which a backward pass may run again."""

    def effective(self) -> Affine:
        return Affine(torch.addmm(self.weight, self.up, self._active_down(), alpha=self.scale), self.bias)

    def _active_down(self) -> Float[Tensor, "r D"]:
        """Return A with the columns of dropped features set to zero."""
        if self.dropout_key is None or not self.training:
            return self.down
        row_key = self.dropout_key.source(self.down.size(0), self.down.device)
        same_for_all = replace(row_key, tokens=torch.zeros_like(row_key.tokens))
        return drop(self.down, self.dropout, f"{self.name}.adapter", same_for_all)


def adapt(model: nn.Module, settings: LoraSettings, seed: int | None = None) -> None:
    """Freeze a model and add an adapter to every projection that the settings name; `seed` initialises them.

    Raises:
        ConfigError: a name matches no projection, or the rank is larger than a matrix.
    """
    model.requires_grad_(False)
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    for name, dense in _chosen(model, settings).items():
        if settings.rank > (most := min(dense.weight.shape)):
            shape = " x ".join(map(str, dense.weight.shape))
            raise ConfigError(
                f"tuning.lora.rank is {settings.rank}, but {name} is a matrix of {shape}; give at most {most}, or "
                "leave such matrices out of tuning.lora.projections"
            )
        adapter = LowRank(dense, settings.rank, settings.scale, settings.dropout, name)
        if generator is not None:
            nn.init.normal_(adapter.down, std=adapter.down.size(1) ** -0.5, generator=generator)
        model.set_submodule(name, adapter)
    if settings.dropout:
        model.register_forward_pre_hook(_take_key, with_kwargs=True)


def merged(model: nn.Module, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of an adapted model as those of a plain model: products added, adapters removed."""
    adapters = {name: module for name, module in model.named_modules() if isinstance(module, LowRank)}
    removed = {f"{name}.{part}" for name in adapters for part in ("down", "up")}
    plain = {name: weight for name, weight in weights.items() if name not in removed}
    for name, adapter in adapters.items():
        frozen, up, down = (weights[f"{name}.{part}"] for part in ("weight", "up", "down"))
        plain[f"{name}.weight"] = torch.addmm(frozen, up, down, alpha=adapter.scale)
    return plain


def _chosen(model: nn.Module, settings: LoraSettings) -> dict[str, Dense]:
    projections = {name: module for name, module in model.named_modules() if isinstance(module, Dense)}
    adapted: dict[str, Dense] = {}
    for part in settings.projections:
        matching = {name: dense for name, dense in projections.items() if part == "all" or is_named(name, part)}
        if not matching:
            raise ConfigError(
                f"tuning.lora.projections: no projection of this model is called {part!r}; it has all, "
                f"{offered(projections)}, parts joined by dots, and shell patterns such as 'decoder.*.value'"
            )
        adapted |= matching
    return {name: adapted[name] for name in projections if name in adapted}


def _take_key(model: nn.Module, _inputs: Any, keywords: Mapping[str, Any]) -> None:
    """Pass the dropout key to the adapters, because `effective` does not receive it."""
    for module in model.modules():
        if isinstance(module, LowRank):
            module.dropout_key = keywords.get("dropout_key")


READABLE = (
    *("encoder", "decoder", "embeddings", "output", "head", "norms", "attention", "self_attention", "cross_attention"),
    *("query", "key", "value", "feed_forward"),
)
"""Names to suggest when a name matches nothing, if the model has them."""


def is_named(name: str, part: str) -> bool:
    """Return True if `part` refers to this weight or module: its name, a matching pattern, or words that it contains.

    >>> is_named("decoder.blocks.0.cross_attention.query.weight", "decoder.0.attention")
    True
    """
    if any(sign in part for sign in "*?["):
        return fnmatchcase(name, part)
    return name == part or set(part.split(".")) <= words(name)


def words(name: str) -> set[str]:
    """Return the parts of a name and their kinds."""
    parts = set(name.split("."))
    kinds = {"embeddings": "_embedding", "attention": "_attention", "norms": "norm"}
    return parts | {kind for kind, ending in kinds.items() if any(part.endswith(ending) for part in parts)}


def offered(names: Iterable[str]) -> str:
    """Return, for a message, the readable names that match any of these names."""
    names = list(names)
    readable = [word for word in READABLE if any(is_named(name, word) for name in names)]
    layers = {name.partition(".blocks.")[0] for name in names if ".blocks." in name}
    return ", ".join([*readable, *(f"{stack}.0 …" for stack in sorted(layers))])
