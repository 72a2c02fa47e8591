"""Page 8, the whole model. Shapes: B sentences, S source tokens, T target tokens, D = d_model, V words."""

from step_5_positions import embed
from step_6_attention import Attention, causal_mask, padding_mask
from step_7_layers import EncoderLayer, FeedForward, Residual
from torch import nn
from torch.nn.functional import linear


class DecoderLayer(nn.Module):
    """Self-attention, cross-attention and the feed-forward network, each in its own residual path."""

    def __init__(self, d_model, heads, d_ff, dropout):
        super().__init__()
        self.self_attention, self.cross_attention = Attention(d_model, heads), Attention(d_model, heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.self_residual, self.cross_residual, self.feed_residual = (Residual(d_model, dropout) for _ in range(3))

    def forward(self, x, memory, visible, memory_visible):
        """Return (B, T, D) for x (B, T, D) and the memory (B, S, D), each with the mask of its attention."""
        x = self.self_residual(x, lambda x: self.self_attention(x, x, visible))
        x = self.cross_residual(x, lambda x: self.cross_attention(x, memory, memory_visible))
        return self.feed_residual(x, self.feed_forward)


def initialise(model):
    """Draw matrices by Xavier uniform, and rows of embeddings from a normal distribution with deviation 1 / sqrt(D)."""
    for weight in model.parameters():
        if weight.dim() > 1:
            nn.init.xavier_uniform_(weight)
    for table in (model.source_embedding, model.target_embedding):
        nn.init.normal_(table.weight, std=table.embedding_dim**-0.5)


class Transformer(nn.Module):
    """Figure 1: logits of the next target token."""

    def __init__(self, source_words, target_words, d_model=128, layers=3, heads=4, d_ff=512, dropout=0.1):
        """Build source_embedding and target_embedding (nn.Embedding), encoder and decoder (nn.ModuleList of `layers`
        layers each) and dropout (nn.Dropout); then draw their first values. Call super().__init__() first.
        """
        super().__init__()
        self.source_embedding = nn.Embedding(source_words, d_model)
        self.target_embedding = nn.Embedding(target_words, d_model)
        self.encoder = nn.ModuleList(EncoderLayer(d_model, heads, d_ff, dropout) for _ in range(layers))
        self.decoder = nn.ModuleList(DecoderLayer(d_model, heads, d_ff, dropout) for _ in range(layers))
        self.dropout = nn.Dropout(dropout)
        initialise(self)

    def encode(self, source):
        """Return the memory (B, S, D) of source ids (B, S), and their padding mask. Dropout follows the embedding."""
        visible = padding_mask(source)
        x = self.dropout(embed(self.source_embedding, source))
        for layer in self.encoder:
            x = layer(x, visible)
        return x, visible

    def decode(self, target, memory, memory_visible):
        """Return logits (B, T, V) for target ids (B, T). The output matrix is that of the target embedding."""
        visible = causal_mask(target)
        x = self.dropout(embed(self.target_embedding, target))
        for layer in self.decoder:
            x = layer(x, memory, visible, memory_visible)
        return linear(x, self.target_embedding.weight)

    def forward(self, source, target):
        """Return logits (B, T, V) for source ids (B, S) and target ids (B, T)."""
        return self.decode(target, *self.encode(source))
