"""Models without one of their heads, and what that does to the probability of given texts.

A removed head mixes nothing: its values are zero before the output projection W^O, which is the same as zero columns of
W^O (Michel et al. 2019, section 2.1; Voita et al. 2019). A hook on the projection does it; no weight changes.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, groupby, islice
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.aligning.passes import Given, Seen, run_given
from dragoman.explaining.heads.head import Head, Stack, attention_of, heads_of
from dragoman.model import CrossKeys, EncoderDecoder, LanguageModel, Packing
from dragoman.model.attention.multi_head import Attention
from dragoman.model.decoder import Decoder
from dragoman.model.encoder import Encoder

MOST_TOKENS = 2_048
"""Tokens of a pass, on both sides together: all heads of a layer at a time, or as many as fit, and at least one."""
OfTexts = tuple[Tensor, ...]
"""For each text, a number for every label: (T)."""
_ROWS = 512
"""Of logits at a time, to bound the memory of large vocabularies."""


class _Removed(NamedTuple):
    """A head, and the rows of a pass that lose it: block `number` of so many equal blocks, one after another."""

    head: Head
    number: int = 0
    blocks: int = 1

    def rows(self, count: int) -> slice:
        return slice(self.number * count // self.blocks, (self.number + 1) * count // self.blocks)


@contextmanager
def without(model: EncoderDecoder | LanguageModel, heads: Iterable[Head]) -> Iterator[None]:
    """Removes heads meanwhile, from every pass of this model, whoever makes it."""
    with _hooked(model, [_Removed(head) for head in heads]):
        yield


@contextmanager
def without_in_turn(model: EncoderDecoder | LanguageModel, heads: Sequence[Head]) -> Iterator[None]:
    """Removes one head after another meanwhile: the rows of a pass are as many equal blocks as there are heads, one
    after another, and each block is computed without the head of its number.
    """
    with _hooked(model, [_Removed(head, number, len(heads)) for number, head in enumerate(heads)]):
        yield


@dataclass(frozen=True)
class Removals:
    """The log-probability of every label of some texts, by the whole model and without each head."""

    whole: OfTexts
    without: dict[Head, OfTexts]

    def changes(self, head: Head) -> OfTexts:
        """What the removal of a head adds to the log-probability of every label: negative where the head helped."""
        return tuple(less - whole for less, whole in zip(self.without[head], self.whole, strict=True))


@torch.inference_mode()
def log_probs_without_each(
    model: EncoderDecoder | LanguageModel, given: Sequence[Given], most_tokens: int = MOST_TOKENS
) -> Removals:
    """The log-probability of every label of these texts, by the whole model and without each head.

    The texts are repeated once for each head of a layer, and the passes begin at that layer, because nothing changes
    below it.
    """
    base = _Base.of(model, given)
    tokens = base.of_target.tokens + (base.of_source.tokens if base.of_source else 0)
    found: dict[Head, OfTexts] = {}
    for (stack, layer), group in groupby(heads_of(model), key=lambda head: (head.stack, head.layer)):
        of_layer = list(group)
        many = max(1, most_tokens // tokens)
        for some in (of_layer[first : first + many] for first in range(0, len(of_layer), many)):
            with without_in_turn(model, some):
                hidden = (base.from_encoder if stack == "encoder" else base.from_decoder)(layer, len(some))
            found.update(zip(some, base.log_probs(hidden), strict=True))
    (whole,) = base.log_probs(base.hidden)
    return Removals(whole, found)


@dataclass(frozen=True)
class _Base:
    """A pass of the whole model, from whose layers the passes without a head begin."""

    model: EncoderDecoder | LanguageModel
    target: Int[Tensor, "M"]
    labels: Int[Tensor, "M"]
    of_target: Packing
    of_source: Packing | None
    seen: Seen
    hidden: Float[Tensor, "M D"]

    @classmethod
    def of(cls, model: EncoderDecoder | LanguageModel, given: Sequence[Given]) -> "_Base":
        seen = Seen()
        hidden, of_target = run_given(model, given, seen)
        target, labels = (
            torch.tensor(list(chain.from_iterable(ids)), dtype=torch.int64, device=hidden.device)
            for ids in ([each.target for each in given], [each.labels for each in given])
        )
        sources = [len(each.source) for each in given if each.source is not None]
        of_source = Packing.of(sources, hidden.device) if sources else None
        return cls(model, target, labels, of_target, of_source, seen, hidden)

    @cached_property
    def keys(self) -> CrossKeys | None:
        """What cross-attention looks at; None in a language model."""
        if self.of_source is None or not isinstance(self.model, EncoderDecoder):
            return None
        return self.model.cross_keys(self.of_source.unpad(self.seen["encoder.output"]), self.of_source)

    def entering(self, stack: Stack, layer: int, times: int) -> Float[Tensor, "N D"]:
        """The rows that enter a layer, repeated."""
        packing = self.of_source if stack == "encoder" else self.of_target
        assert packing is not None, "a language model has no encoder"
        site = f"{stack}.{layer - 1}.feed_residual" if layer else f"{stack}.embedding"
        return packing.unpad(self.seen[site]).repeat(times, 1)

    def from_encoder(self, layer: int, times: int) -> Float[Tensor, "N D"]:
        """Decoder output for the texts, repeated, from a layer of the encoder on."""
        model = self.model
        assert isinstance(model, EncoderDecoder) and self.of_source is not None
        of_source, of_target = _repeated(self.of_source, times), _repeated(self.of_target, times)
        encoder = Encoder(_upper(model.encoder, layer), model.encoder.final_norm, model.encoder.rotary)
        memory = encoder(self.entering("encoder", layer, times), of_source)
        return model.decode(self.target.repeat(times), of_target, model.cross_keys(memory, of_source))

    def from_decoder(self, layer: int, times: int) -> Float[Tensor, "N D"]:
        """Decoder output for the texts, repeated, from a layer of the decoder on; all share the encoder's pass."""
        model, keys = self.model, None
        if self.keys is not None and self.of_source is not None:
            key, value = ([part.repeat(times, 1, 1) for part in parts] for parts in (self.keys.keys, self.keys.values))
            of_source = _repeated(self.of_source, times)
            keys = CrossKeys(key, value, of_source.lengths, of_source)
        decoder = Decoder(_upper(model.decoder, layer), model.decoder.final_norm, model.decoder.rotary)
        return decoder(self.entering("decoder", layer, times), _repeated(self.of_target, times), keys)

    def log_probs(self, hidden: Float[Tensor, "N D"]) -> list[OfTexts]:
        """The log-probability of every label, for each repetition text by text."""
        labels = self.labels.repeat(len(hidden) // len(self.labels))
        parts = [
            self.model.project(rows).float().log_softmax(-1).gather(1, label[:, None])[:, 0]
            for rows, label in zip(hidden.split(_ROWS), labels.split(_ROWS), strict=True)
        ]
        lengths = self.of_target.lengths.tolist()
        return [each.split(lengths) for each in torch.cat(parts).split(len(self.labels))]


def _upper(stack: Encoder | Decoder, layer: int) -> Iterator[Any]:
    """The blocks of a stack from this layer on."""
    return islice(stack.blocks, layer, None)


def _repeated(packing: Packing, times: int) -> Packing:
    return Packing(packing.lengths.repeat(times), packing.longest, packing.tokens * times)


@contextmanager
def _hooked(model: EncoderDecoder | LanguageModel, removed: Iterable[_Removed]) -> Iterator[None]:
    """Removes heads by one hook on the output projection of every attention that loses some."""
    of_attention: dict[Attention, list[_Removed]] = {}
    for each in removed:
        of_attention.setdefault(attention_of(model, each.head), []).append(each)
    with ExitStack() as hooks:
        for attention, some in of_attention.items():
            hooks.callback(attention.output.register_forward_pre_hook(partial(_zero, attention, some)).remove)
        yield


def _zero(
    attention: Attention, removed: Sequence[_Removed], _output: nn.Module, arguments: tuple[Tensor]
) -> tuple[Tensor]:
    """The mixed values (N, H * K) that an output projection takes, with zeros in place of some heads."""
    mixed = arguments[0].unflatten(-1, (attention.heads, attention.d_head)).clone()
    for each in removed:
        mixed[each.rows(len(mixed)), each.head.number] = 0
    return (mixed.flatten(-2),)
