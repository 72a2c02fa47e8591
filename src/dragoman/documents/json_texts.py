"""JSON: the texts that are values. Keys, and messages with branches of ICU (`{n, plural, …}`), stay."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path

from dragoman.documents.document import Spliced
from dragoman.documents.inline import Part
from dragoman.documents.reading import chosen, decoded
from dragoman.errors import DataError

_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*+)"(\s*+:)?|[{}\[\]]')
_LINE = re.compile(r"\\[nrt]|((?:(?!\\[nrt])(?:[^\\]|\\.))++)")
BRANCHES = re.compile(r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal)\s*,")
"""What only a message with branches holds."""


class Json(Spliced):
    """A file of JSON, each line and column of its texts by itself."""

    def __init__(self, content: str, encoding: str, path: Path, only: Sequence[str]) -> None:
        super().__init__(content, encoding)
        self._is_ascii = content.isascii() and "\\u" in content
        found = [*_values(content)]
        wanted: Iterable[bool] = chosen([key for key, _ in found], only, path) if only else repeat(True)
        for (_, string), is_wanted in zip(found, wanted, strict=False):
            if not is_wanted or BRANCHES.search(string[1]):
                continue
            for line in _LINE.finditer(content, *string.span(1)):
                if line[1]:
                    words = json.loads(f'"{line[1]}"').encode("utf-16", "surrogatepass").decode("utf-16", "replace")
                    self.add([Part("words", line.span(), words)])

    def written(self, words: str, is_inner: bool) -> str:
        return json.dumps(words, ensure_ascii=self._is_ascii)[1:-1]


def _values(content: str) -> Iterator[tuple[str, re.Match[str]]]:
    """The strings that are values, with the keys above them, dots between them."""
    keys = [""]
    for token in _TOKEN.finditer(content):
        if token[0] in "{[":
            keys.append("")
        elif token[0] in "}]":
            keys.pop()
        elif token[2]:
            keys[-1] = json.loads(f'"{token[1]}"')
        else:
            yield ".".join(filter(None, keys)), token


def read(content: bytes, path: Path, languages: tuple[str, str], only: Sequence[str] = ()) -> Json:
    """A file of JSON and its texts; `only` are the keys whose values are translated.

    Raises:
        DataError: it is damaged, nested too deeply, or has no such key.
    """
    text, encoding = decoded(content, path)
    try:
        json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {error}") from None
    return Json(text, encoding, path, only)
