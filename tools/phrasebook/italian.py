"""Italian forms: articles and their kin, plurals, adjectives, verbs.

Pure functions of strings. A determiner is cited by its masculine singular, and ``determiner("nel", ...)`` picks *nel,
nello, nell', nella, nei, negli, nelle* by gender, number and the sound that follows. Verbs are regular unless
``lexicon/italian-verbs.txt`` says how they differ.
"""

from __future__ import annotations

import re
from functools import cache

from phrasebook.lexemes import Agreement, Gender, Number
from phrasebook.source import entries

VOWELS = "aeiouàèéìòù"
# Before these a masculine noun takes lo, uno, gli: lo zaino, lo studente, lo gnomo, lo psicologo, lo yogurt.
IMPURE = re.compile(r"z|x|y|gn|ps|pn|s[^aeiouàèéìòù]|i[aeou]")

# Masculine before a plain consonant, an impure one, a vowel; feminine before a consonant, a vowel; then the plurals:
# masculine before a plain consonant, masculine otherwise, feminine.
DETERMINERS: dict[str, tuple[str, ...]] = {
    "il": ("il", "lo", "l'", "la", "l'", "i", "gli", "le"),
    "questo": ("questo", "questo", "quest'", "questa", "quest'", "questi", "questi", "queste"),
    "un": ("un", "uno", "un", "una", "un'"),
    "nessun": ("nessun", "nessuno", "nessun", "nessuna", "nessun'"),
    "buon": ("buon", "buono", "buon", "buona", "buona", "buoni", "buoni", "buone"),
}
for citation in ("del", "al", "dal", "nel", "sul", "quel", "bel"):
    stem = citation[:-1]
    endings = ("l", "llo", "ll'", "lla", "ll'", "i", "gli", "lle")
    DETERMINERS[citation] = tuple(stem + ending for ending in endings)

SAME_VOWEL = re.compile(r"\b(a(?= [aà])|e(?= [eèé]))", re.IGNORECASE)
BEFORE_NOUNS = {"bello": "bel", "buono": "buon"}

POSSESSIVES = {
    "mio": ("mio", "mia", "miei", "mie"),
    "tuo": ("tuo", "tua", "tuoi", "tue"),
    "suo": ("suo", "sua", "suoi", "sue"),
    "nostro": ("nostro", "nostra", "nostri", "nostre"),
    "vostro": ("vostro", "vostra", "vostri", "vostre"),
    "loro": ("loro", "loro", "loro", "loro"),
}
# "mia sorella" but "la mia amica": close relatives in the singular go without the article.
WITHOUT_ARTICLE = {"il": "", "del": "di", "al": "a", "dal": "da", "nel": "in", "sul": "su"}

PERSONS = ((1, "s"), (2, "s"), (3, "s"), (1, "p"), (2, "p"), (3, "p"))
CLITICS = ("mi", "ti", "si", "ci", "vi", "si")
PRESENT = {
    "are": ("o", "i", "a", "iamo", "ate", "ano"),
    "ere": ("o", "i", "e", "iamo", "ete", "ono"),
    "ire": ("o", "i", "e", "iamo", "ite", "ono"),
    "isc": ("isco", "isci", "isce", "iamo", "ite", "iscono"),
}
FUTURE = ("ò", "ai", "à", "emo", "ete", "anno")
CONDITIONAL = ("ei", "esti", "ebbe", "emmo", "este", "ebbero")
PARTICIPLE = {"are": "ato", "ere": "uto", "ire": "ito"}


def determiner(cited: str, gender: Gender, number: Number, following: str) -> str:
    """The form of a determiner before ``following``.

    >>> determiner("il", "m", "s", "zaino"), determiner("un", "f", "s", "arancia"), determiner("al", "m", "p", "amici")
    ('lo', "un'", 'agli')
    """
    vowel = starts_with_vowel(following)
    impure = IMPURE.match(following.lower()) is not None
    if number == "p":
        index = 7 if gender == "f" else 6 if vowel or impure else 5
    elif gender == "f":
        index = 4 if vowel and not impure else 3
    else:
        index = 1 if impure else 2 if vowel else 0
    return DETERMINERS[cited][index]


def starts_with_vowel(text: str) -> bool:
    """Whether the sound is a vowel; an initial h is silent: l'hotel."""
    return text.lower().removeprefix("h")[:1] in tuple(VOWELS)


def of(following: str) -> str:
    """*di*, elided before what things are full or made of: d'acqua, d'oro, but di arance."""
    return "d'" if following.partition(" ")[0] in ("acqua", "olio", "oro", "argento", "acciaio") else "di"


def euphonic(text: str) -> str:
    """*a* and *e* become *ad* and *ed* before their own vowel.

    >>> euphonic("A Ancona e Edimburgo c'è il sole e è caldo")
    "Ad Ancona ed Edimburgo c'è il sole ed è caldo"
    """
    return SAME_VOWEL.sub(r"\1d", text)


def number_of_years(number: str) -> str:
    """Tens are elided before *anni*: sessant'anni."""
    return number[:-1] + "'" if number.endswith(("venti", "nta")) else number


def noun_plural(noun: str, gender: Gender) -> str:
    """The regular plural of the first word; a preposition must follow it, if anything does.

    >>> noun_plural("lago", "m"), noun_plural("spiaggia", "f"), noun_plural("biglietto del treno", "m")
    ('laghi', 'spiagge', 'biglietti del treno')
    """
    head, space, rest = noun.partition(" ")
    return _plural_word(head, gender) + space + rest


def adjective_forms(lemma: str) -> tuple[str, str, str, str]:
    """Masculine, feminine, and their plurals, by the ending: -o, -e, -ista; anything else never changes.

    >>> adjective_forms("simpatico"), adjective_forms("bianco")
    (('simpatico', 'simpatica', 'simpatici', 'simpatiche'), ('bianco', 'bianca', 'bianchi', 'bianche'))
    """
    if lemma.endswith("o"):
        feminine = lemma[:-1] + "a"
        return lemma, feminine, _plural_word(lemma, "m"), _plural_word(feminine, "f")
    if lemma.endswith("e"):
        return lemma, lemma, lemma[:-1] + "i", lemma[:-1] + "i"
    return lemma, lemma, lemma, lemma


def agreeing(forms: tuple[str, str, str, str], gender: Gender, number: Number) -> str:
    """The one of four forms that agrees."""
    return forms[2 * (number == "p") + (gender == "f")]


def conjugate(verb: str, tense: str, subject: Agreement) -> str:
    """One form of a verb, given by its infinitive.

    ``tense`` is infinitive, gerund, present, past (passato prossimo), future, conditional, formal, informal or plural
    (imperatives).

    >>> conjugate("andare", "past", Agreement(3, "p", "f")), conjugate("riposarsi", "present", Agreement(1, "s", "m"))
    ('sono andate', 'mi riposo')
    """
    reflexive = verb.endswith("rsi")
    plain = verb[:-2] + "e" if reflexive else verb
    index = PERSONS.index((subject.person, subject.number))
    clitic = CLITICS[index]
    if tense == "infinitive":
        return verb[:-2] + clitic if reflexive else verb
    if tense == "past":
        form = _passato_prossimo(plain, subject, "essere" if reflexive else _auxiliary(plain))
    else:
        form = _simple_form(plain, tense, index)
    if not reflexive:
        return form
    after = {"informal": "ti", "plural": "vi", "gerund": clitic}.get(tense)
    return form + after if after else f"{'si' if tense == 'formal' else clitic} {form}"


def _simple_form(verb: str, tense: str, index: int) -> str:
    first = verb.endswith("are")
    match tense:
        case "gerund":
            return _irregular(verb, "gerund") or verb[:-3] + ("ando" if first else "endo")
        case "present":
            return _present(verb)[index]
        case "future":
            return _future_stem(verb) + FUTURE[index]
        case "conditional":
            return _future_stem(verb) + CONDITIONAL[index]
        case "formal":
            return _irregular(verb, "formal") or (_attach(verb, "i") if first else _present(verb)[0][:-1] + "a")
        case "informal":
            return _irregular(verb, "informal") or (_attach(verb, "a") if first else _present(verb)[1])
        case "plural":
            return _present(verb)[4]
        case _:
            raise ValueError(f"no tense is called '{tense}'")


def _passato_prossimo(verb: str, subject: Agreement, auxiliary: str) -> str:
    participle = _irregular(verb, "participle") or verb[:-3] + PARTICIPLE[verb[-3:]]
    if auxiliary == "essere":
        participle = agreeing(adjective_forms(participle), subject.gender, subject.number)
    return f"{conjugate(auxiliary, 'present', subject)} {participle}"


def _present(verb: str) -> list[str]:
    if forms := _irregular(verb, "present"):
        return forms.split()
    return [_attach(verb, ending) for ending in PRESENT[_irregular(verb, "class") or verb[-3:]]]


def _future_stem(verb: str) -> str:
    if stem := _irregular(verb, "future"):
        return stem
    if not verb.endswith("are"):
        return verb[:-1]
    soft = verb.endswith(("ciare", "giare"))  # comincerò, mangerò, but studierò
    return (verb[:-4] if soft else _attach(verb, "e")[:-1]) + "er"


def _attach(verb: str, ending: str) -> str:
    """Stem and ending, keeping the sound: cerc-are, cerchi; mangi-are, mangi."""
    stem = verb[:-3]
    if verb.endswith(("care", "gare")) and ending[0] in "ie":
        return stem + "h" + ending
    return stem[:-1] + ending if stem.endswith("i") and ending.startswith("i") else stem + ending


def _plural_word(word: str, gender: Gender) -> str:
    if word.endswith(("ico", "ologo")) and word not in ("antico", "fico"):
        return word[:-1] + "i"
    if word.endswith(("co", "go")):
        return word[:-1] + "hi"
    if word.endswith(("ca", "ga")):
        return word[:-1] + ("he" if gender == "f" else "hi")
    if word.endswith(("cia", "gia")):
        return word[:-1] + "e" if word[-4] in VOWELS else word[:-2] + "e"
    if word.endswith(("io", "ie")):
        return word[:-1]
    if word.endswith("a"):
        return word[:-1] + ("e" if gender == "f" else "i")
    return word[:-1] + "i" if word.endswith(("o", "e")) else word


def _auxiliary(verb: str) -> str:
    return _irregular(verb, "auxiliary") or "avere"


def _irregular(verb: str, form: str) -> str:
    return _irregular_verbs().get(verb, {}).get(form, "")


@cache
def _irregular_verbs() -> dict[str, dict[str, str]]:
    table: dict[str, dict[str, str]] = {}
    for entry in entries("italian-verbs.txt"):
        table[entry.english] = {}
        for part in entry.italian.split(", "):
            name, _, form = part.partition(" ")
            table[entry.english][name] = form
    return table
