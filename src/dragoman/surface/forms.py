"""A sentence as it was typed becomes one that the model was trained on, and its translation gets back what was typed:
quotes and bullets around it, marks at its end, capitals, the style of its quotes and apostrophes.

The conventions of the training text decide, so a form that the model knows is left alone, and a sentence written as
they have it is not changed at all.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from dragoman.surface.around import END_MARKS, QUOTES, Peeled, peel
from dragoman.surface.conventions import Conventions, requoted
from dragoman.surface.letters import SHORT, Truecaser, begins_small, capitalised, lower, title, upper, words_in
from dragoman.surface.protected import Names
from dragoman.surface.protection import Kept, Protection, put_back, shown
from dragoman.surface.terms import Terms

Case = Literal["usual", "capitals", "title", "small", "small beginning"]
"""How letters were typed. In a title, short words may be small."""
_ASCII, _DASH = {"’": "'", "…": "..."}, "-"


@dataclass(frozen=True)
class Form:
    """How a sentence was typed."""

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
        self, conventions: Conventions, others: Conventions, languages: tuple[str, str], placeholders: str = ""
    ) -> None:
        """Given the conventions of this language and of the one on the other side, both languages, and the
        placeholders that the model knows.
        """
        self._conventions, self._others, self.language = conventions, others, languages[0]
        names = Names(self._truecaser, self.language, self._names.intersection(conventions.words))
        self._protection = Protection(names, conventions, languages, placeholders)

    @cached_property
    def _truecaser(self) -> Truecaser:
        return Truecaser(self._conventions.words, self.language)

    @cached_property
    def _names(self) -> set[str | None]:
        """Usual forms of names: None, because the training text lacks the word, or one that both languages have."""
        return {None, *(word for word in self._others.words if word[0].isupper())}

    def form(self, text: str, protect: tuple[str, ...] = (), terms: Terms | None = None) -> Form | None:
        """The form of a sentence; None if the model can read it as it is. It keeps what the regular expressions of
        `protect` find, and no names that are `terms`.
        """
        form = self._form(text, protect, terms)
        return None if (form.plain == text and not form.kept) or not form.plain.strip() else form

    def _form(self, text: str, protect: tuple[str, ...], terms: Terms | None) -> Form:
        conventions = self._conventions
        without_code, kept = self._protection.code(text, protect)
        if not conventions.sentences:
            checked, kept = self._protection.words(without_code, kept)
            return Form(conventions.normalised(checked), Peeled("", text, ""), kept=kept)
        peeled = peel(without_code, conventions.around_known, self._is_name)
        core, kept = self._protection.words(
            peeled.core, kept, [span for span, _ in terms.found(peeled.core)] if terms else []
        )
        core, styles = conventions.rewritten(core)
        has_mark = core[-1:] in END_MARKS
        case = self._typed_case(shown(core), has_mark or bool(peeled.marks))
        lacks_mark = bool(peeled.marks) or (shown(core[-1:]).isalnum() and not conventions.has_sentences_without_mark)
        mark = conventions.mark(peeled.marks) if lacks_mark else ""
        return Form(self._recased(core, case) + mark, peeled, case, styles, is_marked=lacks_mark, kept=kept)

    def _is_name(self, speaker: str) -> bool:
        """Whether none of its words is translated; a single letter never is."""
        words = words_in(speaker.partition("(")[0])
        return all(
            word[0].isupper() and (len(word) == 1 or self._truecaser.usual(word) in self._names) for word in words
        )

    def _recased(self, text: str, case: Case) -> str:
        """A text that was typed in this case, with its letters as in the training text."""
        if case == "usual":
            return text
        plain = self._truecaser.recased(text) if case != "small beginning" or text.islower() else text
        return capitalised(plain, self.language) if self._conventions.begins_with_capitals else plain

    def _typed_case(self, text: str, is_sentence: bool) -> Case:
        if text.islower() or begins_small(text):
            if self._conventions.has_small_beginnings:
                return "usual"
            return "small" if text.islower() and is_sentence else "small beginning"
        if any(len(word) > SHORT and word.islower() for word in text.split()):
            return "usual"
        words = [word for part in text.split() for word in words_in(part)[:1]]  # the t of don't is none
        if text.isupper():
            return "capitals" if any(len(word) > SHORT or self._truecaser.is_small(word) for word in words) else "usual"
        if self._conventions.has_titles and not is_sentence:
            return "usual"
        inner = [word for word in words[1:] if self._truecaser.is_small(word)]
        return "title" if 2 * sum(map(str.istitle, inner)) > len(inner) else "usual"

    def restored(self, form: Form, text: str, is_whole: bool = True) -> str:
        """A translation in the form of its source. One that is not whole yet is a beginning of what it will become."""
        if not text:
            return ""
        if form.is_marked and is_whole:
            text, form = self._remarked(text, form)
        text = self._restyled(self._in_case(text, form), form.styles)
        behind = self._quoted(form.peeled.after, 1) if is_whole else ""
        return put_back(self._quoted(form.peeled.before, 0) + text + behind, form.kept, form.plain)

    def _remarked(self, text: str, form: Form) -> tuple[str, Form]:
        """The translation without its mark, and the form with the typed marks as this language writes them."""
        is_greek = self.language.startswith("el")
        others = "".join(END_MARKS - {"."}) + ";" * is_greek
        bare = text.rstrip(others if text[-1] in others else ".")  # the stop of p.m.! stays
        space, mark = text[len(bare.rstrip()) : len(bare)], text[len(bare) :]
        if not bare.strip():
            return text, form
        marks = typed = form.peeled.marks
        if is_greek or (mark and not mark.isascii()):
            typed = marks.translate(str.maketrans("?!", ";!" if is_greek else "？！"))
        if marks[:1] in set("?!:;"):
            typed = space + typed
        after = form.peeled.after.replace(marks, typed, 1)
        return bare.rstrip(), replace(form, peeled=form.peeled._replace(after=after))

    def _in_case(self, text: str, form: Form) -> str:
        match form.case:
            case "capitals":
                return upper(text, self.language)
            case "title":
                keep_short = any(word[0].islower() for word in form.peeled.core.split()[1:])
                return title(text, self.language, keep_short)
            case "small":
                return lower(text, self.language)
            case "small beginning":
                first = next(iter(words_in(text)), "")
                usual = self._truecaser.usual(first) or first.lower()
                return text.replace(first, usual, 1) if usual[:1].islower() and not first[1:].isupper() else text
        return text

    def _restyled(self, text: str, styles: str) -> str:
        """The source's apostrophes, dashes and double quotes for those of the translation, if these are plain ones."""
        if "‘" in styles:
            text = requoted(text, "‘’", "'")
        quotes = [typed for typed in styles if typed in QUOTES]
        if quotes and '"' in text:
            text = requoted(text, (quotes[0], quotes[1] if len(quotes) > 1 else quotes[0]))
        for typed in styles:
            if typed in _ASCII:
                text = text.replace(_ASCII[typed], typed)
            elif typed in "–—―":
                text = " ".join(typed if word == _DASH else word for word in text.split(" "))
        return text

    def _quoted(self, typed: str, side: int) -> str:
        """What stood before (0) or behind (1) a sentence, with the quotes of this language if its text has its own."""
        quotes, changed = self._conventions.quotes, QUOTES
        if quotes == '""':
            quotes, changed = self._conventions.quotes_of_print, QUOTES.replace('"', "")
        if not quotes:
            return typed
        return "".join(quotes[side] if character in changed else character for character in typed)
