"""Capitals and small letters as languages have them, and the usual form of each word of a text (truecasing)."""

import re
import unicodedata
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property

from dragoman.text.placeholders import ANY_PLACEHOLDER

_DOTTED = ("tr", "az")  # i and İ are one letter, ı and I another
_TONOS, _DOT_ABOVE = "\u0301", "\u0307"
_ABBREVIATION = r"(?:[^\W\d_]\.){2,}"  # U.S.
_WORD = re.compile(r"(?<!\w)[^\W\d_](?:[^\W\d_]|[\u0300-\u036f\u00ad])*")
_PARTS = re.compile(r"[.!?…:]\s|[\"“”„«»(]")  # behind these a word may have a capital for being the first
_FIRST = re.compile(rf"\A((?:(?!{ANY_PLACEHOLDER})[\W_])*+)(ij|[^\W\d_])")
_FIRST_WORDS = re.compile(r"(?<!\S)[^\w\s]*+([^\W\d_]+)")
_BEGINNING = re.compile(r"(?<!\S)([^\w\s]*)(ij|[^\W\d_])")


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
    """The text with a capital first; marks may stand before it, but no number.

    >>> capitalised("“ijs is koud.", "nl"), capitalised("il cane", "it"), capitalised("2 cani", "it")
    ('“IJs is koud.', 'Il cane', '2 cani')
    """
    return _FIRST.sub(lambda match: match[1] + _capital(match[2], language), text)


def title(text: str, language: str, keep_short: bool) -> str:
    """Every word with a capital; words of up to three letters behind the first stay as they are if told to.

    >>> title("la fine del mondo", "it", False), title("il signore degli anelli", "it", True)
    ('La Fine Del Mondo', 'Il Signore Degli Anelli')
    """

    def titled(match: re.Match[str]) -> str:
        word = _WORD.match(text, match.start(2))
        is_short = word is not None and len(word[0]) <= SHORT
        kept = keep_short and is_short and match.start() > 0
        return match[0] if kept else match[1] + _capital(match[2], language)

    return _BEGINNING.sub(titled, text)


SHORT = 3
"""Letters of a word that a title may write small: of, the, di, der."""


def begins_small(text: str) -> bool:
    """Whether the first letter is small and no number stands before it."""
    first = _FIRST.match(text)
    return first is not None and first[2].islower()


def words_in(text: str) -> list[str]:
    """The words of a text, without marks and numbers."""
    return _WORD.findall(text)


def first_words(text: str) -> list[str]:
    """The words at the beginning and behind white space; the t of don't is none."""
    return _FIRST_WORDS.findall(text)


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

    def has_beginning(self, letters: str) -> bool:
        """Whether a word that the text writes small begins with these letters."""
        place = bisect_left(self._small, letters)
        return place < len(self._small) and self._small[place].startswith(letters)

    @cached_property
    def _small(self) -> list[str]:
        return sorted(word for word in self._usual.values() if word.islower())

    def recased(self, text: str) -> str:
        """The text with each word in its usual form, and small if the word is unknown."""

        def usual(match: re.Match[str]) -> str:
            if match[0].endswith("."):
                return match[0]
            return self.usual(match[0]) or lower(match[0], self._language)

        return re.sub(rf"{_ABBREVIATION}|{_WORD.pattern}", usual, text)

    def _key(self, word: str) -> str:
        return upper(word, self._language)


def _capital(letters: str, language: str) -> str:
    if _base(language) == "nl":
        return upper(letters, language)
    return upper(letters[0], language) + letters[1:]


def _base(language: str) -> str:
    return language.partition("-")[0]
