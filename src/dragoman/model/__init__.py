"""Ids in, logits out: the Transformer of Vaswani et al. (2017) and its later forms, equation by equation.

Read in the order of the paper: `positions`, `attention`, `layers` (norms, feed-forward, residual), `blocks`,
`encoder` and `decoder`, `families`. Knows nothing of text, losses, searches or files. `config` and `build_model`
alone know settings.
"""

from dragoman.model.attention import attend
from dragoman.model.attention_weights import attention_weights
from dragoman.model.build import build_model, count_weights, is_table, weight_shapes
from dragoman.model.cache import Cache, Memory
from dragoman.model.config import ModelConfig
from dragoman.model.dropout import StepNoise
from dragoman.model.families import EncoderDecoder, LanguageModel
from dragoman.model.packing import Packing

__all__ = [
    "Cache",
    "EncoderDecoder",
    "LanguageModel",
    "Memory",
    "ModelConfig",
    "Packing",
    "StepNoise",
    "attend",
    "attention_weights",
    "build_model",
    "count_weights",
    "is_table",
    "weight_shapes",
]
