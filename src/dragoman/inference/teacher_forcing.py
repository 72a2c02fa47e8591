"""Passes over given texts, watched from inside: the model reads what it should have written, not what it would write.

The model's own code runs, with attention by its equation.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.decoding.scoring import batch_by_tokens
from dragoman.model.attention import Attention
from dragoman.model.attention_backends import Backend
from dragoman.model.observer import Observer
from dragoman.model.packing import Packing
from dragoman.model.transformer import EncoderDecoder, LanguageModel
from dragoman.tokenizing.special_tokens import Framing

PASS_TOKENS = 1_024
"""Most tokens of the texts in one pass, sources and targets together; one text always is."""


class ForcedText(NamedTuple):
    """One text as a model reads and writes it, in ids with the symbols around them."""

    source: list[int] | None
    """What the encoder reads; None in a model without one."""
    target: list[int]
    """What the decoder reads."""
    labels: list[int]
    """What it should write: one token for each that it reads."""

    @classmethod
    def of(cls, framing: Framing, source: Sequence[int], target: Sequence[int]) -> "ForcedText":
        """A source and its translation, in ids without symbols."""
        return cls(framing.source(source), framing.target(target), framing.labels(target))

    @property
    def longest(self) -> int:
        """The tokens of the longer side."""
        return max(len(self.source or []), len(self.target))


class Seen(dict[str, Tensor]):
    """An observer that keeps the tensor of every site whose name ends so, by name."""

    def __init__(self, ending: str = "") -> None:
        super().__init__()
        self._ending = ending

    def tensor(self, site: str, value: Tensor) -> None:
        if site.endswith(self._ending):
            self[site] = value


@contextmanager
def plain_attention(model: nn.Module) -> Iterator[None]:
    """Computes every attention by its equation meanwhile, whatever is faster."""
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
    """Decoder output for every target token of these texts, in one pass, and how its rows lie.

    `share_sources` encodes equal sources once. Then an observer, or a hook, sees fewer of them.
    """
    device = model.output.device
    packing = Packing.of([len(text.target) for text in texts], device)
    target = _rows([text.target for text in texts], device)
    with plain_attention(model):
        if isinstance(model, LanguageModel):
            return model.decode(target, packing, observer=observer), packing
        sources = [tuple(text.source) for text in texts if text.source is not None]
        assert len(sources) == len(texts), "an encoder needs a source for every text"
        read = list(dict.fromkeys(sources)) if share_sources else sources
        lengths = [len(source) for source in read]
        memory = model.encode(_rows(read, device), Packing.of(lengths, device), observer=observer)
        if share_sources:
            memory_of = dict(zip(read, memory.split(lengths), strict=True))
            memory = torch.cat([memory_of[source] for source in sources])
        keys = model.cross_keys(memory, Packing.of([len(source) for source in sources], device))
        return model.decode(target, packing, keys, observer=observer), packing


def passes(texts: Sequence[ForcedText]) -> Iterator[list[ForcedText]]:
    """The texts in order, as many at a time as one pass takes, so that memory does not grow with their number."""
    return batch_by_tokens(texts, lambda text: len(text.source or []) + len(text.target), PASS_TOKENS)


@torch.inference_mode()
def cross_weights(model: EncoderDecoder, texts: Sequence[ForcedText]) -> Float[np.ndarray, "B L H T S"]:
    """The cross-attention weights of all layers, in one pass over these texts side by side."""
    weights = Seen("cross_attention.weights")  # (B, H, T, S) of each layer
    teacher_force(model, texts, weights)
    return torch.stack([*weights.values()], dim=1).float().cpu().numpy()


def _rows(ids: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    return torch.tensor(list(chain.from_iterable(ids)), dtype=torch.int64, device=device)
