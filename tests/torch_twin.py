"""torch's own stacks with the weights of ours."""

from typing import Any

import torch
from torch import nn

from dragoman.model.blocks import CrossBlock, Decoder, Encoder


def copy_attention(theirs: Any, ours: Any) -> None:
    parts = [ours.query, ours.key, ours.value]
    theirs.in_proj_weight.data.copy_(torch.cat([part.weight for part in parts]))
    theirs.in_proj_bias.data.copy_(torch.cat([part.bias for part in parts]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def copy_layer(theirs: Any, ours: Any) -> None:
    copy_attention(theirs.self_attn, ours.self_attention)
    norms = [ours.self_residual.norm, ours.feed_residual.norm]
    if isinstance(ours, CrossBlock):
        copy_attention(theirs.multihead_attn, ours.cross_attention)
        norms.insert(1, ours.cross_residual.norm)
    theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.outer.state_dict())
    for number, norm in enumerate(norms, 1):
        getattr(theirs, f"norm{number}").load_state_dict(norm.state_dict())


def torch_stack(ours: Encoder | Decoder, pre: bool) -> nn.TransformerEncoder | nn.TransformerDecoder:
    kind = nn.TransformerEncoderLayer if isinstance(ours, Encoder) else nn.TransformerDecoderLayer
    layer: Any = kind(16, 4, 24, dropout=0.0, batch_first=True, norm_first=pre, dtype=torch.float64)
    norm = nn.LayerNorm(16, dtype=torch.float64) if pre else None
    if isinstance(ours, Encoder):
        stack = nn.TransformerEncoder(layer, 2, norm=norm, enable_nested_tensor=False)
    else:
        stack = nn.TransformerDecoder(layer, 2, norm=norm)
    for their_layer, block in zip(stack.layers, ours.blocks, strict=True):
        copy_layer(their_layer, block)
    if norm is not None and ours.final_norm is not None:
        stack.norm.load_state_dict(ours.final_norm.state_dict())  # pyright: ignore[reportOptionalMemberAccess]
    return stack


def unsettled(model: nn.Module) -> None:
    """Biases and norms away from zero and one, so that none can be forgotten unseen."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
