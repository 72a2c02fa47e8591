"""Terms: words of a source that have a fixed translation. Finds them in a text, and says which a translation lacks."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache

from dragoman.languages import SPACELESS
from dragoman.surface.protected import Span, code_in
from dragoman.surface.words import begins_in_word, ends_in_word

_INFLECTED = 4
"""The letters of a word that may have an ending, at least; in shorter ones an ending makes too many other words."""
_ENDING = 2
"""The letters of such an ending, at most."""
_LETTER = rf"[^\W{SPACELESS}]"
_WORD = re.compile(rf"{_LETTER}+")


class Terms:
    """Terms, each as a source term and the forms of its translation; without any, it stays as it is.

    A source term is found by whole words, in any case; one in capitals, such as IT, only in capitals. Its last word may
    have an ending of two letters if it has four itself, as in files. Longer terms come first, and none overlap.
    """

    def __init__(self, terms: Sequence[Sequence[str]]) -> None:
        self.sources = [source.strip() for source, *_ in terms]
        self.forms = [[form.strip() for form in forms] or [source.strip()] for source, *forms in terms]
        self._beginning: defaultdict[str, list[int]] = defaultdict(list)
        for number, source in enumerate(self.sources):
            self._beginning[_first_word(source)].append(number)
        self.found = lru_cache(4_096)(self._found)
        """The terms that stand in a text, outside of code: where, and their numbers."""

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

    def missing(self, read: str, text: str) -> list[str]:
        """The source terms of a text that was `read` whose forms its translation lacks, or has too seldom."""
        needed = Counter(number for _, number in self.found(read))
        if not needed:
            return []
        of_form: defaultdict[str, list[int]] = defaultdict(list)
        for number in needed:
            for form in self.forms[number]:
                of_form[form.lower()].append(number)
        forms = sorted(of_form, key=len, reverse=True)
        for match in _pattern(forms).finditer(text) if forms else ():
            number = next((one for one in of_form[forms[(match.lastindex or 1) - 1]] if needed[one]), None)
            if number is not None:
                needed[number] -= 1
        return [self.sources[number] for number, count in needed.items() if count]

    def begins_with_form(self, number: int, text: str) -> bool:
        """Whether a text begins with a form of this term."""
        return _pattern(self.forms[number]).match(text) is not None


@lru_cache(maxsize=8)
def compiled(terms: tuple[tuple[str, ...], ...]) -> Terms:
    """These terms, ready to be found."""
    return Terms(terms)


def _first_word(source: str) -> str:
    """By what a term is looked up; nothing if it may stand anywhere, as in a script without spaces."""
    word = _WORD.search(source.lower())
    return word[0] if word else ""


def _pattern(phrases: Sequence[str], is_source: bool = False) -> re.Pattern[str]:
    """Matches each as whole words, the first that can be; the number of the group says which, from 1."""
    ways: list[str] = []
    for phrase in phrases:
        begin = f"(?<!{_LETTER})" if begins_in_word(phrase.encode()) else ""
        end = f"(?!{_LETTER})" if ends_in_word(phrase.encode()) else ""
        *_, last = re.split(r"\W", phrase)
        ending = rf"[^\W\d_]{{0,{_ENDING}}}" if is_source and end and len(last) >= _INFLECTED else ""
        written = re.sub("['’]", "['’]", re.escape(phrase))
        case = "-i" if is_source and phrase.isupper() else ""
        ways.append(rf"({begin}(?{case}:{written}){ending}{end})")
    return re.compile("|".join(ways), re.IGNORECASE)
