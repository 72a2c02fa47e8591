"""Files of Qt Linguist (.ts): messages without a translation are translated."""

import re
from bisect import bisect
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dragoman.formats.cancelling import check_cancelled
from dragoman.formats.document import Document, Edit, Where, edits_between, spliced
from dragoman.formats.plurals import categories
from dragoman.formats.reading import check_languages
from dragoman.formats.xml_entries import Element, XmlEntries, elements
from dragoman.languages import base_language

_FORMS = {
    **dict.fromkeys("fa hu om tr".split(), 1),
    **dict.fromkeys("aa ab ba br co he ie km kw la lo oc qu rn rw tg to wo".split(), 2),
    **dict.fromkeys("dv ga gv mi mk sa".split(), 3),
    "mt": 4,
    "cy": 5,
}
"""The number of Qt's plural forms for a language where it is not the one of CLDR for small numbers (Qt 6.4)."""
_UNFINISHED = re.compile(r"\s+type\s*=\s*([\"'])unfinished\1")


class Unfinished(NamedTuple):
    """An element `translation` without words, in the file and in the text that is filled."""

    original: Where
    where: Where


class QtLinguist(XmlEntries):
    """A file of Qt Linguist. Empty translations are filled with their sources first, whose words are then replaced."""

    special = rf"(?P<before>(?<!&amp;)&amp;(?=\w)(?!amp;|\w+[;=]|(?<=[A-Z]&amp;)[A-Z]))|{XmlEntries.special}"
    """An accelerator, as in "E&xit" but not in "R&D", or the end of a line."""

    def __init__(self, text: str, encoding: str, path: Path, languages: tuple[str, str]) -> None:
        root, language, code = elements(text)[0], base_language(languages[1]), languages[1].replace("-", "_")
        target = root.get(text, "language")
        check_languages(path, root.get(text, "sourcelanguage"), target, languages)
        forms = _FORMS.get(language) or len(categories(languages[1]).small)
        filled = [_filled(text, message, forms, language in ("ar", "cy")) for _, message in _messages(root)]
        begin, end = root.attributes.get("language", (0, 0))
        begin = begin or root.where[0] + len("<TS")
        at_root = Edit((begin, begin), code if end else f' language="{code}"')
        super().__init__(spliced(text, [*([] if target else [at_root]), *filter(None, filled)]), encoding, languages[1])
        self._text, self._unfinished, self._drafts = text, list[Unfinished](), set[Where]()
        if numbered := sum("<numerusform>" in edit.text for edit in filled if edit) * (forms > 2):
            self.notes.append(
                f"messages with a number whose forms have the same words from the second on: {numbered:,}"
            )
        for edit, (context_name, message) in zip(filled, _messages(self.root), strict=True):
            translation = _child(message, "translation")
            if edit:
                self._unfinished.append(Unfinished(edit.where, translation.where))
            kind = translation.get(self.content, "type")
            if kind == "unfinished" and not edit:
                self._drafts.add(translation.inside)
            if kind in ("", "unfinished"):
                texts = [form.inside for form in translation.children] or [translation.inside] if edit else []
                named = context_name, _child(message, "source"), _child(message, "comment")
                key = *(self.content[slice(*element.inside)] for element in named), message.get(self.content, "id")
                self.add_value(key, translation.inside, [[*self.parts(where)] for where in texts])

    def keep(self, existing: Document) -> None:
        if isinstance(existing, QtLinguist):  # without the translations that it lacks
            existing.entries = {key: entry for key, entry in existing.entries.items() if not entry.blocks}
            drafts = [key for key, entry in existing.entries.items() if entry.where in existing._drafts]
            self._drafts |= {self.entries[key].where for key in drafts if key in self.entries}
        super().keep(existing)

    def line_of(self, content: str, where: Where) -> str:
        place = bisect(self._unfinished, where[0], key=lambda unfinished: unfinished.where[0])
        return super().line_of(self._text, self._unfinished[place - 1].original)

    def _edits(self, translations: Sequence[str]) -> list[Edit]:
        inside, edits, end = super()._edits(translations), list[Edit](), 0
        refused, new = [Edit(where, "") for where in self.refused], [Edit(block.where, "") for block in self._blocks]
        drafts = [Edit(where, "") for where in sorted(self._drafts)]
        for original, where in self._unfinished:
            check_cancelled()
            written = spliced(self.content, inside, where)
            if edits_between(refused, *where):
                written = self._text[slice(*original)]
            elif not edits_between(drafts, *where) and not (self.needs_review and edits_between(new, *where)):
                # it was finished, or has no words
                written = _UNFINISHED.sub("", written, count=1)
            edits += [*edits_between(inside, end, where[0]), Edit(where, written)]
            end = where[1]
        return [*edits, *edits_between(inside, end, len(self.content))]


def _messages(root: Element) -> list[tuple[Element, Element]]:
    """Return the messages of a file, each after the name of its context."""
    named = [(_child(context, "name"), context.children) for context in root.children]
    return [(name, message) for name, messages in named for message in messages if message.name == "message"]


def _child(element: Element, name: str) -> Element:
    """Return the first child of this name, or an empty element."""
    return next((child for child in element.children if child.name == name), Element("", (0, 0), (0, 0), {}, []))


def _filled(text: str, message: Element, count: int, has_zero: bool) -> Edit | None:
    """Return a message's translation with the words of its source; None if it has words, or is finished.

    Of plural forms, only that of the number 1 gets the singular: "%n file(s)" as "%n file".
    """
    translation, source = _child(message, "translation"), text[slice(*_child(message, "source").inside)]
    words = re.sub("<[^>]*+>", "", text[slice(*translation.inside)]).strip()
    if words or not source or translation.get(text, "type") != "unfinished" * bool(translation.name):
        return None
    gap = text[message.inside[0] : message.children[0].where[0]]
    if message.get(text, "numerus") == "yes":
        singular, plural = (re.sub(r"(?<=[^\W\d])\((\w{1,3})\)", form, source) for form in ("", r"\1"))
        forms = [singular if number == has_zero and count > 1 else plural for number in range(count)]
        source = "".join(f"{gap}    <numerusform>{form}</numerusform>" for form in forms) + gap
    _, end = message.children[-1].where
    return Edit(
        translation.where if translation.name else (end, end),
        f'{"" if translation.name else gap}<translation type="unfinished">{source}</translation>',
    )
