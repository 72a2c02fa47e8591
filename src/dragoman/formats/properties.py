"""Texts of Java (.properties): their values. In those with arguments (`{0}`), an apostrophe is written twice."""

import json
import re
from collections.abc import Hashable, Sequence
from pathlib import Path

from dragoman.formats.document import Edit, Where
from dragoman.formats.entries import Entries, unescaped
from dragoman.surface.sentences import BRANCHES

_SPACE = r"(?:[ \t\f]|\\(?:\r\n|[\r\n]))*+"
_KEY, _VALUE = (rf"(?:[^\\{end}]|\\(?:\r\n|[\s\S]))" for end in (r" \t\f\r\n=:", r"\r\n"))
_ENTRY = re.compile(
    rf"(?:\A\ufeff?|(?<=[\r\n])){_SPACE}(?:[#!][^\r\n]*"
    rf"|(?P<key>{_KEY}++){_SPACE}(?:[=:]{_SPACE})?(?P<value>(?:\\[ \t\f]{_SPACE})*(?P<text>{_VALUE}*+)))?+"
)


class Properties(Entries):
    """A file of properties."""

    def __init__(self, content: str, encoding: str, target: str) -> None:
        super().__init__(content, encoding, target)
        self._is_ascii = content.isascii() or encoding != "utf-8"
        self._messages = set[Where]()  # texts of values with arguments
        entries = [entry for entry in _ENTRY.finditer(content) if entry["key"]]
        with_arguments = {entry["text"] for entry in entries if re.search(r"\{\d", entry["text"])}
        is_doubled = any("''" in text for text in with_arguments)
        doubles = is_doubled or not any(re.search(r"\w'\w", text) for text in with_arguments)
        for entry in entries:
            value, where, before = entry["text"], entry.span("value"), len(self._blocks)
            is_message = doubles and value in with_arguments and not BRANCHES.search(value)
            reason = "a part of it depends on a number" if re.search(r"\{\d+\s*,\s*choice\b", value) else ""
            if is_message and "'" in value.replace("''", ""):
                reason = "an apostrophe that is not doubled quotes a part of it"
            if reason:
                self.leave(reason, where)
            meaning = _message if is_message else unescaped
            self.add_string(unescaped(entry["key"]), where, entry.span("text"), meaning, not reason)
            if is_message:
                self._messages.update(block.where for block in self._blocks[before:])

    def _value_edits(self, translations: Sequence[str]) -> list[Edit]:
        texts = [
            text.replace("'", "''") if block.where in self._messages and text != block.inline.text else text
            for block, text in zip(self._blocks, translations, strict=True)
        ]
        return super()._value_edits(texts)

    def written(self, words: str, inner: Where | None) -> str:
        words = re.sub(r"\\|\A[=:]", r"\\\g<0>", words)
        return self._escaped(words)

    def copied(self, key: Hashable, existing: Entries) -> str:
        return self._escaped(existing.content[slice(*existing.entries[key].where)])

    def _escaped(self, words: str) -> str:
        """Return words without letters that the file cannot hold."""
        return re.sub(r"[^\0-\x7f]+", lambda letters: json.dumps(letters[0])[1:-1], words) if self._is_ascii else words


def _message(written: str) -> str:
    return unescaped(written).replace("''", "'")


def read(content: bytes, path: Path, languages: tuple[str, str]) -> Properties:
    """Read a file of properties, in UTF-8 or else ISO 8859-1, and its texts."""
    try:
        return Properties(content.decode(), "utf-8", languages[1])
    except UnicodeDecodeError:
        return Properties(content.decode("iso-8859-1"), "iso-8859-1", languages[1])
