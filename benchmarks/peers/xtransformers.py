"""x-transformers: pre-norm, GELU, its scaled sinusoids. Its own attention (`explicit`) or torch's (`fused`).

Dropout is at the same places as in our model. Source and decoder embeddings and the output share one matrix.
"""

from collections.abc import Sequence
from typing import Any

from torch import nn
from x_transformers import Decoder, Encoder, TransformerWrapper

from dragoman.data.batching import Batch
from peers.contest import DROPOUT, Contender, Shape, TextShape, Way, Windows, contender, padded_contender


def build(batches: Sequence[Batch], shape: Shape, way: Way, attention: str) -> Contender:
    ours = shape.config()
    layers: dict[str, Any] = {
        "dim": ours.d_model,
        "heads": ours.heads,
        "attn_dim_head": ours.d_model // ours.heads,
        "ff_mult": ours.d_ff // ours.d_model,
        "attn_flash": attention == "fused",
        "attn_sublayer_dropout": DROPOUT,
        "ff_sublayer_dropout": DROPOUT,
    }
    wrapping: dict[str, Any] = {
        "num_tokens": shape.vocabulary,
        "max_seq_len": 512,
        "emb_dropout": DROPOUT,
        "scaled_sinu_pos_emb": True,
    }
    encoder = TransformerWrapper(
        attn_layers=Encoder(depth=ours.encoder_layers, **layers), return_only_embed=True, **wrapping
    )
    decoder = TransformerWrapper(
        attn_layers=Decoder(depth=ours.decoder_layers, cross_attend=True, **layers),
        token_emb=encoder.token_emb,
        tie_embedding=True,
        **wrapping,
    )
    return contender(
        nn.ModuleList([encoder, decoder]),
        lambda padded: decoder(
            padded.target,
            # As `mask`, it would turn bf16 activations into float32.
            context=encoder(padded.source, attn_mask=padded.source_mask[:, None, None], return_embeddings=True),
            context_mask=padded.source_mask,
        ),
        batches,
        way,
    )


def build_decoder(batches: Sequence[Batch], shape: TextShape, way: Way, attention: str) -> Contender:
    """Build a decoder alone, like our `modern` model: rotary positions over whole heads, SwiGLU, RMSNorm, no biases."""
    ours = shape.config()
    decoder = TransformerWrapper(
        num_tokens=shape.vocabulary,
        max_seq_len=shape.window,
        emb_dropout=DROPOUT,
        use_abs_pos_emb=False,
        tie_embedding=True,
        attn_layers=Decoder(
            dim=ours.d_model,
            depth=ours.decoder_layers,
            heads=ours.heads,
            attn_dim_head=ours.d_model // ours.heads,
            attn_flash=attention == "fused",
            rotary_pos_emb=True,
            rotary_emb_dim=ours.d_model // ours.heads,
            use_rmsnorm=True,
            ff_mult=ours.d_ff / ours.d_model,
            ff_glu=True,
            ff_swish=True,
            ff_no_bias=True,
            attn_sublayer_dropout=DROPOUT,
            ff_sublayer_dropout=DROPOUT,
        ),
    )
    windows = [Windows.from_batch(batch) for batch in batches]
    return padded_contender(decoder, lambda window: decoder(window.target), windows, way)
