"""Eole, the successor of OpenNMT-py: pre-norm, ReLU, explicit attention (fused only on GPUs).

Dropout is at the same places as in our model.
"""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from eole.config.models import TransformerModelConfig
from eole.models.model import EncoderDecoderModel
from eole.modules.transformer_mlp import MLP
from torch import Tensor
from torch.nn import functional as F

from dragoman.data.batching import Batch
from dragoman.tokenizing.special_tokens import PADDING
from peers.contest import DROPOUT, Contender, Padded, Shape, Way, contender, initialise


class Names(dict[str, int]):
    """The vocabulary that Eole expects: its size, and the id of padding."""

    def __init__(self, size: int) -> None:
        super().__init__({"<blank>": PADDING})
        self.size = size

    def __len__(self) -> int:
        return self.size


def build(batches: Sequence[Batch], shape: Shape, way: Way, _: str) -> Contender:
    model = eole(shape)

    def logits(padded: Padded) -> Tensor:
        target = F.pad(padded.target, (0, 1), value=PADDING)  # Eole drops the last position itself
        return model.generator(model(padded.source, target, padded.source_lengths).dec_out)

    return contender(model, logits, batches, way)


def eole(shape: Shape) -> Any:
    """Build the model with Eole's own builder, with one matrix for both embeddings and the output."""
    ours = shape.config()
    config = TransformerModelConfig.model_validate(
        {
            "hidden_size": ours.d_model,
            "heads": ours.heads,
            "transformer_ff": ours.d_ff,
            "share_embeddings": True,
            "share_decoder_embeddings": True,
            "encoder": {"layers": ours.encoder_layers},
            "decoder": {"layers": ours.decoder_layers},
            "embeddings": {"word_vec_size": ours.d_model, "position_encoding_type": "SinusoidalInterleaved"},
        }
    )
    running = SimpleNamespace(dropout=[DROPOUT], attention_dropout=[0.0], self_attn_backend="pytorch", parallel_gpu=1)
    vocabulary = Names(shape.vocabulary)
    vocabularies = {"src": vocabulary, "tgt": vocabulary, "specials": {"pad_token": "<blank>"}}
    model = EncoderDecoderModel.build_blocks(config, vocabularies, running)
    model.build_generator(config, running, vocabularies)
    for module in model.modules():
        if isinstance(module, MLP):
            module.dropout_1.p = 0.0
    initialise(model)
    return model
