"""Inline markup of any format as short tags in a text: `<g1>` and `</g1>` around words, `<g2/>` between them,
`<br id="3"/>` for the end of a line, and `{{4}}` for what becomes a word. The translator sees only these.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from itertools import pairwise, zip_longest
from typing import Generic, Literal, NamedTuple, TypeVar

from dragoman.errors import DataError
from dragoman.languages import SPACELESS
from dragoman.surface.sentences import has_words

TAG = re.compile(r"</?g\d+>|<g\d+/>|<br id=\"\d+\"/>|\{\{\d+\}\}")
_EMPTY = re.compile(r"( ?)<g(\d+)>( *)</g\2>( ?)")
_SPACES = re.compile(r"[ \t\n\r\f]{2,}|[\t\n\r\f]")  # no single one, which would take memory for nothing
_ENTITY = re.compile(r"&(?!(?:amp|lt|gt)\b)(?:#?\w{1,31};|[A-Za-z]{3,6}(?![\w;=]))")
"""A reference to a character. Those three stay, because they represent markup."""
_BEFORE, _AFTER = "\ud810", "\ud811"  # no text has these characters
_SIGNS = frozenset("[*+-–−†‡™®")
_NO_FORMULA = re.compile(r"(?:[^\w.,]|[^\d][.,]|\A)\Z")
_SIDES = {"before": _BEFORE, "open": _BEFORE, "after": _AFTER, "close": _AFTER}
_LETTER = rf"[\w'’/–—-](?<![{SPACELESS}])"
_WORD = re.compile(rf"{_LETTER}(?:{_LETTER}|[{_BEFORE}{_AFTER}]?</?g\d+/?>)*{_LETTER}")
_LINE_BREAKING = re.compile(rf"[\u00ad\u2060\ufeff]|(?<![{SPACELESS}])\u200b(?![{SPACELESS}])")
"""Invisible characters that say where a line may end."""

LONGEST_TEXT = 200_000
"""Characters of a text, which takes up to 120 times as much memory to read or write."""

M = TypeVar("M")


class InlinePart(NamedTuple, Generic[M]):
    """A part of a text: words, or markup that opens, closes or is alone. Markup that takes no space on the page is
    "before" or "after": from inside a word, it moves to this side. What becomes a word is a "value", and what ends a
    line is a "break".
    """

    kind: Literal["words", "open", "close", "single", "break", "before", "after", "value"]
    piece: M
    """The part in its file."""
    words: str = ""

    @property
    def is_blank(self) -> bool:
        return self.kind == "words" and not self.words.strip()


@dataclass(frozen=True)
class Inline(Generic[M]):
    """A text in one line, its markup as short tags."""

    text: str
    markup: Mapping[str, M]
    """The markup that each tag represents, in the order of the text."""

    @classmethod
    def from_parts(cls, parts: Sequence[InlinePart[M]]) -> "Inline[M]":
        """Return the text of these parts. A tag without its other half is alone, and takes no space."""
        check_length(sum(len(part.words) for part in parts))
        closes = _closes(parts)
        opens = {close: place for place, close in closes.items()}
        begins = (place for place, part in enumerate(parts) if part.kind != "words" and place not in opens)
        numbers = {place: number for number, place in enumerate(begins, 1)}
        text, markup = list[str](), dict[str, M]()
        for place, part in enumerate(parts):
            if part.kind == "words":
                text.append(TAG.sub(_as_words, part.words))
                continue
            number = numbers[opens.get(place, place)]
            tag = f"</g{number}>" if place in opens else f"<g{number}>" if place in closes else f"<g{number}/>"
            tag = {"break": f'<br id="{number}"/>', "value": f"{{{{{number}}}}}"}.get(part.kind, tag)
            is_empty = tag.endswith("/>") or closes.get(place) == place + 1
            text.append(_SIDES.get(part.kind, "") + tag if is_empty else tag)
            markup[tag] = part.piece
        plain = _LINE_BREAKING.sub("", "".join(text).replace("\u2011", "-"))
        if _BEFORE in plain or _AFTER in plain:
            plain = re.sub(f"[{_BEFORE}{_AFTER}]", "", _WORD.sub(_whole, plain))
        return cls(_SPACES.sub(" ", plain).strip(" "), markup)

    def parts(self, translation: str, with_empty: Callable[[M], bool] = lambda _: True) -> Iterator[str | M]:
        """Yield the words and the markup of a translation. If a tag is missing, or tags are not nested, all of them go
        around the words. A pair with nothing between is left out unless `with_empty` says that it means something.
        """

        def without_empty(pair: re.Match[str]) -> str:
            piece = self.markup.get(f"<g{pair[2]}>")
            return pair[0] if piece is None or with_empty(piece) else (pair[1] or pair[3] or pair[4])[:1]

        tags = [tag for tag in TAG.findall(translation) if tag in self.markup]
        if sorted(tags) != sorted(self.markup) or not _is_nested(tags):
            words = TAG.sub(lambda tag: "" if tag[0] in self.markup else tag[0], translation)
            tags = [*self.markup]
            first_close = next((place for place, tag in enumerate(tags) if tag.startswith("</")), len(tags))
            translation = "".join([*tags[:first_close], words, *tags[first_close:]])
        while (shorter := _EMPTY.sub(without_empty, translation)) != translation:
            translation = shorter
        end = 0
        for match in TAG.finditer(translation):
            if match[0] in self.markup:
                yield translation[end : match.start()]
                yield self.markup[match[0]]
                end = match.end()
        yield translation[end:]


def _whole(word: re.Match[str]) -> str:
    """Return a word with the markup that takes no space outside."""
    empty = r"<g\d+(?:/>|></g\d+>)"
    before, after = ("".join(re.findall(side + empty, word[0])) for side in (_BEFORE, _AFTER))
    return before + re.sub(f"[{_BEFORE}{_AFTER}]{empty}", "", word[0]) + after


class InlineTexts(Generic[M]):
    """The texts of a paragraph, in order, and the parts between them, which stay."""

    def __init__(self, pieces: Iterable[Sequence[InlinePart[M]]]) -> None:
        """Read the pieces that a paragraph is divided into; those without words are between texts."""
        self._inlines, self._between = list[Inline[M]](), list[list[InlinePart[M]]]([[]])
        for parts in pieces:
            begin, end = trimmed(parts) if any(has_words(part.words) for part in parts) else (len(parts), 0)
            self._between[-1] += parts[:begin]
            if begin < end:
                first, last = parts[begin], parts[end - 1]
                spaces = len(first.words) - len(first.words.lstrip()), len(last.words.rstrip())
                self._between[-1].append(first._replace(kind="words", words=first.words[: spaces[0]]))
                self._inlines.append(Inline.from_parts(parts[begin:end]))
                self._between.append([last._replace(kind="words", words=last.words[spaces[1] :]), *parts[end:]])

    @property
    def texts(self) -> list[str]:
        return [inline.text for inline in self._inlines]

    def pieces(self, texts: Sequence[str], with_empty: Callable[[M], bool] = lambda _: True) -> Iterator[str | M]:
        """Yield the words and the markup of the paragraph with these texts; `with_empty` is as in `Inline.parts`."""
        for between, inline, text in zip_longest(self._between, self._inlines, texts):
            yield from (part.words if part.kind == "words" else part.piece for part in between)
            yield from inline.parts(text, with_empty) if inline else ()


def check_length(characters: int) -> None:
    """Raise `DataError` if a text of a document is too long."""
    if characters > LONGEST_TEXT:
        raise DataError(
            f"the document has a paragraph, entry or tag of more than {LONGEST_TEXT:,} characters; divide it"
        )


def refers_to_note(raised: str, before: str) -> bool:
    """Return True if raised characters, after those `before` them, are no part of a formula, a unit or a number."""
    is_mark = not any(map(str.isalpha, raised)) or len(raised) == 1
    is_after_word = before[-3:].isalpha() and len(before) > 2
    return is_mark and (not _SIGNS.isdisjoint(raised) or is_after_word or _NO_FORMULA.search(before) is not None)


def unescaped(html: str) -> str:
    """Return HTML as a reader sees it: its entities become characters."""
    return _ENTITY.sub(lambda entity: unescape(entity[0]), html)


def trimmed(parts: Sequence[InlinePart[M]]) -> tuple[int, int]:
    """Return begin and end of these parts without the spaces and the markup around all words."""
    closes = _closes(parts)
    partners = closes | {close: place for place, close in closes.items()}
    words = [place for place, part in enumerate(parts) if part.kind in ("value", "words") and not part.is_blank]
    if not words:
        return 0, 0
    begin, end = words[0], words[-1]
    first = (place for place in range(begin) if begin <= partners.get(place, -1) <= end)
    last = (place for place in range(len(parts) - 1, end, -1) if begin <= partners.get(place, -1) <= end)
    return next(first, begin), next(last, end) + 1


def divided(parts: Sequence[InlinePart[M]]) -> Iterator[Sequence[InlinePart[M]]]:
    """Yield the texts between line breaks, and the breaks. A sentence that began with a capital letter continues over a
    break if no end mark is before it and a small letter after it; that break is part of the text.
    """
    breaks = [*(place for place, part in enumerate(parts) if part.kind == "break"), len(parts)]
    begin = first = 0
    for place, following in pairwise([*breaks, len(parts)]):
        letters = (letter for at in range(begin, place) if parts[at].kind == "words" for letter in parts[at].words)
        line, next_line = (_words(parts[slice(*span)]) for span in ((first, place), (place, following)))
        first = place + 1
        begins = next(filter(str.isalpha, letters), "").isupper()
        if not (begins and line and line[-1] not in ".:;!?…" and next_line[:1].islower()):
            yield from (parts[begin:place], parts[place : place + 1])
            begin = first


def _words(parts: Sequence[InlinePart[M]]) -> str:
    return "".join(part.words for part in parts if part.kind == "words").strip()


def _as_words(tag: re.Match[str]) -> str:
    """Return a typed text that looks like a tag of ours as words."""
    return re.sub("br|g", r"\g<0> ", tag[0], count=1)


def _closes(parts: Sequence[InlinePart[M]]) -> dict[int, int]:
    """Return the places of the parts that open, each with the place of the part that closes it."""
    opened, closes = list[int](), dict[int, int]()
    for place, part in enumerate(parts):
        if part.kind == "open":
            opened.append(place)
        elif part.kind == "close" and opened:
            closes[opened.pop()] = place
    return closes


def _is_nested(tags: Sequence[str]) -> bool:
    """Return True if each pair closes before the pair around it."""
    opened: list[str] = []
    for tag in tags:
        if tag.startswith("</"):
            if not opened or opened.pop() != tag[2:]:
                return False
        elif not tag.endswith(("/>", "}")):
            opened.append(tag[1:])
    return not opened
