"""Pre-tokenization: rules that split text before a vocabulary is applied, and that join words into a line again.

There are two patterns for the library's engine, one set of joining rules, and spaCy's rules as an extra. An elided word
keeps its apostrophe (`l'` + `uomo`), and so does an English ending (`don` + `'t`). A placeholder is always a separate
piece. Nothing is merged across these cuts.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import cache

from dragoman.errors import ConfigError, optional
from dragoman.surface.placeholders import ANY_PLACEHOLDER, PLACEHOLDERS

_ENDING = r"['’](?i:s|t|d|m|ll|re|ve)(?![\p{L}\p{M}])"


def _patterns(alone: str) -> tuple[str, str]:
    """Return the patterns of subwords and of words. Each character of the class `alone` is a separate piece."""
    elision = rf"(?!{_ENDING})['’](?=[\p{{L}}\p{{N}}{alone}])"

    # Every character is in exactly one match, and a word includes the space before it, so joining the pieces gives the
    # text back. Digits are single pieces, so that numbers are copied digit by digit instead of memorised.
    subwords = (
        rf"{_ENDING}| ?[\p{{L}}\p{{M}}]+(?:{elision})?| ?\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}{alone}]+|\s+(?!\S)|\s+"
    )

    # Numbers, hyphenated words, abbreviations with dots and years such as '90 are kept whole. Each punctuation mark is
    # a word. Spaces are dropped.
    words = (
        rf"{_ENDING}|['’]\p{{N}}+s?|\p{{L}}(?:\.\p{{L}})+(?!\p{{L}})\.?"
        rf"|[\p{{L}}\p{{M}}\p{{N}}]+(?:-[\p{{L}}\p{{M}}\p{{N}}]+|(?<=\p{{N}})[.,:/]\p{{N}}+)*(?:{elision})?"
        rf"|\.{{2,}}|[^\s\p{{L}}\p{{M}}\p{{N}}\p{{P}}{alone}]+|\S"
    )
    return subwords + (rf"|[{alone}]" if alone else ""), words


OLDER_SUBWORD_PATTERN, OLDER_WORD_PATTERN = _patterns("")
"""Patterns of vocabularies without placeholders."""
SUBWORD_PATTERN, WORD_PATTERN = _patterns(rf"\x{{{ord(PLACEHOLDERS[0]):X}}}-\x{{{ord(PLACEHOLDERS[-1]):X}}}")

# At a single space or line end between two words, no rule above looks across the cut.
SPACE_BETWEEN_WORDS, GAP_BETWEEN_WORDS = re.compile(r"(?<=\S)(?= \S)"), re.compile(r"(?<=\S)(?=[ \n]\S)")

_LONGEST = 4_000_000
"""Running text without a space is cut after this many characters."""

_NO_SPACE_BEFORE = frozenset(",.;:!?…%°)]}»”’'。，、！？；：）】」』")
_NO_SPACE_AFTER = frozenset("([{«“‘¿¡$£#@（【「『")
_AROUND_PLACEHOLDERS = re.compile(rf"{ANY_PLACEHOLDER}|(?:(?!{ANY_PLACEHOLDER})[\s\S])+")
_SUFFIX = re.compile(r"(?:n?['’](?:s|t|d|m|ll|re|ve)|\.{2,})", re.IGNORECASE)
_ELIDED = re.compile(r".*\w['’]")

WordSplitter = Callable[[str], list[tuple[str, int]]]


def is_word(text: str) -> bool:
    """Return True if `SUBWORD_PATTERN` takes a text as one word: letters, their marks, the apostrophe of an elision.

    >>> [is_word(text) for text in ("città", "हिन्दी", "l'", "x1", "'", "")]
    [True, True, True, False, False, False]
    """
    letters = text[:-1] if text.endswith(("'", "’")) else text
    kinds = {unicodedata.category(character)[0] for character in letters}
    return "L" in kinds and kinds <= {"L", "M"}


def cut_running(text: Iterable[str], length: int, between: re.Pattern[str]) -> Iterator[str]:
    """Yield the text, given in parts, as pieces of at least `length` characters, cut where `between` matches.

    Joined, the pieces give the text. A piece of `_LONGEST` characters is cut anywhere, so memory holds at most one part
    and one such piece.

    >>> [*cut_running(["two b", "y two"], 4, SPACE_BETWEEN_WORDS)]
    ['two by', ' two']
    """
    rest, longest = "", max(length, _LONGEST)
    for part in text:
        rest, start, searched = rest + part, 0, max(length, len(rest) - 2)  # a match looks at what comes next
        while len(rest) - start > length:
            match = between.search(rest, searched, start + longest + 1)
            if match is None and len(rest) - start <= longest:
                break
            cut = match.start() if match else start + longest
            yield rest[start:cut]
            start, searched = cut, cut + length
        rest = rest[start:]
    yield rest


def join_words(words: Iterable[str]) -> str:
    """Join words and punctuation marks into a line, with spaces as in print.

    >>> join_words(["Ciao", ",", "l'", "uomo", "disse", ":", '"', "come", "stai", "?", '"'])
    'Ciao, l\\'uomo disse: "come stai?"'
    """
    text, glued, quoted = "", True, False
    for word in words:
        closes = word in _NO_SPACE_BEFORE or not may_follow_space(word) or (word == '"' and quoted)
        if not glued and not closes:
            text += " "
        text += word
        if word == '"':
            quoted = not quoted
        glued = word in _NO_SPACE_AFTER or _ELIDED.fullmatch(word) is not None or (word == '"' and quoted)
    return text


def may_follow_space(word: str) -> bool:
    """Return False if the word is the ending of another, such as `'t` in `don` + `'t`."""
    return _SUFFIX.fullmatch(word) is None


@cache
def spacy_split(language: str) -> WordSplitter:
    """Return spaCy's rules for `language`: text -> words with the positions of their first characters.

    Nothing is downloaded.

    Raises:
        MissingExtra: spaCy is not installed.
        ConfigError: spaCy has no rules for the language.
    """
    with optional("spacy", "spacy"):
        import spacy
    try:
        rules = spacy.blank(language).tokenizer
    except ImportError:
        raise ConfigError(f'spaCy has no rules for the language {language!r}; kind = "word" fits any') from None

    def split(text: str) -> list[tuple[str, int]]:
        parts = [(part[0], part.start()) for part in _AROUND_PLACEHOLDERS.finditer(text)]
        return [(token.text, first + token.idx) for part, first in parts for token in rules(part) if not token.is_space]

    return split
