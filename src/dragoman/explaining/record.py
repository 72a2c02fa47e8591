"""Records of one translation, as values: numbers and words, no tensors and no model.

A text is translated in parts, a sentence each; a part holds the stacks that read it (an encoder, a decoder, or both),
the written tokens step by step, and the searches. Arrays are float32, named by the axes of ARCHITECTURE.md. `facts`
returns everything as plain values for JSON.
"""

import html
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

import numpy as np

from dragoman.brief import brief
from dragoman.explaining.page.page import ORDER, pack, render_page

Array = np.ndarray[Any, np.dtype[np.float32]]
StackName = Literal["encoder", "decoder"]
AttentionName = Literal["self_attention", "cross_attention"]

FORMAT = 3
"""Format number of a record's JSON."""
TEMPERATURES = (0.25, 0.5, 1.0, 1.5, 2.0)
"""Temperatures with normalisers of the candidates' probabilities: exp(logit / temperature - normaliser)."""


class _Brief:
    """A value with a short repr."""

    __repr__ = brief


@dataclass(frozen=True)
class Token:
    """A piece as it is shown, and the number of its word; symbols belong to no word."""

    id: int
    text: str
    word: int | None


@dataclass(frozen=True, repr=False)
class AttentionRecord(_Brief):
    """One attention of one layer: H heads, T queries, S keys; G key heads, of which each serves H / G query heads."""

    name: AttentionName
    keys: StackName
    """Stack of the keys."""
    causal: bool
    """True if token t sees only tokens up to t: the products beyond are masked."""
    query: Array
    """(H, T, K), rotated where positions are rotary."""
    key: Array
    """(G, S, K), rotated too."""
    value: Array
    """(G, S, K)."""
    products: Array
    """(H, T, S): Q K^T / sqrt(d_k), before the mask."""
    weights: Array
    """(H, T, S): softmax of the products that the mask leaves."""


@dataclass(frozen=True, repr=False)
class Units(_Brief):
    """The strongest units of a feed-forward network at each token, strongest first."""

    unit: np.ndarray[Any, np.dtype[np.int64]]
    """(T, 5)."""
    value: Array
    """(T, 5), after the nonlinearity."""


@dataclass(frozen=True, repr=False)
class Layer(_Brief):
    """One layer of a stack."""

    name: str
    """Name such as `encoder.0`."""
    attentions: tuple[AttentionRecord, ...]
    norms: dict[str, Array]
    """Length of the residual stream's vectors (T), after each sublayer."""
    units: Units


@dataclass(frozen=True, repr=False)
class Matrix(_Brief):
    """A projection and its input: input (T, D) W^T (D, F) + b."""

    name: str
    input: Array
    weight: Array
    """(F, D)."""
    bias: Array | None


@dataclass(frozen=True, repr=False)
class Stack(_Brief):
    """An encoder or a decoder: the tokens that it read, and their vectors."""

    name: StackName
    tokens: tuple[Token, ...]
    words: tuple[str, ...]
    embedding: Array
    """(T, D): rows of the table, scaled."""
    positions: Array | None
    """(T, D): vectors that are added to them; None if positions are rotary."""
    entering: Array
    """(T, D): vectors that enter the first layer."""
    layers: tuple[Layer, ...]
    norms: Array
    """(T): length of the vectors that leave the stack."""


@dataclass(frozen=True)
class CandidateRecord:
    """A possible token of a step."""

    id: int
    text: str
    logit: float
    log_prob: float


@dataclass(frozen=True, repr=False)
class StepRecord(_Brief):
    """The choice of one token, after those that the decoder had read."""

    token: Token
    log_prob: float
    rank: int
    """Number of tokens that the model found likelier, plus one."""
    candidates: tuple[CandidateRecord, ...]
    """The ten likeliest tokens, best first."""
    normalisers: tuple[float, ...]
    """log sum exp(logits / temperature), at each of `TEMPERATURES`."""


@dataclass(frozen=True)
class Node:
    """A hypothesis that a search considered: its parent's and one more token."""

    id: int
    text: str
    step: int
    """Number of tokens of the hypothesis."""
    parent: int | None
    """Number of the node that it continues; None at the first step."""
    log_prob: float
    total: float
    status: Literal["live", "ended", "dropped"]
    reason: str
    """Outcome of the hypothesis, in a sentence with figures."""
    score: float | None
    """Total over length penalty of a finished hypothesis; None for others."""


@dataclass(frozen=True, repr=False)
class SearchRecord(_Brief):
    """One search: every hypothesis that it kept or dropped."""

    width: int
    length_penalty: float
    chosen: bool
    """True if the translation comes from this search."""
    nodes: tuple[Node, ...]
    winner: int
    """Number of the node that won."""
    text: str
    total: float
    score: float


@dataclass(frozen=True, repr=False)
class Alignment(_Brief):
    """Links between words, read off cross-attention."""

    layer: int
    head: int | None
    """None for the mean over the layer's heads."""
    shifted: bool
    """True if the weights are those of the step that reads the word, not of the one that writes it."""
    how: str
    """Choice of layer and head, in a sentence."""
    weights: Array
    """(target words, source words)."""
    links: tuple[tuple[int, int], ...]
    """(source word, target word)."""


Erased = tuple[StackName, int]
"""Stack and number of a word that was erased."""


@dataclass(frozen=True, repr=False)
class Contributions(_Brief):
    """Contributions of words to each written token: the drop of its log-probability when a word is deleted.

    T steps, C candidates of a step, E words that were erased.
    """

    erased: tuple[Erased, ...]
    erasure: Array
    """(E, T, C): drop of the log-probability of each candidate when the word is deleted; nats. Zero for words that the
    step has not read.
    """
    written_erasure: Array
    """(E, T): the same for the token that was written."""


@dataclass(frozen=True, repr=False)
class PartRecord(_Brief):
    """A part of the text that a model read by itself."""

    source: str | None
    target: str
    copied: bool = False
    """True if it was too long to be a word and was copied; then nothing else is recorded."""
    stacks: tuple[Stack, ...] = ()
    steps: tuple[StepRecord, ...] = ()
    written: tuple[str, ...] = ()
    """Words that the steps wrote."""
    log_prob: float = 0.0
    searches: tuple[SearchRecord, ...] = ()
    alignment: Alignment | None = None
    contributions: Contributions | None = None
    matrices: tuple[Matrix, ...] = ()
    """Projections of the requested layer."""
    typed: str | None = None
    """Source as it was typed, if the model read it in another form."""

    def words(self, name: str) -> tuple[str, ...]:
        """Return the words of a stack; none if the model has no such stack."""
        stack = self.stack(name)
        return stack.words if stack is not None else ()

    def stack(self, name: str) -> Stack | None:
        """Return the stack of that name, if the model has one."""
        return next((stack for stack in self.stacks if stack.name == name), None)


@dataclass(frozen=True, repr=False)
class Record(_Brief):
    """A record of one translation."""

    model: str
    family: str
    languages: tuple[str, str] | None
    """Languages of source and target; None for a language model."""
    settings: dict[str, Any]
    """Settings of the architecture."""
    weight_count: int
    version: str
    source: str
    target: str | None
    has_given_target: bool
    """True if the target was given, False if the model wrote it."""
    flags: dict[str, str]
    """Flags of the translation with their meanings."""
    unknown_words: tuple[str, ...]
    parts: tuple[PartRecord, ...]

    def facts(self, array: Callable[[np.ndarray[Any, Any]], Any] = np.ndarray.tolist) -> dict[str, Any]:
        """Return everything as plain values for JSON; `array` converts arrays."""
        return {"format": FORMAT, "temperatures": list(TEMPERATURES), **_plain(self, array)}

    def show(self, *sections: str) -> "Excerpt":
        """Return some sections of the page, such as `attention` and `search`, for notebooks."""
        return Excerpt(render_page(self.facts(pack), sections or ORDER))

    def _repr_html_(self) -> str:
        return self.show()._repr_html_()


@dataclass(frozen=True, repr=False)
class Excerpt(_Brief):
    """A page, or some sections of it, in a separate frame of a notebook."""

    page: str

    def _repr_html_(self) -> str:
        page, style = html.escape(self.page), "width: 100%; height: 48rem; border: 0"
        frame = (
            f'<iframe srcdoc="{page}" sandbox="allow-scripts" title="Inside a translation" style="{style}"></iframe>'
        )
        return f"{frame}<script>{_FITTING}</script>"


_FITTING = """(() => {
  const frame = document.currentScript?.previousElementSibling;
  addEventListener("message", ({ source, data }) => {
    if (frame && source === frame.contentWindow && data.height) frame.style.height = `${data.height}px`;
  });
})();"""
"""A script that sets the frame's height to that of the page in it."""


def _plain(value: Any, array: Callable[[np.ndarray[Any, Any]], Any]) -> Any:
    if isinstance(value, np.ndarray):
        return array(value)
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name), array) for field in fields(value)}
    if isinstance(value, dict):
        return {key: _plain(item, array) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item, array) for item in value]
    return value
