"""Capitals and small letters as languages have them, and the usual form of each word of a text (truecasing)."""

import re
import unicodedata
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import islice, takewhile

from dragoman.surface.placeholders import ANY_PLACEHOLDER

_DOTTED = ("tr", "az")  # i and İ are one letter, ı and I another
_TONOS, _DOT_ABOVE = "\u0301", "\u0307"
_WORD = re.compile(
    r"(?<!\S)\S*?[@/\\{}<>$%#_=]\S*"  # addresses, placeholders and tags are no words
    r"|(?:[^\W\d_]\.){2,}"  # U.S.
    r"|(?<!\w)(?P<word>[^\W\d_](?:[^\W\d_]|[\u0300-\u036f\u00ad])*+)(?!\w)"
)
_PARTS = re.compile(r"[.!?…:]\s|[\"“”„«»(]")  # behind these a word may have a capital for being the first
_BEGINNING = re.compile(
    rf"(?<!\S)((?:(?!{ANY_PLACEHOLDER})[^\w\s@/\\{{}}<>$%#=])*+)(ij|[^\W\d_])"
    r"(?![^\W\d_]*+(?:[@/\\{}<>$%#_=\d]|[.:][\w/]))"
)


def lower(text: str, language: str) -> str:
    """Small letters.

    >>> lower("ISPARTA İLİ", "tr"), lower("ΟΔΟΣ", "el")
    ('ısparta ili', 'οδος')
    """
    if _base(language) in _DOTTED:
        text = text.replace("İ", "i").replace("I", "ı")
    return text.lower()


def upper(text: str, language: str) -> str:
    """Capitals. Greek ones have no accents, and a Lithuanian i loses the dot that its accent had made visible.

    >>> upper("istanbul", "tr"), upper("Straße", "de"), upper("οδός", "el")
    ('İSTANBUL', 'STRASSE', 'ΟΔΟΣ')
    """
    match _base(language):
        case "tr" | "az":
            text = text.replace("i", "İ")
        case "lt":
            text = text.replace("i" + _DOT_ABOVE, "i").replace("j" + _DOT_ABOVE, "j")
        case "el":
            text = unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).replace(_TONOS, ""))
    return text.upper()


def capitalised(text: str, language: str) -> str:
    """The text with a capital first; marks may stand before it. Numbers, addresses and i.e. stay.

    >>> capitalised("“ijs is koud.", "nl"), capitalised("il cane", "it"), capitalised("@tom e io", "it")
    ('“IJs is koud.', 'Il cane', '@tom e io')
    """
    first = _BEGINNING.match(text)
    return first[1] + _capital(first[2], language) + text[first.end() :] if first else text


def title(text: str, language: str, keep_short: bool) -> str:
    """Every word with a capital; words of up to three letters behind the first stay as they are if told to.

    >>> title("la fine del mondo", "it", False), title("il signore degli anelli", "it", True)
    ('La Fine Del Mondo', 'Il Signore Degli Anelli')
    """

    def titled(match: re.Match[str]) -> str:
        word = _WORD.match(text, match.start(2))
        kept = keep_short and match.start() > 0 and word is not None and len(word[0]) <= SHORT
        return match[0] if kept else match[1] + _capital(match[2], language)

    return _BEGINNING.sub(titled, text)


SHORT = 3
"""Letters of a word that a title may write small: of, the, di, der. An unknown word in capitals that has no more is
taken for an abbreviation.
"""


def is_title(text: str) -> bool:
    """Whether all longer words behind the first have a capital, and there are several.

    >>> is_title("Apply the Page Style"), is_title("He met Andy Warhol today"), is_title("PAGE STYLE OPTIONS")
    (True, False, False)
    """
    longer = [word for word in words_in(text)[1:] if len(word) > SHORT]
    return len(longer) > 1 and all(map(str.istitle, longer))


def begins_small(text: str) -> bool:
    """Whether the text begins with a word in small letters, unlike iPhone."""
    first = _BEGINNING.match(text)
    return first is not None and first[2].islower() and not text[first.end() : first.end() + 1].isupper()


def words_in(text: str) -> list[str]:
    """The words of a text, without marks, numbers, addresses and abbreviations such as U.S."""
    return [word for word in _WORD.findall(text) if word]


def usual_forms(texts: Iterable[str]) -> list[str]:
    """The words of texts, each in the form that it has most often inside a sentence, the most frequent first. One that
    only begins sentences is taken to be small. A text in capitals tells nothing.
    """
    inside, first = Counter[str](), Counter[str]()
    for text in texts:
        if not text.islower() and text == text.upper():
            continue
        for sentence in _PARTS.split(text):
            if words := words_in(sentence):
                first[words[0].lower()] += 1
                inside.update(words[1:])
    forms: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for word, count in inside.items():
        forms[word.upper()].append((count, word))
    for word, count in first.items():
        if word.upper() not in forms:
            forms[word.upper()].append((count, word))
    frequent = sorted(forms.values(), key=lambda forms: -sum(count for count, _ in forms))
    return [max(forms)[1] for forms in frequent]


class Truecaser:
    """Writes words as a text usually has them."""

    def __init__(self, words: Sequence[str], language: str) -> None:
        """Given its words in their usual forms."""
        self._language = language
        self._usual = {self._key(word): word for word in reversed(words)}

    def usual(self, word: str) -> str | None:
        """The usual form of a word inside a sentence; None for one that the text does not have."""
        return self._usual.get(self._key(word))

    def is_small(self, word: str) -> bool:
        """Whether the text usually writes a word small inside a sentence."""
        usual = self.usual(word)
        return usual is not None and usual[0].islower()

    def has_beginning(self, letters: str, longest: int) -> bool:
        """Whether a word that the text writes small, of so many letters at most, begins with these."""
        first = bisect_left(self._small, letters)
        alike = takewhile(lambda word: word.startswith(letters), islice(self._small, first, None))
        return any(len(word) <= longest for word in alike)

    @cached_property
    def _small(self) -> list[str]:
        return sorted(word for word in self._usual.values() if word.islower())

    def recased(self, text: str) -> str:
        """The text with each word in its usual form, and small if the word is unknown. But FBI and XIV stay."""

        def usual(match: re.Match[str]) -> str:
            word = match["word"]
            if not word:
                return match[0]
            stays = word.isupper() and (len(word) <= SHORT or set(word) <= set("IVX"))
            return self.usual(word) or (word if stays else lower(word, self._language))

        return _WORD.sub(usual, text)

    def _key(self, word: str) -> str:
        return upper(word, self._language)


def _capital(letters: str, language: str) -> str:
    if _base(language) == "nl":
        return upper(letters, language)
    return upper(letters[0], language) + letters[1:]


def _base(language: str) -> str:
    return language.partition("-")[0]
