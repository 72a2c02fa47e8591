"""Ids in, logits out: the Transformer of Vaswani et al. (2017) and its later forms, equation by equation.

Read in the order of the paper: `positions`, `projection`, `attention` (a floor of its own), `layers` (norms,
feed-forward, residual), `blocks`, `encoder` and `decoder`, `families`. Knows nothing of text, losses, searches or
files. `config` and `build` alone know settings.
"""

from typing import TYPE_CHECKING

from dragoman import lazy_names

if TYPE_CHECKING:
    from dragoman.model.attention_backends import attend as attend
    from dragoman.model.build import build_model as build_model
    from dragoman.model.cache import Cache as Cache
    from dragoman.model.cache import CrossKeys as CrossKeys
    from dragoman.model.config import ModelConfig as ModelConfig
    from dragoman.model.dropout import StepKey as StepKey
    from dragoman.model.families import AnyModel as AnyModel
    from dragoman.model.families import EncoderDecoder as EncoderDecoder
    from dragoman.model.families import EncoderModel as EncoderModel
    from dragoman.model.families import LanguageModel as LanguageModel
    from dragoman.model.families import prepare_for_decoding as prepare_for_decoding
    from dragoman.model.observer import Observer as Observer
    from dragoman.model.packing import Packing as Packing
    from dragoman.model.projection import weight_roles as weight_roles
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "cache": ["Cache", "CrossKeys"],
            "attention_backends": ["attend"],
            "build": ["build_model"],
            "config": ["ModelConfig"],
            "dropout": ["StepKey"],
            "families": ["AnyModel", "EncoderDecoder", "EncoderModel", "LanguageModel", "prepare_for_decoding"],
            "observer": ["Observer"],
            "packing": ["Packing"],
            "projection": ["weight_roles"],
        },
    )
