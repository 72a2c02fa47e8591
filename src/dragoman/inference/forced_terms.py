"""Writing terms into translations that lack them.

The text before the word that translates a source term is kept, a form of the term follows, and the model continues from
there. The words before the form, often an article and an adjective, must agree with it, but the model expects those
that agree with its own word. So other words are tried, from searches with and without the term in the source. They are
also compared by the source in which the form replaces the term, because models copy words that they do not know.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from dragoman.decoding.hypothesis import Hypothesis
from dragoman.inference.alignment import WordLinker
from dragoman.inference.options import SearchOptions
from dragoman.inference.requests import RequestBuilder, Start
from dragoman.inference.search import ModelSearch
from dragoman.surface.letters import capitalised
from dragoman.surface.protected import Span
from dragoman.surface.segment import Links, Segment
from dragoman.surface.sentences import one_line, separator
from dragoman.surface.terms import Terms, compiled
from dragoman.surface.words import places_of_words

PLACES = 2
"""Number of words that translate a term at which its form is tried."""
WORDS_BEFORE = 2
"""Number of words before a form that may be replaced."""
OTHER_WORDS = 6
"""Number of replacements that each search for them finds."""
WEIGHTS = 1 / 4, 1 / 2
"""Weights of the text before a form, relative to the form: for the source, and for the source with the form in it."""
LOOK_AHEAD = 3
"""Number of tokens after a form that are part of a comparison."""


@dataclass
class Draft:
    """A translation into which terms are written."""

    segment: Segment
    hypothesis: Hypothesis
    text: str
    settled: int = 0
    """Number of characters at the beginning that no longer change."""


class Gap(NamedTuple):
    """A place of a draft where a form of a term is missing."""

    draft: Draft
    term: Span
    """The term in the source."""
    number: int
    """The number of the term in the list."""
    before: str
    """The text before the place."""
    earlier: Sequence[str]
    """The same text without its last word, and without its last two words."""


class Beginning(NamedTuple):
    """A translation up to the end of a form that fills a gap."""

    gap: Gap
    before: str
    form: str
    tokens: Sequence[int]


class TermWriter:
    """A writer of missing terms into translations, by further searches with one model. A term at the beginning gets a
    capital as in the target `language`.
    """

    def __init__(self, requests: RequestBuilder, language: str, search: ModelSearch, link: WordLinker) -> None:
        self._requests, self._language, self._search, self._link = requests, language, search, link
        self._tokenizer = requests.tokenizers.target

    def with_terms(self, pairs: Sequence[tuple[Segment, Hypothesis]], options: SearchOptions) -> list[Hypothesis]:
        """Return translations of these segments that contain their terms; where that is impossible, the given ones."""
        terms = compiled(options.terms)
        drafts = [Draft(*pair, self._text(pair[1])) for pair in pairs]
        open_drafts = [draft for draft in drafts if terms.missing(draft.segment.text, draft.text)]
        before = [(draft, draft.hypothesis, terms.missing(draft.segment.text, draft.text)) for draft in open_drafts]
        tries = 0
        while open_drafts := [draft for draft in open_drafts if len(terms.found(draft.segment.text)) > tries]:
            links = self._link([(draft.segment, draft.hypothesis) for draft in open_drafts], options)
            linked = [(draft, links[draft.segment.text, draft.hypothesis.tokens]) for draft in open_drafts]
            open_drafts = self._filled([gap for pair in linked for gap in gaps_in(*pair, terms)], options)
            tries += 1
        for draft, hypothesis, missing in before:
            if len(terms.missing(draft.segment.text, draft.text)) >= len(missing):
                draft.hypothesis = hypothesis
        return [draft.hypothesis for draft in drafts]

    def _filled(self, gaps: Sequence[Gap], options: SearchOptions) -> list[Draft]:
        """Write a form into each draft; return the drafts in which one can be written."""
        best = self._best(self._beginnings(gaps, options), options)
        searched = self._begun([(beginning.gap.draft.segment, beginning.tokens, None) for beginning in best], options)
        filled: list[Draft] = []
        for (gap, before, form, _), hypotheses in zip(best, searched, strict=True):
            if hypotheses:
                draft, hypothesis = gap.draft, hypotheses[0]
                draft.hypothesis, draft.text, draft.settled = hypothesis, self._text(hypothesis), len(before + form)
                filled.append(draft)
        return filled

    def _best(self, beginnings: Sequence[Beginning], options: SearchOptions) -> list[Beginning]:
        """Return the best beginning of each draft: it has the likeliest form, and the words that fit this form best."""
        starts: list[Start] = [(beginning.gap.draft.segment, beginning.tokens, LOOK_AHEAD) for beginning in beginnings]
        searched = self._begun(starts, options, width=1)
        usual = [(hypotheses[0], start) for start, hypotheses in zip(beginnings, searched, strict=True) if hypotheses]
        usual.sort(key=lambda pair: pair[0].score(options.length_penalty))
        forms = {id(start.gap.draft): start.form for _, start in usual}
        usual = [(hypothesis, start) for hypothesis, start in usual if start.form == forms[id(start.gap.draft)]]
        starts = [(self._replaced(start.gap, start.form, options), start.tokens, 0) for _, start in usual]
        rated: list[tuple[float, Beginning]] = []
        for (hypothesis, start), replaced in zip(usual, self._begun(starts, options, width=1), strict=True):
            size = bisect_right(
                [end for _, end in self._tokenizer.offsets(start.before + start.form)], len(start.before)
            )
            parts = [(sum(part.log_probs[:size]), sum(part.log_probs[size:])) for part in (hypothesis, *replaced)]
            if replaced:
                value = sum(weight * before + form for weight, (before, form) in zip(WEIGHTS, parts, strict=True))
                rated.append((value, start))
        return [*{id(start.gap.draft): start for _, start in sorted(rated, key=itemgetter(0))}.values()]

    def _beginnings(self, gaps: Sequence[Gap], options: SearchOptions) -> list[Beginning]:
        """Return every form after the words of its draft and after other likely words, with and without the term."""
        starts: list[Start] = []
        for gap in gaps:
            size, *shorter = self._tokenizer.encode_batch([gap.before.rstrip(), *gap.earlier])
            for segment in (gap.draft.segment, self._replaced(gap, "", options)):
                starts += [(segment, tokens, len(size) - len(tokens)) for tokens in shorter]
        searched = iter(self._begun(starts, options, width=OTHER_WORDS))
        beginnings, terms = list[Beginning](), compiled(options.terms)
        for gap in gaps:
            read, count = gap.draft.segment.text, len(places_of_words(gap.before))
            hypotheses = [hypothesis for _ in range(2 * len(gap.earlier)) for hypothesis in next(searched)]
            written = [self._text(hypothesis) for hypothesis in hypotheses if not hypothesis.finished]
            places = [places_of_words(text)[:count] for text in written]
            cut = [text[: words[-1][1]] for text, words in zip(written, places, strict=True) if len(words) == count]
            for form in terms.forms[gap.number]:
                texts = [(text + ("" if text[-1] in "'’" else separator(text, form)), form) for text in cut]
                texts += [] if gap.before.strip() else [(gap.before, capitalised(form, self._language))]
                missing = len(terms.missing(read, gap.before + form))
                texts = [text for text in texts if len(terms.missing(read, "".join(text))) <= missing]  # loses no term
                different = dict.fromkeys([(gap.before, form), *texts])
                beginnings += [Beginning(gap, *text, self._tokenizer.encode("".join(text))) for text in different]
        return beginnings

    def _replaced(self, gap: Gap, text: str, options: SearchOptions) -> Segment:
        """Return the source of a gap with this text in place of the term; the source if the model cannot read that."""
        segment, term = gap.draft.segment, gap.term
        read = segment.text[: term.begin] + text + segment.text[term.end :]
        ids = [*segment.ids[: segment.symbols], *self._requests.tokenizers.source.encode(read)]
        if not segment.symbols < len(ids) <= self._requests.longest_source(options):
            return segment
        return segment._replace(typed=read, text=read, ids=ids)

    def _begun(self, starts: Sequence[Start], options: SearchOptions, width: int = 0) -> list[list[Hypothesis]]:
        """Return the hypotheses that continue each start, none if forbidden; a `width` is that of a whole beam."""
        options = options.but(beam_size=width, n_best=width) if width else options
        n_best_lists = self._search.hypotheses(self._requests.continued(starts, options, whole_words=True), options)
        return [
            [hypothesis for hypothesis in hypotheses if hypothesis.tokens[: len(tokens)] == tuple(tokens)]
            for hypotheses, (_, tokens, _) in zip(n_best_lists, starts, strict=True)
        ]

    def _text(self, hypothesis: Hypothesis) -> str:
        return one_line(self._tokenizer.decode(hypothesis.tokens))[0]


def gaps_in(draft: Draft, links: Links, terms: Terms) -> list[Gap]:
    """Return the places where a form of the first missing term may be inserted: at the words that translate the term,
    or if there are none, at the word that translates the next source word.
    """
    missing = terms.missing(draft.segment.text, draft.text)
    words, places = places_of_words(draft.text), places_of_words(draft.segment.text)
    begins = [begin for begin, _ in words] + [len(draft.text)]
    gaps: list[list[Gap]] = []
    for span, number in terms.found(draft.segment.text):
        own = {place for place, (begin, end) in enumerate(places) if begin < span.end and span.begin < end}
        linked = sorted(word for place, word in links if place in own)
        after = [word for place, word in sorted(links) if place > max(own)]
        starts = linked[:PLACES] or after[:1] or [len(words)]
        is_written = any(terms.begins_with_form(number, draft.text[begins[word] :]) for word in starts)
        if terms.sources[number] in missing and not is_written:
            starts = [word for word in starts if begins[word] >= draft.settled]
            gaps.append([_gap(draft, span, number, begins, word) for word in starts])
    return min(filter(None, gaps), key=lambda gaps: (len(gaps[0].before), len(gaps)), default=[])


def _gap(draft: Draft, term: Span, number: int, begins: Sequence[int], word: int) -> Gap:
    before = draft.text[: begins[word]]
    before += separator(before, "a") if word == len(begins) - 1 or before[-1:].isalnum() else ""
    earlier = [begins[word - count] for count in range(1, min(word, WORDS_BEFORE) + 1)]
    return Gap(draft, term, number, before, [draft.text[:end].rstrip() for end in earlier if end >= draft.settled])
