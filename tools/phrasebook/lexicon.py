"""The lexicon: every word that may fill a slot, read from ``lexicon/*.txt``.

`source` says how a line is written. A noun is ``knife, knives = coltello m``: the second form is the plural, regular
plurals are left out, ``-`` says that a form does not exist (mass nouns, trousers). An adjective gives one form, or all
four; ``-`` after it says that it never changes. A person gives what a man and what a woman is called.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import cast

from dragoman.errors import DataError
from phrasebook import english
from phrasebook.italian import adjective_forms, noun_plural
from phrasebook.lexemes import (
    Adjective,
    Agreement,
    Form,
    Gender,
    Lexeme,
    Noun,
    Number,
    Phrase,
    Subject,
    Verb,
)
from phrasebook.source import Entry, entries, text_files

# In "biglietto del treno" the first word alone takes the plural; "carta geografica" must spell its plural out.
INVARIABLE_TAIL = re.compile(
    r"\S+ (d'|di |da |del |dell'|della |dei |degli |delle |a |al |alla |all'|in |per |con |vicino )"
)


@cache
def lexicon() -> tuple[Lexeme, ...]:
    """All lexemes, in the order of the files. A word that stands in several classes is one lexeme with all the tags."""
    merged: dict[tuple[str, str, str], Entry] = {}
    for name in text_files("lexicon"):
        for entry in () if name.endswith("-verbs.txt") else entries(name):
            key = entry.kind, entry.english, entry.italian
            known = merged.get(key, entry)
            merged[key] = known._replace(tags=known.tags + entry.tags, place=known.place or entry.place)
    return tuple(read(entry) for entry in merged.values())


@cache
def tagged(tag: str) -> tuple[Lexeme, ...]:
    """The lexemes of one class: ``tagged("fruit")``."""
    return tuple(lexeme for lexeme in lexicon() if tag in lexeme.tags)


def read(entry: Entry) -> Lexeme:
    """The lexeme that one line describes.

    Raises:
        DataError: the line does not follow the notation of its kind.
    """
    if entry.kind not in READERS:
        raise DataError(f"{entry.origin}: a kind is one of {', '.join(READERS)}, but this is '{entry.kind}'")
    try:
        return READERS[entry.kind](entry, frozenset(entry.tags))
    except (ValueError, KeyError) as error:
        raise DataError(f"{entry.origin}: '{entry.english} = {entry.italian}' is no {entry.kind}: {error}") from error


def _noun(entry: Entry, tags: frozenset[str]) -> Noun:
    singular, plural = _english_forms(entry.english)
    forms = _italian_forms(entry.italian, plural is not None)
    return Noun(singular or plural or "", tags, singular, plural, forms, place=entry.place or None)


def _person(entry: Entry, tags: frozenset[str]) -> Noun:
    singular, plural = _english_forms(entry.english)
    masculine, feminine = entry.italian.split(", ")
    both = _italian_forms(masculine + " m", True), _italian_forms(feminine + " f", True)
    return Noun(singular or "", tags, singular, plural, both[0], feminine=both[1])


def _name(entry: Entry, tags: frozenset[str]) -> Subject:
    agreement = Agreement(3, "s", cast(Gender, entry.italian))
    return Subject(entry.english, tags, entry.english, agreement)


def _subject(entry: Entry, tags: frozenset[str]) -> Subject:
    *words, (person, number, gender) = entry.italian.split(" ")
    agreement = Agreement(int(person), cast(Number, number), cast(Gender, gender))
    return Subject(entry.english, tags, " ".join(words), agreement)


def _adjective(entry: Entry, tags: frozenset[str]) -> Adjective:
    forms = entry.italian.split(", ")
    if len(forms) == 1:
        lemma = forms[0].removesuffix(" -")
        forms = adjective_forms(lemma) if lemma == forms[0] else (lemma,) * 4
    masculine, feminine, masculine_plural, feminine_plural = forms
    all_forms = (masculine, feminine, masculine_plural, feminine_plural)
    return Adjective(entry.english, tags - {"before"}, all_forms, before="before" in tags)


def _english_forms(text: str) -> tuple[str | None, str | None]:
    singular, comma, plural = text.partition(", ")
    if not comma:
        return singular, english.plural(singular)
    return None if singular == "-" else singular, None if plural == "-" else plural


def _italian_forms(text: str, has_plural: bool) -> dict[Number, Form]:
    singular, comma, plural = text.partition(", ")
    if comma:
        written = {"s": singular, "p": plural}
        return {cast(Number, number): _form(form) for number, form in written.items() if form != "-"}
    form = _form(singular)
    if not has_plural:
        return {"s": form}
    if " " in form.text and not INVARIABLE_TAIL.match(form.text):
        raise ValueError("the Italian plural must be given")
    return {"s": form, "p": Form(noun_plural(form.text, form.gender), form.gender)}


def _form(text: str) -> Form:
    word, gender = text.rsplit(" ", 1)
    if gender not in ("m", "f"):
        raise ValueError(f"gender is m or f, not '{gender}'")
    return Form(word, cast(Gender, gender))


READERS: dict[str, Callable[[Entry, frozenset[str]], Lexeme]] = {
    "noun": _noun,
    "person": _person,
    "name": _name,
    "subject": _subject,
    "adjective": _adjective,
    "verb": lambda entry, tags: Verb(entry.english, tags, entry.italian),
    "phrase": lambda entry, tags: Phrase(entry.english, tags, entry.italian),
}
