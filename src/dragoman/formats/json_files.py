"""JSON: the texts that are values. Keys, and messages with branches of ICU (`{n, plural, …}`), stay."""

import json
import re
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

from dragoman.errors import DataError
from dragoman.formats.document import Left, Spliced, Where
from dragoman.formats.inline import Part
from dragoman.formats.reading import decoded
from dragoman.formats.values import Value, selected

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
        comments = set[str]() if only else _comments({key for key, _ in found})
        texts = ("" if key in comments or BRANCHES.search(one[1]) else _text(one[1]) for key, one in found)
        values = [Value(key, key, text) for (key, _), text in zip(found, texts, strict=True)]
        wanted, self.notes = selected(values, only, path)
        if comments:
            self.notes.append(f"{len(comments):,} descriptions for translators stay, such as {min(comments)!r}")
        number, place = 1, 0
        for (key, string), is_wanted in zip(found, wanted, strict=True):
            if (is_wanted or not only) and key not in comments and BRANCHES.search(string[1]):
                number, place = number + content.count("\n", place, string.start()), string.start()
                self.left.append(Left("it is a message with branches of ICU", f"line {number:,}"))
            elif is_wanted:
                for line in _LINE.finditer(content, *string.span(1)):
                    if line[1]:
                        self.add([Part("words", line.span(), _text(line[1]))])

    def written(self, words: str, inner: Where | None) -> str:
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


def _text(written: str) -> str:
    """Return what a string of JSON, given without its quotes, means."""
    return json.loads(f'"{written}"').encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _comments(keys: Set[str]) -> set[str]:
    """Return the keys that describe others: those of ARB below `@name`, and those beside each `message` of a Chrome
    extension; none of JSON-LD, whose `@type` and the like are values.
    """
    if not {"@context", "@id", "@type"}.isdisjoint(key.rpartition(".")[2] for key in keys):
        return set()
    is_chrome = all(f"{key.partition('.')[0]}.message" in keys for key in keys)
    beside = r"|[^.]*\.(?:description|placeholders)(?:\..*)?" if is_chrome else ""
    return {key for key in keys if re.fullmatch(rf"(?:.*\.)?@.*{beside}", key, re.DOTALL)}


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
