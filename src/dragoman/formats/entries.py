"""Text files of named values, such as the strings of an app: their values are texts, all else stays to the byte."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from itertools import pairwise
from operator import ne
from typing import NamedTuple

from dragoman.formats.cancelling import check_cancelled
from dragoman.formats.document import (
    ALTERNATIVES,
    WHITE,
    Document,
    Edit,
    Left,
    Spliced,
    Where,
    edits_between,
    spliced,
)
from dragoman.formats.inline import InlinePart
from dragoman.formats.plurals import note_on_forms, plural_sources
from dragoman.languages import base_language
from dragoman.surface.sentences import BRANCHES, has_words

_ESCAPE = re.compile(r"\\(?:[uU]([\da-fA-F]{4})|(\r\n|[\r\n])[ \t\f]*|([\s\S]))")
_DIVIDING, _SIGN = rf"\\[nrtf]|[\r\n]|{ALTERNATIVES}", r"(?:[^\\\s]|\\\S)"
_SPACE = r"(?:\\(?:\r\n|\s)|[^\S\r\n])"
_LINE = re.compile(rf"{_DIVIDING}|((?!{_DIVIDING}){_SIGN}(?:{_SPACE}*+(?!{_DIVIDING}){_SIGN})*+)")


_LINES_OF_TEXT = re.compile(r"(?<!\s)[^\S\n]*+\n\s*+(?![\w=-]++\s*+\{|\}|\Z)")  # not those between branches
HAS_LINES = "it has branches of ICU and several lines"
_SPECIFIER = r"[-+#0,(]*+(?:\*|\d{1,9})?(?:\.\d{1,9})?(?:hh|ll|[hlLqjzt])?[a-zA-Z@]"
_ARGUMENT = re.compile(
    rf"(%\d+\$(?:#@\w+@|{_SPECIFIER})|%#@\w+@|%L?\d{{1,2}}(?!\$)|%n|%%|\{{\w+[^{{}}]*\}})|%{_SPECIFIER}"
)
"""An argument of a format string; in the group if it is named, so that its place is free."""


def unescaped(written: str) -> str:
    r"""Return what a string means in which a backslash begins an escape, such as \n or \u00e9; at the end of a line, it
    is left out with the spaces that follow.
    """
    signs = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}
    text = _ESCAPE.sub(lambda sign: chr(int(sign[1], 16)) if sign[1] else signs.get(sign[3], sign[3] or ""), written)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Entry(NamedTuple):
    """A value with a name."""

    where: Where
    """The value in the file, with its quotes, so that it can be copied into another file."""
    blocks: range
    """The numbers of its texts."""


class PluralForm(NamedTuple):
    """A form of a value that depends on a number."""

    category: str
    where: Where
    """The whole form in the file: the name of its category and its text."""
    named: Where
    """The name of its category."""
    texts: Sequence[Sequence[InlinePart[Where]]]


class Plurals(NamedTuple):
    """The forms of a value, next to one another in the file."""

    forms: Sequence[PluralForm]
    sources: dict[str, str]
    """For each category of the target language, the one whose translation it gets."""

    @property
    def where(self) -> Where:
        return self.forms[0].where[0], self.forms[-1].where[1]


class Entries(Spliced):
    """A file of named values.

    A format adds its values in the order of the file, with `add_value` or `add_plurals`, and what else changes, such as
    the name of the language, with `replace`.
    """

    always: Collection[str] = ()
    """The categories of plural forms that the format allows in any language."""

    def __init__(self, content: str, encoding: str, target: str, encode_errors: str = "strict") -> None:
        """Hold a file without values, to be translated into the language `target`."""
        super().__init__(content, encoding, encode_errors)
        self.target = target
        self.entries: dict[Hashable, Entry] = {}
        self._plurals: dict[Hashable, Plurals] = {}
        self._replaced: dict[Where, str] = {}
        self._repetitions = Counter[Hashable]()
        self._left_at: dict[Where, Left] = {}
        self.named: Where | None = None
        """The name of the language, if the file has one."""
        self.refused = list[Where]()
        """The texts whose translations have other arguments."""

    def leave(self, reason: str, where: Where) -> None:
        """Report a piece of the file that stays as it is."""
        self._left_at[where] = Left(reason, self.line_of(self.content, where))
        self.left.append(self._left_at[where])

    def add_value(self, key: Hashable, where: Where, texts: Sequence[Sequence[InlinePart[Where]]]) -> None:
        """Add the value of a key, whose name is unique in the file, and its texts: none if it is not translated."""
        begin = len(self._blocks)
        for parts in texts:
            self.add(parts)
        self.entries[key] = Entry(where, range(begin, len(self._blocks)))

    def add_string(
        self, key: Hashable, where: Where, inside: Where, meaning: Callable[[str], str], is_text: bool = True
    ) -> None:
        """Add the value of a key, which may be repeated. In the string `inside` its quotes, backslashes begin escapes.
        Each of its lines and alternatives is a text if it `is_text`.
        """
        lines = [line for line in _LINE.finditer(self.content, *inside) if line[1]] if is_text else []
        texts = [[InlinePart("words", line.span(), meaning(line[1]))] for line in lines]
        if is_text and BRANCHES.search(self.content, *inside):
            message = meaning(self.content[slice(*inside)])
            texts = [[InlinePart("words", inside, message)]]
            if _LINES_OF_TEXT.search(message):
                self.leave(HAS_LINES, where)
                texts = []
        self._repetitions[key] += 1
        self.add_value((key, self._repetitions[key]), where, texts)

    def add_plurals(self, key: Hashable, forms: Sequence[PluralForm]) -> None:
        """Add the forms of the value of a key."""
        words = {form.category: "".join(part.words for text in form.texts for part in text) for form in forms}
        plurals = Plurals(forms, plural_sources(words, self.target, self.always))
        read = {*plurals.sources.values()}
        texts = [text for form in forms if form.category in read for text in form.texts]
        self.add_value(key, plurals.where, texts)
        self._plurals[key] = plurals

    def replace(self, where: Where, text: str) -> None:
        """Write other characters in place of those of a piece that is in no text."""
        self._replaced[where] = text

    def keep(self, existing: Document) -> None:
        if not isinstance(existing, Entries):
            raise TypeError(f"{type(existing).__name__} has no named values")
        kept, equal, lost, resolved = set[int](), 0, 0, set[int]()
        if self.named and existing.named:
            name = existing.content[slice(*existing.named)]
            if base_language(name.strip("\"'")) == base_language(self.target):
                self.replace(self.named, name)
        for key, entry in self.entries.items():
            check_cancelled()
            there = existing.entries.get(key)
            is_alike = (key in self._plurals) == (key in existing._plurals)
            if not there or not has_words(existing.content[slice(*there.where)]):
                continue
            if is_alike and (written := self.copied(key, existing)) is not None:
                equal += bool(entry.blocks) and written == self.content[slice(*entry.where)]
                kept.update(entry.blocks)
                resolved.add(id(self._left_at.get(entry.where)))
                self._plurals.pop(key, None)
                self.replace(entry.where, written)
            else:
                lost += 1
        self._blocks = [block for number, block in enumerate(self._blocks) if number not in kept]
        self.left[:] = [left for left in self.left if id(left) not in resolved]
        if equal:
            self.notes.append(f"values kept although they equal the source's: {equal:,}")
        if others := existing.entries.keys() - self.entries.keys():
            self.notes.append(f"earlier values left out because the source lacks their names: {len(others):,}")
        if lost:
            self.notes.append(f"earlier values left out because the source has another kind of value there: {lost:,}")

    def copied(self, key: Hashable, existing: "Entries") -> str | None:
        """Return the value that a key has in another file, as it is written in this one; None if it has no place."""
        return existing.content[slice(*existing.entries[key].where)]

    def translated(self, translations: Sequence[str]) -> bytes:
        rows = [*zip(self._blocks, translations, strict=True)]
        wrong = dict.fromkeys(
            block.where
            for block, new in rows
            if not BRANCHES.search(block.inline.text) and _arguments(block.inline.text) != _arguments(new)
        )
        for where in wrong:
            self.leave("the translation changes an argument, such as %s", where)
        self.refused, rows = [*wrong], [row for row in rows if row[0].where not in wrong]
        self._blocks = [block for block, _ in rows]
        return self.with_values([new for _, new in rows])

    def with_values(self, translations: Sequence[str]) -> bytes:
        """Return the file with these translations, whose arguments are right."""
        return super().translated(translations)

    def _value_edits(self, translations: Sequence[str]) -> list[Edit]:
        """Return the changes of the values, in their order."""
        return super()._edits(translations)

    def _edits(self, translations: Sequence[str]) -> list[Edit]:
        inside = sorted([*self._value_edits(translations), *map(Edit._make, self._replaced.items())])
        edits, end, new = list[Edit](), 0, list[str]()
        for plurals in self._plurals.values():
            check_cancelled()
            begin, last = plurals.where
            edits += [*edits_between(inside, end, begin), Edit(plurals.where, self._written_forms(plurals, inside))]
            new += [self.line_of(self.content, plurals.where)] * sum(
                map(ne, *zip(*plurals.sources.items(), strict=True))
            )
            end = last
        self.notes += note_on_forms(new)
        return [*edits, *edits_between(inside, end, len(self.content) + 1)]  # also one at the end

    def _written_forms(self, plurals: Plurals, inside: Sequence[Edit], known: Mapping[str, Edit] | None = None) -> str:
        """Return the forms of a value for the target language, with the space between them as in the source. Forms
        that are `known` get their own text.
        """
        begin, _ = plurals.where
        gaps = [self.content[before.where[1] : form.where[0]] for before, form in pairwise(plurals.forms)]
        before = self.content[max(0, begin - 1_000) : begin]
        usual = next((gap for gap in gaps if not gap.strip(f"{WHITE},")), before[len(before.rstrip(WHITE)) :])
        between = {form.category: gap for form, gap in zip(plurals.forms[1:], gaps, strict=True)}
        by_category = {form.category: form for form in plurals.forms}
        parts = list[str]()
        for category, source in plurals.sources.items():
            form = by_category[source]
            name = Edit(form.named, category)
            texts = [known[category]] if known else edits_between(inside, *form.where)
            edits = sorted([name, *texts])
            written = spliced(self.content, edits, form.where)
            parts += [between.get(category, usual), written]
        return "".join(parts[1:])


def _arguments(text: str) -> list[str]:
    """Return the arguments of a format string, those without a name in the order of the text."""
    return [match[0] for match in sorted(_ARGUMENT.finditer(text), key=lambda match: match[1] or "")]
