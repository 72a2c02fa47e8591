"""Other words for a place in a translation, and the translation that goes on from one of them.

    other, *_ = other_words(translator, "Where is the station?", "Dov'è la stazione?", 2, translator.options)
    rewritten(translator, "Where is the station?", other.prefix, translator.options).text

A text is translated line by line and sentence by sentence, so a translation is first shared out among the sentences of
its source. What a person sees becomes what the model writes, with placeholders and the letters of its training text.
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
from dragoman.inference.translation import Translation
from dragoman.inference.translator import Translator
from dragoman.serving.service import joined
from dragoman.surface.letters import capitalised
from dragoman.surface.protection import hide
from dragoman.surface.segment import Context, Segment
from dragoman.surface.sentences import join, spaces_around, split_sentences
from dragoman.surface.words import places_of_words

BEGINNINGS, LONGEST = 16, 24
"""How many tokens are tried as the beginning of another word, and by how many more at most it becomes whole."""
TOO_LONG = 4
"""How many times as long as the model's longest output the beginning of a sentence may be. It may be longer than that,
because another tokenisation of the same text can be."""
WORDS = 8
"""Most words for one place."""
_LINE_END = re.compile(r"[\r\n]")


class OtherWord(NamedTuple):
    """A word that could stand at a place.

    Attributes:
        probability: that of its tokens, one after another, after what stands before them. The model may go on with a
            longer word, so the probabilities of all words may have a sum above 1.
        prefix: the translation up to and with this word.
    """

    word: str
    probability: float
    prefix: str


def rewritten(translator: Translator, text: str, prefix: str, options: SearchOptions) -> Translation:
    """The translation of a text that begins so. The lines and sentences that the prefix holds whole stay, and the
    sentence in which it ends goes on from there.

    Raises:
        DecodeError: the model cannot write this, or tags stand in a line of it.
    """
    fixed = _LINE_END.split(prefix)
    usual = iter(translator.translate(lines_in(text), options, progress=False))
    parts: list[Translation] = []
    for number, line in enumerate(_LINE_END.split(text)):
        for core in lines_in(line):
            own, begun = next(usual), fixed[number].strip() if number < len(fixed) else ""
            if begun not in ("", own.text):
                own = _Line(translator, core, options).rewritten(begun, number < len(fixed) - 1)
            parts.append(own)
    whole = joined(text, parts, partial(with_lines, text))
    if not "".join(whole.text.split()).startswith("".join(prefix.split())):
        raise DecodeError(f"the model cannot write a translation that begins with {prefix[:100]!r}")
    return whole


def other_words(
    translator: Translator, text: str, translation: str, word: int, options: SearchOptions
) -> list[OtherWord]:
    """What else could stand in the place of a word of this translation, and the word itself; the likeliest first.
    Words are counted as in `Translation.target_words`, over all lines.

    Raises:
        DecodeError: there is no such word, it stands there as it was typed, or tags stand in its line.
    """
    before, left = 0, word
    for line, written in zip(_LINE_END.split(text), _LINE_END.split(translation), strict=False):
        for core in lines_in(line):
            places = places_of_words(written)
            if 0 <= left < len(places):
                found = _Line(translator, core, options).words(written, *places[left])
                return [other._replace(prefix=translation[:before] + other.prefix) for other in found]
            left -= len(places)
        before += len(written) + 1
    raise DecodeError(f"the translation has no word of the number {word}")


class _Line:
    """The translations of one line."""

    def __init__(self, translator: Translator, line: str, options: SearchOptions) -> None:
        self._translator, self._options = translator, options
        self._surface = translator.surface
        (self._line,) = translator.read([line], options)
        self._segments = self._line.parts
        if self._line.pairs:
            raise DecodeError("a line with tags is translated as a whole; take them out to choose its words")

    @cached_property
    def _own(self) -> list[Translation]:
        """What the model writes for each segment by itself."""
        return self._translator.translate([segment.typed for segment in self._segments], self._options, progress=False)

    def rewritten(self, prefix: str, is_whole: bool) -> Translation:
        """The translation that begins so, or is this."""
        shares = self._shares(prefix)
        parts = [self._part(n, share, is_whole or n < len(shares) - 1) for n, share in enumerate(shares)]
        parts += self._own[len(parts) :] if len(parts) < len(self._segments) else []
        return joined(self._line.given, parts, lambda texts: join(texts, spaces_around(self._line)))

    def words(self, translation: str, begin: int, end: int) -> list[OtherWord]:
        """What else could stand at this place of a translation."""
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
            raise DecodeError(f"{word!r} stands there as it was typed, so no other word can")
        ids = self._tokens(segment, before)
        wide = self._options.searching(beam_size=BEGINNINGS, n_best=BEGINNINGS, terms=())
        narrow = wide.but(beam_size=1, n_best=1)
        firsts = [each for each in self._found([(segment, ids)], wide, 1) if len(each.tokens) > len(ids)]
        begun = [(segment, each.tokens) for each in firsts if not each.finished]
        enough = len(places_of_words(before)) + 1  # a word is whole when another one follows it
        wholes = self._found(
            begun, narrow, LONGEST, lambda ids: len(places_of_words(self._shown(segment, list(ids)))) > enough
        )
        others = [self._word(segment, before, len(ids), each) for each in wholes]
        found = {each.word: each for each in sorted(filter(None, others), key=lambda each: each.probability)}
        if word not in found:
            (same,) = self._found([(segment, self._tokens(segment, share[:end]))], narrow, 0)
            log_prob = same.total - sum(firsts[0].log_probs[: len(ids)] if firsts else ())
            found[word] = OtherWord(word, math.exp(min(0.0, log_prob)), share[:end])
        best = sorted(found.values(), key=lambda each: (each.word != word, -each.probability))[:WORDS]
        best.sort(key=lambda each: -each.probability)
        return [each._replace(prefix=translation[:start] + each.prefix) for each in best]

    def _shares(self, translation: str) -> list[str]:
        """What of a translation, or of its beginning, comes from each segment. A sentence that the model would not
        write by itself is known by its end.
        """
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
        """The translation of one segment that begins so, or is this."""
        segment = self._segments[number]
        if not share or segment.is_copied or (len(self._segments) > 1 and share == self._own[number].text):
            return self._own[number]
        ids = self._tokens(segment, share, is_whole)
        line = replace(self._line, typed=segment.typed, given=segment.typed, parts=(segment,), flags=())
        return self._translator.continued(
            line, self._translator.framing.labels(ids) if is_whole else ids, self._options
        )

    def _tokens(self, segment: Segment, text: str, is_whole: bool = False) -> list[int]:
        """The tokens by which the translation of a segment begins with this text, or is it."""
        written: str | None = text
        if segment.is_rewritten:
            before = self._restored(segment, "1", is_whole=False).removesuffix("1").rstrip()
            bare = hide(text.removeprefix(before).lstrip(), segment.kept)
            fitting = (way for way in self._ways(bare) if self._restored(segment, way, is_whole) == text)
            written = next(fitting, None) if bare else ""
        if written is None:
            raise DecodeError(f"{text[-100:]!r} does not stand as its source does, so the model cannot go on from it")
        tokenizer = self._translator.tokenizers.target
        ids = tokenizer.encode(written) if written else []
        if tokenizer.unknown in ids and not self._options.allow_unknown:
            words = ", ".join(tokenizer.unknown_words(written))
            raise DecodeError(f"the vocabulary does not hold {words}, so the model cannot go on from it")
        longest = int(self._options.length_ratio * len(segment.ids)) + self._options.length_extra
        if len(ids) > TOO_LONG * longest:
            raise DecodeError(f"{text[:50]!r} and so on has {len(ids):,} tokens, too many for its source")
        return ids

    def _ways(self, text: str) -> Iterator[str]:
        """How the model may have written a text, or the beginning of one, that was given another form."""
        rewritten = self._surface.opposite.rewritten(Segment.from_typed(text), Context(longest=0))
        if rewritten.is_rewritten:
            yield rewritten.text
            yield rewritten.text[:-1].rstrip()  # without the mark that a sentence gets at its end
        yield capitalised(text, self._translator.languages.target)
        yield text

    def _found(
        self,
        beginnings: Sequence[tuple[Segment, Sequence[int]]],
        options: SearchOptions,
        further: int,
        stops: Callable[[Sequence[int]], bool] | None = None,
    ) -> list[Hypothesis]:
        starts = [(*beginning, further) for beginning in beginnings]
        requests = self._translator.requests.continued(starts, options)
        requests = [replace(request, stops=stops) for request in requests]
        return [one for found in self._translator.found(requests, options) for one in found]

    def _word(self, segment: Segment, before: str, begun: int, whole: Hypothesis) -> OtherWord | None:
        """The word behind `before`, which so many tokens wrote; None if there is none, or it has no end yet."""
        shown = [self._shown(segment, whole.tokens[:count]) for count in range(begun + 1, len(whole.tokens) + 1)]
        text, number = shown[-1], len(places_of_words(before))
        places = places_of_words(text)
        goes_on = text.startswith(before) and places[:number] == places_of_words(before)
        if not goes_on or len(places) <= number + (not whole.finished):
            return None
        begin, end = places[number]
        if _is_kept(segment, text, begin):
            return None
        last = next(count for count, each in enumerate(shown, 1) if each[:end] == text[:end])
        return OtherWord(text[begin:end], math.exp(sum(whole.log_probs[begun : begun + last])), text[:end])

    def _shown(self, segment: Segment, tokens: Sequence[int]) -> str:
        return self._restored(segment, self._translator.writer.text(tokens), is_whole=False)

    def _restored(self, segment: Segment, text: str, is_whole: bool) -> str:
        return self._surface.restore_part(segment, text, is_whole=is_whole).text


def _is_kept(segment: Segment, text: str, place: int) -> bool:
    """Return True if the word at this place of a translation belongs to a name, number or code of its source."""
    names = segment.kept.values()
    return any(0 <= (first := text.find(name)) <= place < first + len(name) for name in names)
