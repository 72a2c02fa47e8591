"""Sentence patterns, read from ``patterns/*.txt``.

A pattern is two lines, English and Italian. Braces hold what is chosen or inflected::

    Could you bring {an ITEM} to room {BIG}?
    = Potrebbe portare {un ITEM} alla camera {BIG}?

- A word in capitals is a slot: it is filled with any lexeme of that tag, which never ends in s, for ``ITEMS`` asks for
  the plural. ``ITEM2`` is a second one, never equal to the first. Both sides name the same slots.
- Everything in one pair of braces agrees with its noun, or with what follows an ``@``: ``{rotto@ITEM}``. Italian words
  are cited in the masculine singular: ``{nel ITEM}`` may become *nella borsa*, ``{questo ITEMS rosso}`` *queste chiavi
  rosse*. ``@io @tu @lui @lei @noi @voi @loro`` are persons that the sentence does not name.
- ``.form`` picks a form: of a verb its tense, of a noun its place phrase (``{PLACE.place}``: *in banca*). A small word
  with a form is a verb too: ``{essere.present@ITEMS}``.
- ``<Where is|Where's>`` makes two patterns, ``hotel.txt:7.1`` and ``hotel.txt:7.2``.
- A line that begins with ``*`` is a pattern that training never sees.
- A line in brackets, ``[food]``, is the topic of all patterns until the next one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from dragoman.errors import DataError
from phrasebook.source import alternatives, numbered_lines, text_files

BRACES = re.compile(r"\{([^{}]*)\}")
COUNTING = {"a", "one", "another", "each", "every"}
WORD = re.compile(
    r"(?P<slot>[A-Z]+?(?P<plural>S?)(?P<index>\d?)(?=[.@]|$)|[^.@A-Z]+)(?:\.(?P<form>[a-z]+))?(?:@(?P<subject>\w+))?"
)


class Word(NamedTuple):
    """One word in braces: a slot by its name (``ITEM2``), or an ordinary word."""

    text: str
    tag: str | None
    plural: bool
    form: str
    subject: Word | None
    countable: bool = False


Part = str | tuple[Word, ...]


@dataclass(frozen=True, eq=False)
class Pattern:
    """Two templates with the same slots, and what they talk about. ``origin`` is file and line."""

    english: tuple[Part, ...]
    italian: tuple[Part, ...]
    key: str
    origin: str
    unseen: bool
    topic: str = ""

    @property
    def slots(self) -> dict[str, list[Word]]:
        """The slots by name, each with its uses in the English template."""
        uses: dict[str, list[Word]] = {}
        for word in _words(self.english):
            if word.tag:
                uses.setdefault(word.text, []).append(word)
        return uses


@cache
def patterns() -> tuple[Pattern, ...]:
    """All patterns, in the order of the files."""
    return tuple(pattern for name in text_files("patterns") for pattern in read(name))


def read(name: str) -> Iterator[Pattern]:
    """The patterns of one file.

    Raises:
        DataError: an English line without its Italian one, or two sides that name different slots.
    """
    topic = ""
    lines = iter(numbered_lines("patterns", name))
    for line, origin in lines:
        if line.startswith("["):
            topic = line.strip("[]")
            continue
        translation, _ = next(lines, ("", ""))
        if line.startswith("=") or not translation.startswith("="):
            raise DataError(f"{origin}: an English line and '= ' with its Italian must take turns, at '{line}'")
        written = alternatives(line)
        for number, each in enumerate(written, start=1):
            yield pattern(each, translation, origin if len(written) == 1 else f"{origin}.{number}", topic)


def pattern(line: str, translation: str, origin: str, topic: str = "") -> Pattern:
    """The pattern that an English line and its Italian one make."""
    key = line.removeprefix("*").strip()
    made = Pattern(parse(key), parse(translation.removeprefix("=").strip()), key, origin, line.startswith("*"), topic)
    ours, theirs = set(made.slots), {word.text for word in _words(made.italian) if word.tag}
    if ours != theirs:
        raise DataError(f"{origin}: both sides must name the same slots, but {sorted(ours ^ theirs)} stand on one")
    return made


def parse(template: str) -> tuple[Part, ...]:
    """The literal texts and the braces of a template, in order."""
    pieces = BRACES.split(template)
    return tuple(piece if index % 2 == 0 else _braces(piece) for index, piece in enumerate(pieces) if piece)


def _braces(text: str) -> tuple[Word, ...]:
    words = text.split(" ")
    countable = not COUNTING.isdisjoint(words)
    return tuple(_word(word)._replace(countable=countable) for word in words)


def _word(text: str) -> Word:
    match = WORD.fullmatch(text)
    if match is None:
        raise DataError(f"'{text}' is no word of a pattern; see the notation in phrasebook.patterns")
    slot, plural, index, form, subject = match.group("slot", "plural", "index", "form", "subject")
    if not slot.isupper():
        return Word(slot, None, False, form or "", _word(subject) if subject else None)
    tag = slot.removesuffix(index).removesuffix("S" if plural else "")
    return Word(tag + index, tag.lower(), bool(plural), form or "", _word(subject) if subject else None)


def _words(template: tuple[Part, ...]) -> Iterator[Word]:
    for part in template:
        if not isinstance(part, str):
            yield from part
