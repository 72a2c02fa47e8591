"""A sentence as it was typed becomes one that the model was trained on, and its translation gets back what was typed:
quotes and bullets around it, marks at its end, capitals, the style of its quotes and apostrophes.

The conventions of the training text decide, so a form that the model knows is left alone, and a sentence written as
they have it is not changed at all.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from dragoman.inference.protection import Kept, Protection, put_back, shown
from dragoman.text.casing import (
    SHORT,
    Truecaser,
    begins_small,
    capitalised,
    first_words,
    lower,
    title,
    upper,
    words_in,
)
from dragoman.text.conventions import Conventions, requoted
from dragoman.text.forms import END_MARKS, QUOTES, Peeled, peel

Case = Literal["usual", "capitals", "title", "headline", "small", "small beginning"]
"""How letters were typed. A headline is a title whose short words are small."""
_APOSTROPHE, _DASH = "'", "-"
_PAIRS = {"”": "“”", "„": "„“", "»": "«»", "›": "‹›", "」": "「」", "』": "『』"}
"""The pair of quotes that was typed, by one that stands in no other."""
_FULL_WIDTH = str.maketrans("?!", "？！")


@dataclass(frozen=True)
class Form:
    """How a sentence was typed."""

    typed: str
    plain: str
    """What the model reads."""
    peeled: Peeled
    """What stood around it."""
    case: Case = "usual"
    styles: str = ""
    """The quotes, apostrophes and dashes that were replaced."""
    is_marked: bool = False
    """Whether the model was given a mark at the end that was not typed."""
    kept: Kept = field(default_factory=dict)
    """What the translation should hold, by what stands for it in `plain`."""


class Forms:
    """The forms that sentences of one language are typed in, and that translations into it get back."""

    def __init__(
        self, conventions: Conventions, others: Conventions, languages: tuple[str, str], has_placeholders: bool = False
    ) -> None:
        """Given the conventions of this language and of the one on the other side, both languages, and whether the
        model knows placeholders.
        """
        self._conventions, self._others, self._language = conventions, others, languages[0]
        self._protection = Protection(self._truecaser, languages, has_placeholders)

    @cached_property
    def _truecaser(self) -> Truecaser:
        return Truecaser(self._conventions.words, self._language)

    @cached_property
    def _other_names(self) -> set[str]:
        return {word for word in self._others.words if word[0].isupper()}

    def form(self, text: str) -> Form | None:
        """The form of a sentence; None if the model can read it as it is."""
        form = self._form(text)
        return None if (form.plain == text and not form.kept) or not form.plain.strip() else form

    def _form(self, text: str) -> Form:
        conventions = self._conventions
        without_code, kept = self._protection.code(text)
        if not conventions.sentences:
            return Form(text, conventions.normalised(without_code), Peeled("", text, "", "", frozenset()), kept=kept)
        peeled = peel(without_code, conventions.around_known, self._is_name)
        core, kept = self._protection.words(peeled.core, kept)
        core, styles = conventions.rewritten(core)
        mark = conventions.mark(peeled.marks) if peeled.marks or self._lacks_mark(core) else ""
        plain, case = self._recased(core, bool(peeled.marks) or core[-1:] in END_MARKS)
        return Form(text, plain + mark, peeled, case, styles, is_marked=bool(peeled.marks or mark), kept=kept)

    def _lacks_mark(self, core: str) -> bool:
        """Whether a sentence ends in a word, and those of the training text do not."""
        return shown(core[-1:]).isalnum() and not self._conventions.has_sentences_without_mark

    def _is_name(self, speaker: str) -> bool:
        """Whether no word of it is translated: the training text lacks it, or both languages write it alike."""
        for word in words_in(speaker):
            usual = self._truecaser.usual(word)
            if not word[0].isupper() or (usual is not None and usual not in self._other_names):
                return False
        return True

    def _recased(self, text: str, is_sentence: bool) -> tuple[str, Case]:
        """A text with its letters as in the training text, and how they were typed."""
        case = self._typed_case(shown(text), is_sentence)
        if case == "usual":
            return text, case
        if not self._conventions.begins_with_capitals and case in ("small", "small beginning"):
            return text, "usual"
        plain = self._truecaser.recased(text) if text.islower() or case != "small beginning" else text
        return capitalised(plain, self._language) if self._conventions.begins_with_capitals else plain, case

    def _typed_case(self, text: str, is_sentence: bool) -> Case:
        if text.islower():
            return "small" if is_sentence else "small beginning"
        words = first_words(text)
        if text.isupper():
            written = any(len(word) > 1 and self._truecaser.usual(word) not in (None, word) for word in words)
            return "capitals" if written else "usual"
        if words and words[0].islower() and begins_small(text):
            return "small beginning"
        small = [word for word in words if not word[0].isupper()]
        if any(len(word) > SHORT for word in small):
            return "usual"
        inner = [word for word in words[1:] if self._is_small(word)]
        large = [word for word in inner if word[0].isupper()]
        if 2 * len(large) <= len(inner) or any(len(word) > 1 and word.isupper() for word in large):
            return "usual"
        return "headline" if small else "title"

    def _is_small(self, word: str) -> bool:
        """Whether the training text usually writes a word small inside a sentence."""
        usual = self._truecaser.usual(word)
        return usual is not None and usual[0].islower()

    def restored(self, form: Form, text: str, is_whole: bool = True) -> str:
        """A translation in the form of its source. One that is not whole yet is a beginning of what it will become."""
        if not text:
            return ""
        if form.is_marked and is_whole:
            text, form = self._remarked(text, form)
        text = self._restyled(self._in_case(text, form.case), form.styles)
        behind = self._quoted(form.peeled.after, 1) if is_whole else ""
        return put_back(self._quoted(form.peeled.before, 0) + text + behind, form.kept, form.plain)

    def _remarked(self, text: str, form: Form) -> tuple[str, Form]:
        """The translation without its mark, and the form with the typed marks as this language writes them."""
        bare = text.rstrip("".join(END_MARKS) + ";" * (self._language.startswith("el")))
        space, mark = text[len(bare.rstrip()) : len(bare)], text[len(bare) :]
        if not bare.strip():
            return text, form
        marks = form.peeled.marks
        if mark and not mark.isascii():
            typed = marks.translate(_FULL_WIDTH)
        elif self._language.startswith("el"):
            typed = marks.replace("?", ";")
        else:
            typed = marks
        after = form.peeled.after
        if marks:
            after = after.replace(marks, (space if marks[0] in "?!:;" else "") + typed, 1)
        return bare.rstrip(), replace(form, peeled=form.peeled._replace(after=after))

    def _in_case(self, text: str, case: Case) -> str:
        match case:
            case "capitals":
                return upper(text, self._language)
            case "title" | "headline":
                return title(text, self._language, keep_short=case == "headline")
            case "small":
                return lower(text, self._language)
            case "small beginning":
                first = next(iter(words_in(text)), "")
                usual = self._truecaser.usual(first) or first.lower()
                return text.replace(first, usual, 1) if usual[:1].islower() and not first[1:].isupper() else text
        return text

    def _restyled(self, text: str, styles: str) -> str:
        """The source's apostrophes, dashes and double quotes for those of the translation, if these are plain ones."""
        for typed in styles:
            if typed in _PAIRS and '"' in text:
                text = requoted(text, _PAIRS[typed])
            elif typed == "’":
                text = text.replace(_APOSTROPHE, typed)
            elif typed in "–—―":
                text = " ".join(typed if word == _DASH else word for word in text.split(" "))
        return text

    def _quoted(self, typed: str, side: int) -> str:
        """What stood before (0) or behind (1) a sentence, with the quotes of this language if its text has its own."""
        quotes = self._conventions.quotes
        if not quotes or quotes[0] == '"':
            return typed
        return "".join(quotes[side] if character in QUOTES else character for character in typed)
