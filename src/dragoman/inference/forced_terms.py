"""Writes terms into translations that lack them.

What stands before the word that translates a source term stays, a form of the term follows, and the model goes on from
there. The word before it, often an article, may become another one. Of all these translations the likeliest is taken.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.request import Request
from dragoman.inference.alignment import Links, SegmentLinks
from dragoman.inference.options import SearchOptions
from dragoman.inference.requests import RequestBuilder
from dragoman.inference.segments import Segment
from dragoman.inference.sentences import one_line, separator
from dragoman.inference.terms import Terms, compiled
from dragoman.inference.words import places_of_words
from dragoman.text.casing import capitalised

OTHER_WORDS = 4
"""How many words are tried in the place of the one before a term."""
LOOK_AHEAD = 3
"""The tokens behind a term by which the ways to write it are compared."""


@dataclass
class Draft:
    """A translation into which terms are written."""

    segment: Segment
    hypothesis: Hypothesis
    text: str
    settled: int = 0
    """The characters that stay."""


class Gap(NamedTuple):
    """A place where a form of a term should stand."""

    before: str
    """What stands before it."""
    earlier: str | None
    """The same without its last word; None if that stays."""
    forms: Sequence[str]


class TermWriter:
    """Writes terms with one model, by its search and its links between words."""

    def __init__(
        self,
        requests: RequestBuilder,
        language: str,
        search: Callable[[Sequence[Request]], list[list[Hypothesis]]],
        link: Callable[[Sequence[tuple[Segment, Hypothesis]]], SegmentLinks],
    ) -> None:
        """`language` is that of the translations."""
        self._requests, self._language, self._search, self._link = requests, language, search, link
        self._tokenizer = requests.tokenizers.target

    def with_terms(self, pairs: Sequence[tuple[Segment, Hypothesis]], options: SearchOptions) -> list[Hypothesis]:
        """Translations of these segments that hold their terms where that can be; the others stay as they are."""
        terms = compiled(options.terms)
        drafts = [Draft(*pair, self._text(pair[1])) for pair in pairs]
        open_drafts = [draft for draft in drafts if terms.missing(draft.segment.read, draft.text)]
        before = [(draft, draft.hypothesis, terms.missing(draft.segment.read, draft.text)) for draft in open_drafts]
        for _ in range(max((len(terms.found(draft.segment.read)) for draft in open_drafts), default=0)):
            links = self._link([(draft.segment, draft.hypothesis) for draft in open_drafts])
            gaps = [
                (draft, gap)
                for draft in open_drafts
                if (gap := gap_in(draft, terms, links[draft.segment.read, draft.hypothesis.tokens]))
            ]
            open_drafts = self._filled(gaps, options)
        for draft, hypothesis, missing in before:
            if len(terms.missing(draft.segment.read, draft.text)) >= len(missing):
                draft.hypothesis = hypothesis
        return [draft.hypothesis for draft in drafts]

    def _filled(self, gaps: Sequence[tuple[Draft, Gap]], options: SearchOptions) -> list[Draft]:
        """The drafts whose gap now has a form: of all that may stand there, the likeliest."""
        tried = [
            (draft, text)
            for (draft, gap), others in zip(gaps, self._others(gaps, options), strict=True)
            for text in self._beginnings(gap, others)
        ]
        begun = self._begun(tried, options.but(beam_size=1, n_best=1), LOOK_AHEAD)
        best: dict[int, tuple[float, Draft, str]] = {}
        for (draft, text), hypotheses in zip(tried, begun, strict=True):
            for hypothesis in hypotheses:
                score = hypothesis.score(options.length_penalty)
                if id(draft) not in best or score > best[id(draft)][0]:
                    best[id(draft)] = score, draft, text
        chosen = [(draft, text) for _, draft, text in best.values()]
        filled: list[Draft] = []
        for (draft, text), found in zip(chosen, self._begun(chosen, options), strict=True):
            if found:
                draft.hypothesis, draft.text, draft.settled = found[0], self._text(found[0]), len(text)
                filled.append(draft)
        return filled

    def _begun(
        self, beginnings: Sequence[tuple[Draft, str]], options: SearchOptions, further: int | None = None
    ) -> list[list[Hypothesis]]:
        """Hypotheses that begin with these texts; none where a beginning holds what may not be written."""
        prefixes = [self._tokenizer.encode(text) for _, text in beginnings]
        pairs = [(draft.segment, prefix) for (draft, _), prefix in zip(beginnings, prefixes, strict=True)]
        found = self._search(self._requests.continued(pairs, options, further))
        return [
            [one for one in hypotheses if list(one.tokens[: len(prefix)]) == prefix]
            for hypotheses, prefix in zip(found, prefixes, strict=True)
        ]

    def _others(self, gaps: Sequence[tuple[Draft, Gap]], options: SearchOptions) -> list[list[str]]:
        """Of each gap, other texts that may stand before it."""
        some = [(draft, gap.earlier) for draft, gap in gaps if gap.earlier is not None]
        found = iter(self._begun(some, options.but(beam_size=OTHER_WORDS, n_best=OTHER_WORDS), further=1))
        return [
            [] if gap.earlier is None else [self._text(one) for one in next(found) if not one.ended] for _, gap in gaps
        ]

    def _beginnings(self, gap: Gap, others: Sequence[str]) -> Iterator[str]:
        """How the translation may begin, up to a form."""
        for form in gap.forms:
            yield gap.before + form
            if not gap.before.strip():
                yield gap.before + capitalised(form, self._language)
            for before in others:
                yield before + ("" if before[-1:] in "'’" else separator(before, form)) + form

    def _text(self, hypothesis: Hypothesis) -> str:
        return one_line(self._tokenizer.decode(hypothesis.tokens))[0]


def gap_in(draft: Draft, terms: Terms, links: Links) -> Gap | None:
    """The first place where a term is missing: before the word that translates its first word, or where none does,
    before what translates the next word of the source.
    """
    missing = terms.missing(draft.segment.read, draft.text)
    words, places = places_of_words(draft.text), places_of_words(draft.segment.read)
    written_by = sorted(links)
    gaps: list[tuple[int, int]] = []
    for span, number in terms.found(draft.segment.read):
        if terms.sources[number] not in missing:
            continue
        own = {place for place, (begin, end) in enumerate(places) if begin < span.end and span.begin < end}
        linked = [word for place, word in written_by if place in own]
        behind = [word for place, word in written_by if place > max(own)]
        word = min(linked) if linked else behind[0] if behind else len(words)
        begin = words[word][0] if word < len(words) else len(draft.text)
        if begin >= draft.settled and not terms.begins_with_form(number, draft.text[begin:]):
            gaps.append((word, number))
    if not gaps:
        return None
    word, number = min(gaps)
    begins = [begin for begin, _ in words] + [len(draft.text)]
    before = draft.text[: begins[word]]
    if word == len(words):
        before += separator(draft.text, "a")
    earlier = draft.text[: begins[word - 1]].rstrip() if word and begins[word - 1] >= draft.settled else None
    return Gap(before, earlier, terms.forms[number])
