"""Plain text: its lines for training, its paragraphs for translating.

The lines of a paragraph, as in a letter, are translated as one text and wrapped again. A line ends where its writer
ended it, and not where it was full, if the next word would still have fitted.
"""

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

from dragoman.formats.cancelling import check_cancelled
from dragoman.formats.document import Document, Where
from dragoman.formats.lines import EncodingErrors, read_lines, without_packing
from dragoman.formats.reading import decoded
from dragoman.surface.sentences import has_words

_LINE = re.compile(r"([ \t]*+(?:>[ \t]*+)*+)((?:[-*+•–]|\d{1,3}[.)])[ \t]++)?([^\r\n]*+)(\r\n|\r|\n|\Z)")
_LEAST_WIDTH = 50
"""Shorter lines, as of a poem or an address, are never wrapped ones."""
_SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg>", re.IGNORECASE)


def side_lines(path: Path, encoding_errors: EncodingErrors, repairs: Counter[str] | None = None) -> Iterator[str]:
    """Yield the sentences of one of several aligned files: its lines, or the segments of SGM, WMT's format."""
    lines = read_lines(path, encoding_errors, repairs)
    if not is_sgm(path):
        yield from lines
        return
    held = ""
    for line in lines:
        held += f"{line} "
        yield from (html.unescape(segment).strip() for segment in _SEGMENT.findall(held))
        held = held.rpartition("</seg>")[2] if "<seg" in held else ""


def is_sgm(path: Path) -> bool:
    """Return True if a file's name says that it is SGM."""
    return without_packing(path).suffix.lower() in (".sgm", ".sgml")


class PlainLine(NamedTuple):
    """A line, without spaces at its end."""

    before: str
    """Spaces and marks of a quotation."""
    item: str
    """The bullet or number, if it is an item of a list."""
    words: str
    where: Where
    """Begin and end of the words."""
    end: str
    """The end of the line."""

    @property
    def length(self) -> int:
        return len(self.before) + len(self.item) + len(self.words)


class Plain(Document):
    """A plain text. All but its words stays as it is, to the byte."""

    def __init__(self, content: str, encoding: str) -> None:
        super().__init__()
        self._content, self._encoding = content, encoding
        blocks: list[list[PlainLine]] = [[]]
        for line in _LINE.finditer(content, int(content.startswith("\ufeff"))):
            check_cancelled()
            if words := line[3].rstrip():
                where = line.start(3), line.start(3) + len(words)
                blocks[-1].append(PlainLine(line[1], line[2] or "", words, where, line[4]))
            elif blocks[-1]:
                blocks.append([])
        paragraphs = (paragraph for block in blocks for paragraph in _paragraphs(block))
        self._paragraphs = [paragraph for paragraph in paragraphs if has_words(_text(paragraph))]
        self.texts = [*map(_text, self._paragraphs)]

    def place(self, number: int) -> str:
        return self.line_of(self._content, self._paragraphs[number][0].where)

    def translated(self, translations: Sequence[str]) -> bytes:
        parts, end = list[str](), 0
        for paragraph, text, translation in zip(self._paragraphs, self.texts, translations, strict=True):
            check_cancelled()
            if translation != text:
                parts += [self._content[end : paragraph[0].where[0]], _wrapped(paragraph, translation)]
                end = paragraph[-1].where[1]
        return "".join([*parts, self._content[end:]]).encode(self._encoding)


def _paragraphs(block: Sequence[PlainLine]) -> Iterator[list[PlainLine]]:
    """Divide a block, the lines between two blank lines, into paragraphs; yield the lines of each."""
    width = max((line.length for line in block), default=0)
    paragraph: list[PlainLine] = []
    for line in block:
        if paragraph:
            last, (first_word, *_) = paragraph[-1], line.words.split()
            is_full = width >= _LEAST_WIDTH and last.length + 1 + len(first_word) > width
            is_quoted_equally = line.before.count(">") == last.before.count(">")
            if line.item or not is_full or not is_quoted_equally:
                yield paragraph
                paragraph = []
        paragraph.append(line)
    if paragraph:
        yield paragraph


def _text(paragraph: Sequence[PlainLine]) -> str:
    check_cancelled()
    return " ".join(line.words for line in paragraph)


def _wrapped(paragraph: Sequence[PlainLine], translation: str) -> str:
    """Return a translation in lines no longer than those of its source; in one line if the source has one."""
    if len(paragraph) == 1:
        return translation
    first, second = paragraph[:2]
    width = max(line.length for line in paragraph)
    begin = " " * (len(first.before) + len(first.item))
    lines = fill(
        translation,
        width,
        initial_indent=begin,
        subsequent_indent=second.before,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines.removeprefix(begin).replace("\n", first.end)


def read(content: bytes, path: Path, languages: tuple[str, str]) -> Plain:
    """Read a plain text and its paragraphs."""
    return Plain(*decoded(content, path))
