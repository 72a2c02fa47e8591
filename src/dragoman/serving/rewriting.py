"""Alternatives to a word of a translation, and translations that continue after one of them.

    alternative, *_ = other_words(translator, "Where is the station?", "Dov'è la stazione?", 2, translator.options)
    rewritten(translator, "Where is the station?", alternative.prefix, translator.options).text

A text is translated line by line and sentence by sentence, so a translation is first divided among the sentences of its
source. The displayed text is converted to the model's output, with placeholders and the letters of its training text.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import NamedTuple

from dragoman.decoding.hypothesis import Hypothesis
from dragoman.errors import DecodeError
from dragoman.formats.document import lines_in, with_lines
from dragoman.inference.options import SearchOptions
from dragoman.inference.texts import joined
from dragoman.inference.translation import Translation
from dragoman.inference.translator import Translator
from dragoman.surface.letters import capitalised
from dragoman.surface.masking import mask
from dragoman.surface.segment import Context, Segment
from dragoman.surface.sentences import join, spaces_around, split_sentences
from dragoman.surface.words import places_of_words

BEGINNINGS, LONGEST = 16, 24
"""Number of first tokens to try for an alternative, and maximum number of further tokens to complete the word."""
TOO_LONG = 4
"""Maximum length of a prefix as a multiple of the longest output, because another tokenisation may be longer."""
WORDS = 8
"""Maximum number of alternatives for a word."""
_LINE_END = re.compile(r"[\r\n]")


class OtherWord(NamedTuple):
    """Alternative to a word.

    Attributes:
        probability: product of its tokens' probabilities, given the text before. The model may continue with a longer
            word, so the probabilities of all words may add up to more than 1.
        prefix: the translation up to and including this word.
    """

    word: str
    probability: float
    prefix: str


def rewritten(translator: Translator, text: str, prefix: str, options: SearchOptions) -> Translation:
    """Return the translation of a text that begins with `prefix`; `DecodeError` if the model cannot write it.

    Complete lines and sentences of the prefix are kept, and the last sentence is continued.
    """
    prefix_lines = _LINE_END.split(prefix)
    translations = iter(translator.translate(lines_in(text), options, progress=False))
    parts: list[Translation] = []
    for number, line in enumerate(_LINE_END.split(text)):
        for core in lines_in(line):
            translation = next(translations)
            line_prefix = prefix_lines[number].strip() if number < len(prefix_lines) else ""
            if line_prefix not in ("", translation.text):
                is_whole = number < len(prefix_lines) - 1
                translation = _TranslatedLine(translator, core, options).rewritten(line_prefix, is_whole)
            parts.append(translation)
    whole = joined(text, parts, partial(with_lines, text))
    if not "".join(whole.text.split()).startswith("".join(prefix.split())):
        raise DecodeError(f"the model cannot write a translation that begins with {prefix[:100]!r}")
    return whole


def other_words(
    translator: Translator, text: str, translation: str, word: int, options: SearchOptions
) -> list[OtherWord]:
    """Return alternatives to a word of this translation, with the word itself, the most probable first.

    Words are numbered as in `Translation.target_words`. One that is missing, copied or among tags is a `DecodeError`.
    """
    line_start, left = 0, word
    for line, written in zip(_LINE_END.split(text), _LINE_END.split(translation), strict=False):
        for core in lines_in(line):
            places = places_of_words(written)
            if 0 <= left < len(places):
                alternatives = _TranslatedLine(translator, core, options).words(written, *places[left])
                before = translation[:line_start]
                return [alternative._replace(prefix=before + alternative.prefix) for alternative in alternatives]
            left -= len(places)
        line_start += len(written) + 1
    raise DecodeError(f"the translation has no word with the number {word}")


class _TranslatedLine:
    """Line of a text with its segments and their translations."""

    def __init__(self, translator: Translator, line: str, options: SearchOptions) -> None:
        self._translator, self._options = translator, options
        self._surface = translator.surface
        (self._line,) = translator.read([line], options)
        self._segments = self._line.parts
        if self._line.pairs:
            raise DecodeError("a line with tags is translated as a whole; remove them to choose its words")

    @cached_property
    def _own(self) -> list[Translation]:
        """The model's translation of each segment without a prefix."""
        return self._translator.translate([segment.typed for segment in self._segments], self._options, progress=False)

    def rewritten(self, prefix: str, is_whole: bool) -> Translation:
        """Return the translation that begins with `prefix`, or equals it if `is_whole`."""
        shares = self._shares(prefix)
        parts = [self._part(n, share, is_whole or n < len(shares) - 1) for n, share in enumerate(shares)]
        parts += self._own[len(parts) :] if len(parts) < len(self._segments) else []
        return joined(self._line.original, parts, lambda texts: join(texts, spaces_around(self._line)))

    def words(self, translation: str, begin: int, end: int) -> list[OtherWord]:
        """Return alternatives to the word from `begin` to `end` of a translation."""
        places: list[tuple[int, Segment, str]] = []
        start = 0
        for segment, share in zip(self._segments, self._shares(translation), strict=False):
            start = translation.index(share, start)
            places.append((start, segment, share))
            start += len(share)
        start, segment, share = next(place for place in reversed(places) if place[0] <= begin)
        begin, end = begin - start, end - start
        before, word = share[:begin].rstrip(), share[begin:end]
        is_around = not len(segment.before) <= begin < len(share) - len(segment.after)
        if segment.is_copied or is_around or _is_kept(segment, share, begin):
            raise DecodeError(f"{word!r} is copied from the source, so it has no alternatives")
        ids = self._tokens(segment, before)
        wide = self._options.searching(beam_size=BEGINNINGS, n_best=BEGINNINGS, terms=())
        narrow = wide.but(beam_size=1, n_best=1)
        firsts = [first for first in self._search([(segment, ids)], wide, 1) if len(first.tokens) > len(ids)]
        unfinished = [(segment, first.tokens) for first in firsts if not first.finished]
        enough = len(places_of_words(before)) + 1  # a word is complete when another one follows it
        hypotheses = self._search(
            unfinished, narrow, LONGEST, lambda ids: len(places_of_words(self._shown(segment, list(ids)))) > enough
        )
        words = filter(None, (self._word(segment, before, len(ids), hypothesis) for hypothesis in hypotheses))
        by_word = {choice.word: choice for choice in sorted(words, key=lambda choice: choice.probability)}
        if word not in by_word:
            (same,) = self._search([(segment, self._tokens(segment, share[:end]))], narrow, 0)
            log_prob = same.total - sum(firsts[0].log_probs[: len(ids)] if firsts else ())
            by_word[word] = OtherWord(word, math.exp(min(0.0, log_prob)), share[:end])
        best = sorted(by_word.values(), key=lambda choice: (choice.word != word, -choice.probability))[:WORDS]
        best.sort(key=lambda choice: -choice.probability)
        return [alternative._replace(prefix=translation[:start] + alternative.prefix) for alternative in best]

    def _shares(self, translation: str) -> list[str]:
        """Divide a translation, or its beginning, among the segments; a changed sentence is recognised by its end."""
        shares: list[str] = []
        rest = translation.strip()
        for number, segment in enumerate(self._segments[:-1]):
            if not rest:
                break
            share = self._own[number].text
            if not rest.startswith(share) or rest[len(share) :][:1].isalnum():
                count = 0 if segment.is_copied else len(split_sentences(share))
                share = "".join(split_sentences(rest)[:count])
            shares.append(share.rstrip())
            rest = rest[len(share) :].lstrip()
        return [*shares, rest] if rest else shares

    def _part(self, number: int, share: str, is_whole: bool) -> Translation:
        """Return a translation of one segment: it begins with `share`, or with `is_whole` it is exactly `share`."""
        segment = self._segments[number]
        if not share or segment.is_copied or (len(self._segments) > 1 and share == self._own[number].text):
            return self._own[number]
        ids = self._tokens(segment, share, is_whole)
        line = self._line._replace(typed=segment.typed, original=segment.typed, parts=(segment,), flags=())
        return self._translator.continued(
            line, self._translator.framing.labels(ids) if is_whole else ids, self._options
        )

    def _tokens(self, segment: Segment, text: str, is_whole: bool = False) -> list[int]:
        """Return the model's tokens of a prefix of a segment's translation, or of all of it if `is_whole`."""
        written: str | None = text
        if segment.is_rewritten:
            before = self._restored(segment, "1", is_whole=False).removesuffix("1").rstrip()
            bare = mask(text.removeprefix(before).lstrip(), segment.kept)
            spellings = self._spellings(bare)
            matching = (plain for plain in spellings if self._restored(segment, plain, is_whole) == text)
            written = next(matching, None) if bare else ""
        if written is None:
            raise DecodeError(f"{text[-100:]!r} has another form than its source, so the model cannot continue it")
        tokenizer = self._translator.tokenizers.target
        ids = [*self._translator.requests.before, *(tokenizer.encode(written) if written else ())]
        if tokenizer.unknown in ids and not self._options.allow_unknown:
            words = ", ".join(tokenizer.unknown_words(written))
            raise DecodeError(f"{words} is not in the vocabulary, so the model cannot continue it")
        longest = int(self._options.length_ratio * len(segment.ids)) + self._options.length_extra
        if len(ids) > TOO_LONG * longest:
            raise DecodeError(f"the text beginning with {text[:50]!r} has {len(ids):,} tokens, too many for its source")
        return ids

    def _spellings(self, text: str) -> Iterator[str]:
        """Yield texts that the model may have written where this text is displayed."""
        rewritten = self._surface.opposite.rewritten(Segment.from_typed(text), Context(longest=0))
        if rewritten.is_rewritten:
            yield rewritten.text
            yield rewritten.text[:-1].rstrip()  # without the added mark at the end of a sentence
        yield capitalised(text, self._translator.languages.target)
        yield text

    def _search(
        self,
        beginnings: Sequence[tuple[Segment, Sequence[int]]],
        options: SearchOptions,
        further: int,
        stops: Callable[[Sequence[int]], bool] | None = None,
    ) -> list[Hypothesis]:
        """Search from the beginnings for `further` tokens; return all hypotheses."""
        starts = [(*beginning, further) for beginning in beginnings]
        requests = self._translator.requests.continued(starts, options)
        requests = [replace(request, stops=stops) for request in requests]
        n_best_lists = self._translator.search.hypotheses(requests, options)
        return [hypothesis for n_best in n_best_lists for hypothesis in n_best]

    def _word(self, segment: Segment, before: str, start: int, hypothesis: Hypothesis) -> OtherWord | None:
        """Return the word that a hypothesis writes after `before`, its first `start` tokens.

        Return None if it does not continue `before` with a complete word, or if that word is kept from the source.
        """
        tokens = hypothesis.tokens
        texts = [self._shown(segment, tokens[:count]) for count in range(start + 1, len(tokens) + 1)]
        text, number = texts[-1], len(places_of_words(before))
        places = places_of_words(text)
        is_continued = text.startswith(before) and places[:number] == places_of_words(before)
        if not is_continued or len(places) <= number + (not hypothesis.finished):
            return None
        begin, end = places[number]
        if _is_kept(segment, text, begin):
            return None
        count = next(count for count, shorter in enumerate(texts, 1) if shorter[:end] == text[:end])
        return OtherWord(text[begin:end], math.exp(sum(hypothesis.log_probs[start : start + count])), text[:end])

    def _shown(self, segment: Segment, tokens: Sequence[int]) -> str:
        return self._restored(segment, self._translator.writer.text(tokens), is_whole=False)

    def _restored(self, segment: Segment, text: str, is_whole: bool) -> str:
        return self._surface.restore_part(segment, text, is_whole=is_whole).text


def _is_kept(segment: Segment, text: str, place: int) -> bool:
    """Return True if the word at this place of a translation belongs to a name, number or code of its source."""
    names = segment.kept.values()
    return any(0 <= (first := text.find(name)) <= place < first + len(name) for name in names)
