"""YAML: values in natural language; below the name of the language, as in Rails, all texts with their plural forms.

A scalar is written in its own style, or between double quotes if that style cannot hold the translation.
"""

import json
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import compress, groupby
from pathlib import Path
from typing import Any, NamedTuple, cast

from dragoman.errors import DataError, optional
from dragoman.formats.cancelling import check_cancelled
from dragoman.formats.document import Edit, Where, lines_in, with_lines
from dragoman.formats.entries import HAS_LINES, Entries, PluralForm, Plurals
from dragoman.formats.inline import InlinePart
from dragoman.formats.plurals import CATEGORIES, categories
from dragoman.formats.reading import decoded
from dragoman.formats.values import Value, is_code, selected
from dragoman.languages import base_language
from dragoman.surface.sentences import BRANCHES

DEEPEST = 100
"""Most mappings and lists in one another."""
_NO_TEXT = re.compile(r"(?:y|yes|n|no|true|false|on|off|null|~|[-+]?\.inf|\.nan)?\Z|:\S", re.IGNORECASE)
"""A plain scalar that is no text: a constant or, in Ruby, a symbol."""
_PLAIN = re.compile(r"[^\W\d_](?:[^:#\s]|:(?!\s|\Z)|(?<!\s)#| (?!\Z))*")
_HIDDEN = re.compile(r"[\0-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)+")


class Scalar(NamedTuple):
    """A value that is neither a mapping nor a list."""

    path: tuple[Any, ...]
    """The number of its document, and each key above it or the place in a list with its length, then its own."""
    text: str
    style: str
    where: Where
    named: Where
    """Its key, if it has one."""
    is_text: bool
    is_in_flow: bool
    """It is in a mapping or list between brackets."""


@dataclass
class Collection:
    """A mapping or list that is being read."""

    is_mapping: bool
    is_in_flow: bool
    is_key: bool = False
    """It is a key, or in one."""
    name: Any = 0
    """The key or the place of the current value."""
    named: Where = (0, 0)
    is_at_key: bool = False
    names: Counter[str] = field(default_factory=Counter[str])
    texts: int = 0


class Outline:
    """The scalars of a file, the paths of mappings of plural forms, and the keys of the top level."""

    def __init__(self, content: str, path: Path) -> None:
        """Read the events of a file; no alias is expanded.

        Raises:
            DataError: it is no YAML, or nested too deeply.
            MissingExtra: ruamel.yaml is not installed.
        """
        with optional("ruamel.yaml", "documents"):
            from ruamel.yaml import YAML
            from ruamel.yaml.error import YAMLError
        self.scalars, self.plurals, self.roots = list[Scalar](), set[tuple[Any, ...]](), list[Scalar]()
        self._opened, self._lengths = [Collection(False, False)], dict[tuple[Any, ...], int]()
        try:
            for event in YAML(typ="safe", pure=True).parse(content):
                check_cancelled()
                self._add(event, type(event).__name__.removesuffix("Event"), content)
                if len(self._opened) > DEEPEST:
                    raise DataError(f"{path} has more than {DEEPEST} mappings and lists in one another")
        except (YAMLError, ValueError, OverflowError) as error:  # the latter for escapes of no character
            problem = " ".join(f"{error}".replace('in "<unicode string>", ', "").split())
            raise DataError(f"{path} is not YAML: {problem[:300]}") from None
        self.scalars = [scalar._replace(path=self._with_lengths(scalar.path)) for scalar in self.scalars]
        self.plurals = {*map(self._with_lengths, self.plurals)}

    def _with_lengths(self, path: tuple[Any, ...]) -> tuple[Any, ...]:
        lengths = (self._lengths.get(path[:depth]) for depth in range(len(path)))
        return tuple((part, length) if length else part for part, length in zip(path, lengths, strict=True))

    def _add(self, event: Any, kind: str, content: str) -> None:
        top = self._opened[-1]
        if kind in ("MappingEnd", "SequenceEnd"):
            self._opened.pop()
            path = tuple(above.name for above in self._opened)
            if not top.is_mapping:
                self._lengths[path] = top.name
            if {"other"} <= top.names.keys() <= {*CATEGORIES} and top.texts == sum(top.names.values()):
                self.plurals.add(path)
        if kind not in ("MappingStart", "SequenceStart", "Scalar", "Alias"):
            return
        begin, end = event.start_mark.index, event.end_mark.index
        properties = _PROPERTIES.match(content, begin, end)
        begin = properties.end() if properties else begin
        where = begin, begin + len(content[begin:end].rstrip())
        text, style = (event.value, event.style or "") if kind == "Scalar" else ("?", "")
        is_text = kind == "Scalar" and event.tag is None and bool(style or not _NO_TEXT.match(text)) and not top.is_key
        top.is_at_key = top.is_mapping and not top.is_at_key
        if top.is_at_key:
            top.names[text] += 1
            top.name, top.named = text if top.names[text] == 1 else (text, top.names[text]), where
        elif not top.is_mapping:
            top.name += 1
        path = tuple(above.name for above in self._opened)
        scalar = Scalar(path, text, style, where, top.named, is_text, top.is_in_flow)
        if top.is_at_key and len(path) == 2:
            self.roots.append(scalar)
        if kind.endswith("Start"):
            is_in_flow, is_key = top.is_in_flow or bool(event.flow_style), top.is_key or top.is_at_key
            self._opened.append(Collection(kind == "MappingStart", is_in_flow, is_key))
        elif kind == "Scalar" and not top.is_at_key:
            top.texts += is_text
            self.scalars.append(scalar)


class Yaml(Entries):
    """A file of YAML."""

    always = ("zero",)

    def __init__(
        self, content: str, encoding: str, path: Path, languages: tuple[str, str], only: Sequence[str]
    ) -> None:
        super().__init__(content, encoding, languages[1])
        outline = Outline(content, path)
        self._path, self._scalars = path, {scalar.where: scalar for scalar in outline.scalars}
        self._new, self._kept = dict[Where, str](), dict[Hashable, dict[tuple[Any, ...], str]]()
        (root, *others), (source, target) = outline.roots or [None], map(base_language, languages)
        named = base_language(root.text) if root and not others else ""
        is_rails = named in (source, target)
        self._above = 1 + is_rails  # parts of each path that are no keys
        if root and is_rails:
            self.named = root.where
            if named == source:
                self.replace(root.where, _written(self.target, root, content))
        self._by_key = {scalar.path[self._above :]: scalar for scalar in outline.scalars}
        paths = [scalar.path[self._above :] for scalar in outline.scalars]
        names = [".".join(part for part in path if isinstance(part, str)) for path in paths]
        texts = [scalar.text if scalar.is_text else "" for scalar in outline.scalars]
        if is_rails and not only:
            wanted = [not is_code(text) for text in texts]
        else:
            wanted, self.notes = selected([*map(Value, names, names, texts)], only, path)
        rows = zip(outline.scalars, wanted, strict=True)
        for parent, some in groupby(rows, key=lambda row: row[0].path[:-1]):
            below = [(scalar, self._texts(scalar) if is_wanted else []) for scalar, is_wanted in some]
            is_plurals = is_rails and parent in outline.plurals and all(texts for _, texts in below)
            if is_plurals and {scalar.path[-1] for scalar, _ in below} <= {*categories(named).names, "zero"}:
                forms = [
                    PluralForm(scalar.path[-1], (scalar.named[0], scalar.where[1]), scalar.named, texts)
                    for scalar, texts in below
                ]
                self.add_plurals(parent[self._above :], forms)
            else:
                for scalar, texts in below:
                    self.add_value(scalar.path[self._above :], scalar.where, texts)

    def _texts(self, scalar: Scalar) -> list[list[InlinePart[Where]]]:
        lines = lines_in(scalar.text) if scalar.is_text else []
        if len(lines) > 1 and BRANCHES.search(scalar.text):
            self.leave(HAS_LINES, scalar.where)
            lines = []
        return [[InlinePart("words", scalar.where, line)] for line in lines]

    def _value_edits(self, translations: Sequence[str]) -> list[Edit]:
        edits, self._new = list[Edit](), {}
        for where, some in groupby(zip(self._blocks, translations, strict=True), key=lambda row: row[0].where):
            check_cancelled()
            rows, scalar = [*some], self._scalars[where]
            if any(text != block.inline.text for block, text in rows):
                self._new[where] = with_lines(scalar.text, [text for _, text in rows])
                edits.append(Edit(where, _written(self._new[where], scalar, self.content)))
        return edits

    def copied(self, key: Any, existing: Any) -> str | None:
        own, others = self._by_key, cast("dict[tuple[Any, ...], Scalar]", existing._by_key)

        def copy(there: Scalar, scalar: Scalar) -> str:
            raw = existing.content[slice(*there.where)]
            fits = not scalar.is_text or ("\n" not in raw and (there.style or not scalar.is_in_flow))
            return raw if fits else _written(there.text, scalar, self.content)

        if plurals := self._plurals.get(key):
            names = {form.category for form in plurals.forms}
            new = {form.category: others[*key, form.category] for form in existing._plurals[key].forms}
            sources = {name: name if name in names else "other" for name in new}
            places = {name: own[*key, source] for name, source in sources.items()}
            known = {name: Edit(scalar.where, copy(new[name], scalar)) for name, scalar in places.items()}
            self._kept[key] = {(*key, name): form.text for name, form in new.items()}
            return self._written_forms(plurals._replace(sources=sources), [], known)
        if own[key].is_text != others[key].is_text:
            return None
        self._kept[key] = {key: others[key].text}
        return copy(others[key], own[key])

    def with_values(self, translations: Sequence[str]) -> bytes:
        notes, content = [*self.notes], super().with_values(translations)
        wrong = self._wrong(content)
        if not wrong:
            return content
        self.notes[:] = notes
        scalars = [self._scalars[block.where] for block in self._blocks]
        is_wrong = [bool(wrong & {scalar.path[self._above :], scalar.path[self._above : -1]}) for scalar in scalars]
        places = [*compress([scalar.where for scalar in scalars], is_wrong)]
        for key in wrong & self._kept.keys():
            places.append(self.entries[key].where)
            del self._replaced[places[-1]]
        for where in sorted(places):
            self.leave("YAML cannot hold its translation here", where)
        rows = zip(self._blocks, translations, is_wrong, strict=True)
        return super().with_values([block.inline.text if is_left else text for block, text, is_left in rows])

    def _wrong(self, content: bytes) -> set[tuple[Any, ...]]:
        """Return the keys of values that do not mean in the written file what they should."""
        outline = Outline(content.decode(self._encoding), self._path)
        read = {scalar.path[self._above :]: scalar.text for scalar in outline.scalars}
        meant = {
            key: self._new.get(scalar.where, scalar.text)
            for key, scalar in self._by_key.items()
            if self._kept.keys().isdisjoint((key, key[:-1]))
        }
        for key, plurals in cast("dict[tuple[Any, ...], Plurals]", self._plurals).items():
            forms = {form.category: meant.pop((*key, form.category)) for form in plurals.forms}
            meant |= {(*key, name): forms[source] for name, source in plurals.sources.items()}
        for texts in self._kept.values():
            meant |= texts
        wrong = {key for key, text in meant.items() if read.get(key) != text}
        return wrong | {key[:-1] for key in wrong if key[:-1] in self._plurals or key[:-1] in self._kept}


def _written(text: str, scalar: Scalar, content: str) -> str:
    """Return a text in the style of a scalar if that can hold it, else between double quotes."""
    is_hidden = _HIDDEN.search(text.replace("\n", " ")) is not None
    written = content[slice(*scalar.where)]
    if scalar.style in ("|", ">") and not is_hidden and not (scalar.style == ">" and re.search(r"^\s", text, re.M)):
        head, *body = written.splitlines(keepends=True)
        first, same = (next(filter(str.strip, lines)) for lines in (body, scalar.text.split("\n")))
        indent = first[: len(first) - len(first.lstrip(" "))].removesuffix(same[: len(same) - len(same.lstrip(" "))])
        end = head[len(head.rstrip("\r\n")) :]
        body = text.rstrip() if scalar.style == "|" else re.sub("\n+", r"\g<0>\n", text.rstrip())
        return head + end.join(indent + line if line else "" for line in body.split("\n"))
    if scalar.style == "'" and not is_hidden and "\n" not in text:
        return "'" + text.replace("'", "''") + "'"
    is_plain = _PLAIN.fullmatch(text) and not _NO_TEXT.match(text) and not is_hidden
    if not scalar.style and is_plain and not (scalar.is_in_flow and re.search(r"[,\[\]{}]", text)):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return _HIDDEN.sub(lambda sign: f"\\u{ord(sign[0]):04x}", quoted)


def read(content: bytes, path: Path, languages: tuple[str, str], only: Sequence[str] = ()) -> Yaml:
    """Read a file of YAML and its texts; `only` are the keys whose values are translated.

    Raises:
        DataError: it is damaged, nested too deeply, or has no such key.
        MissingExtra: ruamel.yaml is not installed.
    """
    text, encoding = decoded(content, path)
    return Yaml(text, encoding, path, languages, only)
