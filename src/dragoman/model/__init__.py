"""Ids in, logits out: the Transformer of Vaswani et al. (2017) and its later forms, equation by equation.

Read in the order of the paper: `positions`, `projection`, `attention` (a floor of its own), `layers` (norms,
feed-forward, residual), `blocks`, `encoder` and `decoder`, `families`. Knows nothing of text, losses, searches or
files. `config` and `build_model` alone know settings.
"""

from typing import TYPE_CHECKING

from dragoman import names_from

if TYPE_CHECKING:
    from dragoman.model.attention.cache import Cache as Cache
    from dragoman.model.attention.cache import CrossKeys as CrossKeys
    from dragoman.model.attention.equation import attend as attend
    from dragoman.model.build import build_model as build_model
    from dragoman.model.build import count_weights as count_weights
    from dragoman.model.build import weight_shapes as weight_shapes
    from dragoman.model.config import ModelConfig as ModelConfig
    from dragoman.model.dropout import StepNoise as StepNoise
    from dragoman.model.families import EncoderDecoder as EncoderDecoder
    from dragoman.model.families import LanguageModel as LanguageModel
    from dragoman.model.families import prepare_for_decoding as prepare_for_decoding
    from dragoman.model.observer import Observer as Observer
    from dragoman.model.packing import Packing as Packing
    from dragoman.model.projection import weight_roles as weight_roles

_HOMES = {
    "Cache": "attention.cache",
    "CrossKeys": "attention.cache",
    "EncoderDecoder": "families",
    "LanguageModel": "families",
    "ModelConfig": "config",
    "Observer": "observer",
    "Packing": "packing",
    "StepNoise": "dropout",
    "attend": "attention.equation",
    "build_model": "build",
    "count_weights": "build",
    "prepare_for_decoding": "families",
    "weight_roles": "projection",
    "weight_shapes": "build",
}

if not TYPE_CHECKING:  # a wrong name is found by the checker
    __getattr__ = names_from(__name__, _HOMES)

__all__ = [*_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]
