"""Catalogues of a program's messages (gettext, PO). Only untranslated entries change; fuzzy ones wait for a person."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from textwrap import fill
from typing import Any

from dragoman.formats.document import Document, Left
from dragoman.formats.memories import CREDITS, read_catalogue
from dragoman.formats.reading import check_languages
from dragoman.surface.sentences import has_words

_BETWEEN = re.compile(
    r"""(^[ ]*-{1,2}\w.*?(?:\t|[ ]{2,}) | \t+ | [ ]{2,} | ^[ ]+ | [ ]+$
      | \n(?![a-z]) | (?<![^\n]{30})\n | (?<=[.:;!?])\n)""",
    re.VERBOSE | re.MULTILINE,
)
"""What stands between two texts of a message: an option and the space behind it, space, or the end of a line, unless a
long line goes on in the next with a small letter.
"""
_SPECIFIER = r"[-+#0']{0,5}(?:\*|\d{1,9})?(?:\.(?:\*|\d{0,9}))?(?:hh|ll|[hlLqjzt])?[a-zA-Z@]"
_ARGUMENT = re.compile(rf"((%(?:\(\w+\)|\d+\$){_SPECIFIER}|%%|%\d+\b|\{{[^{{}}\s]*\}})|%(?:{_SPECIFIER})?)")
"""An argument of a format string, and again if it is named, so that its place is free."""
_FORMATTED = re.compile("(?!no-).*-format")
_FORMS = re.compile(r"nplurals\s*=\s*(\d)")


class Catalogue(Document):
    """A catalogue. Written, it is laid out as polib does it, with all that it held before."""

    def __init__(self, catalogue: Any, target: str) -> None:
        super().__init__()
        self._catalogue, self._target = catalogue, target
        self._entries = [one for one in catalogue.untranslated_entries() if one.msgid not in ("", *CREDITS)]
        messages = ((entry, message) for entry in self._entries for message in (entry.msgid, entry.msgid_plural))
        # The lines and columns of all messages, because programs show them as such.
        texts = [(entry, text) for entry, message in messages for text in _BETWEEN.split(message or "")[::2]]
        self.texts = [text.replace("\n", " ") for _, text in texts if has_words(text)]
        self._entry_of = [entry for entry, text in texts if has_words(text)]
        forms = _FORMS.search(catalogue.metadata.get("Plural-Forms", ""))
        self._forms = int(forms[1]) if forms else 0

    def place(self, number: int) -> str:
        return f"line {self._entry_of[number].linenum:,}"

    def translated(self, translations: Sequence[str]) -> bytes:
        following = iter(translations)
        for entry in self._entries:
            one, before = _translated(entry.msgid, following), dict(entry.msgstr_plural)
            if entry.msgid_plural:
                others = _translated(entry.msgid_plural, following)
                count = self._forms or len(entry.msgstr_plural) or 2
                # With three forms, the first also stands for 21, so it must not lack the number.
                is_unlike = count == 1 or (count > 2 and entry.msgid.count("%") < entry.msgid_plural.count("%"))
                new = {form: others if form or is_unlike else one for form in range(count)}
                entry.msgstr_plural = new | {form: text for form, text in before.items() if text}
            else:
                entry.msgstr = one
            messages = entry.msgid, entry.msgid_plural or entry.msgid, *(entry.msgstr_plural.values() or [entry.msgstr])
            arguments = [sorted(_ARGUMENT.findall(message), key=itemgetter(1)) for message in messages]
            if any(map(_FORMATTED.match, entry.flags)) and any(one not in arguments[:2] for one in arguments[2:]):
                entry.msgstr, entry.msgstr_plural = "", before or dict.fromkeys(entry.msgstr_plural, "")
                self.left.append(Left("the translation changes an argument, such as %s", f"line {entry.linenum:,}"))
        places = {left.place for left in self.left}
        self.texts = [text for number, text in enumerate(self.texts) if self.place(number) not in places]
        header = self._catalogue.metadata
        if not header.get("Language"):
            header["Language"] = self._target.replace("-", "_")
        try:
            return f"{self._catalogue}".encode(self._catalogue.encoding)
        except UnicodeEncodeError:
            header["Content-Type"] = "text/plain; charset=UTF-8"
            return f"{self._catalogue}".encode()


def _translated(message: str, translations: Iterator[str]) -> str:
    """A message with the next translations for its texts. What stood in several lines is broken again."""
    pieces = _BETWEEN.split(message)
    for place in range(0, len(pieces), 2):
        lines, has_text = pieces[place].split("\n"), has_words(pieces[place])
        if has_text:
            pieces[place] = next(translations)
        if has_text and len(lines) > 1:
            pieces[place] = fill(pieces[place], max(map(len, lines)), break_long_words=False, break_on_hyphens=False)
    return "".join(pieces)


def read(content: bytes, path: Path, languages: tuple[str, str]) -> Catalogue:
    """Return a catalogue and its messages, or raise `DataError` if it is damaged or for other languages."""
    catalogue = read_catalogue(path, "strict", Counter())
    header = catalogue.metadata.get
    check_languages(path, header("X-Source-Language"), header("Language"), languages)
    return Catalogue(catalogue, languages[1])
