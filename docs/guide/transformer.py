"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017) on one screen, in plain PyTorch.

    dragoman prepare-data phrasebook --folder phrases
    python transformer.py phrases 3000

trains for 3,000 steps on the pairs in phrases/train.jsonl, is tested on phrases/test.jsonl, and then translates what
you type. It imports only PyTorch, and uses a GPU if there is one. Shapes: B sentences, S source tokens, T target
tokens, H heads, D = d_model, V words of the vocabulary.
"""

import json
import math
import random
import re
import sys
from collections import Counter
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy, linear

PAD, START, END, UNKNOWN = range(4)


def attend(query, key, value, visible):
    """Return softmax(Q K^T / sqrt(d_k)) V, equation 1. A query (row) sees keys (columns) where `visible` is True."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))  # (B, H, T, S)
    weights = scores.masked_fill(~visible, -math.inf).softmax(-1)
    return weights @ value


class Attention(nn.Module):
    """Multi-head attention, section 3.2.2: every head has its own queries, keys and values."""

    def __init__(self, d_model, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, memory, visible):
        def split(rows):  # (B, T, D) -> (B, H, T, D / H)
            return rows.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        mixed = attend(split(self.query(x)), split(self.key(memory)), split(self.value(memory)), visible)
        return self.output(mixed.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2, equation 2, applied to each position separately."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.inner, self.outer = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.outer(self.inner(x).relu())


class Residual(nn.Module):
    """norm(x + dropout(sublayer(x))), sections 3.1 and 5.4."""

    def __init__(self, d_model, dropout):
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(d_model), nn.Dropout(dropout)

    def forward(self, x, sublayer):
        return self.norm(x + self.dropout(sublayer(x)))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, heads, d_ff, dropout):
        super().__init__()
        self.self_attention, self.feed_forward = Attention(d_model, heads), FeedForward(d_model, d_ff)
        self.self_residual, self.feed_residual = (Residual(d_model, dropout) for _ in range(2))

    def forward(self, x, visible):
        x = self.self_residual(x, lambda x: self.self_attention(x, x, visible))
        return self.feed_residual(x, self.feed_forward)


class DecoderLayer(nn.Module):
    def __init__(self, d_model, heads, d_ff, dropout):
        super().__init__()
        self.self_attention, self.cross_attention = Attention(d_model, heads), Attention(d_model, heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.self_residual, self.cross_residual, self.feed_residual = (Residual(d_model, dropout) for _ in range(3))

    def forward(self, x, memory, visible, memory_visible):
        x = self.self_residual(x, lambda x: self.self_attention(x, x, visible))
        x = self.cross_residual(x, lambda x: self.cross_attention(x, memory, memory_visible))
        return self.feed_residual(x, self.feed_forward)


def positions(length, d_model):
    """Return sin and cos of position / 10000^(2i / D), a pair for each i, section 3.5: (T, D)."""
    wave = 10_000 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angle = (torch.arange(length)[:, None] / wave).float()  # exact also for far positions
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


class Transformer(nn.Module):
    """Figure 1: logits of the next target token. Encoder and decoder have `layers` layers each."""

    def __init__(self, source_words, target_words, d_model=128, layers=3, heads=4, d_ff=512, dropout=0.1):
        super().__init__()
        self.source_embedding = nn.Embedding(source_words, d_model)
        self.target_embedding = nn.Embedding(target_words, d_model)
        self.encoder = nn.ModuleList(EncoderLayer(d_model, heads, d_ff, dropout) for _ in range(layers))
        self.decoder = nn.ModuleList(DecoderLayer(d_model, heads, d_ff, dropout) for _ in range(layers))
        self.dropout = nn.Dropout(dropout)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.xavier_uniform_(weight)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=d_model**-0.5)

    def embed(self, table, ids):
        """Look up rows of the table, multiply them by sqrt(D) (section 3.4), and add positions."""
        x = table(ids) * math.sqrt(table.embedding_dim)
        return self.dropout(x + positions(ids.size(1), table.embedding_dim).to(x))

    def encode(self, source):
        """Return the memory (B, S, D) of source ids (B, S), and a mask that hides padding."""
        visible = (source != PAD)[:, None, None]  # (B, 1, 1, S)
        x = self.embed(self.source_embedding, source)
        for layer in self.encoder:
            x = layer(x, visible)
        return x, visible

    def decode(self, target, memory, memory_visible):
        """Return logits (B, T, V) of target ids (B, T). A position sees itself and earlier ones."""
        before = torch.ones(target.size(1), target.size(1), dtype=torch.bool, device=target.device).tril()
        x = self.embed(self.target_embedding, target)
        for layer in self.decoder:
            x = layer(x, memory, before, memory_visible)
        return linear(x, self.target_embedding.weight)  # the output shares the embedding's weights, section 3.4

    def forward(self, source, target):
        return self.decode(target, *self.encode(source))


def loss_of(model, source, target):
    """Return the cross-entropy of the target tokens, with label smoothing (section 5.4)."""
    logits = model(source, target[:, :-1])  # reads START a b, should say a b END
    return cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD, label_smoothing=0.1)


@torch.no_grad()
def greedy(model, source, longest=60):
    """Append the most probable token until every sentence has ended: (B, S) to (B, T)."""
    memory, visible = model.encode(source)
    target = torch.full((len(source), 1), START, device=source.device)
    while not (target == END).any(1).all() and target.size(1) < longest:
        following = model.decode(target, memory, visible)[:, -1].argmax(-1, keepdim=True)
        target = torch.cat([target, following], 1)
    return target


def tokens(text):
    """Split a text into words and marks; a word keeps its apostrophe, as in l'acqua."""
    return re.findall(r"\w+'?|[^\w\s]", text)


def ids(texts, words, device="cpu"):
    """Return texts as a matrix of ids: START, the words, END, then padding."""
    rows = [[START, *(words.get(token, UNKNOWN) for token in tokens(text)), END] for text in texts]
    rows = [torch.tensor(row, device=device) for row in rows]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)


def text_of(row, words):
    """Return ids as text, up to END, without a space before . , : ; ! ? or after an apostrophe."""
    names = list(words)
    row = row.tolist()[1:]
    text = " ".join(names[id] for id in (row[: row.index(END)] if END in row else row))
    return re.sub(r" (?=[.,:;!?])|(?<=') ", "", text)


def vocabulary(texts):
    """Return the words that occur at least twice, each with its id."""
    counts = Counter(token for text in texts for token in tokens(text))
    names = ["[PAD]", "[START]", "[END]", "[UNKNOWN]", *(name for name, count in counts.items() if count > 1)]
    return {name: number for number, name in enumerate(names)}


def batches(pairs, size=64):
    """Yield batches forever, in random order; similar target lengths share a batch, to save padding."""
    while True:
        shuffled = sorted(random.sample(pairs, len(pairs)), key=lambda pair: len(pair[1]))
        starts = range(0, len(shuffled), size)
        for start in random.sample(starts, len(starts)):
            yield zip(*shuffled[start : start + size], strict=True)


def train(model, pairs, source_words, target_words, steps, warmup_steps=400):
    """Train with Adam. The learning rate rises for `warmup_steps`, then falls as 1 / sqrt(step) (section 5.3).

    It is half the paper's, because the batches are small.
    """
    optimiser = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    device, d_model = model.target_embedding.weight.device, model.target_embedding.embedding_dim
    following = batches(pairs)
    for step in range(1, steps + 1):
        source, target = next(following)
        optimiser.param_groups[0]["lr"] = 0.5 * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
        loss = loss_of(model, ids(source, source_words, device), ids(target, target_words, device))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % 100 == 0:
            print(f"step {step:,}: loss {loss.item():.2f}", flush=True)


def read(path):
    """Return the pairs of a file, one per line, such as ["Good evening.", "Buonasera."]."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def main(folder, steps):
    torch.manual_seed(1)
    random.seed(1)
    learned, tested = (read(Path(folder) / name) for name in ("train.jsonl", "test.jsonl"))
    source_words, target_words = (vocabulary(side) for side in zip(*learned, strict=True))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Transformer(len(source_words), len(target_words)).to(device)
    train(model, learned, source_words, target_words, int(steps))

    model.eval()
    sources, references = zip(*tested, strict=True)
    translations = [text_of(row, target_words) for row in greedy(model, ids(sources, source_words, device))]
    right = sum(text == reference for text, reference in zip(translations, references, strict=True))
    print(f"{right} of {len(tested)} test sentences are translated as in the test set. Type a sentence:", flush=True)
    for line in sys.stdin:
        print(text_of(greedy(model, ids([line], source_words, device))[0], target_words), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
