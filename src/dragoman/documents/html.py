"""HTML: the text between block tags, with inline tags in it, and what attributes show a reader."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from html.parser import HTMLParser
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Literal, NamedTuple

from dragoman.documents.document import Spliced, Where
from dragoman.documents.inline import Part, unescaped
from dragoman.documents.reading import decoded, other_language
from dragoman.errors import DataError
from dragoman.text.languages import english_name

_UNTRANSLATED = frozenset("code kbd math pre samp script style svg template textarea var".split())
_INLINE = _UNTRANSLATED.difference(["pre"]).union(
    "a abbr acronym b bdi bdo big cite data del dfn em font i img ins mark nobr q s small span strike strong sub sup"
    " time tt u".split()
)
_EMPTY = re.compile(r"<(?!(?:br|hr|lb|tab)\b)[^<>]*+>(?:</[^<>]*+>)?", re.IGNORECASE)
"""An element without content that ends no line."""
_SHOWN = ("alt", "aria-label", "label", "placeholder", "title")
_BUTTONS = ("button", "reset", "submit")
_DESCRIPTIONS = ("description", "og:description", "og:title", "twitter:description", "twitter:title")
_ROOT = re.compile(r"<html\b[^<>]{0,1000}>", re.IGNORECASE)
_LANGUAGE = re.compile(r"(\blang\s*=\s*[\"']?)([\w-]+)", re.IGNORECASE)
_BARE = re.compile(r"&(?!(?:amp|lt|gt);)|<|>")
_BARE_OR_QUOTE = re.compile(_BARE.pattern + "|[\"']")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}
_ENDS = {"<!--": "-->", "<![CDATA[": "]]>", "<![": "]>", "<": ">"}
_MOST_OPEN = 1_000
"""Most comments and tags that have no end."""
Kind = Literal["start", "end", "words", "other"]


class Event(NamedTuple):
    """What the parser finds at a place."""

    kind: Kind
    begin: int
    name: str = ""
    attributes: Mapping[str, str] = {}

    @property
    def is_kept(self) -> bool:
        """Whether the page says that nothing in it is translated."""
        classes = self.attributes.get("class", "").split()
        return self.attributes.get("translate", "").lower() == "no" or "notranslate" in classes


class Html(Spliced):
    """A page, which says that it is in the language of its translation."""

    def __init__(self, content: str, encoding: str, target: str, kept: Collection[str] | None = None) -> None:
        """`kept` makes it a piece of XML, and names the tags in which nothing is translated. A tag that stands beside
        words is inline there, whatever its name.
        """
        content = _ROOT.sub(lambda tag: _LANGUAGE.sub(rf"\g<1>{target}", tag[0]), content, count=1)
        super().__init__(content, encoding, "xmlcharrefreplace")
        events = _Parser(content).events
        self._is_xml, self._kept, self._inline = False, _UNTRANSLATED, _INLINE
        if kept is not None:
            self._is_xml, self._kept = True, frozenset(map(str.lower, kept))
            self._inline = _beside_words(events, content)
        group: list[Part[Where]] = []
        for piece in self._pieces(events, [*(event.begin for event in events[1:]), len(content)]):
            if piece is not None:
                group.append(piece)
            else:
                self.add(group)
                group = []
        self.add(group)

    def written(self, words: str, inner: Where | None) -> str:
        return (_BARE_OR_QUOTE if inner else _BARE).sub(lambda found: _ESCAPES[found[0]], words)

    def _pieces(self, events: Sequence[Event], ends: Sequence[int]) -> Iterator[Part[Where] | None]:
        """What texts consist of; None between two texts."""
        closes = _closes(events)
        place = 0
        while place < len(events):
            event, where = events[place], (events[place].begin, ends[place])
            is_inline = event.name in self._inline
            if event.name == "wbr":
                pass  # no place for it in other words
            elif event.kind in ("words", "other"):
                raw = self.content[slice(*where)]
                kind = "after" if raw.startswith("<!--") else "single"
                yield Part("words", where, unescaped(raw)) if event.kind == "words" else Part(kind, where)
            elif event.kind == "end":
                yield Part("close", where) if is_inline else None
            else:
                is_kept, is_open = event.is_kept, place in closes
                if not is_kept and not self._is_xml:
                    self._add_attributes(event, where)
                if is_kept or event.name in self._kept:
                    place, is_open = closes.get(place, place), False
                where = where[0], ends[place]
                yield Part("open" if is_open else self._kind(where), where) if is_inline else None
            place += 1

    def _kind(self, where: Where) -> Literal["single", "after"]:
        """Return "after" for an empty element inside a word: between two small letters."""
        beside = self.content[where[0] - 1 : where[0]] + self.content[where[1] : where[1] + 1]
        is_in_word = len(beside) == 2 and beside.isalpha() and beside.islower()
        return "after" if is_in_word and _EMPTY.fullmatch(self.content, *where) else "single"

    def _add_attributes(self, event: Event, where: Where) -> None:
        names = [name for name in _SHOWN if name in event.attributes]
        if event.name == "meta" and event.attributes.get("name", event.attributes.get("property")) in _DESCRIPTIONS:
            names.append("content")
        if event.name == "input" and event.attributes.get("type") in _BUTTONS:
            names.append("value")
        if not names:
            return
        attribute = rf"""(?<=[\s"'])(?:{"|".join(names)})\s*=\s*(?:"(?P<one>[^"]*)"|'(?P<other>[^']*)')"""
        for found in re.compile(attribute, re.IGNORECASE).finditer(self.content, *where):
            quoted = "one" if found["one"] is not None else "other"
            self.add_inner(found.span(quoted), unescaped(found[quoted]))


class _Parser(HTMLParser):
    """The events of a page, in order."""

    def __init__(self, content: str) -> None:
        super().__init__(convert_charrefs=False)
        self.events: list[Event] = []
        self._lines = [0, *accumulate(len(line) + 1 for line in content.split("\n"))]
        self.feed(content)
        self.close()

    def _found(self, kind: Kind, name: str = "", attributes: Mapping[str, str] | None = None) -> None:
        line, column = self.getpos()
        self.events.append(Event(kind, self._lines[line - 1] + column, name, attributes or {}))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._found("start", tag, {name: value or "" for name, value in attrs})

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        self._found("end", tag)

    def handle_data(self, data: str) -> None:
        self._found("words")

    def handle_entityref(self, name: str) -> None:
        self._found("words")

    def handle_comment(self, data: str) -> None:
        self._found("other")

    def handle_decl(self, decl: str) -> None:
        self._found("other")

    handle_charref = handle_entityref
    unknown_decl = handle_pi = handle_comment


def _closes(events: Sequence[Event]) -> dict[int, int]:
    """The place of the end tag of each element that has one, by that of its start tag."""
    opened, closes = defaultdict[str, list[int]](list), dict[int, int]()
    for place, event in enumerate(events):
        if event.kind == "start":
            opened[event.name].append(place)
        elif event.kind == "end" and opened[event.name]:
            closes[opened[event.name].pop()] = place
    return closes


def _beside_words(events: Sequence[Event], content: str) -> frozenset[str]:
    """The names of the tags before or behind which words stand."""
    closes = _closes(events)
    ends = [*(event.begin for event in events[1:]), len(content)]
    has_words = [
        e.kind == "words" and content[e.begin : end].strip() != "" for e, end in zip(events, ends, strict=True)
    ]
    names = set[str]()
    for place, (one, following) in enumerate(pairwise(events)):
        if has_words[place] and following.kind == "start":
            names.add(following.name)
        if has_words[place + 1] and (one.kind == "end" or (one.kind == "start" and place not in closes)):
            names.add(one.name)
    return frozenset(names)


def read(content: bytes, path: Path, languages: tuple[str, str]) -> Html:
    """A page and its texts.

    Raises:
        DataError: many comments or tags in it have no end. The parser looks for that of each in all that follows.
    """
    text, encoding = decoded(content, path, declares=True)
    if content.isascii() and encoding == "utf-8" and b"utf" not in content[:2_000].lower():
        encoding = "ascii"  # it does not say what its other characters would be in, so they become references
    for begin, end in _ENDS.items():
        if (count := text.count(begin, text.rfind(end) + 1)) > _MOST_OPEN:
            raise DataError(f"{path} is damaged: {count:,} times {begin} stands in it without {end}")
    page, root = Html(text, encoding, languages[1]), _ROOT.search(text)
    named = root and _LANGUAGE.search(root[0])
    if other := other_language(named and named[2], languages[0]):
        page.notes.append(f"the page says that it is in {other}, but is read as {english_name(languages[0])}")
    return page
