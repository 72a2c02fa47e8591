"""Plain lines: single sentences that no step changes, recognised by one expression and by the words of the training
text. They go straight to the tokenizer, and their translations straight to the reader.
"""

import re
from functools import cached_property

from dragoman.languages import SPACELESS_CHARACTER
from dragoman.surface.letters import LanguageSide, Normaliser
from dragoman.surface.sentences import LONGEST_WORD

_LETTER = "[A-Za-zÀ-ÖØ-öø-ıĴ-ľŁ-ňŊ-žƀ-ƿǍ-ǰǴ-ɏΆΈ-ΊΌΎ-ΡΣ-ϏЀ-ҁҊ-ԯ]"
"""A letter of the Latin, Greek or Cyrillic script that is no variant of another."""
_WORD, _ANY_WORD = re.compile(f"{_LETTER}++"), re.compile(r"[^\W\d_]++")
_JOINED = re.compile(f"{_LETTER}++(?:'{_LETTER}++)++")
_ENOUGH_UNKNOWN = 0.25
"""Share of unknown words from which a text may be in another language than the training text. Of texts in that language
75 to 99 % have fewer, and of texts in another at most 1.1 % (seven sets in English, Italian, German and French)."""


class PlainLines:
    """The plain lines of a source language, and the texts that are in it by their words."""

    def __init__(self, source: LanguageSide) -> None:
        self._side, self._has_words = source, source.conventions.sentences > 0

    def __contains__(self, text: str) -> bool:
        """Return True for one sentence of words in their usual form, with commas, apostrophes and an end mark only.
        Unknown words are no names if they are in lower case.
        """
        if not self._form.fullmatch(text):
            return False
        if not self._has_words:
            return True
        first, *others = _WORD.findall(text)
        is_sentence = first[0].isupper() and not text.isupper() and self._side.truecaser.usual(first) is not None
        unknown = {*others} - self._side.truecaser.forms
        return is_sentence and all(map(str.islower, unknown)) and not self._has_unknown_name(text)

    def knows(self, text: str) -> bool:
        """Return True if the training text has enough of a text's words to show that both are in one language."""
        if not self._has_words:
            return False
        words, truecaser = {*_ANY_WORD.findall(text)}, self._side.truecaser
        enough = _ENOUGH_UNKNOWN * len(words)
        others = words - truecaser.forms
        if any(map(SPACELESS_CHARACTER.search, others)):
            return False  # one such word may be a sentence
        return len(others) < enough or sum(truecaser.usual(word) is None for word in others) < enough

    def _has_unknown_name(self, text: str) -> bool:
        """Return True if a known name has an ending, such as Tom'll, which makes it an unknown one; 's does not."""
        truecaser = self._side.truecaser
        for word in _JOINED.findall(text) if "'" in text else ():
            head, _, ending = word.partition("'")
            is_small = ending.islower() and truecaser.forms.issuperset(ending.split("'"))
            is_known = is_small and (len(head) == 1 or ending == "s" or truecaser.is_small(head))
            if not is_known and not word.islower():
                return True
        return False

    @cached_property
    def _form(self) -> re.Pattern[str]:
        """The form of a plain line, with the marks that the training text writes as they are."""
        conventions, rewritten = self._side.conventions, Normaliser(self._side.conventions).rewritten
        comma, apostrophe, *ends = (re.escape(mark) if rewritten(mark) == (mark, "") else "(?!)" for mark in ",'.!?")
        copied = rf"[Xx]D|\S{{{LONGEST_WORD + 1}}}"  # smileys and long runs
        word = f"(?!{copied}){_LETTER}++(?:{apostrophe}{_LETTER}++)*+"
        end = f"(?:{'|'.join(ends)})"
        if not self._has_words or conventions.has_sentences_without_mark:
            end += "?"
        return re.compile(f"{word}(?:(?:{comma})?+ {word})*+{end}")
