"""Heads by name: where each one stands in a model. Layers and heads are counted from 0, as in sites of observers."""

from typing import Literal, NamedTuple

from dragoman.model import EncoderDecoder, LanguageModel
from dragoman.model.attention.multi_head import Attention

Stack = Literal["encoder", "decoder"]
Kind = Literal["self_attention", "cross_attention"]


class Head(NamedTuple):
    """One head of one attention.

    >>> print(Head("decoder", 0, "cross_attention", 3))
    decoder.0.cross_attention, head 3
    """

    stack: Stack
    layer: int
    kind: Kind
    number: int

    @property
    def site(self) -> str:
        """The attention, as observers name it."""
        return f"{self.stack}.{self.layer}.{self.kind}"

    def __str__(self) -> str:
        return f"{self.site}, head {self.number}"


def heads_of(model: EncoderDecoder | LanguageModel) -> list[Head]:
    """Every head of a model, from the encoder's first layer to the decoder's last."""
    kinds: list[tuple[Stack, list[Kind]]] = [("decoder", ["self_attention"])]
    if isinstance(model, EncoderDecoder):
        kinds = [("encoder", ["self_attention"]), ("decoder", ["self_attention", "cross_attention"])]
    return [
        Head(stack, layer, kind, number)
        for stack, of_stack in kinds
        for layer in range(len(getattr(model, stack).blocks))
        for kind in of_stack
        for number in range(model.config.heads)
    ]


def attention_of(model: EncoderDecoder | LanguageModel, head: Head) -> Attention:
    """The attention that a head is part of."""
    attention = getattr(getattr(model, head.stack).blocks[head.layer], head.kind)
    assert isinstance(attention, Attention)
    return attention
