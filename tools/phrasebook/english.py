"""English forms: articles, plurals, verb forms.

Pure functions of strings; irregular verbs come from ``lexicon/english-verbs.txt``. Which form a sentence needs is
decided in `rendering`.
"""

from __future__ import annotations

from functools import cache

from phrasebook.lexemes import Agreement
from phrasebook.source import entries

VOWELS = "aeiou"
# Spelling and sound part ways at the beginning of these.
CONSONANT_SOUND = ("uni", "use", "euro", "one", "ukulele")
VOWEL_SOUND = ("hour", "honest", "x-ray")

IRREGULAR_PRESENT = {"be": ("am", "are", "is"), "have": ("have", "have", "has"), "don't": ("don't", "don't", "doesn't")}


def indefinite(following: str) -> str:
    """The article before ``following``.

    >>> [indefinite(word) for word in ("apple", "university", "hour", "small umbrella")]
    ['an', 'a', 'an', 'a']
    """
    word = following.lower()
    if word.startswith(CONSONANT_SOUND):
        return "a"
    return "an" if word.startswith(VOWEL_SOUND) or word[0] in VOWELS else "a"


def plural(noun: str) -> str:
    """The regular plural of the last word: boxes, cherries, ways."""
    if noun.endswith(("s", "x", "z", "ch", "sh")):
        return noun + "es"
    return _with_i(noun) + "es" if _ends_in_consonant_y(noun) else noun + "s"


def present(verb: str, subject: Agreement) -> str:
    """The form of ``verb`` that agrees with ``subject``: I go, she goes."""
    singular_third = subject.person == 3 and subject.number == "s"
    if verb in IRREGULAR_PRESENT:
        first, many, third = IRREGULAR_PRESENT[verb]
        return third if singular_third else first if subject[:2] == (1, "s") else many
    if not singular_third:
        return verb
    return verb + "es" if verb in ("go", "do") else plural(verb)


def past(verb: str, subject: Agreement | None = None) -> str:
    """The simple past; only *be* looks at its subject."""
    if verb == "be":
        return "were" if subject and subject.number == "p" else "was"
    return _irregular(verb)[0] or _with_ed(verb)


def participle(verb: str) -> str:
    """The past participle: eaten, closed."""
    return _irregular(verb)[1] or _with_ed(verb)


def gerund(verb: str) -> str:
    """The -ing form."""
    if form := _irregular(verb)[2]:
        return form
    silent_e = verb.endswith("e") and not verb.endswith(("ee", "ye", "be"))
    return (verb[:-1] if silent_e else verb) + "ing"


def _with_ed(verb: str) -> str:
    if verb.endswith("e"):
        return verb + "d"
    return _with_i(verb) + "ed" if _ends_in_consonant_y(verb) else verb + "ed"


def _ends_in_consonant_y(word: str) -> bool:
    return word.endswith("y") and word[-2] not in VOWELS


def _with_i(word: str) -> str:
    return word[:-1] + "i"


def _irregular(verb: str) -> tuple[str, str, str]:
    return _irregular_verbs().get(verb, ("", "", ""))


@cache
def _irregular_verbs() -> dict[str, tuple[str, str, str]]:
    table = {}
    for entry in entries("english-verbs.txt"):
        past_form, participle_form, *gerund_form = entry.italian.split(", ")
        table[entry.english] = (past_form, participle_form, "".join(gerund_form))
    return table
