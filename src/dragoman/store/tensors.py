"""Weights of a stored model in PyTorch: as tensors, and placed in a model."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.model.config import ModelConfig
from dragoman.model.projection import Projection
from dragoman.model.transformer import AnyModel, build_model
from dragoman.store.weights import Weights


def named_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return every weight once, under its first name, because tied matrices have several."""
    return {name: weight.detach() for name, weight in model.named_parameters(remove_duplicate=True)}


def place_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Set these tensors as the model's parameters; tied ones stay shared."""
    shared = {id(parameter): weights[name] for name, parameter in model.named_parameters(remove_duplicate=True)}
    placed = {key: nn.Parameter(weight) for key, weight in shared.items()}
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, name, placed[id(parameter)])


def as_tensors(weights: Weights) -> dict[str, Tensor]:
    """Return arrays as tensors, which share their memory."""
    return {name: torch.from_numpy(weight) for name, weight in weights.items()}


def model_of(config: ModelConfig, weights: Weights) -> AnyModel:
    """Build a model in evaluation mode that shares the memory of these weights."""
    with torch.inference_mode(False):  # gradients may be asked for
        with torch.device("meta"):
            model = build_model(config, seed=None)
        place_weights(model, as_tensors(weights))
    return model.eval()


@torch.no_grad()
def effective_weights(model: nn.Module) -> dict[str, np.ndarray]:
    """Return every weight by its name, as a pass uses it: an adapter is added to the weight that it adapts."""
    weights: dict[str, Tensor | None] = dict(model.named_parameters())
    for name, module in model.named_modules():
        if isinstance(module, Projection):
            weights[f"{name}.weight"], weights[f"{name}.bias"] = module.effective()
    return {name: w.detach().float().cpu().contiguous().numpy() for name, w in weights.items() if w is not None}
