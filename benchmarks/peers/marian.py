"""Marian's architecture in Hugging Face transformers: post-norm, sinusoids in halves, with ReLU instead of swish.

Dropout is at the same places as in our model. Attention is its own (`eager`) or torch's fused one (`sdpa`).
"""

from collections.abc import Sequence

from torch import nn
from transformers import MarianConfig, MarianMTModel

from dragoman.data.batching import Batch
from dragoman.tokenizing.special_tokens import END, PADDING, START
from peers.contest import DROPOUT, Contender, Shape, Way, contender


def marian(shape: Shape, attention: str = "eager") -> MarianMTModel:
    """Build the model with one matrix for both embeddings and the output."""
    ours = shape.config()
    config = MarianConfig(
        vocab_size=shape.vocabulary,
        max_position_embeddings=512,
        d_model=ours.d_model,
        encoder_layers=ours.encoder_layers,
        decoder_layers=ours.decoder_layers,
        encoder_attention_heads=ours.heads,
        decoder_attention_heads=ours.heads,
        encoder_ffn_dim=ours.d_ff,
        decoder_ffn_dim=ours.d_ff,
        activation_function="relu",
        dropout=DROPOUT,
        attention_dropout=0.0,
        activation_dropout=0.0,
        scale_embedding=True,
        init_std=ours.d_model**-0.5,
        pad_token_id=PADDING,
        bos_token_id=START,
        eos_token_id=END,
        forced_eos_token_id=None,
        decoder_start_token_id=START,
    )
    config._attn_implementation = attention
    model = MarianMTModel(config)
    for module in model.modules():  # its one standard deviation for all matrices suits embeddings, not projections
        if isinstance(module, nn.Linear) and module is not model.get_output_embeddings():
            nn.init.xavier_uniform_(module.weight)
    return model


def build(batches: Sequence[Batch], shape: Shape, way: Way, attention: str) -> Contender:
    model = marian(shape, attention)
    return contender(
        model,
        lambda padded: (
            model(
                input_ids=padded.source,
                attention_mask=padded.source_mask.long(),
                decoder_input_ids=padded.target,
                use_cache=False,
            ).logits
        ),
        batches,
        way,
    )
