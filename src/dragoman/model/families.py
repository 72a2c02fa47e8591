"""Whole models, assembled from the stacks. All take and return rows of tokens; `project` alone knows the vocabulary."""

import copy
from typing import ClassVar, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.model.blocks import Decoder, Encoder
from dragoman.model.cache import Cache, CrossKeys
from dragoman.model.config import ModelConfig
from dragoman.model.dropout import StepKey
from dragoman.model.embedding import Embedding
from dragoman.model.layers import Head
from dragoman.model.observer import Observer, shower
from dragoman.model.packing import ROW_MULTIPLE, Packing, pick
from dragoman.model.projection import Projection, Role


class EncoderDecoder(nn.Module):
    """The Transformer of the paper: `encode`, `decode`, `project`.

    `output` is the pre-softmax matrix (V, D), which may be the target embedding itself (section 3.4). `output_bias` (V)
    is added to the logits; None in the paper.
    """

    roles: ClassVar[dict[str, Role]] = {"output": "table", "output_bias": "vector"}

    def __init__(
        self,
        config: ModelConfig,
        source_embedding: Embedding,
        target_embedding: Embedding,
        encoder: Encoder,
        decoder: Decoder,
        output: nn.Parameter,
        output_bias: nn.Parameter | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.source_embedding, self.target_embedding = source_embedding, target_embedding
        self.encoder, self.decoder, self.output, self.output_bias = encoder, decoder, output, output_bias

    def encode(
        self,
        source: Int[Tensor, "N"],
        packing: Packing,
        dropout_key: StepKey | None = None,
        *,
        observer: Observer | None = None,
    ) -> Float[Tensor, "N D"]:
        """Source ids to the memory, which is the encoder's output."""
        of_rows = dropout_key.source(packing.rows, source.device) if dropout_key else None
        x = self.source_embedding(source, packing.position, of_rows, shower(observer, packing))
        return self.encoder(x, packing, of_rows, observer)

    def cross_keys(self, memory: Float[Tensor, "N D"], packing: Packing) -> CrossKeys:
        """What the cross-attention of every layer makes of the memory."""
        return self.decoder.cross_keys(memory, packing)

    def start(self, memory: Float[Tensor, "N D"], packing: Packing) -> Cache:
        """A cache with one empty row for each source sentence."""
        keys = self.cross_keys(memory, packing).padded()
        return Cache(keys, len(self.decoder.blocks), keys.rows, memory.device)

    def decode(
        self,
        target: Int[Tensor, "M"],
        packing: Packing,
        given: CrossKeys | Cache,
        dropout_key: StepKey | None = None,
        *,
        observer: Observer | None = None,
    ) -> Float[Tensor, "M D"]:
        """Target ids to decoder output. Given `CrossKeys`: whole targets. Given a `Cache`: the next tokens of its rows,
        which it takes in.
        """
        keys, cache = (given.cross_keys, given) if isinstance(given, Cache) else (given, None)
        of_rows = dropout_key.target(packing.rows, target.device) if dropout_key else None
        position = cache.positions(packing) if cache is not None else packing.position
        x = self.target_embedding(target, position, of_rows, shower(observer, packing))
        return self.decoder(x, packing, keys, cache, of_rows, observer)

    def project(self, hidden: Float[Tensor, "M D"]) -> Float[Tensor, "M V"]:
        """Decoder output to logits."""
        return F.linear(hidden, self.output, self.output_bias)

    def forward(
        self,
        source: Int[Tensor, "N"],
        source_lengths: Int[Tensor, "B"],
        target: Int[Tensor, "M"],
        target_lengths: Int[Tensor, "B"],
        dropout_key: StepKey | None = None,
        *,
        observer: Observer | None = None,
    ) -> Float[Tensor, "M D"]:
        """Decoder output for every target token, before `project`: a loss takes the vocabulary piece by piece."""
        of_source = Packing.of(source_lengths, source.device, ROW_MULTIPLE)
        of_target = Packing.of(target_lengths, target.device, ROW_MULTIPLE)
        memory = self.encode(of_source.fill(source), of_source, dropout_key, observer=observer)
        keys = self.cross_keys(memory, of_source)
        return self.decode(of_target.fill(target), of_target, keys, dropout_key, observer=observer)[: of_target.tokens]


class LanguageModel(nn.Module):
    """A decoder without a memory: each token from those before it."""

    roles: ClassVar[dict[str, Role]] = {"output": "table", "output_bias": "vector"}

    def __init__(
        self,
        config: ModelConfig,
        target_embedding: Embedding,
        decoder: Decoder,
        output: nn.Parameter,
        output_bias: nn.Parameter | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.target_embedding, self.decoder = target_embedding, decoder
        self.output, self.output_bias = output, output_bias

    def start(self, rows: int) -> Cache:
        """A cache with `rows` empty rows."""
        return Cache(None, len(self.decoder.blocks), rows, self.output.device)

    def decode(
        self,
        target: Int[Tensor, "M"],
        packing: Packing,
        cache: Cache | None = None,
        dropout_key: StepKey | None = None,
        *,
        observer: Observer | None = None,
    ) -> Float[Tensor, "M D"]:
        """Ids to decoder output: whole texts, or with a cache the next tokens of its rows, which it takes in."""
        of_rows = dropout_key.target(packing.rows, target.device) if dropout_key else None
        position = cache.positions(packing) if cache is not None else packing.position
        x = self.target_embedding(target, position, of_rows, shower(observer, packing))
        return self.decoder(x, packing, None, cache, of_rows, observer)

    def project(self, hidden: Float[Tensor, "M D"]) -> Float[Tensor, "M V"]:
        """Decoder output to logits."""
        return F.linear(hidden, self.output, self.output_bias)

    def forward(
        self,
        target: Int[Tensor, "M"],
        target_lengths: Int[Tensor, "B"],
        dropout_key: StepKey | None = None,
        *,
        observer: Observer | None = None,
    ) -> Float[Tensor, "M D"]:
        """Decoder output for every token, before `project`."""
        packing = Packing.of(target_lengths, target.device, ROW_MULTIPLE)
        return self.decode(packing.fill(target), packing, None, dropout_key, observer=observer)[: packing.tokens]


class EncoderModel(nn.Module):
    """An encoder alone: every token sees the whole text. A head predicts from some of the tokens, or from all as one.

    `output` has a row for each label (C, D), or is the embedding itself (V, D), where masked words are filled in.
    """

    roles: ClassVar[dict[str, Role]] = {"output": "table"}

    def __init__(
        self, config: ModelConfig, source_embedding: Embedding, encoder: Encoder, head: Head, output: nn.Parameter
    ) -> None:
        super().__init__()
        self.config = config
        self.source_embedding, self.encoder, self.head, self.output = source_embedding, encoder, head, output

    def encode(
        self,
        source: Int[Tensor, "N"],
        packing: Packing,
        dropout_key: StepKey | None = None,
        *,
        observer: Observer | None = None,
    ) -> Float[Tensor, "N D"]:
        """Ids to a vector for each token."""
        of_rows = dropout_key.source(packing.rows, source.device) if dropout_key else None
        x = self.source_embedding(source, packing.position, of_rows, shower(observer, packing))
        return self.encoder(x, packing, of_rows, observer)

    def predict_from(
        self,
        memory: Float[Tensor, "N D"],
        packing: Packing,
        chosen: Int[Tensor, "M"] | None = None,
        dropout_key: StepKey | None = None,
    ) -> Float[Tensor, "M D"]:
        """The encoder's output to the head's: for the `chosen` rows, or for each text as `pooling` says."""
        rows = pick(memory, chosen) if chosen is not None else self._pooled(memory, packing)
        return self.head(rows, dropout_key.target(rows.size(0), rows.device) if dropout_key else None)

    def _pooled(self, memory: Float[Tensor, "N D"], packing: Packing) -> Float[Tensor, "B D"]:
        if self.config.pooling == "first":
            return pick(memory, packing.lengths.cumsum(0) - packing.lengths)
        return packing.pad(memory).sum(1) / packing.lengths[:, None]

    def project(self, hidden: Float[Tensor, "M D"]) -> Float[Tensor, "M V"]:
        """The head's output to logits."""
        return F.linear(hidden, self.output)

    def forward(
        self,
        source: Int[Tensor, "N"],
        source_lengths: Int[Tensor, "B"],
        chosen: Int[Tensor, "M"] | None = None,
        dropout_key: StepKey | None = None,
        *,
        observer: Observer | None = None,
    ) -> Float[Tensor, "M D"]:
        """The head's output, before `project`."""
        packing = Packing.of(source_lengths, source.device, ROW_MULTIPLE)
        memory = self.encode(packing.fill(source), packing, dropout_key, observer=observer)
        return self.predict_from(memory, packing, chosen, dropout_key)


AnyModel = EncoderDecoder | LanguageModel | EncoderModel
"""A model of any family."""
Model = TypeVar("Model", EncoderDecoder, LanguageModel, EncoderModel)


def prepare_for_decoding(model: Model, device: torch.device | str, dtype: torch.dtype) -> Model:
    """A model with the same results that only decodes: projections prepared, cast to `dtype` and joined, once.

    `model` stays as it is, and shares with it the weights that need no change. After the weights of `model` change,
    prepare it again, because some of the prepared ones follow and others do not.
    """
    shared = {id(weight): nn.Parameter(weight.detach(), requires_grad=False) for weight in model.parameters()}
    prepared = copy.deepcopy(model, shared)
    _prepare_projections(prepared)
    prepared.to(device, dtype)
    for stack in prepared.children():
        if isinstance(stack, Encoder | Decoder):
            stack.join_projections()
    return prepared


def _prepare_projections(module: nn.Module) -> None:
    for name, child in module.named_children():
        if isinstance(child, Projection):
            setattr(module, name, child.prepared())
        else:
            _prepare_projections(child)
