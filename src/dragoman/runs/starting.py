"""The model that a run starts from: what of it the run keeps, and the first values of the new model's weights."""

import torch
from torch import nn

from dragoman.config import check
from dragoman.errors import ConfigError
from dragoman.model import EncoderModel, ModelConfig
from dragoman.runs.recipe import Recipe
from dragoman.store import StoredModel, named_weights, place_weights

FAMILIES = {"translation": "encoder_decoder", "language_model": "language_model"}
"""The family of each task; the other tasks have an encoder alone."""
SHARED = ("source_embedding", "encoder")
"""The parts that a translation model and an encoder alone have in common."""
WORDS = {"encoder_decoder": "a translation model", "language_model": "a language model", "encoder": "an encoder alone"}
OF_TASK = frozenset({"labels", "pooling", "decoder_layers"})
OF_DECODER = frozenset({"target_vocabulary", "tied", "output_bias"})
"""Settings of the architecture that an encoder alone does not take over from any model, or from one with a decoder."""


def starting_config(config: ModelConfig, recipe: Recipe) -> ModelConfig:
    """The architecture that a run keeps of the model that it starts from.

    Raises:
        ConfigError: the run's task cannot start from a model of that family.
    """
    assert recipe.start is not None, "a run that starts from a model names it"
    family = FAMILIES.get(recipe.task, "encoder")
    if config.family != family and not (family == "encoder" and config.family == "encoder_decoder"):
        starts = "an encoder alone or a translation model" if family == "encoder" else WORDS[family]
        raise ConfigError(
            f"{recipe.start.model} holds {WORDS[config.family]}; task = {recipe.task!r} starts from {starts}"
        )
    if family != "encoder":
        return config
    left = OF_TASK if config.family == "encoder" else OF_TASK | OF_DECODER
    kept = config.model_dump(mode="json", exclude_none=True, exclude=set(left))
    return check({**kept, "family": "encoder"}, "the model to start from", ModelConfig)


def place_start(model: nn.Module, stored: StoredModel) -> None:
    """Gives a fresh model the weights of the one that it starts from. An encoder alone takes over embedding and
    encoder; its head and output stay fresh unless both fill in words.
    """
    if not isinstance(model, EncoderModel):
        place_weights(model, named_weights(stored.model))
        return
    both_fill = isinstance(stored.model, EncoderModel) and stored.config.labels is None and model.config.labels is None
    _take_encoder(model, stored.model, head=both_fill)


@torch.no_grad()
def _take_encoder(model: nn.Module, start: nn.Module, head: bool) -> None:
    """Copies embedding and encoder of `start` into an encoder alone, and its head and output too if asked for."""
    for part in (*SHARED, "head") if head else SHARED:
        source = start.get_submodule(part)
        for name, weight in model.get_submodule(part).named_parameters():
            weight.copy_(source.get_parameter(name))
    if head:
        model.get_parameter("output").copy_(start.get_parameter("output"))
