"""A model folder in and out. Only safetensors, JSON and models of SentencePiece are read, and every file is checked by
its SHA-256.

    config.json              architecture, format number, framing if not the usual; languages of a translation model
    model.safetensors        weights, float32
    tokenizer.json           or tokenizer.source.json + tokenizer.target.json; SentencePiece has a .spm beside each
    labels.json              the labels of a classifier or tagger
    generation_config.json   the default search options; of a language model, how much of a text it sees
    README.md                the model card, written from facts; people may edit or remove it
    manifest.json            size and SHA-256 of every file

An adapter folder holds `adapter.safetensors` instead, the few weights that a run learnt beside a model that it left as
it was, and no tokenizer. Its `config.json` names that model by folder and SHA-256; both load as one.

The names and shapes of the weights must match `config.json` before anything is built. A newer format is refused.

Read `description`, then `shapes`, `weights`, `placing`, `adapters` and `folder`; `ready` makes a model ready for use in
PyTorch.
"""

from typing import TYPE_CHECKING

from dragoman import lazy_names

if TYPE_CHECKING:
    from dragoman.store.adapters import adapter_of as adapter_of
    from dragoman.store.description import ADAPTER as ADAPTER
    from dragoman.store.description import CARD as CARD
    from dragoman.store.description import CONFIG as CONFIG
    from dragoman.store.description import GENERATION as GENERATION
    from dragoman.store.description import USES as USES
    from dragoman.store.description import WEIGHTS as WEIGHTS
    from dragoman.store.description import Description as Description
    from dragoman.store.description import Languages as Languages
    from dragoman.store.description import ModelFiles as ModelFiles
    from dragoman.store.description import StoredModel as StoredModel
    from dragoman.store.description import default_card as default_card
    from dragoman.store.description import find_model as find_model
    from dragoman.store.description import read_adapter as read_adapter
    from dragoman.store.description import read_config as read_config
    from dragoman.store.description import verify_model as verify_model
    from dragoman.store.folder import check_new_model as check_new_model
    from dragoman.store.folder import load_model as load_model
    from dragoman.store.folder import save_model as save_model
    from dragoman.store.folder import write_model as write_model
    from dragoman.store.tensors import Ready as Ready
    from dragoman.store.tensors import as_tensors as as_tensors
    from dragoman.store.tensors import effective_weights as effective_weights
    from dragoman.store.tensors import make_ready as make_ready
    from dragoman.store.tensors import named_weights as named_weights
    from dragoman.store.tensors import place_weights as place_weights
    from dragoman.store.weights import Weights as Weights
    from dragoman.store.weights import count_weights as count_weights
    from dragoman.store.weights import read_weights as read_weights
    from dragoman.store.weights import weight_shapes as weight_shapes
    from dragoman.store.weights import write_weights as write_weights
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "adapters": ["adapter_of"],
            "description": [
                "ADAPTER",
                "CARD",
                "CONFIG",
                "GENERATION",
                "USES",
                "WEIGHTS",
                "Description",
                "Languages",
                "ModelFiles",
                "StoredModel",
                "default_card",
                "find_model",
                "read_adapter",
                "read_config",
                "verify_model",
            ],
            "folder": ["check_new_model", "load_model", "save_model", "write_model"],
            "tensors": ["as_tensors", "effective_weights", "named_weights", "place_weights", "Ready", "make_ready"],
            "weights": ["count_weights", "weight_shapes", "Weights", "read_weights", "write_weights"],
        },
    )
