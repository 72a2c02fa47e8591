"""XML files of named values, such as the strings of an app: elements with their places, and the texts in them."""

import re
from bisect import bisect
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from html import escape, unescape
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from dragoman.errors import DataError
from dragoman.formats.cancelling import check_cancelled
from dragoman.formats.document import Document, Where
from dragoman.formats.entries import Entries, PluralForm
from dragoman.formats.inline import InlinePart
from dragoman.formats.plurals import CATEGORIES
from dragoman.formats.xml import xml_tree
from dragoman.surface.sentences import has_words

_QUOTED, _REFERENCE = r"\"[^\"]*+\"|'[^']*+'", r"&(?:amp|lt|gt|quot|apos|#\w+);"
_IN_TAG, _INSTRUCTION = rf"(?:[^\"'>/]|{_QUOTED}|/(?!>))*+", r"<!--.*?-->|<\?.*?\?>"
_TOKEN = re.compile(
    rf"(?P<words>(?:[^<&]|{_REFERENCE})++)|(?P<after>{_INSTRUCTION}"
    rf"|<!DOCTYPE(?:[^\[\"'>]|{_QUOTED})*+(?:\[(?:{_INSTRUCTION}|[^\]\"']|{_QUOTED})*+\]\s*+)?>)"
    r"|(?P<cdata><!\[CDATA\[.*?\]\]>)|(?P<break><br\s*+/>)"
    rf"|(?P<value>&[^;]*+;|<(?:[\w.-]+:g|byte)\b{_IN_TAG}(?:/>|>[^<]*+</[^>]*+>))"
    rf"|(?P<close></[^>]*+>)|(?P<single><{_IN_TAG}/>)|(?P<open><{_IN_TAG}>)",
    re.DOTALL,
)
"""A piece of well-formed XML, by its kind as `InlinePart` has it. A value is an entity, XLIFF's `g` or Qt's `byte`."""
_HTML = r"<[a-zA-Z/][^<>]*+>|&lt;[a-zA-Z/](?:(?!&[lg]t;)[^<>])*+(?:&gt;|>)"
"""A tag of HTML in CDATA, or written with entities."""
_ATTRIBUTE = re.compile(rf"([^\s=\"'<>/]++)\s*+=\s*+({_QUOTED})")


class Element(NamedTuple):
    """An element, and the places in the file of all of it, of what its tags enclose, and of its attributes' values."""

    name: str
    where: Where
    inside: Where
    attributes: dict[str, Where]
    children: "list[Element]"

    def get(self, content: str, name: str) -> str:
        """Return the value of an attribute, or nothing."""
        return unescape(content[slice(*self.attributes.get(name, (0, 0)))])


class XmlEntries(Entries):
    """A file of XML with named values. Its entities, which are not resolved, become values in a text."""

    always = ("zero",)
    special = r"(?P<break>(?:[\r\n]|&\#(?:0*+(?:9|1[03])|x0*+[9aAdD]);)\s*+|\t)"
    """A pattern for what is in words and something else; the name of a group is the kind of `InlinePart`."""

    def __init__(self, content: str, encoding: str, target: str) -> None:
        super().__init__(content, encoding, target, "xmlcharrefreplace")
        plain = re.sub(r"\?P<\w+>", "", self.special)
        self._pieces = re.compile(rf"{self.special}|(?P<words>(?:{_HTML}|(?!{plain})(?:\\\S|.))++)", re.DOTALL)
        self.root, self._cdata = elements(content)[0], list[Where]()

    def add_element(self, key: Hashable, element: Element) -> None:
        """Add what is in an element as the value of a key."""
        self.add_value(key, element.inside, [[*self.parts(element.inside)]])

    def add_forms(self, key: Hashable, forms: Sequence[tuple[Where, Where, Where]]) -> None:
        """Add the forms of the value of a key: for each the name of its category, all of it, and its text."""
        names = [self.content[slice(*name)] for name, _, _ in forms]
        gaps = [self.content[before[1][1] : after[1][0]] for before, after in pairwise(forms)]
        if len({*names} & {*CATEGORIES}) < len(names) or any(map(elements, gaps)):
            if has_words(re.sub("<[^>]*+>", "", "".join(self.content[slice(*text)] for _, _, text in forms))):
                self.leave("its plural forms have unknown names, or others are between them", forms[0][1])
        elif forms:
            texts = [[[*self.parts(text)]] for _, _, text in forms]
            rows = zip(names, forms, texts, strict=True)
            self.add_plurals(key, [PluralForm(name, where, named, text) for name, (named, where, _), text in rows])

    def keep(self, existing: Document) -> None:
        if not isinstance(existing, type(self)):
            raise DataError(f"the earlier translation is no file of {type(self).__name__}, as the source is")
        there, content = existing.entries, existing.content
        existing.entries = {key: entry for key, entry in there.items() if self._can_hold(content[slice(*entry.where)])}
        if lost := len(there) - len(existing.entries):
            self.notes.append(f"earlier values not kept because they are not well-formed in this file: {lost:,}")
        super().keep(existing)

    def _can_hold(self, value: str) -> bool:
        """Return True if a value of another file is right in this one, with its entities, prefixes and encoding."""
        check_cancelled()
        whole = f"{self.content[: self.root.inside[0]]}{value}</{self.root.name}>"
        with suppress(DataError):
            xml_tree(whole.encode(), Path(), "utf-8", with_entities=True)
            return "<![CDATA[" not in value or self._can_encode(value)
        return False

    def parts(self, where: Where) -> Iterator[InlinePart[Where]]:
        """Yield the words and the markup in a piece of the file."""
        whole = self.content[slice(*where)].strip()
        for token in _TOKEN.finditer(self.content, *where):
            kind, span = token.lastgroup, token.span()
            is_all = kind == "cdata" and token[0] == whole
            if is_all:
                self._cdata.append(span := (span[0] + len("<![CDATA["), span[1] - len("]]>")))
            elif kind == "cdata" and has_words(re.sub("<[^>]*+>", "", token[0][9:-3])):
                self.leave("it is CDATA next to words that are not", span)
            if is_all or kind == "words":
                for piece in self._pieces.finditer(self.content, *span):
                    words = piece["words"] or ""
                    words = self.unescaped(words if is_all else unescape(words))
                    yield InlinePart(piece.lastgroup, piece.span(), words)  # pyright: ignore[reportArgumentType]
            else:
                yield InlinePart("single" if kind == "cdata" else kind, span)  # pyright: ignore[reportArgumentType]

    def unescaped(self, words: str) -> str:
        """Return what words in XML mean to the program that reads them."""
        return words

    def escaped(self, words: str) -> str:
        """Return words as they are given to XML."""
        return words

    def written_at(self, words: str, where: Where) -> str:
        words, place = self.escaped(words), bisect(self._cdata, where[0], key=itemgetter(0))
        is_raw = place > 0 and where[0] < self._cdata[place - 1][1]
        if is_raw and self._can_encode(words):
            return words.replace("]]>", "]]]]><![CDATA[>")
        return f"]]>{escape(words, quote=False)}<![CDATA[" if is_raw else escape(words, quote=False)

    def _can_encode(self, words: str) -> bool:
        return words.encode(self._encoding, "ignore").decode(self._encoding) == words


def elements(content: str) -> list[Element]:
    """Return the elements of a piece of well-formed XML that are in no others."""
    names, tags, inner = list[str](), list[Where](), [list[Element]()]  # of the elements that are open
    for token in _TOKEN.finditer(content):
        check_cancelled()
        if token.lastgroup in ("open", "single"):
            names.append(re.split(r"[\s/>]", token[0][1:], maxsplit=1)[0])
            tags.append(token.span())
            inner.append([])
        if token.lastgroup in ("close", "single"):
            children, (begin, end) = inner.pop(), tags.pop()
            values = {match[1]: match.span(2) for match in _ATTRIBUTE.finditer(content, begin, end)}
            attributes = {name: (first + 1, last - 1) for name, (first, last) in values.items()}
            inside = end, max(end, token.start())
            inner[-1].append(Element(names.pop(), (begin, token.end()), inside, attributes, children))
    return inner[0]
