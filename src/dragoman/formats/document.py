"""Documents of any format: the texts of a file, and the file again with their translations."""

import re
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from dragoman.errors import ConfigError
from dragoman.formats.cancelling import check_cancelled
from dragoman.formats.inline import Inline, InlinePart, divided, trimmed
from dragoman.surface.sentences import has_words

Where = tuple[int, int]
"""The beginning and end of a piece in its file."""
WHITE = " \t\n\r\f"
_LINK = re.compile(r"</?a\b|[\[\]]", re.IGNORECASE)
ALTERNATIVES = r"\|(?![^\[\]{}]{0,100}+[\]}])"
"""The sign between the forms of a message, as in "one dog | {n} dogs"."""
_DIVIDING = re.compile(rf"([\r\n]|_x000[aAdD]_|\\[nrt](?![a-z])|{ALTERNATIVES})")
"""Signs between the lines of a text; a program may read letters such as \\n as a line break."""


class Left(NamedTuple):
    """A text that stays untranslated, because its right translation is out of reach."""

    reason: str
    """The end of a sentence that begins "left as it is: ", such as "a formula compares with it"."""
    place: str
    """The position in the file, such as "line 12" or "cell Prices!B3"."""


HAS_BRANCHES = "its branches of ICU are damaged, too many, or share a tag"


class Document(ABC):
    """A file that was read.

    Attributes:
        texts: the texts to translate, each in one line, with inline markup as short tags.
        left: the texts that stay as they are although a reader might expect their translation.
        notes: further sentences that a reader of the translation should know.
        needs_review: True if a format that can mark translations for a person to check does so.
    """

    texts: Sequence[str]

    def __init__(self) -> None:
        self.left: list[Left] = []
        self.notes: list[str] = []
        self.needs_review = True
        self._line = 0, 1  # a place in the file, and its line: counting from there takes less time than from the start

    @abstractmethod
    def place(self, number: int) -> str:
        """Return the position in the file of a text, counted from 0, such as "line 12"."""

    @abstractmethod
    def translated(self, translations: Sequence[str]) -> bytes:
        """Return the file with a translation for each of its texts."""

    def line_of(self, content: str, where: Where) -> str:
        """Return the line of a piece of the file, counted from 1."""
        counted, number = self._line if self._line[0] <= where[0] else (0, 1)
        self._line = where[0], number + content.count("\n", counted, where[0])
        return f"line {self._line[1]:,}"

    def keep(self, existing: "Document") -> None:
        """Take over the translations that an earlier translation of the file, read as a document, holds by the same
        names: `texts` are then only those that it lacks.

        Raises:
            ConfigError: texts of this format have no names.
        """
        raise ConfigError("earlier translations of this format are not read; use a table for review (--review) instead")

    @property
    def inner(self) -> "Document":
        """The document that reads and writes the file."""
        return self

    @property
    def remarks(self) -> list[str]:
        """The notes, a sentence for each reason why texts were left, and a warning if there is nothing to translate."""
        places = defaultdict[str, list[str]](list)
        for reason, place in self.left:
            places[reason].append(place)
        left = [
            f"{len(some):,} {'text' if len(some) == 1 else 'texts'} left (first: {some[0]}): {reason}"
            for reason, some in places.items()
        ]
        nothing = [] if self.texts or self.left else ["no text was found that can be translated; the output is a copy"]
        return [*self.notes, *left, *nothing]


class TextBlock(NamedTuple):
    """A text and the piece of the file that it was read from."""

    where: Where
    inline: Inline[Where]


class Edit(NamedTuple):
    """Other characters in place of those of a piece of a file."""

    where: Where
    text: str


class Spliced(Document):
    """A text file into which translations are spliced. All else stays as it was: if the translations equal the texts,
    the file is the same to the byte.
    """

    keeps_empty = True
    """True if tags with nothing between them mean something."""

    def __init__(self, content: str, encoding: str, encode_errors: str = "strict") -> None:
        """Hold a file without texts; `encode_errors` treats characters that the encoding lacks, as in `str.encode`."""
        super().__init__()
        self.content, self._encoding, self._encode_errors = content, encoding, encode_errors
        self._blocks: list[TextBlock] = []
        self._inner: list[TextBlock] = []
        self.ends: dict[Where, str] = {}  # of tags and texts in markup, for when words have become others
        self.bare = set[Where]()  # texts in markup that need quotes

    @property
    def texts(self) -> Sequence[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return [block.inline.text for block in (*self._blocks, *self._inner)]

    def place(self, number: int) -> str:
        blocks, before = (self._blocks, 0) if number < len(self._blocks) else (self._inner, len(self._blocks))
        return self.line_of(self.content, blocks[number - before].where)

    def add(self, parts: Sequence[InlinePart[Where]]) -> None:
        """Add texts that come after all others, if they have words; of a row of links, as in a menu, add each link."""
        check_cancelled()
        for text in divided(parts):
            ends = [
                place
                for place, part in enumerate(text)
                if part.kind in ("open", "close") and _LINK.match(self.content, part.piece[0])
            ]
            pieces = [text[begin:end] for begin, end in pairwise([0, *ends, len(text)])]
            has_name = any(part.piece in self.ends for part in text)
            menu = pieces[1::2] if len(ends) > 2 and not has_name and not any(map(_has_words, pieces[::2])) else [text]
            for some in filter(_has_words, menu):
                self._blocks.append(self._block(some if has_name else some[slice(*trimmed(some))]))

    def add_inner(self, parts: Sequence[InlinePart[Where]]) -> None:
        """Add a text, if it has words, that may be in the markup of another one, as in an attribute; also in order."""
        check_cancelled()
        if _has_words(parts):
            has_name = parts[0].piece in self.ends
            block = self._block(parts if has_name else parts[slice(*trimmed(parts))])
            self._inner.append(block._replace(where=parts[0].piece) if has_name else block)

    def _block(self, parts: Sequence[InlinePart[Where]]) -> TextBlock:
        begin, end = parts[0].piece[0], parts[-1].piece[1]
        raw = self.content[begin:end]
        return TextBlock((end - len(raw.lstrip(WHITE)), begin + len(raw.rstrip(WHITE))), Inline.from_parts(parts))

    def written(self, words: str, inner: Where | None) -> str:
        """Return words as the format writes them; `inner` is where they are if they are in the markup of others."""
        return words

    def written_at(self, words: str, where: Where) -> str:
        """Return words of a text that is in no markup, as the format writes them at its place in the file."""
        return self.written(words, None)

    def _written_inner(self, block: TextBlock, text: str) -> str:
        if text == block.inline.text:
            return self.content[slice(*block.where)]
        parts = block.inline.parts(text)
        words = "".join(
            self.written(part, block.where) if isinstance(part, str) else self.content[slice(*part)] for part in parts
        )
        return f'"{words}"' if block.where in self.bare else words + self.ends.get(block.where, "")

    def _keeps_empty(self, piece: Where) -> bool:
        return self.keeps_empty or self.content.startswith("[", piece[0])  # a link

    def translated(self, translations: Sequence[str]) -> bytes:
        content = spliced(self.content, self._edits(translations))
        return content.encode(self._encoding, self._encode_errors)

    def _edits(self, translations: Sequence[str]) -> list[Edit]:
        """Return what changes in the file, in its order."""
        outer, inner = translations[: len(self._blocks)], translations[len(self._blocks) :]
        inside = [
            Edit(block.where, self._written_inner(block, text)) for block, text in zip(self._inner, inner, strict=True)
        ]
        edits, end = list[Edit](), 0
        for block, text in zip(self._blocks, outer, strict=True):
            check_cancelled()
            parts = block.inline.parts(text, self._keeps_empty)
            written = (
                self.written_at(part, block.where)
                if isinstance(part, str)
                else self.ends.get(part) or spliced(self.content, inside, part)
                for part in parts
            )
            is_same = text == block.inline.text
            new = spliced(self.content, inside, block.where) if is_same else "".join(written)
            edits += [*edits_between(inside, end, block.where[0]), Edit(block.where, new)]
            end = block.where[1]
        return [*edits, *edits_between(inside, end, len(self.content))]


def spliced(content: str, edits: Sequence[Edit], where: Where | None = None) -> str:
    """Return a piece of a text, by default all of it, with the edits in it made; they are in order."""
    begin, end = where or (0, len(content) + 1)  # an edit may be at the end
    parts = list[str]()
    for edit in edits_between(edits, begin, end):
        parts += [content[begin : edit.where[0]], edit.text]
        begin = edit.where[1]
    return "".join([*parts, content[begin:end]])


def edits_between(edits: Sequence[Edit], begin: int, end: int) -> Sequence[Edit]:
    """Return the edits that begin in a piece of the file."""
    return edits[bisect_left(edits, begin, key=_begin) : bisect_left(edits, end, key=_begin)]


def _begin(edit: Edit) -> int:
    return edit.where[0]


def _has_words(parts: Sequence[InlinePart[Where]]) -> bool:
    return any(part.kind == "words" and has_words(part.words) for part in parts)


def lines_in(text: str) -> list[str]:
    """Return the lines and alternatives of a text that have words, without the spaces around them."""
    return [line.strip() for line in _DIVIDING.split(text)[::2] if has_words(line)]


def with_lines(text: str, translations: Iterable[str]) -> str:
    """Return a text with the next translations in place of those lines; spaces around them stay."""
    left, pieces = iter(translations), _DIVIDING.split(text)
    for place, line in enumerate(pieces):
        if place % 2 == 0 and has_words(line):
            begin, end = len(line) - len(line.lstrip()), len(line.rstrip())
            pieces[place] = line[:begin] + next(left) + line[end:]
    return "".join(pieces)
