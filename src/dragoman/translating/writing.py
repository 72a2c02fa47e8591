"""Hypotheses in, text out: one line for each text, its scores, and what a reader should know about it."""

import dataclasses
import logging
import re
from collections.abc import Sequence
from typing import NamedTuple

from dragoman.aligning.words import split_words
from dragoman.decoding.hypothesis import Hypothesis, length_penalty
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.translating.alignment import SegmentLinks, line_links
from dragoman.translating.options import SearchOptions
from dragoman.translating.risk import Rated, least_risk
from dragoman.translating.segments import Segments
from dragoman.translating.sentences import join, spaceless
from dragoman.translating.translation import DOUBTFUL_LOG_PROB, Flag, Translation, repeats

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
