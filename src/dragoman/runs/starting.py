"""Models before their first step, with fresh weights or those of a finished model."""

import torch
from torch import nn

from dragoman.config import check
from dragoman.errors import CheckpointError, ConfigError, OutOfMemory
from dragoman.memory import usable_memory_bytes
from dragoman.model.config import ModelConfig
from dragoman.model.shapes import count_weights
from dragoman.model.transformer import AnyModel, EncoderModel, build_model
from dragoman.runs.choices import Start
from dragoman.runs.recipe import FAMILIES, LABELLING_TASKS, Recipe
from dragoman.store.description import Adapter, StoredModel
from dragoman.store.folder import describe_adapter, load_model
from dragoman.store.tensors import named_weights, place_weights
from dragoman.training.checkpoint import TrainState
from dragoman.training.freezing import tune
from dragoman.training.optimiser import MasterWeights

SHARED = ("source_embedding", "encoder")
"""Parts that a translation model and an encoder alone have in common."""
FAMILY_IN_WORDS = {
    "encoder_decoder": "a translation model",
    "language_model": "a language model",
    "encoder": "an encoder alone",
}
TASK_SETTINGS = frozenset({"labels", "pooling", "decoder_layers"})
"""Settings of the architecture that an encoder alone never takes over from the model that it starts from."""
DECODER_SETTINGS = frozenset({"target_vocabulary", "tied", "output_bias", "alignment_head"})
"""Settings that it does not take over from a model with a decoder."""


def starting_config(config: ModelConfig, recipe: Recipe) -> ModelConfig:
    """Return the architecture that a run keeps of the model that it starts from."""
    assert recipe.start is not None, "a run that starts from a model names it"
    family = FAMILIES[recipe.task]
    if config.family != family and not (family == "encoder" and config.family == "encoder_decoder"):
        starts = "an encoder alone or a translation model" if family == "encoder" else FAMILY_IN_WORDS[family]
        raise ConfigError(
            f"{recipe.start.model} holds {FAMILY_IN_WORDS[config.family]}; task = {recipe.task!r} starts from {starts}"
        )
    if family != "encoder":
        return config
    left = TASK_SETTINGS if config.family == "encoder" else TASK_SETTINGS | DECODER_SETTINGS
    kept = config.model_dump(mode="json", exclude_none=True, exclude=set(left))
    return check({**kept, "family": "encoder"}, "the model to start from", ModelConfig)


def look_at_start(recipe: Recipe) -> Start | None:
    """Return the facts of the model that a run starts from; None if it starts from nothing."""
    if recipe.start is None:
        return None
    stored = load_model(recipe.start.model)
    config = starting_config(stored.config, recipe)
    if recipe.tuning is not None:
        adapter_for(recipe)  # refuses settings that cannot be tuned, before any text is read
        some_labels = {"labels": 2} if recipe.task in LABELLING_TASKS else {}  # their number is not known yet
        with torch.device("meta"):
            tune(build_model(config.model_copy(update=some_labels), seed=None), recipe.tuning)
    translates = recipe.task == "translation"
    decode = {key: value for key, value in stored.files.generation.items() if translates and key != "doubtful_below"}
    return Start(config, stored.tokenizers.joint, decode)


def refuse_too_large(config: ModelConfig, device: str, in_part: bool = False) -> None:
    """Refuse a model whose training cannot fit in this machine's memory, by arithmetic and before anything is built.

    On the CPU, it counts weights, gradients and one moment, in float32. On a GPU it counts only the weights, because
    they are made on the host; also for a model that trains `in_part`, which has few gradients. A vocabulary that is not
    known yet counts as five tokens.
    """
    sizes = {side: getattr(config, side) or 5 for side in ("source_vocabulary", "target_vocabulary")}
    weights, limit = count_weights(config.model_copy(update=sizes)), usable_memory_bytes()
    least = weights * (12 if device == "cpu" and not in_part else 4)
    if limit is not None and least > limit:
        raise OutOfMemory(
            f"the model would have {weights:,} weights, and training it would take {least / 2**30:,.1f} GiB or more, "
            f"but this process may hold {limit / 2**30:,.1f} GiB; lower model.encoder_layers, model.decoder_layers, "
            "model.d_model or model.d_ff, or take a smaller model.size"
        )


def fresh_state(recipe: Recipe, device: str, resumed: bool = False) -> tuple[AnyModel, TrainState]:
    """Build a model before its first step, and its state. It has new weights, or those of the model that it starts
    from.

    If a run is `resumed`, a checkpoint will replace the weights, so the start is not loaded. Only adapters need it even
    then, because their checkpoints do not hold the model that they adapt.
    """
    settings = recipe.train
    refuse_too_large(recipe.model, device, recipe.tuning is not None)
    model = build_model(recipe.model, settings.seed)
    if recipe.start is not None and (not resumed or recipe.lora is not None):
        place_start(model, load_model(recipe.start.model))
    tune(model, recipe.tuning, settings.seed)
    model.to(device)
    precision = "bf16" if settings.precision == "bf16" else "float32"
    masters = MasterWeights(
        model, precision, settings.optimiser, settings.betas, settings.epsilon, settings.weight_decay
    )
    masters.attach(model)
    return model, TrainState(masters)


def adapter_for(recipe: Recipe) -> Adapter | None:
    """Return the description of a run's adapters; None if it saves whole models."""
    if recipe.start is None or recipe.lora is None:
        return None
    try:
        return describe_adapter(recipe.start.model, recipe.lora)
    except CheckpointError as error:
        raise CheckpointError(f"{error}; an adapter is trained on that model, so put it back") from None


@torch.no_grad()
def place_start(model: nn.Module, stored: StoredModel) -> None:
    """Copy a finished model's weights; an encoder alone gets embedding and encoder, and all if both fill in words."""
    if not isinstance(model, EncoderModel):
        place_weights(model, named_weights(stored.model))
        return
    both_fill = isinstance(stored.model, EncoderModel) and stored.config.labels is None and model.config.labels is None
    for part in (*SHARED, "head") if both_fill else SHARED:
        start = stored.model.get_submodule(part)
        for name, weight in model.get_submodule(part).named_parameters():
            weight.copy_(start.get_parameter(name))
    if both_fill:
        model.get_parameter("output").copy_(stored.model.get_parameter("output"))
