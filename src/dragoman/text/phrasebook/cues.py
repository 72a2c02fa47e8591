"""Sentences of the phrasebook in which one English word decides the form of an Italian one.

What makes a word feminine, plural or familiar is known here, because a sentence is written from it: let a noun have the
other gender, say it in the other number, or speak to a stranger, and the first Italian word that changes is the one
that is asked about. Its other form is what would stand there instead, and the English word that changed, or that names
what changed, is the cue. Nothing is taken from training. Start reading at `cues`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Literal, NamedTuple, TypeVar

from dragoman.text.phrasebook.generate import WORDS, Sentence, digest, sentences
from dragoman.text.phrasebook.italian import conjugate
from dragoman.text.phrasebook.lexemes import Agreement, Form, Gender, Lexeme, Noun, Subject
from dragoman.text.phrasebook.patterns import Part, Pattern, Word, patterns
from dragoman.text.phrasebook.rendering import Fillers, render_english, render_italian
from dragoman.text.reading.pairs import Pair

Kind = Literal["gender", "number", "register"]

COUNTS: dict[Kind, int] = {"gender": 67, "number": 67, "register": 66}
OTHER: dict[Gender, Gender] = {"m": "f", "f": "m"}
STRANGER = Agreement(3, "s", "m")
ADDRESSED = {"familiar": Agreement(2, "s", "m"), "several": Agreement(2, "p", "m")}
# What people are asked and told in the patterns.
SAID_TO = ("avere", "essere", "volere", "potere", "dovere", "preferire", "vivere", "sembrare", "parlare", "lavorare")


class Cue(NamedTuple):
    """A word of a translation, and the word of the source that decides its form. Places count `words_of` a text."""

    kind: Kind
    pair: Pair
    place: int
    """Of the word in the target."""
    instead: str
    """The form that would stand there with another gender, number or register."""
    cue: int
    """The place of the deciding word in the source."""


def words_of(text: str) -> list[str]:
    """The words of a text as they are written; a word with an apostrophe is one.

    >>> words_of("Where's the X-ray?")
    ["Where's", 'the', 'X-ray']
    """
    return WORDS.findall(text)
