"""What every format gives: the texts of a file, and the file again with their translations."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from dragoman.documents.inline import Inline, Part, trimmed
from dragoman.inference.sentences import has_words

Where = tuple[int, int]
"""The beginning and end of a piece in its file."""
WHITE = " \t\n\r\f"
_LINK = re.compile(r"</?a\b|[\[\]]", re.IGNORECASE)
_LINE = re.compile(r"\S(?:[^\r\n]*\S)?")


class Document(Protocol):
    """A file that was read."""

    @property
    def texts(self) -> Sequence[str]:
        """What is translated, each in one line; inline markup stands in it as short tags."""
        ...

    def translated(self, translations: Sequence[str]) -> bytes:
        """The file with a translation for each of its texts."""
        ...


class Block(NamedTuple):
    """A text and the piece of the file that it was read from."""

    where: Where
    inline: Inline[Where]


class Spliced:
    """A text file into which translations are spliced. All else stays as it was: with the texts themselves for
    translations, the file is the same to the byte.
    """

    keeps_empty = True
    """Whether tags with nothing between them mean something."""

    def __init__(self, content: str, encoding: str, encode_errors: str = "strict") -> None:
        """`encode_errors` says what becomes of characters that the encoding lacks, as in `str.encode`."""
        self.content, self._encoding, self._encode_errors = content, encoding, encode_errors
        self._blocks: list[Block] = []
        self._inner: list[Block] = []

    @property
    def texts(self) -> Sequence[str]:
        return [block.inline.text for block in (*self._blocks, *self._inner)]

    def add(self, parts: Sequence[Part[Where]]) -> None:
        """Adds a text, which stands behind all others, if it has words; of links side by side, as in a menu, each."""
        ends = [
            place
            for place, part in enumerate(parts)
            if part.kind in ("open", "close") and _LINK.match(self.content, part.piece[0])
        ]
        pieces = [parts[begin:end] for begin, end in pairwise([0, *ends, len(parts)])]
        menu = pieces[1::2] if len(ends) > 2 and not any(map(_has_words, pieces[::2])) else [parts]
        for some in filter(_has_words, menu):
            some = some[slice(*trimmed(some))]
            begin, end = some[0].piece[0], some[-1].piece[1]
            raw = self.content[begin:end]
            begin, end = end - len(raw.lstrip(WHITE)), begin + len(raw.rstrip(WHITE))
            self._blocks.append(Block((begin, end), Inline.of(some)))

    def add_inner(self, where: Where, words: str) -> None:
        """Adds a text that may stand in the markup of another one, such as an attribute's. They come in order too."""
        if has_words(words):
            self._inner.append(Block(where, Inline.of([Part("words", where, words)])))

    def written(self, words: str, is_inner: bool) -> str:
        """Words as the format writes them."""
        return words

    def translated(self, translations: Sequence[str]) -> bytes:
        outer, inner = translations[: len(self._blocks)], translations[len(self._blocks) :]
        begins = [block.where[0] for block in self._inner]
        inside = [
            self.content[slice(*block.where)] if text == block.inline.text else self.written(text, is_inner=True)
            for block, text in zip(self._inner, inner, strict=True)
        ]

        def piece(begin: int, end: int) -> str:
            """A piece of the file, with the inner texts in it translated."""
            parts: list[str] = []
            for number in range(bisect_left(begins, begin), bisect_left(begins, end)):
                where = self._inner[number].where
                parts += [self.content[begin : where[0]], inside[number]]
                begin = where[1]
            return "".join([*parts, self.content[begin:end]])

        parts, end = list[str](), 0
        for block, text in zip(self._blocks, outer, strict=True):
            parts.append(piece(end, block.where[0]))
            if text == block.inline.text:
                parts.append(piece(*block.where))
            else:
                parts += [
                    self.written(part, is_inner=False) if isinstance(part, str) else piece(*part)
                    for part in block.inline.parts(text, lambda _: self.keeps_empty)
                ]
            end = block.where[1]
        content = "".join([*parts, piece(end, len(self.content))])
        return content.encode(self._encoding, self._encode_errors)


def _has_words(parts: Sequence[Part[Where]]) -> bool:
    return any(part.kind == "words" and has_words(part.words) for part in parts)


def lines_in(text: str) -> list[str]:
    """The lines of a text that have words, without the spaces around them."""
    return [line for line in _LINE.findall(text) if has_words(line)]


def with_lines(text: str, translations: Iterable[str]) -> str:
    """A text with the next translations for those lines of it, and its own spaces around them."""
    left = iter(translations)
    return _LINE.sub(lambda line: next(left) if has_words(line[0]) else line[0], text)
