"""Ids in, logits out: the Transformer of Vaswani et al. (2017) and its later forms, equation by equation.

Read in the order of the paper: `positions`, `attention`, `layers` (norms, feed-forward, residual), `blocks`,
`encoder` and `decoder`, `families`. Knows nothing of text, losses, searches or files. `config` and `build_model`
alone know settings.
"""

from typing import TYPE_CHECKING

from dragoman import names_from

if TYPE_CHECKING:
    from dragoman.model.attention import attend as attend
    from dragoman.model.build import build_model as build_model
    from dragoman.model.build import count_weights as count_weights
    from dragoman.model.build import is_table as is_table
    from dragoman.model.build import weight_shapes as weight_shapes
    from dragoman.model.cache import Cache as Cache
    from dragoman.model.cache import Memory as Memory
    from dragoman.model.config import ModelConfig as ModelConfig
    from dragoman.model.dropout import StepNoise as StepNoise
    from dragoman.model.families import EncoderDecoder as EncoderDecoder
    from dragoman.model.families import LanguageModel as LanguageModel
    from dragoman.model.packing import Packing as Packing
    from dragoman.model.watch import attention_weights as attention_weights
else:
    __getattr__, __dir__, __all__ = names_from(__name__, __file__)
