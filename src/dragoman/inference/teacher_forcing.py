"""Teacher forcing: passes in which the decoder reads a given target, with observers and the reference attention."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.decoding.scoring import batch_by_tokens
from dragoman.model.attention import Attention
from dragoman.model.attention_backends import Backend
from dragoman.model.observer import Observer
from dragoman.model.packing import Packing
from dragoman.model.transformer import EncoderDecoder, LanguageModel
from dragoman.shapes import Float
from dragoman.tokenizing.special_tokens import Framing

PASS_TOKENS = 1_024
"""Maximum tokens of sources and targets in one pass; a longer text has its own pass."""


class ForcedText(NamedTuple):
    """The ids of a text and its target, with special symbols."""

    source: list[int] | None
    """Input of the encoder; None for a model without one."""
    target: list[int]
    """Input of the decoder."""
    labels: list[int]
    """Expected output of the decoder: one token for each input token."""

    @classmethod
    def of(cls, framing: Framing, source: Sequence[int], target: Sequence[int]) -> "ForcedText":
        """Return the text for a source and its translation, given as ids without special symbols."""
        return cls(framing.source(source), framing.target(target), framing.labels(target))

    @property
    def longest(self) -> int:
        """Number of tokens of the longer side."""
        return max(len(self.source or []), len(self.target))


class Seen(dict[str, Tensor]):
    """An observer that records, by name, the tensors of all sites whose name has this ending."""

    def __init__(self, ending: str = "") -> None:
        super().__init__()
        self._ending = ending

    def tensor(self, site: str, value: Tensor) -> None:
        if site.endswith(self._ending):
            self[site] = value


@contextmanager
def plain_attention(model: nn.Module) -> Iterator[None]:
    """Compute all attention of a model with the reference implementation within the block."""
    attentions = [module for module in model.modules() if isinstance(module, Attention)]
    before: list[Backend | None] = [attention.backend for attention in attentions]
    for attention in attentions:
        attention.backend = "equation"
    try:
        yield
    finally:
        for attention, backend in zip(attentions, before, strict=True):
            attention.backend = backend


def teacher_force(
    model: EncoderDecoder | LanguageModel,
    texts: Sequence[ForcedText],
    observer: Observer | None = None,
    *,
    share_sources: bool = False,
) -> tuple[Float[Tensor, "M D"], Packing]:
    """Compute each target token's decoder output in one pass, and its packing; `share_sources` encodes equals once."""
    device = model.output.device
    packing = Packing.of([len(text.target) for text in texts], device)
    target = _rows([text.target for text in texts], device)
    with plain_attention(model):
        if isinstance(model, LanguageModel):
            return model.decode(target, packing, observer=observer), packing
        sources = [tuple(text.source) for text in texts if text.source is not None]
        assert len(sources) == len(texts), "an encoder needs a source for every text"
        encoded = list(dict.fromkeys(sources)) if share_sources else sources
        lengths = [len(source) for source in encoded]
        memory = model.encode(_rows(encoded, device), Packing.of(lengths, device), observer=observer)
        if share_sources:
            memory_of = dict(zip(encoded, memory.split(lengths), strict=True))
            memory = torch.cat([memory_of[source] for source in sources])
        keys = model.cross_keys(memory, Packing.of([len(source) for source in sources], device))
        return model.decode(target, packing, keys, observer=observer), packing


def passes(texts: Sequence[ForcedText]) -> Iterator[list[ForcedText]]:
    """Split texts into groups for one pass each, so that memory does not grow with their number."""
    return batch_by_tokens(texts, lambda text: len(text.source or []) + len(text.target), PASS_TOKENS)


@torch.inference_mode()
def cross_weights(model: EncoderDecoder, texts: Sequence[ForcedText]) -> Float[np.ndarray, "B L H T S"]:
    """Compute the cross-attention weights of all layers in one pass over these texts."""
    weights = Seen("cross_attention.weights")  # (B, H, T, S) of each layer
    teacher_force(model, texts, weights)
    return torch.stack([*weights.values()], dim=1).float().cpu().numpy()


def _rows(ids: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    return torch.tensor(list(chain.from_iterable(ids)), dtype=torch.int64, device=device)
