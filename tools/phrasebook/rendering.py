"""From a pattern and its fillers to a sentence on either side.

Everything in one pair of braces agrees with one thing, its noun or what is named after an ``@``; the rest is up to the
grammars in `english` and `italian`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from phrasebook import english, italian
from phrasebook.lexemes import Adjective, Agreement, Lexeme, Noun, Number, Phrase, Subject, Verb
from phrasebook.patterns import Part, Word

Fillers = Mapping[str, Lexeme]

# Who speaks or is spoken to, where no slot says it. "I" and "you" are men unless the sentence says otherwise.
PERSONS = {
    "io": Agreement(1, "s", "m"),
    "tu": Agreement(2, "s", "m"),
    "lui": Agreement(3, "s", "m"),
    "lei": Agreement(3, "s", "f"),
    "noi": Agreement(1, "p", "m"),
    "voi": Agreement(2, "p", "m"),
    "loro": Agreement(3, "p", "m"),
}
SENTENCE_START = re.compile(r"^\w|(?<=[?!.] )\w")
NEUTRAL = Agreement(3, "s", "m")
PLURAL_DEMONSTRATIVES = {"this": "these", "that": "those"}


def render_english(template: tuple[Part, ...], fillers: Fillers) -> str:
    """The English sentence."""
    return _finish("".join(part if isinstance(part, str) else _english(part, fillers) for part in template))


def render_italian(template: tuple[Part, ...], fillers: Fillers) -> str:
    """The Italian sentence."""
    text = _finish("".join(part if isinstance(part, str) else _italian(part, fillers) for part in template))
    return italian.euphonic(text)


def _finish(text: str) -> str:
    """One space between words, none before a mark, a capital where a sentence begins."""
    text = re.sub(r" +([,.?!])", r"\1", re.sub(r"  +", " ", text)).strip()
    return SENTENCE_START.sub(lambda match: match.group().upper(), text)


def _english(words: tuple[Word, ...], fillers: Fillers) -> str:
    return " ".join(english_words(words, fillers))


def english_words(words: tuple[Word, ...], fillers: Fillers) -> list[str]:
    """The text of each word in a pair of braces; a filler may be a phrase."""
    plural = any(word.plural for word in words)
    texts: list[str] = []
    for word in reversed(words):
        following = texts[0] if texts else ""
        texts.insert(0, _english_word(word, plural, following, fillers))
    return texts


def _english_word(word: Word, plural: bool, following: str, fillers: Fillers) -> str:
    if word.tag:
        return _english_filler(fillers[word.text], word, fillers)
    if word.subject:
        subject = english_agreement(word.subject, fillers)
        return english.past(word.text, subject) if word.form == "past" else english.present(word.text, subject)
    if word.text == "a":
        return english.indefinite(following)
    return PLURAL_DEMONSTRATIVES.get(word.text, word.text) if plural else word.text


def _english_filler(lexeme: Lexeme, word: Word, fillers: Fillers) -> str:
    match lexeme:
        case Noun():
            return (lexeme.plural if word.plural else lexeme.singular) or lexeme.english
        case Verb():
            head, space, rest = lexeme.english.partition(" ")
            return _english_verb(head, word, fillers) + space + rest
        case _:
            return lexeme.english


def _english_verb(verb: str, word: Word, fillers: Fillers) -> str:
    match word.form:
        case "past":
            return english.past(verb)
        case "participle":
            return english.participle(verb)
        case "ing":
            return english.gerund(verb)
        case _:
            return english.present(verb, english_agreement(word.subject, fillers)) if word.subject else verb


def english_agreement(word: Word, fillers: Fillers) -> Agreement:
    """Person and number of what a word refers to."""
    lexeme = fillers.get(word.text)
    if isinstance(lexeme, Subject):
        return lexeme.agreement
    return Agreement(3, "p" if word.plural else "s", "m")


def _italian(words: tuple[Word, ...], fillers: Fillers) -> str:
    ordered = _adjectives_placed(words, fillers)
    agreement = _italian_agreement(ordered, fillers)
    text = ""
    for word in reversed(ordered):
        form = _italian_word(word, agreement, text, fillers)
        text = form + text if form.endswith("'") else f"{form} {text}".strip()
    return _without_article(text, ordered, agreement, fillers)


def _adjectives_placed(words: tuple[Word, ...], fillers: Fillers) -> tuple[Word, ...]:
    """An adjective like *piccolo* moves before the noun that it follows in the template."""
    ordered = list(words)
    for index in range(1, len(ordered)):
        lexeme = fillers.get(ordered[index].text)
        if isinstance(lexeme, Adjective) and lexeme.before and isinstance(fillers.get(ordered[index - 1].text), Noun):
            ordered[index - 1], ordered[index] = ordered[index], ordered[index - 1]
    return tuple(ordered)


def _italian_agreement(words: tuple[Word, ...], fillers: Fillers) -> Agreement:
    for word in words:
        if word.tag and isinstance(lexeme := fillers[word.text], Noun):
            return _noun_agreement(lexeme, word, fillers)
    subjects = [word.subject for word in words if word.subject]
    return _referred(subjects[0], fillers) if subjects else NEUTRAL


def _referred(word: Word, fillers: Fillers) -> Agreement:
    if word.text in PERSONS:
        return PERSONS[word.text]
    lexeme = fillers[word.text]
    return lexeme.agreement if isinstance(lexeme, Subject) else _noun_agreement(lexeme, word, fillers)


def _noun_agreement(lexeme: Lexeme, word: Word, fillers: Fillers) -> Agreement:
    assert isinstance(lexeme, Noun), f"{lexeme.english} is no noun to agree with"
    number, form = lexeme.form(*_wanted(word, fillers))
    return Agreement(3, number, form.gender)


def _wanted(word: Word, fillers: Fillers) -> tuple[Number, italian.Gender]:
    """Number and, for a profession, the gender of the person who has it."""
    return "p" if word.plural else "s", _referred(word.subject, fillers).gender if word.subject else "m"


def _italian_word(word: Word, agreement: Agreement, following: str, fillers: Fillers) -> str:
    if word.tag:
        return _italian_filler(fillers[word.text], word, agreement, following, fillers)
    if word.form:
        return italian.conjugate(word.text, word.form, agreement)
    if word.text in italian.DETERMINERS:
        return italian.determiner(word.text, agreement.gender, agreement.number, following)
    if word.text == "di":
        return italian.of(following)
    forms = italian.POSSESSIVES.get(word.text) or italian.adjective_forms(word.text)
    return italian.agreeing(forms, agreement.gender, agreement.number)


def _italian_filler(lexeme: Lexeme, word: Word, agreement: Agreement, following: str, fillers: Fillers) -> str:
    match lexeme:
        case Noun() if word.form == "place":
            form = lexeme.form("s")[1]
            return lexeme.place or _joined(
                italian.determiner("al", form.gender, agreement.number, form.text), form.text
            )
        case Noun():
            return lexeme.form(*_wanted(word, fillers))[1].text
        case Adjective():
            short = italian.BEFORE_NOUNS.get(lexeme.forms[0]) if following else None
            if short:
                return italian.determiner(short, agreement.gender, agreement.number, following)
            return italian.agreeing(lexeme.forms, agreement.gender, agreement.number)
        case Verb():
            head, space, rest = lexeme.italian.partition(" ")
            return italian.conjugate(head, word.form or "infinitive", agreement) + space + rest
        case Phrase():
            return italian.number_of_years(lexeme.italian) if following == "anni" else lexeme.italian
        case Subject():
            return lexeme.italian
        case _:
            raise TypeError(f"no way to render {lexeme}")


def _joined(first: str, second: str) -> str:
    return first + second if first.endswith("'") else f"{first} {second}"


def _without_article(text: str, words: tuple[Word, ...], agreement: Agreement, fillers: Fillers) -> str:
    """*mia sorella*, *a mia sorella*: one close relative with a possessive goes without the article."""
    cited = [word.text for word in words]
    close = any(isinstance(lexeme := fillers.get(word.text), Noun) and "kin" in lexeme.tags for word in words)
    possessed = len(cited) > 2 and cited[0] in italian.WITHOUT_ARTICLE and cited[1] in italian.POSSESSIVES
    if not (close and possessed and agreement.number == "s" and cited[1] != "loro") or len(cited) > 3:
        return text
    return f"{italian.WITHOUT_ARTICLE[cited[0]]} {text.split(' ', 1)[1]}".strip()
