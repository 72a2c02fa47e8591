"""Terms: words of a source that have a fixed translation. Search in a text, and check of a translation."""

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache

from dragoman.languages import SPACELESS
from dragoman.surface.protected import Span, code_in
from dragoman.surface.words import begins_in_word, ends_in_word

_INFLECTED = 4
"""The least letters of a word that may have an ending; shorter words with an ending are too often other words."""
_ENDING = 2
"""The most letters of such an ending."""
_LETTER = rf"[^\W{SPACELESS}]"
_WORD = re.compile(rf"{_LETTER}+")
_ONE_LETTER, _NO_LETTER, _ANYTHING = map(re.compile, (_LETTER, rf"(?!{_LETTER})", ""))
_ENDING_OF_WORD = re.compile(rf"[^\W\d_]{{0,{_ENDING}}}(?!{_LETTER})")


_OTHER_CASES = {"İ": "i", "\u1fd3": "\u0390", "\u1fe3": "\u03b0", "\ufb05": "\ufb06"}
"""Letters that `re.IGNORECASE` also takes for one, and that `casefold` does not make one letter."""


class Terms:
    """Terms: each is a source term and the forms of its translation. A term without forms is kept as it is.

    A source term matches whole words in any letter case; a term in capitals, such as IT, only matches capitals, and
    terms that differ only in case, such as Polish and polish, match their own. If its last word has four letters or
    more, it may have an ending of two, as in files. Longer terms win, and none overlap.
    """

    def __init__(self, terms: Sequence[Sequence[str]]) -> None:
        self.sources = [source.strip() for source, *_ in terms]
        self.forms = [[form.strip() for form in forms] or [source.strip()] for source, *forms in terms]
        written = Counter(map(folded, {*self.sources}))
        self._phrases = [
            _Phrase(source, is_source=True, is_exact=source.isupper() or written[folded(source)] > 1)
            for source in self.sources
        ]
        self._forms = [[*map(_Phrase, forms)] for forms in self.forms]
        self._beginning: defaultdict[str, list[int]] = defaultdict(list)
        for number, source in enumerate(self.sources):
            word = next(iter(_WORD.findall(folded(source))), "")  # none in a script without spaces
            self._beginning[word].append(number)
        self.found = lru_cache(4_096)(self._found)
        """Return the spans of terms in a text, outside of code, each with the number of its term."""

    def _found(self, text: str) -> list[tuple[Span, int]]:
        words = {word[: len(word) - cut] for word in _WORD.findall(folded(text)) for cut in range(_ENDING + 1)}
        candidates = [number for word in words | {""} for number in self._beginning.get(word, ())]
        candidates.sort(key=lambda number: -len(self.sources[number]))
        matches = [*_matches([self._phrases[number] for number in candidates], text)]
        code = code_in(text) if matches else []
        return [
            (Span(first, last, "term"), candidates[place])
            for first, last, place in matches
            if not any(begin < last and first < end for begin, end, _ in code)
        ]

    def missing(self, source: str, translation: str) -> list[str]:
        """Return the terms of a source whose forms are missing in its translation, or occur too rarely there."""
        needed = Counter(number for _, number in self.found(source))
        if not needed:
            return []
        numbers = defaultdict[str, list[int]](list)
        for number in needed:
            for form in self._forms[number]:
                numbers[form.folded].append(number)
        forms = {form.folded: form for number in needed for form in self._forms[number]}
        longest = sorted(forms, key=len, reverse=True)
        for _, _, place in _matches([forms[key] for key in longest], translation):
            unmet = [number for number in numbers[longest[place]] if needed[number]]
            needed.subtract(unmet[:1])
        return [self.sources[number] for number, count in needed.items() if count]

    def begins_with_form(self, number: int, text: str) -> bool:
        """Return True if a text begins with a form of this term."""
        key = folded(text)
        forms = (form for form in self._forms[number] if key.startswith(form.folded))
        return any((span := form.span(text, key, 0)) and span[0] == 0 for form in forms)


@lru_cache(maxsize=8)
def compiled(terms: tuple[tuple[str, ...], ...]) -> Terms:
    """Return the terms, from a cache."""
    return Terms(terms)


class _Phrase:
    """A phrase that is whole words in a text, in any letter case. It is looked for as a substring, because a pattern of
    thousands of phrases takes minutes: to compile, and to try each phrase at each place.
    """

    def __init__(self, phrase: str, is_source: bool = False, is_exact: bool = False) -> None:
        """Prepare a form, or a source term, which may have an ending; an exact one has its own letter case."""
        self.folded, encoded = folded(phrase), phrase.encode()
        self._exact = _straight(phrase) if is_exact else ""
        self._begins_in_word = begins_in_word(encoded)
        may_end = is_source and len(re.split(r"\W", phrase)[-1]) >= _INFLECTED
        self._rest = (_ENDING_OF_WORD if may_end else _NO_LETTER) if ends_in_word(encoded) else _ANYTHING

    def span(self, text: str, folded_text: str, start: int) -> tuple[int, int] | None:
        """Return begin and end of the first occurrence that begins at `start` or later."""
        begin = folded_text.find(self.folded, start)
        while begin >= 0:
            end = begin + len(self.folded)
            is_inside = self._begins_in_word and begin > 0 and _ONE_LETTER.match(text, begin - 1)
            rest = None if is_inside else self._rest.match(text, end)
            if rest and self._exact in ("", _straight(text[begin:end])):
                return begin, rest.end()
            begin = folded_text.find(self.folded, begin + 1)
        return None


def _matches(phrases: Sequence[_Phrase], text: str) -> Iterator[tuple[int, int, int]]:
    """Yield begin, end and place of phrases in a text; none overlap, and of two at one place the first one wins."""
    key, last = folded(text), 0
    firsts = ((phrase.span(text, key, 0), place) for place, phrase in enumerate(phrases))
    following = [(span[0], place, span[1]) for span, place in firsts if span]
    heapq.heapify(following)
    while following:
        begin, place, end = following[0]
        if begin >= last:
            yield begin, end, place
            last = end
        if span := phrases[place].span(text, key, last):
            heapq.heapreplace(following, (span[0], place, span[1]))
        else:
            heapq.heappop(following)


def folded(text: str) -> str:
    """Return a text of the same length in which letters are equal that differ only in case, and all apostrophes."""
    return _straight(text.lower() if text.isascii() else "".join(map(_folded_letter, text)))


@lru_cache(maxsize=65_536)
def _folded_letter(letter: str) -> str:
    for cased in (letter.lower(), letter.lower().casefold()):
        letter = cased if len(cased) == 1 else letter
    return _OTHER_CASES.get(letter, letter)


def _straight(text: str) -> str:
    return text.replace("’", "'")
