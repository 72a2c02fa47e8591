"""Sentences of the phrasebook in which one English word decides the form of an Italian one.

The grammar writes each sentence twice, with one word of the English replaced or left out: *the shop* and *the market*,
*near the lake* and *near the lakes*, *do you all want* and *do you want*. The first Italian word that changes is the
one that is asked about, its form in the second sentence is the other form, and the English word is the cue. What stands
before that Italian word is the same in both, so it gives nothing away.

The slots of each sentence are filled with words that training never puts there (`generate.held_out`), or its pattern is
not in training at all. Start reading at `cues`.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Literal, NamedTuple

from dragoman.text.phrasebook.generate import WORDS, Sentence, digest, expand, fillers
from dragoman.text.phrasebook.italian import DETERMINERS, conjugate
from dragoman.text.phrasebook.lexemes import Agreement, Form, Gender, Lexeme, Noun, Subject
from dragoman.text.phrasebook.patterns import Part, Pattern, Word, patterns
from dragoman.text.phrasebook.rendering import Fillers, render_english, render_italian
from dragoman.text.reading.pairs import Pair

Kind = Literal["gender", "number", "register"]
Sides = tuple[str, str]

COUNTS: dict[Kind, int] = {"gender": 67, "number": 67, "register": 66}
SEED = 0
TRIED = 12
"""Sentences of a pattern that are tried."""
OTHER: dict[Gender, Gender] = {"m": "f", "f": "m"}
# A noun after these is no subject, so no verb agrees with it.
PREPOSITIONS = frozenset("about after at before behind by during for from in near of on opposite to with".split())
UNCHANGED = frozenset(("the", "my", "your", "our"))
# How the patterns address several people, and what they ask them.
SEVERAL = re.compile(r"\b(you) (?:all|both)\b", re.IGNORECASE)
YOU_ALL, STRANGER = Agreement(2, "p", "m"), Agreement(3, "s", "m")
ASKED = ("avere", "essere", "volere", "dovere", "vivere", "sembrare", "parlare", "lavorare", "venire")


class Cue(NamedTuple):
    """A word of a translation, and the word of the source that decides its form. Places count `words_of` a text."""

    kind: Kind
    pair: Pair
    place: int
    """Of the word in the target."""
    instead: str
    """The form that stands there in the translation of `other`."""
    cue: int
    """The place of the deciding word in the source."""
    other: str
    """The source with that word replaced or left out."""


def cues() -> list[Cue]:
    """200 cues of three kinds, the same on every machine. Patterns take turns, and no sentence comes twice."""
    return [
        cue
        for kind, count in COUNTS.items()
        for cue in _take_turns([_OF_KIND[kind](pattern) for pattern in _shuffled(kind)], count)
    ]


def words_of(text: str) -> list[str]:
    """The words of a text as they are written; a word with an apostrophe is one.

    >>> words_of("Where's the X-ray?")
    ["Where's", 'the', 'X-ray']
    """
    return WORDS.findall(text)


def _shuffled(kind: Kind) -> list[Pattern]:
    return sorted(patterns(), key=lambda pattern: digest(SEED, kind, pattern.key))


def _take_turns(hands: Sequence[Iterator[Cue]], count: int) -> list[Cue]:
    """One from each hand in turn, until there are enough."""
    taken: list[Cue] = []
    waiting = deque(hands)
    while len(taken) < count:
        assert waiting, f"the patterns make {len(taken)} cues only"
        hand = waiting.popleft()
        if cue := next(hand, None):
            taken.append(cue)
            waiting.append(hand)
    return taken


def _sentences(pattern: Pattern) -> Iterator[tuple[Sentence, dict[str, Lexeme]]]:
    """Sentences that training doesn't hold, and what fills their slots."""
    for sentence in islice(expand(pattern, SEED, "any" if pattern.unseen else "test"), TRIED):
        yield sentence, dict(zip(pattern.slots, sentence.lexemes, strict=True))


def _cue(kind: Kind, pattern: Pattern, one: Sides, other: Sides) -> Cue | None:
    """The cue between two sentences, if their English differs in one word, which stands there once."""
    (source, target), (others_source, others_target) = (tuple(map(words_of, sides)) for sides in (one, other))
    cue, place = _first_difference(source, others_source), _first_difference(target, others_target)
    if place >= min(len(target), len(others_target)) or cue == len(source):
        return None
    rest = source[cue + 1 :]
    one_word = rest in (others_source[cue + 1 :], others_source[cue:])
    word, instead = target[place], others_target[place]
    plain = not {"'", "’", "-"} & {*word, *instead, *source[cue]}
    once = Counter(map(str.lower, source))[source[cue].lower()] == 1
    if not (one_word and plain and once):
        return None
    return Cue(kind, Pair(*one, pattern.origin), place, instead, cue, other[0])


def _first_difference(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _rendered(pattern: Pattern, filled: Fillers) -> Sides:
    return render_english(pattern.english, filled), render_italian(pattern.italian, filled)


# Gender: another noun, or a person of the other sex


def _genders(pattern: Pattern) -> Iterator[Cue]:
    for sentence, filled in _sentences(pattern):
        found = (_gender_cue(pattern, sentence, filled, name) for name in _keyed(pattern, sentence))
        yield from islice((cue for cue in found if cue is not None), 1)


def _keyed(pattern: Pattern, sentence: Sentence) -> list[str]:
    return sorted(pattern.slots, key=lambda name: digest(SEED, sentence.pair.source, name))


def _gender_cue(pattern: Pattern, sentence: Sentence, filled: Mapping[str, Lexeme], name: str) -> Cue | None:
    """The word that changes with a noun of the other gender, as it would if the noun itself had that gender."""
    turned = _turned(filled[name])
    if turned is None or " " in turned.english:
        return None
    alone = _rendered(pattern, {**filled, name: turned})[1]
    for lexeme in fillers(pattern, name, SEED, "any"):
        other = _rendered(pattern, {**filled, name: lexeme})
        cue = _cue("gender", pattern, sentence.pair[:2], other)
        if cue and words_of(alone)[: cue.place + 1] == [*words_of(sentence.pair.target)[: cue.place], cue.instead]:
            return cue
    return None


def _turned(lexeme: Lexeme) -> Lexeme | None:
    """The same word with the other gender; None if its gender isn't its own."""
    if isinstance(lexeme, Noun) and lexeme.feminine is None:
        forms = {number: Form(form.text, OTHER[form.gender]) for number, form in lexeme.italian.items()}
        return replace(lexeme, italian=forms)
    if isinstance(lexeme, Subject):
        return replace(lexeme, agreement=lexeme.agreement._replace(gender=OTHER[lexeme.agreement.gender]))
    return None


# Number: one and several of a thing, I and we


def _numbers(pattern: Pattern) -> Iterator[Cue]:
    for sentence, filled in _sentences(pattern):
        found = (_number_cue(pattern, sentence, filled, name) for name in _keyed(pattern, sentence))
        yield from islice((cue for cue in found if cue is not None), 1)


def _number_cue(pattern: Pattern, sentence: Sentence, filled: Mapping[str, Lexeme], name: str) -> Cue | None:
    lexeme = filled[name]
    if isinstance(lexeme, Subject):
        return _speaker_cue(pattern, sentence, filled, name)
    if not isinstance(lexeme, Noun) or lexeme.singular is None or lexeme.plural is None or len(lexeme.italian) < 2:
        return None
    source = render_english(_recounted(pattern.english, name), filled)
    if not _recounts_an_object(words_of(sentence.pair.source), words_of(source)):
        return None
    sides = sentence.pair[:2], (source, render_italian(_recounted(pattern.italian, name), filled))
    if digest(SEED, sentence.pair.source)[0] % 2:
        sides = sides[::-1]  # so that the words asked about are in the plural as often
    cue = _cue("number", pattern, *sides)
    return cue if cue and _are_one_determiner(words_of(cue.pair.target)[cue.place], cue.instead) else None


def _recounted(template: tuple[Part, ...], name: str) -> tuple[Part, ...]:
    """A slot in the other number, with all that agrees with it."""

    def recount(word: Word) -> Word:
        subject = recount(word.subject) if word.subject else None
        return word._replace(plural=word.plural != (word.text == name), subject=subject)

    return tuple(part if isinstance(part, str) else tuple(map(recount, part)) for part in template)


def _recounts_an_object(words: Sequence[str], others: Sequence[str]) -> bool:
    """Whether only the noun itself says in English how many there are: near the lake, with my brothers."""
    place = _first_difference(words, others)
    return place > 1 and words[place - 1].lower() in UNCHANGED and words[place - 2].lower() in PREPOSITIONS


def _are_one_determiner(*forms: str) -> bool:
    """Whether these are forms of one word. *di mia figlia* and *delle mie figlie* begin with two."""
    return any({form.lower() for form in forms} <= set(each) for each in DETERMINERS.values())


def _speaker_cue(pattern: Pattern, sentence: Sentence, filled: Mapping[str, Lexeme], name: str) -> Cue | None:
    """*I lost* and *we lost*: in Italian, only the verb says who."""
    for lexeme in fillers(pattern, name, SEED, "any"):
        ours, theirs = filled[name], lexeme
        if isinstance(ours, Subject) and isinstance(theirs, Subject) and _other_number(ours, theirs):
            cue = _cue("number", pattern, sentence.pair[:2], _rendered(pattern, {**filled, name: theirs}))
            if cue:
                return cue
    return None


def _other_number(ours: Subject, theirs: Subject) -> bool:
    silent = not ours.italian and not theirs.italian
    return silent and ours.agreement.person == theirs.agreement.person and ours.agreement.number != theirs.agreement[1]


# Register: several people who are spoken to, and a stranger


def _registers(pattern: Pattern) -> Iterator[Cue]:
    for sentence, filled in _sentences(pattern):
        if cue := _register_cue(pattern, sentence, filled):
            yield cue


def _register_cue(pattern: Pattern, sentence: Sentence, filled: Mapping[str, Lexeme]) -> Cue | None:
    """*All* and *both* make plain *you*, a stranger (Lei), several people (voi)."""
    english = tuple(_without_several(part) for part in pattern.english)
    if english == pattern.english:
        return None
    italian = tuple(_to_a_stranger(part) for part in pattern.italian)
    other = render_english(english, filled), render_italian(italian, filled)
    return _cue("register", pattern, sentence.pair[:2], other)


def _without_several(part: Part) -> Part:
    return SEVERAL.sub(r"\1", part) if isinstance(part, str) else part


def _to_a_stranger(part: Part) -> Part:
    if not isinstance(part, str):
        return part
    return WORDS.sub(lambda match: _formal_forms().get(match.group().lower(), match.group()), part)


@cache
def _formal_forms() -> dict[str, str]:
    """What is said to several people, and to a stranger instead."""
    return {
        conjugate(verb, tense, YOU_ALL): conjugate(verb, tense, STRANGER)
        for verb in ASKED
        for tense in ("present", "future")
    }


_OF_KIND: dict[Kind, Callable[[Pattern], Iterator[Cue]]] = {
    "gender": _genders,
    "number": _numbers,
    "register": _registers,
}
