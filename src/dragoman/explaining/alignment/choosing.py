"""Which cross-attention of a model aligns words best, measured on aligned pairs."""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from jaxtyping import Float

from dragoman.aligning.attention import AlignmentChoice, Links, align_words, best_links, word_weights
from dragoman.aligning.passes import Given, cross_weights
from dragoman.aligning.words import Word, words_in_tokens
from dragoman.errors import DataError
from dragoman.explaining.alignment.gold import halves, own_gold
from dragoman.explaining.alignment.links import AlignedPair, judge
from dragoman.translating.translator import Translator

_AT_ONCE = 50
"""Pairs in one pass of the model."""


def choose_alignment(translator: Translator, pairs: Sequence[AlignedPair] | None = None) -> AlignmentChoice:
    """The cross-attention that aligns best on half of the pairs, with its error rate on the other half.

    Without pairs, our own serve models between English and Italian, as far as a model has positions for them. For other
    languages nothing is measured.

    Raises:
        DataError: there is a single pair, or one is longer than the model's positions.
    """
    choosing, judging = halves(pairs or own_gold(*translator.languages))
    if pairs and not judging:
        raise DataError(
            "there is one aligned pair; of two or more, half choose the head and the others judge the choice"
        )
    if not pairs:
        choosing, judging = ([pair for pair in half if _fits(translator, pair)] for half in (choosing, judging))
    if not (choosing and judging):
        return AlignmentChoice.unmeasured(len(translator.model.decoder.blocks))
    return judge_choice(translator, judging, choose_head(translator, choosing))


def choose_head(translator: Translator, pairs: Sequence[AlignedPair]) -> AlignmentChoice:
    """The cross-attention with the lowest alignment error rate on these pairs.

    Its rate is that of the best of many, so on other pairs expect a higher one.
    """
    return measure_heads(translator, pairs)[0]


def measure_heads(translator: Translator, pairs: Sequence[AlignedPair]) -> list[AlignmentChoice]:
    """Every cross-attention with its alignment error rate on these pairs, the best first.

    These are all heads and the mean of each layer's heads, at the step that writes a word and at the one that reads it.

    Raises:
        DataError: there are no pairs, or one is longer than the model's positions.
    """
    if not pairs:
        raise DataError("there are no aligned pairs to measure heads on")
    found: dict[AlignmentChoice, list[Links]] = {}
    for weights, source, target in _passes(translator, pairs):
        layers, heads = weights.shape[:2]
        with_mean = np.concatenate([weights, weights.mean(1, keepdims=True)], axis=1)
        for shifted in (False, True):
            by_word = word_weights(with_mean, source, target, shifted)
            for layer, head in product(range(layers), range(heads + 1)):
                choice = AlignmentChoice(layer, None if head == heads else head, shifted)
                found.setdefault(choice, []).append(best_links(by_word[layer, head]))
    measured = [choice.measured(judge(links, pairs).error_rate, len(pairs)) for choice, links in found.items()]
    return sorted(measured, key=lambda choice: choice.aer or 0.0)


def judge_choice(translator: Translator, pairs: Sequence[AlignedPair], choice: AlignmentChoice) -> AlignmentChoice:
    """The same choice with its alignment error rate on these pairs."""
    return choice.measured(judge(align_pairs(translator, pairs, choice), pairs).error_rate, len(pairs))


def align_pairs(translator: Translator, pairs: Sequence[AlignedPair], choice: AlignmentChoice) -> list[Links]:
    """The links that a model draws in each pair, whose own links it does not see.

    Raises:
        DataError: a pair is longer than the model's positions.
    """
    passes = _passes(translator, pairs)
    return [align_words(list(weights), source, target, choice).links for weights, source, target in passes]


def _passes(
    translator: Translator, pairs: Sequence[AlignedPair]
) -> Iterator[tuple[Float[np.ndarray, "L H T S"], list[Word], list[Word]]]:
    """For each pair, the cross-attention weights of all layers, and the words of source and target in them."""
    before = len(translator.framing.source_before)
    for first in range(0, len(pairs), _AT_ONCE):
        some = pairs[first : first + _AT_ONCE]
        given = _given(translator, some)
        _check_lengths(translator, given, first)
        for pair, weights in zip(some, cross_weights(translator.model, given), strict=True):
            source = words_in_tokens(translator.tokenizers.source, pair.source, pair.source_words, before)
            yield weights, source, words_in_tokens(translator.tokenizers.target, pair.target, pair.target_words)


def _given(translator: Translator, pairs: Sequence[AlignedPair]) -> list[Given]:
    sources = translator.tokenizers.source.encode_batch([pair.source for pair in pairs])
    targets = translator.tokenizers.target.encode_batch([pair.target for pair in pairs])
    return [Given.of(translator.framing, *ids) for ids in zip(sources, targets, strict=True)]


def _fits(translator: Translator, pair: AlignedPair) -> bool:
    """Whether the model has positions for all tokens of a pair."""
    positions = translator.requests.positions
    return positions is None or _longest(*_given(translator, [pair])) <= positions


def _longest(given: Given) -> int:
    """The tokens of the longer side."""
    return max(len(given.source or []), len(given.target))


def _check_lengths(translator: Translator, given: Sequence[Given], before: int) -> None:
    """Refuses pairs that are too long for the model; so many stand before these."""
    positions = translator.requests.positions
    for number, tokens in enumerate(map(_longest, given), before + 1):
        if positions is not None and tokens > positions:
            raise DataError(
                f"aligned pair {number} has {tokens:,} tokens, but the model has positions for {positions:,}"
            )
