"""Names, numbers and code of a source stand as placeholders in the search, and are put back into its translation.

So a model that never saw a name copies it as it is. It must have learnt placeholders, and knows names by the words that
its training text lacks. Of a model without placeholders, translations are only checked.
"""

import re
from collections.abc import Mapping, Sequence

from dragoman.errors import DecodeError
from dragoman.inference.sentences import spaceless
from dragoman.text.casing import Truecaser
from dragoman.text.forms import END_MARKS
from dragoman.text.placeholders import NUMBERS, PLACEHOLDERS, WORDS
from dragoman.text.protected import Names, Span, apart, code_in, localised, numbers_in, replaced

_SHOWN = str.maketrans({**dict.fromkeys(WORDS, "X"), **dict.fromkeys(NUMBERS, "1")})
_LARGEST_WORD = 20
"""Languages often write numbers up to this in words."""
_SECONDS = 2
"""Longest time that an expression may take for one text."""

Kept = Mapping[str, str]
"""What a translation should keep, as it writes it, by the placeholder that stands for it; by its own text if none does.
"""


class Protection:
    """Protects the texts of one language that are translated into another."""

    def __init__(self, words: Truecaser, languages: tuple[str, str], placeholders: str) -> None:
        """Given the words that the training text has, without rare names, and the placeholders that the model knows."""
        self._languages, self._placeholders = languages, placeholders
        self._names = Names(words, languages[0])

    def code(self, text: str, protect: tuple[str, ...] = ()) -> tuple[str, Kept]:
        """The text with placeholders for addresses, variables and the like, and for what the regular expressions of
        `protect` find; and what it keeps.

        Raises:
            DecodeError: an expression cannot be used.
        """
        return self._placed(text, apart(text, found_by(protect, text), code_in(text)), {})

    def words(self, text: str, kept: Kept, terms: Sequence[Span] = ()) -> tuple[str, Kept]:
        """The same for names and numbers outside of `terms`, in a text from which code is `kept` already."""
        spans = apart(text, terms, self._names.unknown(text), numbers_in(text))
        return self._placed(text, [span for span in spans if span.kind != "term"], kept)

    def _placed(self, text: str, spans: Sequence[Span], kept: Kept) -> tuple[str, Kept]:
        if not spans:
            return text, kept
        keys, found = [], dict(kept)
        for span in spans:
            typed = text[span.begin : span.end]
            usable = (*span.placeholders, *WORDS)  # a number may stand as a word, if there is nothing better
            free = (one for one in usable if one in self._placeholders and one not in found)
            keys.append(next(free, typed))
            if keys[-1] in PLACEHOLDERS or not _may_be_words(typed):
                found[keys[-1]] = localised(typed, *self._languages) if span.kind == "number" else typed
        return replaced(text, spans, keys), found


def found_by(expressions: Sequence[str], text: str) -> list[Span]:
    """What regular expressions find, one after the other.

    Raises:
        DecodeError: one of them is wrong, finds an empty text, or takes years.
    """
    found: list[Span] = []
    for expression in expressions:
        import regex  # here, because few texts are read with expressions

        shown = f"decode.protect holds {expression[:60]!r}, which"
        try:
            found += [Span(*match.span(), "code") for match in regex.finditer(expression, text, timeout=_SECONDS)]
        except (regex.error, RecursionError) as error:
            raise DecodeError(f"{shown} is no regular expression: {error}") from None
        except (TimeoutError, MemoryError):
            raise DecodeError(
                f"{shown} takes longer than {_SECONDS} seconds for {text[:60]!r}; give a simpler one, "
                "without repetitions in repetitions"
            ) from None
        if any(span.begin == span.end for span in found):
            raise DecodeError(f"{shown} also matches an empty text")
    return found


def put_back(text: str, kept: Kept, read: str) -> str:
    """The text with what its placeholders stand for, and with its numbers as its language writes them. What stood apart
    from words in the source that was `read` stands apart from them again.

    >>> one = WORDS[0]
    >>> put_back(f"È qui.{one}", {one: "a@b.org"}, f"It is {one} here.")
    'È qui a@b.org.'
    """
    for typed, written in kept.items():
        if typed in PLACEHOLDERS:
            text = _apart(text, typed, read)
        elif written not in text:
            text = text.replace(typed, written, 1)
    return text.translate({ord(one): written for one, written in kept.items() if one in PLACEHOLDERS})


def _apart(text: str, placeholder: str, read: str) -> str:
    """The text with spaces around a placeholder that the search put directly behind or before a word, and with its last
    mark behind a placeholder that came after it.
    """
    before, found, behind = text.partition(placeholder)
    if not found:
        return text
    read_before, _, read_behind = read.partition(placeholder)
    if not behind and before[-1:] in END_MARKS and read_behind:
        before, behind = before[:-1], before[-1]
    if _is_word(before[-1:]) and not _is_word(read_before[-1:]):
        before += " "
    if _is_word(behind[:1]) and not _is_word(read_behind[:1]):
        behind = " " + behind
    return before + found + behind


def _is_word(character: str) -> bool:
    """Whether it is a placeholder, or part of a word in a script that puts spaces between words."""
    return character in PLACEHOLDERS or (character.isalnum() and not spaceless(character))


def missing(text: str, kept: Kept) -> list[str]:
    """What a translation should hold and does not. A number inside of another is not there.

    >>> missing("Costa 177 euro.", {"17": "17", "{x}": "{x}"})
    ['17', '{x}']
    """
    found = (rf"(?<!\d){re.escape(written)}(?!\d)" for written in kept.values())
    return [written for written, pattern in zip(kept.values(), found, strict=True) if not re.search(pattern, text)]


def hide(text: str, kept: Kept) -> str:
    """A given translation with its placeholders, as far as it holds what they stand for."""
    for placeholder, written in kept.items():
        text = text.replace(written, placeholder, 1)
    return text


def shown(text: str) -> str:
    """The text with a capital in the place of each word that is protected, and a 1 for each number, by which its case
    can be seen.
    """
    return text.translate(_SHOWN)


def _may_be_words(number: str) -> bool:
    return number.isdecimal() and int(number) <= _LARGEST_WORD
