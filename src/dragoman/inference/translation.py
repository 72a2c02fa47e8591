"""Translations: the best hypotheses are chosen, joined into a line, restored and flagged."""

import dataclasses
import logging
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

import numpy as np

from dragoman.brief import brief
from dragoman.decoding.hypothesis import Hypothesis, length_penalty
from dragoman.inference.alignment import SegmentLinks
from dragoman.inference.options import SearchOptions
from dragoman.shapes import Float
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
"""Default and lowest value of `doubtful_below`, 13.5 % per token; below it are loops and meaningless words."""
DOUBTFUL_SHARE, MEASURED = 0.01, 100
"""Share of the translations of held-out text that are doubtful, and minimum number of translations to measure it."""

MEANINGS: dict[Flag, str] = {
    "split": "translated in several pieces, each by itself",
    "broken": "a sentence was longer than the model takes, and was cut into pieces",
    "copied": "text without words, or only with names and code, a message with branches (ICU), or a word of more than "
    f"{LONGEST_WORD} characters, was copied, not translated",
    "truncated": "the longest length allowed was reached before the translation ended",
    "repetition": "some words come four times or more in a row, and more often than in the source",
    "doubtful": "the model finds it unlikely: the mean log-probability of its tokens is below decode.doubtful_below",
    "cleaned": "control characters or line separators became spaces, or marks of another direction in the text were "
    "removed",
    "untranslatable": "there is text, but the tokenizer finds no token in it",
    "lost": "a name, a number, a sign or code of the source is not in the translation",
    "term": "the translation lacks a form of a term of the source, or holds it too seldom",
    "unknown": "the vocabulary does not hold a word of the source",
    "language": "the source, or a sentence of it, is in another language than the model reads",
    "left": "a text of a document stays as it is, because its right translation is out of reach",
}
"""Descriptions of the flags."""
HARMLESS = frozenset[Flag](("split", "copied"))
"""Flags that do not mean that the translation may be wrong."""

_OF_OUTPUT: tuple[Flag, ...] = ("truncated", "repetition", "doubtful", "cleaned")
_MISSING: tuple[Flag, ...] = ("lost", "term", "unknown")
"""Flags in the order in which a translation has them, before "language"."""
_LONGEST_LOOP = 8
"""Maximum tokens of a run that counts as repeated."""
_LOOPS = 4
"""Number of repetitions that are flagged."""
_LONGEST_NGRAM, _BETA = 6, 2.0
"""Parameters of chrF."""


@dataclass(frozen=True)
class Translation:
    """One text and its translation.

    Attributes:
        log_prob: natural logarithm of the translation's probability: the sum of `token_log_probs`.
        score: `log_prob` divided by the length penalty, summed over the segments. A search ranks translations by it;
            minimum Bayes risk ranks them by their similarity to all samples.
        tokens: tokens of the translation in readable form, with end symbols.
        token_log_probs: natural logarithm of each token's probability.
        flags: remarks for the reader; see `MEANINGS`.
        unknown_words: words of the source that are not in the vocabulary.
        alignment: pairs (source word, target word) in order, if `align` was requested. Words are counted from 0 over
            the whole line; a target word has at most one source word.
        source_words, target_words: the words in these pairs: words, elided articles and punctuation marks, without
            pairs of tags. Empty without `align`.
        word_log_probs: for each target word the lowest log-probability of its tokens; 0 if the word was copied.
        rewritten: (as typed, as read) for each sentence that was rewritten for the model.
        lost: names, numbers, signs and code of the source that are not in the translation.
        unused_terms: terms of the source whose forms are missing from the translation, or too few.
        alternatives: the next best translations, best first.
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
    """Return the mean log-probability per token that nearly all of these translations of held-out text reach; None if
    there are too few. This mean separates bad translations from good ones better than the least likely token does
    (benchmarks/flags.py).
    """
    means = [translation.log_prob / len(translation.tokens) for translation in translations if translation.tokens]
    if len(means) < MEASURED:
        return None
    return max(DOUBTFUL_LOG_PROB, round(float(np.quantile(means, DOUBTFUL_SHARE)), 2))


class ChosenHypotheses(NamedTuple):
    """The hypotheses that were chosen for a line."""

    line: Segment
    alternatives: Sequence[tuple[Hypothesis, ...]]
    """Translations of the line, best first: a hypothesis for every part that is translated."""

    @property
    def pairs(self) -> list[tuple[Segment, Hypothesis]]:
        """All parts with their hypotheses, one alternative after another."""
        parts = self.line.translated
        return [pair for hypotheses in self.alternatives for pair in zip(parts, hypotheses, strict=True)]


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
        return missing(self.restored.text, self.segment.kept, self.segment.text, language)

    def unused(self, terms: Terms) -> list[str]:
        """Return the source terms whose forms the translation lacks."""
        return [] if self.part is None else terms.missing(self.segment.text, self.restored.text)


class Rated(NamedTuple):
    """A hypothesis with its rating; higher is better."""

    value: float
    hypothesis: Hypothesis


class Writer:
    """A writer of translations from the hypotheses of one model."""

    def __init__(self, tokenizers: Tokenizers, surface: Surface) -> None:
        self.tokenizers, self.surface = tokenizers, surface
        self._detector = LanguageDetector([surface.languages[0]])
        self._symbols = len(surface.tags.before_target)  # that begin every translation, and are no text

    def text(self, ids: Sequence[int]) -> str:
        """Decode ids to one line of text, as the model writes it."""
        return one_line(self.tokenizers.target.decode(ids))[0]

    def settled_text(self, ids: Sequence[int]) -> str:
        """Decode the part of an unfinished text that no further token changes: all but its last word."""
        text = self.text(ids)
        for i in range(len(text) - 1, 0, -1):
            if text[i].isspace() or (spaceless(text[i - 1]) and i < len(text) - 1):
                return text[:i].rstrip()
        return ""

    def piece(self, segment: Segment, part: Hypothesis | None, links: SegmentLinks | None) -> TranslatedPart:
        """Return a part of a line with its translation. With `links`, missing placeholders are inserted."""
        written, cleaned = one_line(segment.typed if part is None else self.tokenizers.target.decode(part.tokens))
        own_links = None if links is None else frozenset() if part is None else links[segment.text, part.tokens]
        return TranslatedPart(segment, part, written, self.surface.restore_part(segment, written, own_links), cleaned)

    def left_out(self, segment: Segment, part: Hypothesis) -> list[str]:
        """Return the placeholders of a segment that its translation lacks."""
        return self.surface.left_out(segment, self.text(part.tokens)) if segment.kept else []

    def needs_links(self, chosen: ChosenHypotheses, options: SearchOptions) -> bool:
        """Return True if the words of these translations must be linked to those of their source."""
        if options.align or chosen.line.pairs:
            return True
        if not options.terms and not any(part.kept for part in chosen.line.parts):
            return False
        terms = compiled(options.terms)
        return any(
            self.left_out(segment, part) or (options.terms and terms.missing(segment.text, self.text(part.tokens)))
            for segment, part in chosen.pairs
        )

    def choose(
        self, hypotheses: Sequence[Sequence[Hypothesis]], options: SearchOptions
    ) -> list[tuple[Hypothesis, ...]]:
        """Choose the `n_best` translations of a line from its segments' hypotheses: best first, samples as drawn."""
        if options.risk_samples is not None:
            return _combinations([least_risk(samples, self.text) for samples in hypotheses], options.n_best)
        if all(len(alternatives) == 1 for alternatives in hypotheses):
            return [tuple(hypothesis for (hypothesis,) in hypotheses)]
        if options.sampling is None:
            exponent = options.length_penalty
            rated = [[Rated(hypothesis.score(exponent), hypothesis) for hypothesis in beam] for beam in hypotheses]
            return _combinations(rated, options.n_best)
        return list(zip(*hypotheses, strict=True)) if hypotheses else [()]

    def translation(
        self,
        line: Segment,
        chosen: Sequence[Sequence[Hypothesis]],
        options: SearchOptions,
        links: SegmentLinks | None = None,
    ) -> Translation:
        """Return the translation of a line: the first that was chosen, with the others as alternatives. With `links`,
        missing placeholders are inserted, and words aligned if requested.
        """
        words = [word for part in line.translated for word in self._unknown_words(part)]
        unknown = tuple(dict.fromkeys(words))
        best, *others = [self._assembled(line, parts, unknown, options, links) for parts in chosen]
        return dataclasses.replace(best, alternatives=tuple(others)) if others else best

    def _unknown_words(self, segment: Segment) -> list[str]:
        """Return the words of a segment that are not in the vocabulary, as they were typed and without placeholders."""
        words = self.tokenizers.source.unknown_words(segment.text, segment.ids)
        if not words:
            return []
        parts = [part for word in words for part in re.split(ANY_PLACEHOLDER, word) if part]
        typed = [re.search(re.escape(part), segment.typed, re.IGNORECASE) for part in parts]
        return [match[0] if match else part for match, part in zip(typed, parts, strict=True)]

    def scored(
        self, source: str, target: str, labels: Sequence[int], log_probs: Sequence[float], exponent: float
    ) -> Translation:
        """Return a given translation with the model's log-probabilities of its tokens."""
        return Translation(
            source=source,
            text=target,
            log_prob=sum(log_probs),
            score=sum(log_probs) / length_penalty(len(log_probs), exponent),
            tokens=tuple(self.tokenizers.target.tokens(labels[self._symbols :])),
            token_log_probs=tuple(log_probs[self._symbols :]),
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
        """Return the translation of a line from the hypotheses of its parts."""
        hypotheses = iter(parts)
        pieces = [self.piece(part, None if part.is_copied else next(hypotheses), links) for part in line.parts]
        joined = self.surface.join(line, [piece.restored for piece in pieces])
        lost, unused = self._missing(pieces, options)
        flags: list[Flag] = [*line.flags, *self._flags(pieces, options)]
        flags += compress(_MISSING, (lost, unused, unknown_words))
        if not all(self._is_in_language(part.typed) for part in line.translated):
            flags.append("language")
        translation = Translation(
            source=line.original,
            text=self.surface.restore(line, joined),
            log_prob=sum([part.total for part in parts], 0.0),
            score=sum([part.score(options.length_penalty) for part in parts], 0.0),
            tokens=tuple(
                self.tokenizers.target.tokens([id_ for part in parts for id_ in part.tokens[self._symbols :]])
            ),
            token_log_probs=tuple([log_prob for part in parts for log_prob in part.log_probs[self._symbols :]]),
            flags=tuple(dict.fromkeys(flags)),
            unknown_words=unknown_words,
            rewritten=tuple([(part.typed, readable(part.text)) for part in line.parts if part.text != part.typed]),
            lost=tuple(lost),
            unused_terms=tuple(unused),
        )
        if not options.align or links is None:
            return translation
        return dataclasses.replace(
            translation,
            alignment=tuple(sorted(joined.links or ())),
            source_words=tuple(split_words(line.typed)),
            target_words=tuple(split_words(joined.text)),
            word_log_probs=self._word_log_probs(line.prefix, pieces),
        )

    def _flags(self, pieces: Sequence[TranslatedPart], options: SearchOptions) -> Iterator[Flag]:
        """Return the flags of what the model wrote."""
        least = DOUBTFUL_LOG_PROB if options.doubtful_below is None else options.doubtful_below
        truncated = repetition = doubtful = False
        for segment, part, *_ in pieces:
            if part is not None:
                truncated = truncated or not part.finished
                repetition = repetition or repeats(segment.ids, part.tokens)
                doubtful = doubtful or part.total < least * len(part.tokens)
        if cleaned := sum([piece.cleaned for piece in pieces]):
            logger.warning("%d control characters in a translation became spaces", cleaned)
        return compress(_OF_OUTPUT, (truncated, repetition, doubtful, cleaned))

    def _missing(self, pieces: Sequence[TranslatedPart], options: SearchOptions) -> tuple[list[str], list[str]]:
        """Return what the translations lose of their sources, and the terms that they should contain."""
        lost = [text for piece in pieces if piece.segment.kept for text in piece.lost(self.surface.languages[1])]
        if not options.terms:
            return lost, []
        return lost, [term for piece in pieces for term in piece.unused(compiled(options.terms))]

    def _is_in_language(self, text: str) -> bool:
        """Return True if a text is in the language that the model reads; only unknown words can show the contrary."""
        return self.surface.plain_lines.knows(text) or self._detector.other(text) is None

    def _word_log_probs(self, prefix: str, pieces: Sequence[TranslatedPart]) -> tuple[float, ...]:
        """Return the lowest log-probability of the tokens of each word of a prefix and pieces; 0 of a copied word."""
        texts = [prefix, *(piece.restored.text for piece in pieces)]
        line = join(texts)
        _, *places = places_in_line(line, texts)
        lowest = [0.0] * len(split_words(line))
        for piece, numbers in zip(pieces, places, strict=True):
            if (part := piece.part) is None:
                continue
            restored = matching_words(piece.written, piece.restored.text)
            for place, word in enumerate(words_written(self.tokenizers.target, part.tokens, piece.written)):
                if place in restored and word.first < word.last:
                    number = numbers[restored[place]]
                    lowest[number] = min(lowest[number], *part.log_probs[word.first : word.last])
        return tuple(lowest)


def least_risk(samples: Sequence[Hypothesis], text: Callable[[Sequence[int]], str]) -> list[Rated]:
    """Score each different text by its mean chrF against all samples, best first: minimum Bayes risk (Eikema and Aziz
    2020). A text is represented by its most likely sample, which also decides ties.
    """
    texts = [text(sample.tokens) for sample in samples]
    times = Counter(texts)
    likeliest = dict(sorted(zip(texts, samples, strict=True), key=lambda pair: pair[1].total))
    values = chrf(list(times)) @ np.array([*times.values()]) / len(samples)
    rated = [Rated(value, likeliest[text]) for text, value in zip(times, values.tolist(), strict=True)]
    return sorted(rated, key=lambda rated: (-rated.value, -rated.hypothesis.total))


def _combinations(choices: Sequence[Sequence[Rated]], wanted: int) -> list[tuple[Hypothesis, ...]]:
    """Return the combinations of one hypothesis per segment with the highest sums of values, best first."""
    best: list[tuple[float, tuple[Hypothesis, ...]]] = [(0.0, ())]
    for rated in choices:
        longer = [(total + value, chosen, hypothesis) for total, chosen in best for value, hypothesis in rated]
        longer = sorted(longer, key=lambda combination: -combination[0])[:wanted]
        best = [(total, (*chosen, hypothesis)) for total, chosen, hypothesis in longer]
    return [chosen for _, chosen in best]


def repeats(source: Sequence[Hashable], target: Sequence[Hashable]) -> bool:
    """Return True if a run of tokens, or words, occurs four times or more in a row in the target, and more often than
    in its source.

    >>> repeats([5, 6], [7, 8, 7, 8, 7, 8, 7, 8]), repeats([5, 5, 5, 5], [7, 7, 7, 7])
    (True, False)
    """
    if len(target) - len({*target}) < _LOOPS - 1:
        return False
    loops = most_loops(target)
    return loops >= _LOOPS and loops > most_loops(source)


def most_loops(tokens: Sequence[object]) -> int:
    """Return the maximum number of times that a run of up to eight tokens, or words, occurs in a row."""
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
    """Compute the sentence chrF of sacreBLEU (Popović 2015: characters without spaces, n-grams up to 6, beta 2), from 0
    to 100, of each text (row) with each text (column) as its reference.
    """
    bare = ["".join(text.split()) for text in texts]
    precision, recall, orders = (np.zeros((len(bare), len(bare))) for _ in range(3))
    for n in range(1, _LONGEST_NGRAM + 1):
        shared = _shared_ngrams(bare, n)
        count = shared.diagonal()
        both = (count[:, None] > 0) & (count > 0)  # an n counts only if both texts have n-grams
        precision += np.divide(shared, count[:, None], where=both, out=np.zeros_like(shared))
        recall += np.divide(shared, count, where=both, out=np.zeros_like(shared))
        orders += both
    precision, recall = precision / np.maximum(orders, 1), recall / np.maximum(orders, 1)
    weighed = _BETA**2 * precision + recall
    return 100 * (1 + _BETA**2) * precision * recall / np.where(weighed > 0, weighed, 1)


def _shared_ngrams(texts: Sequence[str], n: int) -> Float[np.ndarray, "N N"]:
    """Count the n-grams that every two texts share; the diagonal holds the number of n-grams of each text.

    Texts share the smaller count of every n-gram. If the first "e" of a text, the second "e" and so on are different
    features, which a text has or not, the sum of these counts is a product of matrices of ones and zeros.
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
