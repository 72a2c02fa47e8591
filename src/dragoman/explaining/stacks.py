"""Records of stacks, layers, attentions and steps, made from the tensors that an observer saw, one text at a time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.errors import ConfigError
from dragoman.explaining.record import (
    TEMPERATURES,
    Array,
    AttentionName,
    AttentionRecord,
    CandidateRecord,
    Layer,
    Matrix,
    Stack,
    StackName,
    StepRecord,
    Token,
    Units,
)
from dragoman.inference.teacher_forcing import ForcedText
from dragoman.model.blocks import CrossBlock, SelfBlock
from dragoman.model.projection import Projection
from dragoman.shapes import Float
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.words import words_of

_EMBEDDINGS: dict[StackName, str] = {"encoder": "source_embedding", "decoder": "target_embedding"}
_INPUTS = {"output": "mixed", "outer": "hidden"}
"""The sites that show the inputs of projections, unless they are called `input`."""
_STRONGEST = 5
CANDIDATES = 10
"""Number of the likeliest tokens that are recorded at each step."""


def read_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[tuple[Token, ...], tuple[str, ...]]:
    """Return tokens with the numbers of their words, and the words."""
    words = words_of(tokenizer, ids)
    word_of = {place: number for number, word in enumerate(words) for place in range(word.first, word.last)}
    shown = tokenizer.tokens(ids)
    tokens = (Token(id_, text, word_of.get(place)) for place, (id_, text) in enumerate(zip(ids, shown, strict=True)))
    return tuple(tokens), tuple(word.text for word in words)


def read_stack(name: StackName, seen: Mapping[str, Tensor], tokenizer: Tokenizer, ids: Sequence[int]) -> Stack:
    """Return the record of one stack from a pass over one text."""
    tokens, words = read_tokens(tokenizer, ids)
    embedding = _EMBEDDINGS[name]
    return Stack(
        name=name,
        tokens=tokens,
        words=words,
        embedding=_first(seen[f"{embedding}.tokens"]),
        positions=_first(seen[f"{embedding}.positions"]) if f"{embedding}.positions" in seen else None,
        entering=_first(seen[f"{name}.embedding"]),
        layers=tuple(_layers(name, seen)),
        norms=_lengths(seen[f"{name}.output"]),
    )


def find_layer(model: nn.Module, name: str) -> SelfBlock | CrossBlock:
    """Return a layer by its name, as in `encoder.0`."""
    blocks = {block.name: block for block in model.modules() if isinstance(block, SelfBlock | CrossBlock)}
    if name not in blocks:
        raise ConfigError(f"weights must be a layer of the model ({', '.join(blocks)}), but is {name}")
    return blocks[name]


def read_matrices(model: nn.Module, layer: str, seen: Mapping[str, Tensor]) -> tuple[Matrix, ...]:
    """Return every projection of one layer, with its input in a pass over one text."""
    matrices: list[Matrix] = []
    for name, projection in find_layer(model, layer).named_modules():
        if isinstance(projection, Projection):
            sublayer, _, part = name.rpartition(".")
            site = f"{layer}.{sublayer}.{_INPUTS.get(part, 'input')}"
            is_memory = sublayer == "cross_attention" and part in ("key", "value")
            read = _first(seen["encoder.output" if is_memory else site])
            weight, bias = projection.effective()
            own_weight = weight.detach().numpy().copy()  # the model's stays its own
            own_bias = None if bias is None else bias.detach().numpy().copy()
            matrices.append(Matrix(f"{layer}.{name}", read.reshape(len(read), -1), own_weight, own_bias))
    return tuple(matrices)


def _layers(name: StackName, seen: Mapping[str, Tensor]) -> Iterator[Layer]:
    number = 0
    while f"{name}.{number}.feed_residual" in seen:
        layer = f"{name}.{number}"
        attentions = [_attention(layer, "self_attention", name, seen)]
        if f"{layer}.cross_attention.query" in seen:
            attentions.append(_attention(layer, "cross_attention", "encoder", seen))
        residuals = [f"{part}_residual" for part in ("self", "cross", "feed") if f"{layer}.{part}_residual" in seen]
        norms = {residual: _lengths(seen[f"{layer}.{residual}"]) for residual in residuals}
        hidden = seen[f"{layer}.feed_forward.hidden"][0]
        strongest = hidden.abs().topk(min(_STRONGEST, hidden.size(-1))).indices
        units = Units(strongest.numpy(), hidden.gather(1, strongest).numpy())
        yield Layer(layer, tuple(attentions), norms, units)
        number += 1


def _attention(layer: str, name: AttentionName, keys: StackName, seen: Mapping[str, Tensor]) -> AttentionRecord:
    causal = name == "self_attention" and layer.startswith("decoder")
    shown = {part: _first(seen[f"{layer}.{name}.{part}"]) for part in ("query", "key", "value", "products", "weights")}
    return AttentionRecord(name, keys, causal, **shown)


def _lengths(x: Tensor) -> Array:
    return torch.linalg.vector_norm(x[0], dim=-1).numpy()


def _first(x: Tensor) -> Array:
    """Return the only text of a batch, as a separate array."""
    return np.ascontiguousarray(x[0].float().numpy())


def read_written(tokenizer: Tokenizer, forced: ForcedText) -> tuple[tuple[Token, ...], tuple[str, ...]]:
    """Return the written tokens and words. The token that a language model predicts at the end belongs to no word."""
    if forced.source is not None:
        return read_tokens(tokenizer, forced.labels)
    tokens, words = read_tokens(tokenizer, forced.labels[:-1])
    (predicted,), _ = read_tokens(tokenizer, forced.labels[-1:])
    return (*tokens, replace(predicted, word=None)), words


def read_steps(logits: Float[Tensor, "T V"], tokens: Sequence[Token], tokenizer: Tokenizer) -> tuple[StepRecord, ...]:
    """Return the written token and the other candidates of each step."""
    logits = logits.float()
    log_probs = logits.log_softmax(-1)
    written = log_probs.gather(1, torch.tensor([token.id for token in tokens])[:, None])
    ranks = (log_probs > written).sum(1) + 1
    best = logits.topk(min(CANDIDATES, logits.size(1)))
    normalisers = torch.stack([(logits / temperature).logsumexp(-1) for temperature in TEMPERATURES], dim=1)
    steps: list[StepRecord] = []
    for number, token in enumerate(tokens):
        candidates = tuple(
            CandidateRecord(id_, tokenizer.tokens([id_])[0], logit, float(log_probs[number, id_]))
            for id_, logit in zip(best.indices[number].tolist(), best.values[number].tolist(), strict=True)
        )
        log_prob, rank = float(written[number, 0]), int(ranks[number])
        steps.append(StepRecord(token, log_prob, rank, candidates, tuple(normalisers[number].tolist())))
    return tuple(steps)
