"""Between two models: their average (Wortsman et al. 2022), and how far one is from the other."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor


def interpolate(before: Mapping[str, Tensor], after: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """(1 - share) before + share after, weight by weight (WiSE-FT, Wortsman et al. 2022)."""
    return {name: weight.lerp(after[name], share) for name, weight in before.items()}


def distances(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> dict[str, float]:
    """For each part of a model, the L2 norm of what changed, relative to its norm before. A bias of the output is no
    part: in models of Marian one huge number in it outweighs all others.
    """
    parts: dict[str, list[str]] = {}
    for name in before:
        if name != "output_bias":
            parts.setdefault(name.partition(".")[0], []).append(name)
    return {
        part: _norm([after[name] - before[name] for name in names]) / norm
        for part, names in parts.items()
        if (norm := _norm([before[name] for name in names]))
    }


def _norm(weights: Sequence[Tensor]) -> float:
    return float(torch.stack([weight.detach().norm() for weight in weights]).norm())
