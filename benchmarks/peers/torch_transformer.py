"""torch.nn.Transformer with the embeddings, positions and output that it lacks. Post-norm, its own fused attention."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.data.batching import Batch
from dragoman.model.config import ModelConfig
from dragoman.model.embedding import Sinusoidal
from peers.contest import DROPOUT, Contender, Padded, Shape, Way, contender


class TorchTransformer(nn.Module):
    """An nn.Transformer of the same sizes, with one matrix for both embeddings and the output."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        assert config.target_vocabulary
        self.embedding = nn.Parameter(torch.randn(config.target_vocabulary, config.d_model) * config.d_model**-0.5)
        self.positions = Sinusoidal(config.d_model)
        self.transformer = nn.Transformer(
            config.d_model,
            config.heads,
            config.encoder_layers,
            config.decoder_layers,
            config.d_ff,
            DROPOUT,
            batch_first=True,
        )
        self._drop_as_the_paper()

    def forward(self, padded: Padded) -> Tensor:
        length = padded.target.size(1)
        hidden = self.transformer(
            self._embed(padded.source),
            self._embed(padded.target),
            tgt_mask=torch.ones(length, length, dtype=torch.bool).triu(1),
            src_key_padding_mask=~padded.source_mask,
            tgt_key_padding_mask=~padded.target_mask,
            memory_key_padding_mask=~padded.source_mask,
        )
        return F.linear(hidden, self.embedding)

    def _embed(self, ids: Tensor) -> Tensor:
        x = F.embedding(ids, self.embedding) * self.embedding.size(1) ** 0.5
        position = torch.arange(ids.size(1)).expand(ids.shape).flatten()
        positions = self.positions(position).to(x.dtype)  # float32 would carry bf16 weights into float32
        return F.dropout(x + positions.view_as(x), DROPOUT, self.training)

    def _drop_as_the_paper(self) -> None:
        for module in self.transformer.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
            elif isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout.p = 0.0  # the one inside the feed-forward network


def build(batches: Sequence[Batch], shape: Shape, way: Way, _: str) -> Contender:
    model = TorchTransformer(shape.config())
    return contender(model, model, batches, way)
