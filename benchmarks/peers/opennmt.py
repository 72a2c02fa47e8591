"""OpenNMT-py 3.5: pre-norm, ReLU, explicit attention (fused only on GPUs).

Dropout is at the same places as in our model. It pins a torch of 2023, but runs with this one.
"""

from collections.abc import Sequence
from typing import Any

from onmt.decoders.transformer import TransformerDecoder
from onmt.encoders.transformer import TransformerEncoder
from onmt.models import NMTModel
from onmt.modules import Embeddings
from onmt.modules.position_ffn import PositionwiseFeedForward
from torch import Tensor, nn

from dragoman.data.batching import Batch
from dragoman.tokenizing.special_tokens import PADDING
from peers.contest import DROPOUT, Contender, Padded, Shape, Way, contender, initialise


def build(batches: Sequence[Batch], shape: Shape, way: Way, _: str) -> Contender:
    model = opennmt(shape)

    def logits(padded: Padded) -> Tensor:
        # It drops the last position of the target itself, and expects an axis for features of a token.
        target = nn.functional.pad(padded.target, (0, 1), value=PADDING)
        hidden, _ = model(padded.source[..., None], target[..., None], padded.source_lengths)
        return model.generator(hidden)

    return contender(model, logits, batches, way)


def opennmt(shape: Shape) -> Any:
    """Build the model as its own builder does, with one matrix for both embeddings and the output."""
    ours = shape.config()
    sizes: dict[str, Any] = {
        "d_model": ours.d_model,
        "heads": ours.heads,
        "d_ff": ours.d_ff,
        "dropout": DROPOUT,
        "attention_dropout": 0.0,
        "max_relative_positions": 0,
        "relative_positions_buckets": 0,
    }
    encoder: Any = TransformerEncoder(num_layers=ours.encoder_layers, embeddings=_embeddings(shape), **sizes)
    decoder = TransformerDecoder(
        num_layers=ours.decoder_layers,
        embeddings=_embeddings(shape),
        copy_attn=False,
        self_attn_type="scaled-dot",
        aan_useffn=False,
        full_context_alignment=False,
        alignment_layer=-1,
        alignment_heads=0,
        **sizes,
    )
    model: Any = NMTModel(encoder, decoder)
    model.decoder.embeddings.word_lut.weight = encoder.embeddings.word_lut.weight
    model.generator = nn.Linear(ours.d_model, shape.vocabulary)
    model.generator.weight = encoder.embeddings.word_lut.weight
    for module in model.modules():
        if isinstance(module, PositionwiseFeedForward):
            module.dropout_1.p = 0.0
    initialise(model)
    return model


def _embeddings(shape: Shape) -> Embeddings:
    settings: dict[str, Any] = {
        "word_vec_size": shape.config().d_model,
        "word_vocab_size": shape.vocabulary,
        "word_padding_idx": PADDING,
        "position_encoding": True,
        "position_encoding_type": "SinusoidalInterleaved",
        "dropout": DROPOUT,
    }
    return Embeddings(**settings)
