"""The first values of a model that starts from another one of the same architecture, or from its encoder."""

import torch
from torch import nn

ENCODER = ("source_embedding", "encoder")
"""The parts that a translation model and an encoder alone have in common."""


@torch.no_grad()
def take_encoder(model: nn.Module, start: nn.Module, head: bool) -> None:
    """Copies embedding and encoder of `start` into an encoder alone, and its head and output too if asked for."""
    for part in (*ENCODER, "head") if head else ENCODER:
        source = start.get_submodule(part)
        for name, weight in model.get_submodule(part).named_parameters():
            weight.copy_(source.get_parameter(name))
    if head:
        model.get_parameter("output").copy_(start.get_parameter("output"))
