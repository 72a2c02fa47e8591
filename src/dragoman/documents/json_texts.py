"""JSON: the texts that are values. Keys, and messages with branches of ICU (`{n, plural, …}`), stay."""

import json
import re
from pathlib import Path

from dragoman.documents.document import Spliced
from dragoman.documents.inline import Part
from dragoman.documents.reading import decoded
from dragoman.errors import DataError

_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"(\s*+:)?')
_LINE = re.compile(r"\\[nrt]|((?:(?!\\[nrt])(?:[^\\]|\\.))++)")
_BRANCHES = re.compile(r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal)\s*,")


class Json(Spliced):
    """A file of JSON, each line and column of its texts by itself."""

    def __init__(self, content: str, encoding: str) -> None:
        super().__init__(content, encoding)
        self._is_ascii = content.isascii() and "\\u" in content
        for string in _STRING.finditer(content):
            if string[2] or _BRANCHES.search(string[1]):
                continue
            for line in _LINE.finditer(content, *string.span(1)):
                if line[1]:
                    words = json.loads(f'"{line[1]}"').encode("utf-16", "surrogatepass").decode("utf-16", "replace")
                    self.add([Part("words", line.span(), words)])

    def written(self, words: str, is_inner: bool) -> str:
        return json.dumps(words, ensure_ascii=self._is_ascii)[1:-1]


def read(content: bytes, path: Path, languages: tuple[str, str]) -> Json:
    """A file of JSON and its texts.

    Raises:
        DataError: it is damaged, or nested too deeply.
    """
    text, encoding = decoded(content, path)
    try:
        json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {error}") from None
    return Json(text, encoding)
