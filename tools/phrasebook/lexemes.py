"""The words that a sentence is filled with, and what they agree in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Number = Literal["s", "p"]
Gender = Literal["m", "f"]


class Agreement(NamedTuple):
    """What a subject or a head noun asks of the words around it."""

    person: int
    number: Number
    gender: Gender


class Form(NamedTuple):
    """One Italian form of a noun. An egg is ``uovo m``, eggs are ``uova f``."""

    text: str
    gender: Gender


@dataclass(frozen=True, eq=False)
class Lexeme:
    """An English word or fixed phrase with its one Italian rendering."""

    english: str
    tags: frozenset[str]


@dataclass(frozen=True, eq=False)
class Noun(Lexeme):
    """Countable where ``plural`` is given, plural only where ``singular`` is missing.

    An Italian noun may have one number only; then its words agree with that. ``feminine`` is what a woman is called,
    where Italian makes the difference (*waiter*: cameriere, cameriera). ``place`` is the answer to *where (to)?* when
    it is not plainly *a* with the article: in banca, in Italia, dal medico.
    """

    singular: str | None
    plural: str | None
    italian: dict[Number, Form]
    feminine: dict[Number, Form] | None = None
    place: str | None = None

    def form(self, number: Number, gender: Gender = "m") -> tuple[Number, Form]:
        """The Italian form for the number wanted, and the number that it really has."""
        forms = self.feminine if self.feminine and gender == "f" else self.italian
        real: Number = number if number in forms else ("p" if number == "s" else "s")
        return real, forms[real]


@dataclass(frozen=True, eq=False)
class Adjective(Lexeme):
    """``forms`` are rosso, rossa, rossi, rosse; ``before`` says that it stands before its noun."""

    forms: tuple[str, str, str, str]
    before: bool = False


@dataclass(frozen=True, eq=False)
class Verb(Lexeme):
    """A verb with what always follows it: *take | a walk*, *fare | una passeggiata*."""

    italian: str


@dataclass(frozen=True, eq=False)
class Phrase(Lexeme):
    """Words that never change."""

    italian: str


@dataclass(frozen=True, eq=False)
class Subject(Lexeme):
    """Who acts. The Italian is empty where a pronoun goes without saying."""

    italian: str
    agreement: Agreement
