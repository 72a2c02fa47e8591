"""Word alignments from cross-attention: each target word is linked to the source word that it looks at most.

A word's weight on a source word is summed over the source word's tokens and averaged over its own (Garg et al. 2019).
`explaining.gold_alignment` measures how well that aligns. The weights come from one more pass over what was
found; only that loads PyTorch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float

from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.scoring import similar_batches
from dragoman.model.config import ModelConfig
from dragoman.surface.segment import Links, Segment
from dragoman.surface.sentences import one_line
from dragoman.surface.words import split_words
from dragoman.tokenizing.special_tokens import Framing
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.words import Word, words_in_tokens, words_written

if TYPE_CHECKING:
    from dragoman.model.transformer import EncoderDecoder


@dataclass(frozen=True)
class AlignmentChoice:
    """Which cross-attention to read alignments from, and how well it aligns."""

    layer: int
    """A layer of the decoder, counted from 0."""
    head: int | None
    """None for the mean over the layer's heads."""
    shifted: bool = False
    """Whether the weights are those of the step that reads the word (Chen et al. 2020), not of that which writes it."""
    aer: float | None = None
    """The alignment error rate (Och and Ney 2003) on `pairs` aligned pairs; None if it was not measured."""
    pairs: int = 0
    is_trained: bool = False
    """True if this head was trained to align."""

    @classmethod
    def of(cls, config: ModelConfig) -> "AlignmentChoice":
        """The head that a model was trained to align with; `unmeasured` for a model without one."""
        if config.alignment_head is None:
            return cls.unmeasured(config.decoder_layers)
        layer, head = config.alignment_head
        return cls(layer, head, shifted=True, is_trained=True)

    @classmethod
    def unmeasured(cls, layers: int) -> "AlignmentChoice":
        """The choice for a model that nobody has aligned pairs for: the mean over the last layer but one.

        Layers near the end, but not the last, align best in most models (Garg et al. 2019, Chen et al. 2020), and no
        single head does in all. In ours, the step that writes the word does (benchmarks/alignment.py).
        """
        return cls(max(layers - 2, 0), None)

    @property
    def how(self) -> str:
        """Sentences that say what is read and how well it aligns.

        >>> AlignmentChoice(2, None).how.partition(". ")[0]
        'the mean over the heads of layer 2, at the step that writes the word'
        """
        heads = "the mean over the heads" if self.head is None else f"head {self.head}"
        step = "reads" if self.shifted else "writes"
        measured = "It was not measured: no aligned pairs are in these languages and fit the model."
        if self.aer is not None:
            pairs = f"{self.pairs:,} aligned pairs"
            why = "It was trained to align" if self.is_trained else "It was not trained to align"
            measured = f"{why}; its alignment error rate is {self.aer:.2f} ({pairs})."
        return f"{heads} of layer {self.layer}, at the step that {step} the word. {measured}"

    def measured(self, aer: float, pairs: int) -> "AlignmentChoice":
        """The same choice with its alignment error rate on so many pairs."""
        return replace(self, aer=aer, pairs=pairs)


class WordAlignment(NamedTuple):
    """What cross-attention says of I target words and J source words."""

    links: Links
    """(source word, target word): one for each target word, or none if it looks at no word at all."""
    weights: Float[np.ndarray, "I J"]
    """Of each target word on each source word. A row sums to less than one if the word looks at special symbols too."""


def align_words(
    weights: Sequence[Float[np.ndarray, "H T S"]],
    source: Sequence[Word],
    target: Sequence[Word],
    choice: AlignmentChoice,
) -> WordAlignment:
    """The alignment of one sentence, from the cross-attention weights of every decoder layer.

    The words stand for tokens of what the encoder reads and of what the decoder writes, as
    `words_of(tokenizer, text.source)` and `words_of(tokenizer, text.labels)` give them.
    """
    layer = weights[choice.layer]
    chosen = layer.mean(0) if choice.head is None else layer[choice.head]
    by_word = word_weights(chosen, source, target, choice.shifted)
    return WordAlignment(best_links(by_word), by_word)


def word_weights(
    weights: Float[np.ndarray, "*heads T S"], source: Sequence[Word], target: Sequence[Word], shifted: bool = False
) -> Float[np.ndarray, "*heads I J"]:
    """Weights between tokens to weights between words: sums over source tokens, means over target tokens.

    Step t writes token t of the target, and reads token t - 1. A word that no step reads has no weights: the last one
    of a translation without an end.
    """
    steps = _membership(target, weights.shape[-2], int(shifted))
    steps /= np.maximum(steps.sum(1, keepdims=True), 1)
    return steps @ weights @ _membership(source, weights.shape[-1]).T


def best_links(weights: Float[np.ndarray, "I J"]) -> Links:
    """Each target word with the source word of the largest weight, of equal ones the first.

    >>> sorted(best_links(np.array([[0.1, 0.8], [0.6, 0.3], [0.0, 0.0]])))
    [(0, 1), (1, 0)]
    """
    if not weights.size:
        return frozenset()
    best = weights.argmax(1).tolist()
    return frozenset((place, word) for word, place in enumerate(best) if weights[word, place] > 0)


def _membership(words: Sequence[Word], tokens: int, shift: int = 0) -> Float[np.ndarray, "words tokens"]:
    """1 where a token belongs to a word."""
    member = np.zeros((len(words), tokens))
    for row, word in zip(member, words, strict=True):
        row[word.first + shift : word.last + shift] = 1
    return member


SegmentLinks = Mapping[tuple[str, tuple[int, ...]], Links]
"""The links of each segment and translation, by what is read of the one and the tokens of the other."""

TOKENS_AT_ONCE = 1_024
"""Most tokens in one pass: pairs times those of the longest side. Few, because all weights are kept meanwhile."""


def align(
    model: "EncoderDecoder",
    tokenizers: Tokenizers,
    framing: Framing,
    pairs: Sequence[tuple[Segment, Hypothesis]],
    tokens_at_once: int,
) -> SegmentLinks:
    """The links of each segment and its translation, from one more pass over them.

    The weights are those of the head that was trained to align; of a model without one, the mean over the heads of the
    last decoder layer but one, at the step that writes a word.
    """
    from dragoman.inference.teacher_forcing import ForcedText, cross_weights

    choice = AlignmentChoice.of(model.config)
    links: dict[tuple[str, tuple[int, ...]], Links] = {}
    different = [*{(segment.text, part.tokens): segment for segment, part in pairs}.items()]
    texts = [
        ForcedText(framing.source(segment.ids), framing.target(tokens[:-1]), list(tokens))
        for (_, tokens), segment in different
    ]
    for batch in similar_batches(
        [text.source or () for text in texts], [text.target for text in texts], tokens_at_once
    ):
        for number, weights in zip(batch, cross_weights(model, [texts[i] for i in batch]), strict=True):
            (text, tokens), segment = different[number]
            before = len(framing.source_before) + segment.symbols
            source = words_in_tokens(tokenizers.source, text, split_words(text), before)
            target = words_written(tokenizers.target, tokens, one_line(tokenizers.target.decode(tokens))[0])
            links[text, tokens] = align_words(list(weights), source, target, choice).links
    return links
