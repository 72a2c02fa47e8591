"""What the search is asked for each segment: its ids and their symbols, its longest output, what it may not write."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache

from dragoman.decoding.engine import Result
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.processors import Ban, ForcedPrefix, LogitsProcessor, MinimumLength, NoRepeatedNgram, NotBlank
from dragoman.decoding.request import Request
from dragoman.errors import DecodeError
from dragoman.inference.banned_words import BannedWords, NoBannedEnd
from dragoman.inference.options import SearchOptions
from dragoman.inference.segments import Segment, Segments
from dragoman.tokenizing.special_tokens import Framing
from dragoman.tokenizing.tokenizers import Tokenizers


class Requests:
    """Makes the requests of one model, which has this many `positions`; None if it has no limit."""

    def __init__(self, tokenizers: Tokenizers, framing: Framing, positions: int | None) -> None:
        self.tokenizers, self.framing, self.positions = tokenizers, framing, positions
        self._banned_words = lru_cache(maxsize=8)(self._ban)

    def longest_source(self, options: SearchOptions) -> int:
        """The most tokens of a segment, not counting the symbols around it."""
        if self.positions is None:
            return options.max_source_tokens
        return min(options.max_source_tokens, self.positions - self.framing.source_symbols)

    def of(self, texts: Sequence[Segments], options: SearchOptions) -> list[list[Request]]:
        """The requests of each text, one for each segment that is translated.

        Raises:
            DecodeError: the prefix is longer than the model writes, repeats itself, or holds unknown words.
        """
        prefix, rules = self._prefix(options), tuple(self._rules(options))
        forced = (*rules, ForcedPrefix(prefix))
        speaking = (*rules, self._not_blank)

        def request(segment: Segment, first: bool) -> Request:
            if first and prefix:
                return self._request(segment, options, forced, len(prefix))
            return self._request(segment, options, speaking if segment.says_something else rules)

        return [[request(each, each is text.all[0]) for each in text.translated] for text in texts]

    def _request(
        self, segment: Segment, options: SearchOptions, rules: tuple[LogitsProcessor, ...], prefix_tokens: int = 0
    ) -> Request:
        longest = int(options.length_ratio * len(segment.ids)) + options.length_extra + prefix_tokens
        limit = max(longest, options.minimum_length + 1)
        limit = min(limit, self.positions or limit)
        sampling = options.sampling
        return Request(
            self.framing.source(segment.ids),
            limit,
            options.beam_size if sampling is None else 1,
            options.n_best if sampling is None else 1,
            options.length_penalty,
            (*rules, *self._rules_of_end(options, limit)),
            sampling,
            early_stopping=options.early_stopping,
        )

    def _rules(self, options: SearchOptions) -> list[LogitsProcessor]:
        """What no segment may write."""
        unknown = [] if options.allow_unknown else [self.tokenizers.target.unknown]
        rules: list[LogitsProcessor] = [Ban([*self.framing.never_written, *unknown])]
        if options.minimum_length:
            rules.append(MinimumLength(options.minimum_length, self.framing.target_end))
        if options.no_repeat_ngram is not None:
            rules.append(NoRepeatedNgram(options.no_repeat_ngram))
        if options.banned_words:
            rules.append(self._banned_words(options.banned_words))
        return rules

    def _rules_of_end(self, options: SearchOptions, limit: int) -> Iterator[LogitsProcessor]:
        """What an output may not end in where it is cut."""
        if options.banned_words:
            yield NoBannedEnd(self._banned_words(options.banned_words), limit)

    def _ban(self, phrases: tuple[str, ...]) -> BannedWords:
        return BannedWords(phrases, self.tokenizers.target, self.framing.target_end)

    @cached_property
    def _not_blank(self) -> NotBlank:
        target, end = self.tokenizers.target, self.framing.target_end
        blank = [token for token in range(target.size) if token != end and _is_blank(target.decode([token]))]
        return NotBlank(blank, end, target.size)

    def _prefix(self, options: SearchOptions) -> list[int]:
        """The ids that every translation begins with."""
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


class Asked:
    """The requests of many lines in one sequence, in which a request's place is its ticket."""

    def __init__(self, lines: Sequence[Sequence[Request]], samples: int) -> None:
        """`lines` holds the requests of each; one that draws is asked `samples` times."""
        self.requests: list[Request] = []
        self._tickets: list[list[range]] = []  # of each line, of each of its segments
        for own in lines:
            self._tickets.append([])
            for request in own:
                first = len(self.requests)
                self.requests += request.samples(samples)
                self._tickets[-1].append(range(first, len(self.requests)))

    def complete(self, ends: Iterable[Result]) -> Iterator[tuple[int, list[list[Hypothesis]]]]:
        """Each line as soon as all of its requests have ended: its number, and what was found for each segment.

        Raises:
            Exception: a request failed by this error.
        """
        line_of = [number for number, own in enumerate(self._tickets) for part in own for _ in part]
        left = Counter(line_of)
        found: dict[int, list[Hypothesis]] = {}
        yield from ((number, []) for number in range(len(self._tickets)) if not left[number])
        for end in ends:
            found[end.ticket] = end.hypotheses
            number = line_of[end.ticket]
            left[number] -= 1
            if not left[number]:
                yield (
                    number,
                    [[each for ticket in part for each in found.pop(ticket)] for part in self._tickets[number]],
                )


def _is_blank(text: str) -> bool:
    """Whether nothing of a text is visible: it holds only white space, control and format characters."""
    return all(unicodedata.category(character) in ("Zs", "Zl", "Zp", "Cc", "Cf") for character in text)
