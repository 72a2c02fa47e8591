"""Texts of apps for Apple's systems (.strings): values with a key, and comments."""

import codecs
import re
from pathlib import Path

from dragoman.errors import DataError
from dragoman.formats.document import Where
from dragoman.formats.entries import Entries, unescaped
from dragoman.formats.reading import decoded

_SPACE = r"(?:\s|/\*[\s\S]*?\*/|//[^\r\n]*)*+"
_STRING = r'"(?:[^"\\]|\\[\s\S])*+"|[\w$./:-]++'
_ENTRY = re.compile(rf"\ufeff?{_SPACE}(?:({_STRING}){_SPACE}(?:={_SPACE}({_STRING}){_SPACE})?;|\Z)")


class AppleStrings(Entries):
    """A file of strings."""

    def written(self, words: str, inner: Where | None) -> str:
        return re.sub(r'["\\]', r"\\\g<0>", words)


def read(content: bytes, path: Path, languages: tuple[str, str]) -> AppleStrings:
    """Read a file of strings, in UTF-8 or UTF-16.

    Raises:
        DataError: it is damaged, or a property list that a program has written.
    """
    if content.startswith(b"bplist") or re.match(rb"\s*<(?:\?xml|!DOCTYPE|plist)", content):
        raise DataError(f"{path} is a property list, as built apps hold; give the .strings of the app's sources")
    mark = b""
    if b"\0" in content[:2]:  # UTF-16 without a byte order mark
        mark = codecs.BOM_UTF16_BE if content[:1] == b"\0" else codecs.BOM_UTF16_LE
    text, encoding = decoded(mark + content, path)
    text = text[len(mark) // 2 :]
    document, at = AppleStrings(text, encoding, languages[1]), 0
    while at < len(text):
        entry = _ENTRY.match(text, at)
        if entry is None:
            space = re.compile(_SPACE).match(text, at)
            line = document.line_of(text, (space.end() if space else at, at))
            raise DataError(f'{path}, {line}: expected "key" = "text";')
        at = entry.end()
        if entry[2]:
            (begin, end), quote = entry.span(2), entry[2].startswith('"')
            is_octal = re.search(r"\\[0-7]", entry[2]) is not None
            if is_octal:
                document.leave("it has octal escapes", (begin, end))
            inside = begin + quote, end - quote
            document.add_string(entry[1].strip('"'), (begin, end), inside, unescaped, quote and not is_octal)
    return document
