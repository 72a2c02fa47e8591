"""What a translator hands back, and how it is made of hypotheses: chosen, put together, and flagged."""

import dataclasses
import logging
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from dragoman.brief import brief
from dragoman.decoding.hypothesis import Hypothesis, length_penalty
from dragoman.inference.alignment import SegmentLinks
from dragoman.inference.options import SearchOptions
from dragoman.surface.masking import missing
from dragoman.surface.pipeline import Surface
from dragoman.surface.placeholders import ANY_PLACEHOLDER, readable
from dragoman.surface.segment import Flag, Restored, Segment
from dragoman.surface.sentences import LONGEST_WORD, join, one_line
from dragoman.surface.terms import Terms, compiled
from dragoman.surface.words import matching_words, places_in_line, spaceless, split_words
from dragoman.text.detection import LanguageDetector
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.words import words_written

logger = logging.getLogger(__name__)

DOUBTFUL_LOG_PROB = -2.0
"""`doubtful_below` of a model that was not measured, and its lowest value. A mean of -2 is a probability of 13.5 % a
token; below it stand loops and words without meaning.
"""
DOUBTFUL_SHARE, MEASURED = 0.01, 100
"""The share of translations of held-out text that are doubtful, and how many must be measured at least."""

MEANINGS: dict[Flag, str] = {
    "split": "translated in several pieces, each by itself",
    "broken": "a sentence was longer than the model takes, and was cut into pieces",
    "copied": f"text without words, or only with names and code, or a word of more than {LONGEST_WORD} characters, was "
    "copied, not translated",
    "truncated": "the longest length allowed was reached before the translation ended",
    "repetition": "some words come four times or more in a row, and more often than in the source",
    "doubtful": "the model finds it unlikely: the mean log-probability of its tokens is below decode.doubtful_below",
    "cleaned": "control characters or line separators in the output were replaced by spaces",
    "untranslatable": "there is text, but the tokenizer finds no token in it",
    "lost": "a name, a number, a sign or code of the source is not in the translation",
    "term": "the translation lacks a form of a term of the source, or holds it too seldom",
    "unknown": "the vocabulary does not hold a word of the source",
    "language": "the source, or a sentence of it, is in another language than the model reads",
    "left": "a text of a document stays as it is, because its right translation is out of reach",
}
"""Each flag in plain words."""
HARMLESS = frozenset[Flag](("split", "copied"))
"""Flags that say how a text was translated, not that its translation may be wrong."""

_LONGEST_LOOP = 8
_LOOPS = 4
_LONGEST_NGRAM = 6
_BETA = 2.0


@dataclass(frozen=True)
class Translation:
    """One text and its translation.

    Attributes:
        log_prob: natural logarithm of the translation's probability; the sum of `token_log_probs`.
        score: `log_prob` over length penalty, summed over the segments. It ranks the translations that a search finds;
            those of minimum Bayes risk are ranked by their likeness to all samples, and this stays the model's view.
        tokens: those of the translation as a person reads them, end symbols included.
        token_log_probs: the natural logarithm of each token's probability.
        flags: what a reader should know; see `MEANINGS`.
        unknown_words: words of the source that the vocabulary does not hold.
        alignment: (source word, target word) pairs in order, if `align` was asked for. Both count from 0 over the whole
            line; each target word has at most one source word.
        source_words, target_words: what these count: words, elided articles and punctuation marks, without pairs of
            tags. Empty without `align`.
        word_log_probs: of each target word, the lowest log-probability of its tokens; 0 of one that was copied.
        rewritten: (as typed, as read) of each sentence that the model read in another form than it was typed in.
        lost: names, numbers, signs and code of the source that are not in the translation.
        unused_terms: terms of the source whose forms the translation lacks, or holds too seldom.
        alternatives: the next best translations, best first, as many as were asked for.
    """

    __repr__ = brief

    source: str
    text: str = ""
    log_prob: float = 0.0
    score: float = 0.0
    tokens: tuple[str, ...] = ()
    token_log_probs: tuple[float, ...] = ()
    flags: tuple[Flag, ...] = ()
    unknown_words: tuple[str, ...] = ()
    alignment: tuple[tuple[int, int], ...] = ()
    source_words: tuple[str, ...] = ()
    target_words: tuple[str, ...] = ()
    word_log_probs: tuple[float, ...] = ()
    rewritten: tuple[tuple[str, str], ...] = ()
    lost: tuple[str, ...] = ()
    unused_terms: tuple[str, ...] = ()
    alternatives: tuple["Translation", ...] = ()


def doubtful_below(translations: Sequence[Translation]) -> float | None:
    """The mean log-probability a token that nearly all of these translations of held-out text reach; None of too few.
    Such a mean tells bad translations from good ones better than the unlikeliest tokens do (benchmarks/flags.py).
    """
    means = [each.log_prob / len(each.tokens) for each in translations if each.tokens]
    if len(means) < MEASURED:
        return None
    return max(DOUBTFUL_LOG_PROB, round(float(np.quantile(means, DOUBTFUL_SHARE)), 2))


class Ways(NamedTuple):
    """The chosen translations of a line, the best first: each has a hypothesis for every part that is translated."""

    line: Segment
    ways: Sequence[tuple[Hypothesis, ...]]

    @property
    def pairs(self) -> list[tuple[Segment, Hypothesis]]:
        """The parts and their hypotheses, way after way."""
        return [pair for way in self.ways for pair in zip(self.line.translated, way, strict=True)]


class TranslatedPart(NamedTuple):
    """A part of a line with its translation."""

    segment: Segment
    part: Hypothesis | None
    """The best hypothesis, or None if the segment was copied."""
    written: str
    """The translation as the model wrote it."""
    restored: Restored
    """The translation as it is in the line."""
    cleaned: int
    """Number of its characters that became spaces."""

    def lost(self, language: str) -> list[str]:
        """Return what the translation into a language should contain and does not."""
        return missing(self.restored.text, self.segment.kept, self.segment.text, language) if self.segment.kept else []

    def unused(self, terms: Terms) -> list[str]:
        """Return the source terms whose forms the translation lacks."""
        return [] if self.part is None else terms.missing(self.segment.text, self.restored.text)


class Rated(NamedTuple):
    """A hypothesis and what it is chosen by; more is better."""

    value: float
    hypothesis: Hypothesis


class Writer:
    """Writes translations in the words of one model's tokenizers."""

    def __init__(self, tokenizers: Tokenizers, surface: Surface) -> None:
        self.tokenizers, self.surface = tokenizers, surface
        self.detector = LanguageDetector([surface.languages[0]])

    def text(self, ids: Sequence[int]) -> str:
        """Ids as one line of text, as the model writes it."""
        return one_line(self.tokenizers.target.decode(ids))[0]

    def settled_text(self, ids: Sequence[int]) -> str:
        """The beginning of an unfinished text that no further token changes: all but the word it ends in."""
        text = self.text(ids)
        for i in range(len(text) - 1, 0, -1):
            if text[i].isspace() or (spaceless(text[i - 1]) and i < len(text) - 1):
                return text[:i].rstrip()
        return ""

    def piece(self, segment: Segment, part: Hypothesis | None, links: SegmentLinks | None) -> TranslatedPart:
        """Return a part of a line with its translation; with the placeholders that the search left out if the `links`
        of its words are known.
        """
        written, cleaned = one_line(segment.typed if part is None else self.tokenizers.target.decode(part.tokens))
        own = None if links is None else frozenset() if part is None else links[segment.text, part.tokens]
        return TranslatedPart(segment, part, written, self.surface.restore_part(segment, written, own), cleaned)

    def left_out(self, segment: Segment, part: Hypothesis) -> list[str]:
        """Return the placeholders of a segment that its translation lacks."""
        return self.surface.left_out(segment, self.text(part.tokens)) if segment.kept else []

    def needs_links(self, ways: Ways, options: SearchOptions) -> bool:
        """Return True if the words of these translations must be linked to those of their source."""
        if options.align or ways.line.pairs:
            return True
        terms = compiled(options.terms)
        return any(
            self.left_out(segment, part) or (options.terms and terms.missing(segment.text, self.text(part.tokens)))
            for segment, part in ways.pairs
        )

    def choose(
        self, hypotheses: Sequence[Sequence[Hypothesis]], options: SearchOptions
    ) -> list[tuple[Hypothesis, ...]]:
        """One hypothesis for each segment, as often as asked for: the best, best first; or as drawn."""
        if options.risk_samples is not None:
            return _combinations([least_risk(samples, self.text) for samples in hypotheses], options.n_best)
        if options.sampling is None:
            rated = [[Rated(one.score(options.length_penalty), one) for one in beam] for beam in hypotheses]
            return _combinations(rated, options.n_best)
        return list(zip(*hypotheses, strict=True)) if hypotheses else [()]

    def translation(
        self,
        line: Segment,
        chosen: Sequence[Sequence[Hypothesis]],
        options: SearchOptions,
        links: SegmentLinks | None = None,
    ) -> Translation:
        """Return the translation of a line: the first that was chosen, with the next best as alternatives. With
        `links`, its words are aligned.
        """
        words = [word for part in line.translated for word in self._unknown_words(part)]
        unknown = tuple(dict.fromkeys(words))
        best, *others = [self._assembled(line, parts, unknown, options, links) for parts in chosen]
        return dataclasses.replace(best, alternatives=tuple(others)) if others else best

    def _unknown_words(self, segment: Segment) -> list[str]:
        """Return the words of a segment that the vocabulary lacks, as typed and without what is kept in them."""
        words = self.tokenizers.source.unknown_words(segment.text, segment.ids)
        parts = [part for word in words for part in re.split(ANY_PLACEHOLDER, word) if part]
        typed = [re.search(re.escape(part), segment.typed, re.IGNORECASE) for part in parts]
        return [match[0] if match else part for match, part in zip(typed, parts, strict=True)]

    def scored(
        self, source: str, target: str, labels: Sequence[int], log_probs: Sequence[float], exponent: float
    ) -> Translation:
        """A given translation with the model's log-probabilities of its tokens."""
        return Translation(
            source=source,
            text=target,
            log_prob=sum(log_probs),
            score=sum(log_probs) / length_penalty(len(log_probs), exponent),
            tokens=tuple(self.tokenizers.target.tokens(labels)),
            token_log_probs=tuple(log_probs),
            unknown_words=tuple(self.tokenizers.source.unknown_words(source)),
        )

    def _assembled(
        self,
        line: Segment,
        parts: Sequence[Hypothesis],
        unknown_words: tuple[str, ...],
        options: SearchOptions,
        links: SegmentLinks | None,
    ) -> Translation:
        """Return a line's translation that is made of these hypotheses."""
        hypotheses = iter(parts)
        pieces = [self.piece(part, None if part.is_copied else next(hypotheses), links) for part in line.parts]
        if cleaned := sum(piece.cleaned for piece in pieces):
            logger.warning("%d control characters in a translation became spaces", cleaned)
        joined = self.surface.join(line, [piece.restored for piece in pieces])
        language, terms = self.surface.languages[1], compiled(options.terms)
        translation = Translation(
            source=line.original,
            text=self.surface.restore(line, joined),
            log_prob=sum((part.total for part in parts), 0.0),
            score=sum((part.score(options.length_penalty) for part in parts), 0.0),
            tokens=tuple(self.tokenizers.target.tokens([token for part in parts for token in part.tokens])),
            token_log_probs=tuple(log_prob for part in parts for log_prob in part.log_probs),
            unknown_words=unknown_words,
            rewritten=tuple((part.typed, readable(part.text)) for part in line.parts if part.text != part.typed),
            lost=tuple(text for piece in pieces for text in piece.lost(language)),
            unused_terms=tuple(term for piece in pieces if options.terms for term in piece.unused(terms)),
        )
        flags = self._flags(translation, pieces, options)
        translation = dataclasses.replace(translation, flags=(*line.flags, *flags))
        return self._aligned(translation, line, pieces, joined) if options.align and links is not None else translation

    def _flags(self, translation: Translation, pieces: Sequence[TranslatedPart], options: SearchOptions) -> list[Flag]:
        """Return the flags of a translation that is complete but for them."""
        translated = [(piece.segment, piece.part) for piece in pieces if piece.part is not None]
        least = DOUBTFUL_LOG_PROB if options.doubtful_below is None else options.doubtful_below
        flags: dict[Flag, bool] = {
            "truncated": not all(part.finished for _, part in translated),
            "repetition": any(repeats(segment.ids, part.tokens) for segment, part in translated),
            "doubtful": any(part.total < least * len(part.tokens) for _, part in translated),
            "cleaned": any(piece.cleaned for piece in pieces),
            "lost": bool(translation.lost),
            "term": bool(translation.unused_terms),
            "unknown": bool(translation.unknown_words),
            "language": any(self.detector.other(segment.typed) for segment, _ in translated),
        }
        return [flag for flag, is_set in flags.items() if is_set]

    def _aligned(
        self, translation: Translation, line: Segment, pieces: Sequence[TranslatedPart], joined: Restored
    ) -> Translation:
        """Return a translation with the links and log-probabilities of its words."""
        return dataclasses.replace(
            translation,
            alignment=tuple(sorted(joined.links or ())),
            source_words=tuple(split_words(line.typed)),
            target_words=tuple(split_words(joined.text)),
            word_log_probs=self._word_log_probs(line.prefix, pieces),
        )

    def _word_log_probs(self, prefix: str, pieces: Sequence[TranslatedPart]) -> tuple[float, ...]:
        """Return the lowest log-probability of each word of a line, whose pieces follow the prefix."""
        texts = [prefix, *(piece.restored.text for piece in pieces)]
        line = join(texts)
        _, *places = places_in_line(line, texts)
        lowest = [0.0] * len(split_words(line))
        for piece, numbers in zip(pieces, places, strict=True):
            if (part := piece.part) is None:
                continue
            put = matching_words(piece.written, piece.restored.text)
            for place, word in enumerate(words_written(self.tokenizers.target, part.tokens, piece.written)):
                if place in put and word.first < word.last:
                    number = numbers[put[place]]
                    lowest[number] = min(lowest[number], *part.log_probs[word.first : word.last])
        return tuple(lowest)


def least_risk(samples: Sequence[Hypothesis], text: Callable[[Sequence[int]], str]) -> list[Rated]:
    """One sample of each different text with its mean chrF against all samples, the best first: minimum Bayes risk
    (Eikema and Aziz 2020).

    Of samples with the same text the likeliest stands for them; of texts with the same value the likeliest comes first.
    """
    texts = [text(sample.tokens) for sample in samples]
    times = Counter(texts)
    likeliest = dict(sorted(zip(texts, samples, strict=True), key=lambda pair: pair[1].total))
    values = chrf(list(times)) @ np.array([*times.values()]) / len(samples)
    rated = [Rated(value, likeliest[text]) for text, value in zip(times, values.tolist(), strict=True)]
    return sorted(rated, key=lambda rated: (-rated.value, -rated.hypothesis.total))


def _combinations(choices: Sequence[Sequence[Rated]], wanted: int) -> list[tuple[Hypothesis, ...]]:
    """The best ways to take one hypothesis for each segment, by the sum of their values, best first."""
    ways: list[tuple[float, tuple[Hypothesis, ...]]] = [(0.0, ())]
    for rated in choices:
        longer = [(total + value, way, hypothesis) for total, way in ways for value, hypothesis in rated]
        best = sorted(longer, key=lambda one: -one[0])[:wanted]
        ways = [(total, (*way, hypothesis)) for total, way, hypothesis in best]
    return [way for _, way in ways]


def repeats(source: Sequence[int], target: Sequence[int]) -> bool:
    """Whether some run of tokens repeats in the target four times or more, and more often than in its source.

    >>> repeats([5, 6], [7, 8, 7, 8, 7, 8, 7, 8]), repeats([5, 5, 5, 5], [7, 7, 7, 7])
    (True, False)
    """
    loops = most_loops(target)
    return loops >= _LOOPS and loops > most_loops(source)


def most_loops(tokens: Sequence[int]) -> int:
    """How often a run of up to eight tokens follows itself at most, the first time included."""
    best = min(len(tokens), 1)
    for size in range(1, min(_LONGEST_LOOP, len(tokens) // 2) + 1):
        same = 0
        for i in range(size, len(tokens)):
            if tokens[i] != tokens[i - size]:
                same = 0
                continue
            same += 1
            best = max(best, same // size + 1)
    return best


def chrf(texts: Sequence[str]) -> Float[np.ndarray, "N N"]:
    """The sentence chrF of sacreBLEU (Popović 2015: characters without spaces, n-grams up to 6, beta 2) of each text
    (row), 0 to 100, with each text (column) as its reference.
    """
    bare = ["".join(text.split()) for text in texts]
    precision, recall, orders = (np.zeros((len(bare), len(bare))) for _ in range(3))
    for n in range(1, _LONGEST_NGRAM + 1):
        shared = _shared_ngrams(bare, n)
        count = shared.diagonal()
        both = (count[:, None] > 0) & (count > 0)  # an order that one text is too short for counts for neither
        precision += np.divide(shared, count[:, None], where=both, out=np.zeros_like(shared))
        recall += np.divide(shared, count, where=both, out=np.zeros_like(shared))
        orders += both
    precision, recall = precision / np.maximum(orders, 1), recall / np.maximum(orders, 1)
    weighed = _BETA**2 * precision + recall
    return 100 * (1 + _BETA**2) * precision * recall / np.where(weighed > 0, weighed, 1)


def _shared_ngrams(texts: Sequence[str], n: int) -> Float[np.ndarray, "N N"]:
    """How many n-grams each two texts share; each with itself, how many it has.

    The first "e" of a text, its second and so on are things of their own, which a text has or has not. So the sum over
    n-grams of the smaller count is a product of matrices of ones and zeros.
    """
    column: dict[tuple[str, int], int] = {}
    columns: list[list[int]] = []
    for text in texts:
        seen: Counter[str] = Counter()
        columns.append([])
        for first in range(len(text) - n + 1):
            ngram = text[first : first + n]
            seen[ngram] += 1
            columns[-1].append(column.setdefault((ngram, seen[ngram]), len(column)))
    has = np.zeros((len(texts), len(column)), np.float32)
    for row, ngrams in zip(has, columns, strict=True):
        row[ngrams] = 1
    return (has @ has.T).astype(np.float64)
