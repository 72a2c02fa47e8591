"""Catalogues of a program's messages (gettext, PO). Only what is not translated yet is translated, and no entry that is
marked as fuzzy: a person should decide about it.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dragoman.documents.document import Document
from dragoman.inference.sentences import has_words
from dragoman.text.memories import read_catalogue

_FORMS = re.compile(r"nplurals\s*=\s*(\d)")


class Catalogue(Document):
    """A catalogue. Written, it is laid out as polib does it, with all that it held before."""

    def __init__(self, catalogue: Any, target: str) -> None:
        self._catalogue, self._target = catalogue, target
        self._entries = [
            entry for entry in catalogue if not (entry.obsolete or entry.fuzzy or entry.translated()) and entry.msgid
        ]
        forms = _FORMS.search(catalogue.metadata.get("Plural-Forms", ""))
        self._forms = int(forms[1]) if forms else 0

    @property
    def texts(self) -> Sequence[str]:
        """The lines of all messages, because programs show them as lines."""
        return [line.strip() for entry in self._entries for line in _lines(entry) if has_words(line)]

    def translated(self, translations: Sequence[str]) -> bytes:
        following = iter(translations)
        for entry in self._entries:
            one = _translated(entry.msgid, following)
            if entry.msgid_plural:
                others = _translated(entry.msgid_plural, following)
                count = self._forms or len(entry.msgstr_plural) or 2
                entry.msgstr_plural = {form: others if form or count == 1 else one for form in range(count)}
            else:
                entry.msgstr = one
        header = self._catalogue.metadata
        if not header.get("Language"):
            header["Language"] = self._target.replace("-", "_")
        try:
            return f"{self._catalogue}".encode(self._catalogue.encoding)
        except UnicodeEncodeError:
            header["Content-Type"] = "text/plain; charset=UTF-8"
            return f"{self._catalogue}".encode()


def _lines(entry: Any) -> list[str]:
    return [*entry.msgid.split("\n"), *(entry.msgid_plural.split("\n") if entry.msgid_plural else ())]


def _translated(message: str, translations: Iterator[str]) -> str:
    """A message with the next translations for its lines, and its own spaces around them."""
    lines = []
    for line in message.split("\n"):
        before, behind = line[: len(line) - len(line.lstrip())], line[len(line.rstrip()) :]
        lines.append(before + next(translations) + behind if has_words(line) else line)
    return "\n".join(lines)


def read(content: bytes, path: Path, languages: tuple[str, str]) -> Catalogue:
    """A catalogue and its messages."""
    return Catalogue(read_catalogue(path, "strict", Counter()), languages[1])
