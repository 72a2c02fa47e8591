"""Paragraphs of documents for printing: words in several formats, markup around some of them, and what is between."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Any, NamedTuple

from dragoman.formats.cancelling import check_cancelled
from dragoman.formats.inline import InlinePart, InlineTexts, divided

Format = tuple[str, Any]
"""A format: a text by which it can be compared, and what writes it."""
LANGUAGE_KINDS = {"ja": "asian", "ko": "asian", "zh": "asian", "ar": "complex", "fa": "complex", "he": "complex"}
"""The kind of writing of a language, for which styles name a separate language."""


class TextMarkup(NamedTuple):
    """Words, or markup between them. Its kind is `words`, the beginning of another `format` or of a link or the like
    (`around`), the `end` of one of them, the `break` of a page or column or a tab, a `field` with its instruction, or
    another element (`alone`).
    """

    kind: str
    element: Any = None
    elements: Sequence[Any] = ()
    """The elements of a field."""
    format: Format | None = None


class Paragraph(NamedTuple):
    """A paragraph, the format that most of its letters have, and its content."""

    element: Any
    format: Format
    content: InlineTexts[TextMarkup]

    @classmethod
    def from_parts(cls, element: Any, parts: Sequence[InlinePart[TextMarkup]]) -> "Paragraph | None":
        """Return the texts of a paragraph and the rest of it; None if it has nothing to translate."""
        letters, formats = Counter[str](), dict[str, Format]()
        parts = [part for part in parts if part.words or part.kind != "words"]
        for part in parts:
            if part.words and part.piece.format:
                letters[part.piece.format[0]] += len(part.words)
                formats.setdefault(part.piece.format[0], part.piece.format)
        if not letters:
            return None
        usual = formats[letters.most_common(1)[0][0]]
        pieces = groupby(_with_formats(parts, usual), lambda part: part.piece.kind == "break")
        content = InlineTexts(chain.from_iterable(divided([*some]) for _, some in pieces))
        return cls(element, usual, content) if content.texts else None

    def fill(self, texts: Sequence[str], write: Callable[..., None], content: Callable[[Any], Any]) -> None:
        """Give the paragraph these texts as its content, with its own markup and formats.

        `write` adds words or an element, in a format or None, to an element whose children are in its `content`.
        """
        containers, formats, opened, removed = list[Any](), [self.format], list[str](), list[Any]()

        def enter(element: Any) -> None:
            containers.append(content(element))
            for child in children(containers[-1]):
                containers[-1].remove(child)
                removed.append(child)  # held, or lxml searches all of a run each time that one of its pieces is moved

        enter(self.element)
        for piece in self.content.pieces(texts, lambda piece: piece.kind != "format"):
            check_cancelled()
            if isinstance(piece, str):
                if piece:
                    write(containers[-1], formats[-1][1], piece)
            elif piece.kind == "end":
                if opened:  # not if the ends of two pairs, each of which is in two texts, have changed places
                    (formats if opened.pop() == "format" else containers).pop()
            elif piece.format and piece.kind == "format":
                opened.append(piece.kind)
                formats.append(piece.format)
            else:
                for element in piece.elements or (piece.element,):
                    write(containers[-1], piece.format and piece.format[1], element)
                if piece.kind == "around":
                    opened.append(piece.kind)
                    enter(piece.element)


def _with_formats(parts: Iterable[InlinePart[TextMarkup]], usual: Format) -> Iterator[InlinePart[TextMarkup]]:
    """Yield the parts, with markup where a format begins and ends that is not the usual one."""
    opened, end, unseen = usual, InlinePart("close", TextMarkup("end")), list[InlinePart[TextMarkup]]()
    for part in parts:
        if part.kind in ("before", "after"):  # in the format if that continues
            unseen.append(part)
            continue
        is_break = "break" in (part.kind, part.piece.kind)
        format = (not is_break and part.piece.format) or usual
        if format[0] != opened[0] != usual[0]:
            yield end
        yield from unseen
        unseen.clear()
        if opened[0] != format[0] != usual[0]:
            yield InlinePart("open", TextMarkup("format", format=format))
        opened = format
        yield part
    if opened[0] != usual[0]:
        yield end
    yield from unseen


def children(element: Any) -> list[Any]:
    """Return the children of an element, without its properties."""
    return [child for child in element if not str(child.tag).endswith("Pr")]
