"""Words and punctuation marks of a text, and the correspondence between the words of two spellings of it."""

import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from difflib import SequenceMatcher

from tokenizers import Regex, pre_tokenizers

from dragoman.languages import SPACELESS_CHARACTER

_SCRIPTS_OF_CHARACTERS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_LETTER = rf"[\w\u00AD\u200C\u200D&&[^{_SCRIPTS_OF_CHARACTERS}]]"  # also marks, soft hyphens and joiners
_WORD = rf"{_LETTER}+['’](?=\w{{3}})|{_LETTER}+(?:['’]\w{{1,2}}\b)?['’]?|(?![\s\x1C-\x1F])\X"
_WORDS = pre_tokenizers.Split(Regex(_WORD), "removed", invert=True)  # `re` does not count marks as letters

PICTURES, PICTURE_MODIFIERS = "\u2190-\u2bff\U0001f000-\U0001faff", "\ufe0f\u200d\u20e3\U000e0020-\U000e007f"
"""Pictures, and the characters that change or join them, for a class of a regular expression."""
BYTES = "surrogateescape"
"""Error handler that keeps bytes of an incomplete character in a text, as single surrogates."""


def split_words(text: str) -> list[str]:
    """Split a text into words and marks. An elided article before three letters or more is a word.

    In scripts without spaces, such as Han, kana and Thai, every character is a word.

    >>> split_words("Don't! L'amica c'è.")
    ["Don't", '!', "L'", 'amica', "c'è", '.']
    """
    return [word for word, _ in _WORDS.pre_tokenize_str(text)]


def places_of_words(text: str) -> list[tuple[int, int]]:
    """Return the beginning and end of each word and mark of a text.

    >>> places_of_words("Don't go")
    [(0, 5), (6, 8)]
    """
    return [place for _, place in _WORDS.pre_tokenize_str(text)]


def places_in_line(line: str, parts: Sequence[str]) -> list[list[int]]:
    """Return, for each part of a line, the numbers of the words of the line that the words of the part belong to.

    >>> places_in_line("Good morning. He sleeps.", ["Good morning.", "He sleeps."])
    [[0, 1, 2], [3, 4, 5]]
    """
    begins = [first for first, _ in places_of_words(line)]
    places, end = [], 0
    for part in parts:
        start = line.index(part, end)
        end = start + len(part)
        places.append([bisect_right(begins, start + first) - 1 for first, _ in places_of_words(part)])
    return places


def matching_words(text: str, variant: str) -> dict[int, int]:
    """Map the words of a text to those of a variant of it with other letters and marks, by their numbers.

    >>> matching_words("It's fine.", "“IT’S FINE!!”")
    {0: 1, 1: 2, 2: 3}
    """
    sides = [[word.casefold().replace("’", "'") for word in split_words(side)] for side in (text, variant)]
    matching: dict[int, int] = {}
    for kind, begin, end, variant_begin, variant_end in SequenceMatcher(None, *sides, autojunk=False).get_opcodes():
        if kind in ("equal", "replace"):
            matching.update(zip(range(begin, end), range(variant_begin, variant_end), strict=False))
    return matching


def spaceless(character: str) -> bool:
    """Return True if the character belongs to a script written without spaces, such as Han, kana or Thai."""
    return SPACELESS_CHARACTER.match(character) is not None


def is_in_word(character: str) -> bool:
    """Return True for a letter, a combining mark or a digit of a script that separates words by spaces."""
    return (character.isalnum() or unicodedata.category(character)[0] == "M") and not spaceless(character)


def is_byte(character: str) -> bool:
    """Return True for a byte of an incomplete character, as `BYTES` keeps it."""
    return "\udc80" <= character <= "\udcff"


def joins_word(character: str) -> bool:
    """Return True if the character is part of a word, or a byte that may become part of one."""
    return is_in_word(character) or is_byte(character)


def begins_in_word(spelled: bytes) -> bool:
    """Return True if a spelling begins with part of a word, which may be a byte of a letter."""
    return spelled != b"" and joins_word(spelled.decode(errors=BYTES)[0])


def ends_in_word(spelled: bytes) -> bool:
    """Return True if a spelling ends with part of a word, which may be a byte of a letter."""
    return spelled != b"" and joins_word(spelled.decode(errors=BYTES)[-1])
