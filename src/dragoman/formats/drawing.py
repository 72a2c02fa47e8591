"""Parts of Office documents that hold drawings (DrawingML): slides, charts, diagrams, and comments on them."""

from collections.abc import Iterator, Mapping
from typing import Any

from dragoman.formats.cancelling import check_cancelled
from dragoman.formats.document import lines_in, with_lines
from dragoman.formats.rich_text import text_of, texts_in, translate_string
from dragoman.surface.sentences import has_words

_DESCRIPTIONS = ("descr", "title", "tooltip")
"""Attributes of pictures and links with words for readers."""
NAMES_LEFT = "it is a name in the data of a chart"


def drawn_texts(root: Any) -> Iterator[tuple[Any, str]]:
    """Yield the texts of paragraphs, comments and descriptions, each with the element that holds it."""
    for element, attribute in _holders(root):
        check_cancelled()
        for text in lines_in(element.get(attribute)) if attribute else texts_in(element):
            yield element, text


def translate_drawing(root: Any, translations: Mapping[str, str], language: str) -> bool:
    """Replace each text by its translation into this language, and return True if one has changed."""
    has_changed = False
    for element, attribute in reversed([*_holders(root)]):  # a link is in the run that is copied for other words
        check_cancelled()
        if attribute:
            words = element.get(attribute)
            element.set(attribute, with_lines(words, [translations[line] for line in lines_in(words)]))
            has_changed |= element.get(attribute) != words
        else:
            has_changed |= translate_string(element, translations, language)
    return has_changed


def _holders(root: Any) -> Iterator[tuple[Any, str]]:
    """Yield the elements with words, each with the attribute that holds them, or an empty one if its content does."""
    for element in root.iter("{*}p", "{*}text", "{*}cNvPr", "{*}hlinkClick", "{*}hlinkHover"):
        if element.tag.rpartition("}")[2] not in ("p", "text"):
            yield from ((element, name) for name in _DESCRIPTIONS if has_words(element.get(name, "")))
        elif has_words(text_of(element)) and not str(getattr(element.getnext(), "tag", "")).endswith("mentions"):
            yield element, ""  # not a comment that mentions a person, whose name is found by its place in the text


def names_in_chart(root: Any) -> list[str]:
    """Return the words in the data of a chart, such as the names of its series, which also a workbook holds."""
    if not root.tag.endswith("}chartSpace"):
        return []
    return [*dict.fromkeys(node.text for node in root.iter("{*}v", "{*}pt") if has_words(node.text or ""))]
