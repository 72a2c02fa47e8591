"""Requests to the search for segments: ids with special symbols, the longest output, and forbidden tokens."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache

from dragoman.decoding.processors import (
    Ban,
    EachOnce,
    ForcedPrefix,
    LogitsProcessor,
    MinimumLength,
    NoRepeatedNgram,
    NotBlank,
)
from dragoman.decoding.request import Request
from dragoman.decoding.sampling import Sampling
from dragoman.errors import DecodeError
from dragoman.inference.banned_words import BannedWords, NoBannedEnd
from dragoman.inference.options import SearchOptions
from dragoman.surface.segment import Segment
from dragoman.surface.sentences import is_blank
from dragoman.surface.terms import compiled
from dragoman.surface.words import begins_in_word, ends_in_word
from dragoman.tokenizing.special_tokens import Framing
from dragoman.tokenizing.tokenizers import Tokenizers

Start = tuple[Segment, Sequence[int], int | None]
"""A segment, the first tokens of its translation, and the maximum number of tokens after them; None: the usual one."""


class RequestBuilder:
    """A builder of requests for one model.

    Attributes:
        positions: the number of positions of the model; None: no limit.
        before: the symbols that every translation begins with.
    """

    before: tuple[int, ...] = ()

    def __init__(self, tokenizers: Tokenizers, framing: Framing, positions: int | None) -> None:
        self.tokenizers, self.framing, self.positions = tokenizers, framing, positions
        placeholders = [*tokenizers.target.placeholders.values()]
        self._no_placeholder = [Ban(placeholders)] if placeholders else []
        self._each_once = lru_cache(1_024)(
            lambda tokens: EachOnce(tokens, [*tokenizers.target.placeholders.values()], framing.target_end)
        )
        self._common_processors = lru_cache(maxsize=64)(self._build_processors)
        self._check_forms = lru_cache(maxsize=8)(self._refuse_unwritable)
        self._banned_words = lru_cache(maxsize=8)(
            lambda phrases: BannedWords(phrases, tokenizers.target, framing.target_end)
        )

    def beginning_with(self, before: Sequence[int]) -> "RequestBuilder":
        """Return a builder for the same model, all of whose translations begin with these symbols."""
        _ = self._not_blank  # which both share
        builder = copy.copy(self)
        builder.before = tuple(before)
        builder._common_processors = lru_cache(maxsize=64)(builder._build_processors)
        return builder

    def longest_source(self, options: SearchOptions) -> int:
        """Return the maximum tokens of a segment, without the symbols around it."""
        if self.positions is None:
            return options.max_source_tokens
        return min(options.max_source_tokens, self.positions - self.framing.source_symbols)

    def of(self, lines: Sequence[Segment], options: SearchOptions) -> list[list[Request]]:
        """Build each line's requests, one for each translated part; raise `DecodeError` for unwritable options."""
        self._check_forms(options.terms)
        prefix, common, sampling = self._prefix(options), self._processors(options), options.sampling
        certain = len(self.before)
        usual = ForcedPrefix(self.before, certain=certain) if certain else None
        first = ForcedPrefix([*self.before, *prefix], certain=certain) if prefix else usual
        return [
            [
                self._request(part, options, common, sampling, first if part is line.parts[0] else usual)
                for part in line.translated
            ]
            for line in lines
        ]

    def continued(self, starts: Sequence[Start], options: SearchOptions, whole_words: bool = False) -> list[Request]:
        """Build requests that continue starts; with `whole_words`, no letter may follow the last word of a start."""
        common, sampling, requests = self._processors(options), options.sampling, list[Request]()
        for segment, prefix, further in starts:
            prefix = (*(self.before if tuple(prefix[: len(self.before)]) != self.before else ()), *prefix)
            ends_word = whole_words and prefix and ends_in_word(self.tokenizers.target.spelling(prefix[-1]))
            inside = self._inside_words if ends_word else ()
            forced = ForcedPrefix(prefix, inside, certain=len(self.before)) if prefix else None
            request = self._request(segment, options, common, sampling, forced)
            limit = request.limit if further is None else min(request.limit, len(prefix) + further)
            requests.append(replace(request, limit=limit))
        return requests

    def _request(
        self,
        segment: Segment,
        options: SearchOptions,
        common: Sequence[LogitsProcessor],
        sampling: Sampling | None,
        forced: ForcedPrefix | None,
    ) -> Request:
        ids = self.tokenizers.target.placeholders
        own = [ids[character] for character in segment.text if character in ids] if segment.is_rewritten else []
        placeholders = [self._each_once(tuple(own))] if own else self._no_placeholder
        prefix_tokens = len(forced.prefix) if forced else 0
        visible = [] if prefix_tokens > len(self.before) else [self._not_blank]
        processors = (*common, *([forced] if forced else []), *visible, *placeholders)
        longest = int(options.length_ratio * len(segment.ids)) + options.length_extra + prefix_tokens
        limit = max(longest, options.minimum_length + 1)
        limit = min(limit, self.positions or limit)
        if options.banned_words:
            processors = (*processors, NoBannedEnd(self._banned_words(options.banned_words), limit))
        return Request(
            self.framing.source(segment.ids),
            limit,
            options.beam_size if sampling is None else 1,
            options.n_best if sampling is None else 1,
            options.length_penalty,
            processors,
            sampling,
            early_stopping=options.early_stopping,
        )

    def _processors(self, options: SearchOptions) -> Sequence[LogitsProcessor]:
        """Return the processors for all segments. Equal options share them, and a step calls each only once."""
        return self._common_processors(
            options.allow_unknown, options.minimum_length, options.no_repeat_ngram, options.banned_words
        )

    def _build_processors(
        self, allow_unknown: bool, minimum_length: int, no_repeat_ngram: int | None, banned_words: tuple[str, ...]
    ) -> Sequence[LogitsProcessor]:
        unknown = [] if allow_unknown else [self.tokenizers.target.unknown]
        languages = filter(self.tokenizers.target.is_special, self.tokenizers.target.languages.values())
        banned = {*self.framing.suppressed_ids, *unknown, *languages}
        processors: list[LogitsProcessor] = [Ban(sorted(banned))]
        if minimum_length:
            processors.append(MinimumLength(minimum_length + len(self.before), self.framing.target_end))
        if no_repeat_ngram is not None:
            processors.append(NoRepeatedNgram(no_repeat_ngram))
        if banned_words:
            processors.append(self._banned_words(banned_words))
        return processors

    @cached_property
    def _not_blank(self) -> NotBlank:
        target = self.tokenizers.target
        invisible = {token for token in range(target.size) if target.is_special(token) and not target.decode([token])}
        spellings = [b"" if token in invisible else target.spelling(token) for token in range(target.size)]
        return NotBlank(spellings, self.framing.target_end, is_blank)

    @cached_property
    def _inside_words(self) -> list[int]:
        """Tokens that continue a word."""
        target = self.tokenizers.target
        return [i for i in range(target.size) if target.is_text(i) and begins_in_word(target.spelling_in_line(i))]

    def _refuse_unwritable(self, terms: tuple[tuple[str, ...], ...]) -> None:
        """Raise `DecodeError` for a form of a term that the vocabulary cannot write."""
        target = self.tokenizers.target
        forms = [form for forms in compiled(terms).forms for form in forms]
        for form, ids in zip(forms, target.encode_batch(forms), strict=True):
            if target.unknown in ids or not ids:
                words = ", ".join(target.unknown_words(form)) or "all of it"
                raise DecodeError(f"decode.terms: the vocabulary cannot write the form {form!r}; it lacks {words}")

    def _prefix(self, options: SearchOptions) -> list[int]:
        """Encode the beginning of every translation; raise `DecodeError` if it cannot or may not be written."""
        target = self.tokenizers.target
        ids = target.encode(options.prefix) if options.prefix else []
        if target.unknown in ids and not options.allow_unknown:
            words = ", ".join(target.unknown_words(options.prefix))
            raise DecodeError(f"prefix holds words that the vocabulary does not: {words}; choose others")
        held = self._banned_words(options.banned_words).held_by(options.prefix) if options.banned_words else None
        if held is not None:
            raise DecodeError(f"prefix holds {held!r}, which decode.banned_words forbids")
        size = options.no_repeat_ngram or len(ids) + 1
        runs = [tuple(ids[i : i + size]) for i in range(len(ids) - size + 1)]
        if len(set(runs)) < len(runs):
            raise DecodeError(f"prefix repeats a run of {size} tokens, which decode.no_repeat_ngram = {size} forbids")
        most = self.positions or len(ids) + options.minimum_length + 1
        if max(len(ids), options.minimum_length) >= most:
            raise DecodeError(
                f"the model writes at most {most:,} tokens; shorten decode.prefix or lower decode.minimum_length"
            )
        return ids
