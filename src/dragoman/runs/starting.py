"""Models before their first step, with fresh weights or those of a finished model."""

import numpy as np
import torch

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
from dragoman.store.tensors import model_of
from dragoman.store.weights import Weights
from dragoman.tokenizing.growing import origins
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.training.checkpoint import TrainState
from dragoman.training.freezing import count_trained, tune
from dragoman.training.objective import recompute_blocks
from dragoman.training.optimiser import MasterWeights

ROWS = {"source_embedding.weight": 0, "target_embedding.weight": 1, "output": 1, "output_bias": 1}
"""Weights with a row for each id, and the side of the ids: 0 for the source, 1 for the target."""
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


def training_memory(recipe: Recipe) -> dict[str, int]:
    """Estimate the memory of training on a processor, without the program itself, in bytes by its parts."""
    model, train, tokens = recipe.model, recipe.train, recipe.batches.batch_tokens
    with torch.device("meta"):
        tune(outline := build_model(model, seed=None), recipe.tuning)
    trained, weights = count_trained(outline)
    output, width, bf16 = outline.output.numel(), model.d_model, train.precision == "bf16"
    layer = 9 * width + 2 * model.d_ff  # numbers that a layer of an encoder keeps for each token
    if train.gradient_checkpointing:
        kept = 3 * layer + (model.encoder_layers + 5 * model.decoder_layers + 4) * width
        effective = 8 * model.decoder_layers * width**2  # adapted keys and values of cross-attention, with gradients
    else:
        kept, effective = int((model.encoder_layers + 1.5 * model.decoder_layers) * layer), weights // 2
    numbers = tokens * kept + effective * (recipe.lora is not None) + min(2**24, tokens * len(outline.output))
    return {
        "weights": 4 * weights + 2 * bf16 * (weights + trained),
        "gradients": 4 * trained + 12 * output * outline.output.requires_grad,
        "optimiser": 8 * trained,
        "average": 4 * trained * bool(train.ema),
        "activations": (2 if bf16 else 4) * numbers,
    }


def fresh_state(
    recipe: Recipe, device: str, resumed: bool = False, tokenizers: Tokenizers | None = None
) -> tuple[AnyModel, TrainState]:
    """Build a model before its first step, and its state. It has new weights, or those of the model that it starts
    from.

    If a run is `resumed`, a checkpoint will replace the weights, so the start is not loaded. Only adapters need it even
    then, because their checkpoints do not hold the model that they adapt.
    """
    settings = recipe.train
    refuse_too_large(recipe.model, device, recipe.tuning is not None)
    starts = recipe.start is not None and (not resumed or recipe.lora is not None)
    stored = load_model(recipe.start.model) if recipe.start is not None and starts else None
    if stored is None or recipe.model.family == "encoder":
        model = build_model(recipe.model, settings.seed)
        if isinstance(model, EncoderModel) and stored is not None:
            place_start(model, stored)
    else:
        weights = stored.weights
        if tokenizers is not None and recipe.model.family == "encoder_decoder":
            weights = with_new_rows(weights, stored.tokenizers, tokenizers)
        model = model_of(recipe.model, weights).train()
    if settings.gradient_checkpointing:
        recompute_blocks(model)
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


def with_new_rows(weights: Weights, old: Tokenizers, new: Tokenizers) -> Weights:
    """Return weights with rows for all ids of the `new` tokenizers. The row of an id that the `old` ones lack is the
    mean of those that it comes from (`origins`).
    """
    rows = {name: side for name, side in ROWS.items() if name in weights and old[side].identity != new[side].identity}
    ids = {side: origins(old[side], new[side]) for side in {*rows.values()}}
    return {
        **weights,
        **{name: np.stack([weights[name][own].mean(0) for own in ids[side]]) for name, side in rows.items()},
    }


@torch.no_grad()
def place_start(model: EncoderModel, stored: StoredModel) -> None:
    """Copy a finished model's embedding and encoder, and all of it if both fill in words."""
    both_fill = isinstance(stored.model, EncoderModel) and stored.config.labels is None and model.config.labels is None
    for part in (*SHARED, "head") if both_fill else SHARED:
        start = stored.model.get_submodule(part)
        for name, weight in model.get_submodule(part).named_parameters():
            weight.copy_(start.get_parameter(name))
    if both_fill:
        model.get_parameter("output").copy_(stored.model.get_parameter("output"))
