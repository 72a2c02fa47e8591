"""Minimum Bayes risk: of all that a model draws, what is most like everything it draws (Eikema and Aziz 2020).

Likeness is the sentence chrF of sacreBLEU (Popović 2015: characters without spaces, n-grams up to 6, beta 2), counted
for all pairs of texts at once.

Hypotheses in, text out: one line for each text, its scores, and what a reader should know about it.
"""

import dataclasses
import logging
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from dragoman.decoding.hypothesis import Hypothesis, length_penalty
from dragoman.inference.alignment import SegmentLinks, line_links, split_words
from dragoman.inference.options import SearchOptions
from dragoman.inference.segments import Segments
from dragoman.inference.sentences import join, spaceless
from dragoman.inference.translation import DOUBTFUL_LOG_PROB, Flag, Translation, repeats
from dragoman.tokenizing.tokenizers import Tokenizers

_LONGEST_NGRAM = 6
_BETA = 2.0


class Rated(NamedTuple):
    """A hypothesis and what it is chosen by; more is better."""

    value: float
    hypothesis: Hypothesis


def least_risk(samples: Sequence[Hypothesis], text: Callable[[Sequence[int]], str]) -> list[Rated]:
    """One sample of each different text with its mean chrF against all samples, the best first.

    Of samples with the same text the likeliest stands for them; of texts with the same value the likeliest comes first.
    """
    texts = [text(each.tokens) for each in samples]
    times = Counter(texts)
    likeliest = dict(sorted(zip(texts, samples, strict=True), key=lambda pair: pair[1].total))
    values = chrf(list(times)) @ np.array([*times.values()]) / len(samples)
    rated = [Rated(value, likeliest[text]) for text, value in zip(times, values.tolist(), strict=True)]
    return sorted(rated, key=lambda each: (-each.value, -each.hypothesis.total))


def chrf(texts: Sequence[str]) -> Float[np.ndarray, "N N"]:
    """The chrF of each text (row), 0 to 100, with each text (column) as its reference."""
    bare = ["".join(text.split()) for text in texts]
    precision, recall, orders = (np.zeros((len(bare), len(bare))) for _ in range(3))
    for n in range(1, _LONGEST_NGRAM + 1):
        shared = _shared_ngrams(bare, n)
        count = shared.diagonal()
        both = (count[:, None] > 0) & (count > 0)  # an order that one text is too short for counts for neither
        precision += np.divide(shared, count[:, None], where=both, out=np.zeros_like(shared))
        recall += np.divide(shared, count, where=both, out=np.zeros_like(shared))
        orders += both
    precision, recall = (each / np.maximum(orders, 1) for each in (precision, recall))
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
    for row, own in zip(has, columns, strict=True):
        row[own] = 1
    return (has @ has.T).astype(np.float64)


logger = logging.getLogger(__name__)

# One line in, one line out: NUL, and whatever any program might take for the end of a line.
_BREAKS = re.compile("[\0\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


class Writer:
    """Writes translations in the words of one model's tokenizers."""

    def __init__(self, tokenizers: Tokenizers) -> None:
        self.tokenizers = tokenizers

    def text(self, ids: Sequence[int]) -> str:
        """Ids as one line of text."""
        return one_line(self.tokenizers.target.decode(ids))[0]

    def settled_text(self, ids: Sequence[int]) -> str:
        """The beginning of an unfinished text that no further token changes: all but the word it ends in."""
        text = self.text(ids)
        for i in range(len(text) - 1, 0, -1):
            if text[i].isspace() or (spaceless(text[i - 1]) and i < len(text) - 1):
                return text[:i].rstrip()
        return ""

    def translation(
        self,
        segments: Segments,
        chosen: Sequence[Sequence[Hypothesis]],
        options: SearchOptions,
        links: SegmentLinks | None = None,
    ) -> Translation:
        """One text's translation: the first that was chosen, with the next best beside it. With `links`, aligned."""
        known = self.tokenizers.source.unknown_words
        unknown = tuple(dict.fromkeys(word for each in segments.translated for word in known(each.text, each.ids)))
        best, *others = [self._joined(segments, parts, unknown, options, links) for parts in chosen]
        return dataclasses.replace(best, alternatives=tuple(others)) if others else best

    def choose(self, found: Sequence[Sequence[Hypothesis]], options: SearchOptions) -> list[tuple[Hypothesis, ...]]:
        """One hypothesis for each segment, as often as asked for: the best, best first; or as drawn."""
        if options.risk_samples is not None:
            return _combinations([least_risk(each, self.text) for each in found], options.n_best)
        if options.sampling is None:
            rated = [[Rated(each.score(options.length_penalty), each) for each in own] for own in found]
            return _combinations(rated, options.n_best)
        return list(zip(*found, strict=True)) if found else [()]

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

    def _joined(
        self,
        segments: Segments,
        parts: Sequence[Hypothesis],
        unknown: tuple[str, ...],
        options: SearchOptions,
        links: SegmentLinks | None,
    ) -> Translation:
        """The translation that has these parts."""
        texts, cleaned = self._texts(segments, parts)
        prefix = options.prefix.strip() if segments.begins_with_copy else ""
        ids = [token for part in parts for token in part.tokens]
        text = join([prefix, *texts])
        aligned = links is not None
        return Translation(
            source=segments.text,
            text=text,
            log_prob=sum((part.total for part in parts), 0.0),
            score=sum((part.score(options.length_penalty) for part in parts), 0.0),
            tokens=tuple(self.tokenizers.target.tokens(ids)),
            token_log_probs=tuple(log_prob for part in parts for log_prob in part.log_probs),
            flags=(*segments.flags, *_flags(segments, parts, cleaned)),
            unknown_words=unknown,
            alignment=line_links(segments, parts, prefix, texts, links) if aligned else (),
            source_words=tuple(split_words(segments.text)) if aligned else (),
            target_words=tuple(split_words(text)) if aligned else (),
        )

    def _texts(self, segments: Segments, parts: Sequence[Hypothesis]) -> tuple[list[str], bool]:
        """The text of each segment, and whether a character had to be replaced."""
        each = iter(parts)
        written = [
            one_line(segment.text if segment.copied else self.tokenizers.target.decode(next(each).tokens))
            for segment in segments.all
        ]
        cleaned = sum(count for _, count in written)
        if cleaned:
            logger.warning("%d control characters in a translation became spaces", cleaned)
        return [text for text, _ in written], cleaned > 0


def _flags(segments: Segments, parts: Sequence[Hypothesis], cleaned: bool) -> list[Flag]:
    translated = zip(segments.translated, parts, strict=True)
    flags: dict[Flag, bool] = {
        "truncated": not all(part.ended for part in parts),
        "repetition": any(repeats(segment.ids, part.tokens) for segment, part in translated),
        "doubtful": any(part.total < DOUBTFUL_LOG_PROB * len(part.tokens) for part in parts),
        "cleaned": cleaned,
    }
    return [flag for flag, is_so in flags.items() if is_so]


class _Path(NamedTuple):
    """One hypothesis for each of the segments so far: the last of them, and the path to it."""

    value: float
    last: Hypothesis | None = None
    before: "_Path | None" = None

    def hypotheses(self) -> tuple[Hypothesis, ...]:
        found, path = [], self
        while path.before is not None:
            found.append(path.last)
            path = path.before
        return tuple(reversed(found))


def _combinations(found: Sequence[Sequence[Rated]], wanted: int) -> list[tuple[Hypothesis, ...]]:
    """The best ways to take one hypothesis for each segment, by the sum of their values, best first."""
    best = [_Path(0.0)]
    for rated in found:
        longer = (_Path(path.value + value, each, path) for path in best for value, each in rated)
        best = sorted(longer, key=lambda path: -path.value)[:wanted]
    return [path.hypotheses() for path in best]


def one_line(text: str) -> tuple[str, int]:
    """A text as one line, and how many characters became spaces for it."""
    text, count = _BREAKS.subn(" ", text)
    return text.strip(), count
