"""Whole models, assembled from the stacks. All speak in rows of tokens; `project` alone knows the vocabulary."""

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.model.cache import Cache, Memory
from dragoman.model.config import ModelConfig
from dragoman.model.decoder import Decoder
from dragoman.model.dropout import StepNoise
from dragoman.model.embedding import Embedding
from dragoman.model.encoder import Encoder
from dragoman.model.packing import ROW_MULTIPLE, Packing


class EncoderDecoder(nn.Module):
    """The Transformer of the paper: `encode`, `decode`, `project`.

    `output` is the pre-softmax matrix (V, D), which may be the target embedding itself (section 3.4).
    """

    def __init__(
        self,
        config: ModelConfig,
        source_embedding: Embedding,
        target_embedding: Embedding,
        encoder: Encoder,
        decoder: Decoder,
        output: nn.Parameter,
    ) -> None:
        super().__init__()
        self.config = config
        self.source_embedding, self.target_embedding = source_embedding, target_embedding
        self.encoder, self.decoder, self.output = encoder, decoder, output

    def encode(
        self, source: Int[Tensor, "N"], packing: Packing, noise: StepNoise | None = None
    ) -> Float[Tensor, "N D"]:
        """Source ids to encoder output."""
        of_rows = noise.source(packing.rows, source.device) if noise else None
        x = self.source_embedding(source, packing.position, of_rows)
        return self.encoder(x, packing, of_rows)

    def remember(self, encoded: Float[Tensor, "N D"], packing: Packing) -> Memory:
        """Encoder output to the memory that `decode` attends to."""
        return self.decoder.remember(encoded, packing)

    def start(self, encoded: Float[Tensor, "N D"], packing: Packing) -> Cache:
        """A cache with one empty row for each source sentence."""
        memory = self.remember(encoded, packing).padded()
        return Cache(memory, len(self.decoder.blocks), memory.rows, encoded.device)

    def decode(
        self, target: Int[Tensor, "M"], packing: Packing, state: Memory | Cache, noise: StepNoise | None = None
    ) -> Float[Tensor, "M D"]:
        """Target ids to decoder output. From a `Memory`: whole targets. From a `Cache`: the next tokens of its rows,
        which it takes in.
        """
        memory, cache = (state.memory, state) if isinstance(state, Cache) else (state, None)
        of_rows = noise.target(packing.rows, target.device) if noise else None
        position = cache.positions(packing) if cache is not None else packing.position
        x = self.target_embedding(target, position, of_rows)
        return self.decoder(x, packing, memory, cache, of_rows)

    def project(self, hidden: Float[Tensor, "M D"]) -> Float[Tensor, "M V"]:
        """Decoder output to logits."""
        return F.linear(hidden, self.output)

    def forward(
        self,
        source: Int[Tensor, "N"],
        source_lengths: Int[Tensor, "B"],
        target: Int[Tensor, "M"],
        target_lengths: Int[Tensor, "B"],
        noise: StepNoise | None = None,
    ) -> Float[Tensor, "M D"]:
        """Decoder output for every target token, before `project`: a loss takes the vocabulary piece by piece."""
        of_source = Packing.of(source_lengths, source.device, ROW_MULTIPLE)
        of_target = Packing.of(target_lengths, target.device, ROW_MULTIPLE)
        memory = self.remember(self.encode(of_source.fill(source), of_source, noise), of_source)
        return self.decode(of_target.fill(target), of_target, memory, noise)[: of_target.tokens]


class LanguageModel(nn.Module):
    """A decoder without a memory: each token from those before it."""

    def __init__(
        self, config: ModelConfig, target_embedding: Embedding, decoder: Decoder, output: nn.Parameter
    ) -> None:
        super().__init__()
        self.config = config
        self.target_embedding, self.decoder, self.output = target_embedding, decoder, output

    def start(self, rows: int) -> Cache:
        """A cache with `rows` empty rows."""
        return Cache(None, len(self.decoder.blocks), rows, self.output.device)

    def decode(
        self, target: Int[Tensor, "M"], packing: Packing, cache: Cache | None = None, noise: StepNoise | None = None
    ) -> Float[Tensor, "M D"]:
        of_rows = noise.target(packing.rows, target.device) if noise else None
        position = cache.positions(packing) if cache is not None else packing.position
        return self.decoder(self.target_embedding(target, position, of_rows), packing, None, cache, of_rows)

    def project(self, hidden: Float[Tensor, "M D"]) -> Float[Tensor, "M V"]:
        return F.linear(hidden, self.output)

    def forward(
        self, target: Int[Tensor, "M"], target_lengths: Int[Tensor, "B"], noise: StepNoise | None = None
    ) -> Float[Tensor, "M D"]:
        packing = Packing.of(target_lengths, target.device, ROW_MULTIPLE)
        return self.decode(packing.fill(target), packing, None, noise)[: packing.tokens]
