"""Word alignments from cross-attention: each target word is linked to the source word with the largest weight.

The weight between two words is summed over the source word's tokens and averaged over the target word's (Garg et al.
2019). `explaining.gold_alignment` measures the error of such alignments. The weights come from one more pass over the
finished translation; only that pass loads PyTorch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from threading import RLock
from typing import NamedTuple

import numpy as np

from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.scoring import similar_batches
from dragoman.inference.options import SearchOptions
from dragoman.inference.search import ModelSearch
from dragoman.model.config import ModelConfig
from dragoman.shapes import Float
from dragoman.surface.segment import Links, Segment
from dragoman.surface.sentences import one_line
from dragoman.surface.words import split_words
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.words import Word, words_in_tokens, words_written


@dataclass(frozen=True)
class AlignmentChoice:
    """The cross-attention that alignments are read from, and its error rate."""

    layer: int
    """Layer of the decoder, from 0."""
    head: int | None
    """None for the mean over the layer's heads."""
    shifted: bool = False
    """True for weights of the step that reads the target word (Chen et al. 2020), False for the step that writes it."""
    aer: float | None = None
    """Alignment error rate (Och and Ney 2003) on `pairs` aligned pairs; None if it was not measured."""
    pairs: int = 0
    is_trained: bool = False
    """True if this head was trained to align."""

    @classmethod
    def of(cls, config: ModelConfig) -> "AlignmentChoice":
        """Return the head that a model was trained to align with; `unmeasured` for a model without one."""
        if config.alignment_head is None:
            return cls.unmeasured(config.decoder_layers)
        layer, head = config.alignment_head
        return cls(layer, head, shifted=True, is_trained=True)

    @classmethod
    def unmeasured(cls, layers: int) -> "AlignmentChoice":
        """Return the choice for a model with this number of decoder layers, without aligned pairs to measure it: the
        mean over the heads of the last layer but one.

        Late layers, but not the last, align best in most models (Garg et al. 2019, Chen et al. 2020), and no single
        head does in all of them. In ours, the step that writes the word aligns best (benchmarks/alignment.py).
        """
        return cls(max(layers - 2, 0), None)

    @property
    def how(self) -> str:
        """The choice and its error rate in English sentences.

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
        """Return this choice with its alignment error rate on this number of pairs."""
        return replace(self, aer=aer, pairs=pairs)


class WordAlignment(NamedTuple):
    """The alignment of I target words and J source words."""

    links: Links
    """Pairs (source word, target word): one for each target word that has a weight on any source word."""
    weights: Float[np.ndarray, "I J"]
    """Weights of target words on source words. The rest of a row, up to one, is the weight on special symbols."""


def align_words(
    weights: Sequence[Float[np.ndarray, "H T S"]],
    source: Sequence[Word],
    target: Sequence[Word],
    choice: AlignmentChoice,
) -> WordAlignment:
    """Align one sentence's words, spans of the tokens read and written, by the cross-attention of every layer."""
    layer = weights[choice.layer]
    chosen = layer.mean(0) if choice.head is None else layer[choice.head]
    by_word = word_weights(chosen, source, target, choice.shifted)
    return WordAlignment(best_links(by_word), by_word)


def word_weights(
    weights: Float[np.ndarray, "*heads T S"], source: Sequence[Word], target: Sequence[Word], shifted: bool = False
) -> Float[np.ndarray, "*heads I J"]:
    """Convert weights between tokens to weights between words: sums over source tokens, means over target tokens.

    Step t writes token t of the target and reads token t - 1, so with `shifted` the last word of an unfinished
    translation has no weights: no step reads it.
    """
    steps = _membership(target, weights.shape[-2], int(shifted))
    steps /= np.maximum(steps.sum(1, keepdims=True), 1)
    return steps @ weights @ _membership(source, weights.shape[-1]).T


def best_links(weights: Float[np.ndarray, "I J"]) -> Links:
    """Link each target word to the source word with the largest weight, the first of several.

    >>> sorted(best_links(np.array([[0.1, 0.8], [0.6, 0.3], [0.0, 0.0]])))
    [(0, 1), (1, 0)]
    """
    if not weights.size:
        return frozenset()
    best = weights.argmax(1).tolist()
    return frozenset((place, word) for word, place in enumerate(best) if weights[word, place] > 0)


def _membership(words: Sequence[Word], tokens: int, shift: int = 0) -> Float[np.ndarray, "words tokens"]:
    """Return a matrix that is 1 where a token belongs to a word, else 0."""
    member = np.zeros((len(words), tokens))
    for row, word in zip(member, words, strict=True):
        row[word.first + shift : word.last + shift] = 1
    return member


SegmentLinks = Mapping[tuple[str, tuple[int, ...]], Links]
"""Links between the words of segments and of their translations, by the segment's text and the translation's tokens."""

TOKENS_AT_ONCE = 1_024
"""Maximum tokens in one pass: pairs times the longest side. It is small because all weights are kept for a while."""


class WordLinker:
    """Links the words of segments and their translations by one more pass of the model."""

    def __init__(self, search: ModelSearch, tokenizers: Tokenizers) -> None:
        self._search, self._tokenizers = search, tokenizers
        self._lock = RLock()  # concurrent passes would compete for PyTorch's threads

    def __call__(self, pairs: Sequence[tuple[Segment, Hypothesis]], options: SearchOptions) -> SegmentLinks:
        """Return the links of all pairs."""
        segments = {(segment.text, hypothesis.tokens): segment for segment, hypothesis in pairs}
        tokens_at_once = 1 if options.batch_invariant else min(options.batch_tokens, TOKENS_AT_ONCE)
        with self._lock, self._search.computing(options, in_torch=True):
            return self._link(segments, tokens_at_once)

    def _link(self, segments: Mapping[tuple[str, tuple[int, ...]], Segment], tokens_at_once: int) -> SegmentLinks:
        from dragoman.inference.teacher_forcing import ForcedText, cross_weights

        model, framing = self._search.runtime.model, self._search.framing
        source_tokenizer, target_tokenizer = self._tokenizers
        choice = AlignmentChoice.of(model.config)
        keys = list(segments)
        sources = [framing.source(segment.ids) for segment in segments.values()]
        targets = [framing.target(tokens[:-1]) for _, tokens in keys]
        links: dict[tuple[str, tuple[int, ...]], Links] = {}
        for batch in similar_batches(sources, targets, tokens_at_once):
            texts = [ForcedText(sources[number], targets[number], list(keys[number][1])) for number in batch]
            for number, weights in zip(batch, cross_weights(model, texts), strict=True):
                text, tokens = key = keys[number]
                before = len(framing.source_before) + segments[key].symbols
                source = words_in_tokens(source_tokenizer, text, split_words(text), before)
                target = words_written(target_tokenizer, tokens, one_line(target_tokenizer.decode(tokens))[0])
                links[key] = align_words(list(weights), source, target, choice).links
        return links
