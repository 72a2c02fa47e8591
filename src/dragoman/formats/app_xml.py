"""Strings of apps in XML, by the root element: Android, Apple's .stringsdict, .NET (.resx, .resw) and Qt Linguist."""

import re
from pathlib import Path
from typing import Any

from dragoman.errors import DataError
from dragoman.formats.plurals import CATEGORIES
from dragoman.formats.qt_linguist import QtLinguist
from dragoman.formats.reading import decoded
from dragoman.formats.xml import xml_tree
from dragoman.formats.xml_entries import Element, XmlEntries

_REFERENCE = re.compile(r"\s*(?:[@?](?:null|empty|[\w.+*:-]+/[\w.]+)|\?[\w.:]+)\s*")
_ESCAPE = re.compile(r"\\(?:u([\da-fA-F]{4})|(.))", re.DOTALL)
_TYPE = "NSStringFormatSpecTypeKey"
_RULES = (_TYPE, "NSStringFormatValueTypeKey")
_NET_PROPERTY = re.compile(r">>.*|.*\.(?:Name|Size|Location|Font|Mask|ImageKey|Icon|Margin|Padding)", re.DOTALL)
"""A property of a window, in a file that has names with ">>"; in others, "User.Name" is the name of a text."""


class Android(XmlEntries):
    """Resources of Android: strings, arrays of strings and plurals; other values, and references to them, stay."""

    special = (
        r"(?P<break>\\(?:[nt]|u000[9aAdD]))"
        r"|(?P<single>\\u(?:00(?:[01][\da-fA-F]|20)|[fF]{3}[eEfF])|\\\s|\"|&quot;|&\#34;)"
    )
    """Among them are escapes of the characters that XML may not hold."""

    def __init__(self, text: str, encoding: str, path: Path, languages: tuple[str, str]) -> None:
        super().__init__(text, encoding, languages[1])
        self._add([] if path.stem.startswith("donottranslate") else [self.root], ())

    def _add(self, resources: list[Element], above: tuple[str | int, ...]) -> None:
        """Add the resources that are translatable; `above` is the key of an array."""
        for number, element in enumerate(resources):
            name, product, kind, mark = (
                element.get(self.content, name) for name in ("name", "product", "type", "translatable")
            )
            key = element.name, name, product, *above, number * bool(above)
            if mark == "false" or _REFERENCE.fullmatch(self.content, *element.inside):
                pass
            elif element.name == "resources":
                self._add(element.children, ())
            elif element.name == "string-array":
                self._add(element.children, (name, len(element.children)))
            elif element.name == "plurals":
                items = element.children
                self.add_forms(
                    key, [(item.attributes.get("quantity", (0, 0)), item.where, item.inside) for item in items]
                )
            elif element.name == "string" or above or kind == "string":
                self.add_element(key, element)

    def unescaped(self, words: str) -> str:
        text = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)) if escape[1] else escape[2], words)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "ignore")

    def escaped(self, words: str) -> str:
        return re.sub(r"""[\\"']|\A[@?]""", r"\\\g<0>", words)


class Stringsdict(XmlEntries):
    """Apple's texts that depend on a number, a width or a device."""

    special = rf"(?P<value>%(?:\d+\$)?\#@[^@\s]+@)|{XmlEntries.special}"

    def __init__(self, text: str, encoding: str, _path: Path, languages: tuple[str, str]) -> None:
        super().__init__(text, encoding, languages[1])
        for dictionary in self.root.children:
            self._add(dictionary, ())

    def _add(self, dictionary: Element, above: tuple[str, ...]) -> None:
        """Add the texts of a dictionary below these keys."""
        pairs = [*zip(dictionary.children[::2], dictionary.children[1::2], strict=False)]
        named = [(self.content[slice(*name.inside)], name, value) for name, value in pairs]
        types = [self.content[slice(*value.inside)] for name, _, value in named if name == _TYPE]
        forms = [
            (key.inside, (key.where[0], value.where[1]), value.inside)
            for name, key, value in named
            if types == ["NSStringPluralRuleType"] and value.name == "string" and name in CATEGORIES
        ]
        if forms:
            self.add_forms(above, forms)
        for name, _, value in () if forms else named:
            if value.name == "dict":
                self._add(value, (*above, name))
            elif value.name == "string" and name not in _RULES:
                self.add_element((*above, name), value)


class Resx(XmlEntries):
    """Resources of .NET and of Windows apps: the values that are strings, but no properties of a window."""

    def __init__(self, text: str, encoding: str, _path: Path, languages: tuple[str, str]) -> None:
        super().__init__(text, encoding, languages[1])
        is_form = any(data.get(self.content, "name").startswith(">>") for data in self.root.children)
        for data in self.root.children:
            name, kind, code = (data.get(self.content, name) for name in ("name", "type", "mimetype"))
            is_string = kind.partition(",")[0] in ("", "System.String") and not code
            if data.name == "data" and is_string and not (is_form and _NET_PROPERTY.fullmatch(name)):
                for value in [child for child in data.children if child.name == "value"][:1]:
                    self.add_element(name, value)


_BY_ROOT: dict[str, Any] = {"resources": Android, "plist": Stringsdict, "root": Resx, "TS": QtLinguist}


def read(content: bytes, path: Path, languages: tuple[str, str]) -> XmlEntries:
    """Read a file of an app's strings.

    Raises:
        DataError: it is damaged, for other languages, or something else.
        MissingExtra: lxml or babel is not installed.
    """
    if not content.lstrip(b"\xef\xbb\xbf\xfe\xff\0 \t\r\n").startswith(b"<"):
        raise DataError(f"{path} is no XML; of files that end in .ts, only those of Qt Linguist are read")
    text, encoding = decoded(content, path, declares=True)
    root = xml_tree(text.encode(), path, "utf-8", with_entities=True).getroot().tag
    if root not in _BY_ROOT:
        raise DataError(f"{path} is XML with the root {root[:60]}; strings of apps have one of {', '.join(_BY_ROOT)}")
    return _BY_ROOT[root](text, encoding, path, languages)
