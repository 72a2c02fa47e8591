"""Terms: words of a source that have a fixed translation. Search in a text, and check of a translation."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
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


class Terms:
    """Terms: each is a source term and the forms of its translation. A term without forms is kept as it is.

    A source term matches whole words in any letter case; a term in capitals, such as IT, only matches capitals. If its
    last word has four letters or more, it may have an ending of two, as in files. Longer terms win, and none overlap.
    """

    def __init__(self, terms: Sequence[Sequence[str]]) -> None:
        self.sources = [source.strip() for source, *_ in terms]
        self.forms = [[form.strip() for form in forms] or [source.strip()] for source, *forms in terms]
        self._beginning: defaultdict[str, list[int]] = defaultdict(list)
        for number, source in enumerate(self.sources):
            self._beginning[_first_word(source)].append(number)
        self.found = lru_cache(4_096)(self._found)
        """Return the spans of terms in a text, outside of code, each with the number of its term."""

    def _found(self, text: str) -> list[tuple[Span, int]]:
        words = {word[: len(word) - cut] for word in _WORD.findall(text.lower()) for cut in range(_ENDING + 1)}
        candidates = [number for word in words | {""} for number in self._beginning.get(word, ())]
        if not candidates:
            return []
        candidates.sort(key=lambda number: -len(self.sources[number]))
        pattern, code = _pattern([self.sources[number] for number in candidates], is_source=True), code_in(text)
        return [
            (Span(*match.span(), "term"), candidates[(match.lastindex or 1) - 1])
            for match in pattern.finditer(text)
            if not any(begin < match.end() and match.start() < end for begin, end, _ in code)
        ]

    def missing(self, source: str, translation: str) -> list[str]:
        """Return the terms of a source whose forms are missing in its translation, or occur too rarely there."""
        needed = Counter(number for _, number in self.found(source))
        if not needed:
            return []
        numbers: defaultdict[str, list[int]] = defaultdict(list)
        for number in needed:
            for form in self.forms[number]:
                numbers[form.lower()].append(number)
        forms = sorted(numbers, key=len, reverse=True)
        for match in _pattern(forms).finditer(translation) if forms else ():
            unmet = [number for number in numbers[forms[(match.lastindex or 1) - 1]] if needed[number]]
            needed.subtract(unmet[:1])
        return [self.sources[number] for number, count in needed.items() if count]

    def begins_with_form(self, number: int, text: str) -> bool:
        """Return True if a text begins with a form of this term."""
        return _pattern(self.forms[number]).match(text) is not None


@lru_cache(maxsize=8)
def compiled(terms: tuple[tuple[str, ...], ...]) -> Terms:
    """Return the terms, from a cache."""
    return Terms(terms)


def _first_word(source: str) -> str:
    """Return the word by which a term is looked up; empty in a script without spaces, where it may begin anywhere."""
    word = _WORD.search(source.lower())
    return word[0] if word else ""


def _pattern(phrases: Sequence[str], is_source: bool = False) -> re.Pattern[str]:
    """Return an expression that matches whole words of the phrases, with a group for each; the first that fits wins."""
    groups: list[str] = []
    for phrase in phrases:
        begin = f"(?<!{_LETTER})" if begins_in_word(phrase.encode()) else ""
        end = f"(?!{_LETTER})" if ends_in_word(phrase.encode()) else ""
        *_, last = re.split(r"\W", phrase)
        ending = rf"[^\W\d_]{{0,{_ENDING}}}" if is_source and end and len(last) >= _INFLECTED else ""
        written = re.sub("['’]", "['’]", re.escape(phrase))
        case = "-i" if is_source and phrase.isupper() else ""
        groups.append(rf"({begin}(?{case}:{written}){ending}{end})")
    return re.compile("|".join(groups), re.IGNORECASE)
