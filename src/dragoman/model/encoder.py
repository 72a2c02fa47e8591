"""The encoder: a stack of self-attention blocks that see the whole sentence (section 3.1)."""

from collections.abc import Iterable

from jaxtyping import Float
from torch import Tensor, nn

from dragoman.model.blocks import Pass, SelfBlock
from dragoman.model.dropout import Noise
from dragoman.model.layers import LayerNorm, RMSNorm
from dragoman.model.observer import Observer
from dragoman.model.packing import Packing
from dragoman.model.positions import Rotary


class Encoder(nn.Module):
    """Rows in, rows out. `final_norm` closes a pre-norm stack, whose residual path is never normalised on its way."""

    def __init__(
        self, blocks: Iterable[SelfBlock], final_norm: LayerNorm | RMSNorm | None, rotary: Rotary | None
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.final_norm, self.rotary = final_norm, rotary

    def join_projections(self) -> None:
        """Joins for good what `prepare_for_decoding` joins in every layer."""
        for block in self.blocks:
            assert isinstance(block, SelfBlock)
            block.self_attention.join_projections()

    def forward(
        self,
        x: Float[Tensor, "N D"],
        packing: Packing,
        noise: Noise | None = None,
        observer: Observer | None = None,
    ) -> Float[Tensor, "N D"]:
        rope = self.rotary.rope(packing.position, x.dtype) if self.rotary else None
        given = Pass(packing, causal=False, rope=rope, noise=noise, observer=observer)
        given.show("encoder.embedding", x)
        for block in self.blocks:
            x = block(x, given)
        x = self.final_norm(x) if self.final_norm is not None else x
        given.show("encoder.output", x)
        return x
