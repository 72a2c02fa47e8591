"""JSON: the records of a file for training, and its values for translating.

Records are one value a line, or the items of one array. Of a document, only strings that are values are translated:
keys stay.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Any

from dragoman.errors import DataError
from dragoman.formats.cancelling import check_cancelled
from dragoman.formats.document import Where
from dragoman.formats.entries import Entries
from dragoman.formats.lines import EncodingErrors, read_lines, read_running
from dragoman.formats.reading import decoded
from dragoman.formats.rows import Row, by_language, is_json_list
from dragoman.formats.values import Value, selected
from dragoman.surface.sentences import BRANCHES

SURROGATES = "lone surrogates replaced"
ONE_OBJECT = "one JSON object that holds all rows; write an array of objects, or one object a line"
LONGEST_ITEM = 1 << 24
"""Characters of an item of an array that may be held in memory."""
_JSON = json.JSONDecoder(parse_constant=lambda _: None)
_BETWEEN_ITEMS = re.compile(r"[\s,]*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")  # also matches pairs of them, which are a whole character
_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*+)"(\s*+:)?|[{}\[\]]')
_LONGEST_NAME, _MOST_KEYS = 500, 100  # of a value, of which the end counts


def rows(path: Path, encoding_errors: EncodingErrors, repairs: Counter[str]) -> Iterator[Row]:
    """Yield one JSON value a line, or the items of one array. A blank line is None, and so is a number such as NaN.

    Raises:
        DataError: a line or item is not JSON, or holds a lone surrogate (only with "strict").
    """
    if _begins_array(path, encoding_errors):
        yield from _items_of_array(path, encoding_errors, repairs)
        return
    for number, line in enumerate(read_lines(path, encoding_errors, repairs), 1):
        if not line.strip():
            yield number, None
            continue
        try:
            record = _JSON.decode(line)
        except (ValueError, RecursionError) as error:
            if number == 1 and re.match(r'\s*\{\s*("[^"]*"\s*:\s*[\[{]?\s*)?$', line):
                raise DataError(f"{path} is {ONE_OBJECT}") from None
            raise DataError(f"{path}:{number} is not JSON: {error}") from None
        if _SURROGATE_ESCAPE.search(line):
            record = _without_surrogates(record, f"{path}:{number}", encoding_errors, repairs)
        yield number, by_language(record)


def _begins_array(path: Path, encoding_errors: EncodingErrors) -> bool:
    """Return True if a file is one array of records, and not a list on each line."""
    begin = next(read_running(path, encoding_errors)).lstrip()
    if not re.match(r"\[\s*[\[{]", begin):
        return False
    first, _, rest = begin.partition("\n")
    return not (first.startswith("[[") and is_json_list(first) and rest.lstrip().startswith("["))


def _items_of_array(path: Path, encoding_errors: EncodingErrors, repairs: Counter[str]) -> Iterator[Row]:
    """Yield the items of an array, numbered from 1, with a piece of the file in memory."""
    pieces = read_running(path, encoding_errors)
    text, number = next(pieces).lstrip().removeprefix("["), 1
    at = 0
    while True:
        between = _BETWEEN_ITEMS.match(text, at)
        at = between.end() if between else at
        try:
            record, end = _JSON.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            if text.startswith("]", at):
                return
            if len(text) - at > LONGEST_ITEM or not (piece := next(pieces, "")):
                raise DataError(f"{path}: item {number} of its array is not JSON: {error}") from None
            text, at = text[at:] + piece, 0
            continue
        if _SURROGATE_ESCAPE.search(text, at, end):
            record = _without_surrogates(record, f"{path}:{number}", encoding_errors, repairs)
        yield number, by_language(record)
        at, number = end, number + 1


def _without_surrogates(record: Any, where: str, encoding_errors: EncodingErrors, repairs: Counter[str]) -> Any:
    """Replace or refuse lone surrogates, which JSON escapes can spell and no file can hold."""
    text, count = _SURROGATE.subn("\ufffd", json.dumps(record, ensure_ascii=False))
    if count and encoding_errors == "strict":
        raise DataError(
            f'{where} holds a lone surrogate, half a character; fix it, or set data.encoding_errors = "replace"'
        )
    repairs[SURROGATES] += count
    return json.loads(text)


class Json(Entries):
    """A file of JSON. Each line and column of its values is a text."""

    def __init__(self, content: str, encoding: str, target: str, path: Path, only: Sequence[str]) -> None:
        super().__init__(content, encoding, target)
        self._is_ascii = content.isascii() and "\\u" in content
        self._has_branches = BRANCHES.search(content) is not None
        strings = [*_values(content)]
        comments = set[str]() if only else _comments({key for key, *_ in strings})
        texts = ("" if key in comments else _text(string[1]) for key, _, string in strings)
        values = [Value(key, key, text) for (key, *_), text in zip(strings, texts, strict=True)]
        wanted, self.notes = selected(values, only, path)
        if comments:
            self.notes.append(f"{len(comments):,} descriptions for translators stay, such as {min(comments)!r}")
        for (key, unique, string), is_wanted in zip(strings, wanted, strict=True):
            places = tuple(part if isinstance(part, str) else (part[0], *part[1]) for part in unique)
            if key == "@@locale":
                self.named = string.span(1)
                self.replace(self.named, target.replace("-", "_"))
            elif key not in comments:
                self.add_string(places, string.span(), string.span(1), _text, is_wanted)

    def written_at(self, words: str, where: Where) -> str:
        if self._has_branches and "'{" not in self.content[slice(*where)]:
            words = re.sub(r"(?<!')'(?=\{)", "''", words)  # where ICU would read the beginning of a quotation
        return json.dumps(words, ensure_ascii=self._is_ascii)[1:-1]


def _values(content: str) -> Iterator[tuple[str, Sequence[Any], re.Match[str]]]:
    """Yield the strings that are values, with the keys above them, dots between them, and the keys and places in lists:
    each place with a list that holds in the end how many places there are.
    """
    keys: list[str | list[int]] = [""]
    for token in _TOKEN.finditer(content):
        check_cancelled()
        if token[2]:
            keys[-1] = json.loads(f'"{token[1]}"')[-_LONGEST_NAME:]
        elif token[0] in "}]":
            keys.pop()
        else:
            if isinstance(keys[-1], list):
                keys[-1][0] += 1
            if token[0] in "{[":
                keys.append("" if token[0] == "{" else [0])
            else:
                names = (key for key in keys if isinstance(key, str) and key)
                unique = [key if isinstance(key, str) else (key[0], key) for key in keys[-_MOST_KEYS:]]
                yield ".".join(names)[-_LONGEST_NAME:], unique, token


def _text(written: str) -> str:
    """Return what a string of JSON, given without its quotes, means."""
    return json.loads(f'"{written}"').encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _comments(keys: Set[str]) -> set[str]:
    """Return the keys that describe others: of ARB below `@name`, of a Chrome extension next to each `message`."""
    if not {"@context", "@id", "@type"}.isdisjoint(key.rpartition(".")[2] for key in keys):
        return set()  # JSON-LD, whose `@type` and the like are values
    is_chrome = all(f"{key.partition('.')[0]}.message" in keys for key in keys)
    siblings = r"|[^.]*\.(?:description|placeholders)(?:\..*)?" if is_chrome else ""
    return {key for key in keys if re.fullmatch(rf"(?:.*\.)?@.*{siblings}", key, re.DOTALL)}


def read(content: bytes, path: Path, languages: tuple[str, str], only: Sequence[str] = ()) -> Json:
    """Read a file of JSON and its texts; `only` are the keys whose values are translated.

    Raises:
        DataError: it is damaged, nested too deeply, or has no such key.
    """
    text, encoding = decoded(content, path)
    try:
        json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {error}") from None
    return Json(text, encoding, languages[1], path, only)
