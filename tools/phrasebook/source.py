"""The text files of the phrasebook: where they lie and how their lines are written.

A lexicon line is ``english = italian``; ``: tag tag`` may follow, and ``~ text`` for the place phrase of a noun. A line
in brackets, ``[noun dish food]``, names the kind and the tags of all lines until the next one. ``#`` begins a comment.
``<I am|I'm>`` in the English of a lexicon or a pattern stands for as many lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

from dragoman.errors import DataError

HERE = Path(__file__).parent
CHOICE = re.compile(r"<([^<>]*)>")


class Entry(NamedTuple):
    """One line of a lexicon file, not yet understood."""

    kind: str
    english: str
    italian: str
    place: str
    tags: tuple[str, ...]
    origin: str


def text_files(folder: str) -> list[str]:
    """The names of the text files in ``folder`` of this package, sorted."""
    return sorted(item.name for item in (HERE / folder).iterdir() if item.name.endswith(".txt"))


def numbered_lines(folder: str, name: str) -> Iterator[tuple[str, str]]:
    """Each line that says something, with its origin ``name:number``."""
    text = (HERE / folder / name).read_text(encoding="utf-8")
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip() and not line.startswith("#"):
            yield line.strip(), f"{name}:{number}"


def entries(name: str) -> Iterator[Entry]:
    """The entries of one lexicon file.

    Raises:
        DataError: a line that is neither a heading nor ``english = italian``.
    """
    kind, shared = "", ()
    for line, origin in numbered_lines("lexicon", name):
        if line.startswith("["):
            kind, *shared = line.strip("[]").split()
            continue
        english, equals, rest = line.partition(" = ")
        if not equals:
            raise DataError(f"{origin}: a lexicon line is 'english = italian', but this is '{line}'")
        rest, _, tags = rest.partition(" : ")
        italian, _, place = rest.partition(" ~ ")
        for each in alternatives(english.strip()):
            yield Entry(kind, each, italian.strip(), place.strip(), (*shared, *tags.split()), origin)


def alternatives(text: str) -> list[str]:
    """Every way of choosing one of the words between angle brackets.

    >>> alternatives("<I am|I'm> <|very >tired")
    ['I am tired', 'I am very tired', "I'm tired", "I'm very tired"]
    """
    pieces = CHOICE.split(text)
    return [
        "".join(chosen)
        for chosen in product(*(piece.split("|") if at % 2 else [piece] for at, piece in enumerate(pieces)))
    ]
