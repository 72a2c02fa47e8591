"""Small models with opinions, stored as folders, for tests of what is recorded."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from dragoman.model.config import ModelConfig
from dragoman.model.projection import weight_roles
from dragoman.model.transformer import build_model
from dragoman.store.description import Languages, ModelFiles
from dragoman.store.saving import save_model
from dragoman.tokenizing.special_tokens import DEFAULT_FRAMING, END, Framing
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizers

PAIRS = [
    ("the red cat sees the old dog .", "il gatto rosso vede il vecchio cane ."),
    ("where is the station ?", "dov'è la stazione ?"),
    ("I drink water and you eat bread .", "io bevo acqua e tu mangi pane ."),
    ("good morning , Anna !", "buongiorno , Anna !"),
    ("the station is old and the bread is red .", "la stazione è vecchia e il pane è rosso ."),
]
SIZES = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "heads": 4, "d_ff": 24}
GENERATION = {"beam_size": 3, "length_penalty": 0.6, "length_ratio": 1.0, "length_extra": 4}


def learn(kind: str = "word", joint: bool = False) -> Tokenizers:
    settings = {"kind": kind, "minimum_frequency": 1, "joint": joint}
    return learn_tokenizers(lambda: iter(PAIRS * 2), TokenizerSettings.model_validate(settings))


def store_translator(
    folder: Path,
    kind: str = "word",
    seed: int = 5,
    framing: Framing = DEFAULT_FRAMING,
    generation: dict[str, Any] | None = None,
    **settings: Any,
) -> Path:
    """A folder with a translation model of random weights that finds some outputs much likelier than others."""
    tokenizers = learn(kind, joint=settings.get("tied") == "all")
    sizes = {"source_vocabulary": tokenizers.source.size, "target_vocabulary": tokenizers.target.size}
    model = build_model(ModelConfig(**{"preset": "paper", "tied": "none", **SIZES, **sizes, **settings}), seed)
    give_opinions(model, seed)
    files = ModelFiles(tokenizers, Languages("en", "it"), {**GENERATION, **(generation or {})}, framing=framing)
    save_model(folder, model, files)
    return folder


def store_language_model(folder: Path, kind: str = "word", seed: int = 5, **settings: Any) -> Path:
    tokenizers = learn(kind, joint=True)
    sizes = {"target_vocabulary": tokenizers.target.size}
    model = build_model(ModelConfig(**{"family": "language_model", **SIZES, **sizes, **settings}), seed)
    give_opinions(model, seed)
    save_model(folder, model, ModelFiles(tokenizers))
    return folder


def give_opinions(model: nn.Module, seed: int) -> None:
    """Fresh weights find all tokens alike, their biases are zeros and their norms ones: makes all of it differ."""
    random, roles = torch.Generator().manual_seed(seed), weight_roles(model)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if roles[name] == "vector":
                weight.add_(0.3 * torch.randn(weight.shape, generator=random))
            else:
                weight.mul_(3 if name == "output" else 1.5)
            if name == "output":
                weight[END].mul_(2)  # so that some hypotheses end
