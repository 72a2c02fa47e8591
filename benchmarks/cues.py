"""Sentences of the phrasebook in which one English word decides the form of an Italian one.

The grammar writes each sentence twice, with one word of the English replaced or left out: *near the lake* and *near the
river*, *I lost* and *we lost*, *do you all have* and *do you have*. The first Italian word that changes is the one that
is asked about, its form in the second sentence is the other form, and the English word is the cue. What stands before
that Italian word is the same in both, so it gives nothing away.

The phrasebook says both, so a model that learned it must look at the cue: a noun that a pattern has in one number only
would be in that number whatever the cue. The sentences are not in training: words fill their slots, save the cue's,
that training never puts there (`generate.held_out`), or training has no such pattern; and no other pattern of training
makes them. Start reading at `cues`.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

sys.path.append(str(Path(__file__).parents[1] / "tools"))

from phrasebook.generate import Sentence, digest, expand, fillers
from phrasebook.italian import conjugate
from phrasebook.lexemes import Agreement, Form, Gender, Lexeme, Noun, Number, Subject
from phrasebook.patterns import Part, Pattern, patterns
from phrasebook.rendering import Fillers, render_english, render_italian

from dragoman.text.phrasebook import WORDS, read_phrasebook
from dragoman.text.readers import Pair

Kind = Literal["gender", "number", "register"]
Sides = tuple[str, str]

COUNTS: dict[Kind, int] = {"gender": 67, "number": 67, "register": 66}
SEED = 0
TRIED = 12
"""Sentences of a pattern that are tried."""
OTHER_GENDER: dict[Gender, Gender] = {"m": "f", "f": "m"}
OTHER_NUMBER: dict[Number, Number] = {"s": "p", "p": "s"}
SPEAKERS = ("I", "we")
# Questions that begin with plain *you*, said to a stranger (Lei); *all* and *both* turn them to several people (voi).
OPENING = re.compile(r"(?:(?:Do|Have|Would) you|You)(?= (?:have|seen|like|must)\b)")
SEVERAL = (("all", "tutti"), ("both", "tutti e due"))
STRANGER, YOU_ALL = Agreement(3, "s", "m"), Agreement(2, "p", "m")
FORMS = {
    conjugate(verb, "present", STRANGER): conjugate(verb, "present", YOU_ALL) for verb in ("avere", "volere", "dovere")
}
TO_A_STRANGER = re.compile(rf"\b({'|'.join(FORMS)})\b((?: visto)?)", re.IGNORECASE)


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
    """One from each hand in turn, until there are enough; none that another pattern has put into training."""
    training = {sentence.source for sentence in read_phrasebook().train}
    taken: list[Cue] = []
    waiting = deque(hands)
    while len(taken) < count:
        assert waiting, f"the patterns make {len(taken)} cues only"
        hand = waiting.popleft()
        if cue := next((cue for cue in hand if cue.pair.source not in training), None):
            taken.append(cue)
            waiting.append(hand)
    return taken


def _sentences(
    pattern: Pattern, chosen: Mapping[str, Lexeme] | None = None
) -> Iterator[tuple[Sentence, dict[str, Lexeme]]]:
    """Sentences that training doesn't hold, and what fills their slots; some slots may be chosen already."""
    for sentence in islice(expand(pattern, SEED, "any" if pattern.unseen else "test", chosen), TRIED):
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
    return _noun_cues("gender", pattern)


def _noun_cues(kind: Kind, pattern: Pattern) -> Iterator[Cue]:
    """At most one of each sentence."""
    for sentence, filled in _sentences(pattern):
        found = (_noun_cue(kind, pattern, sentence, filled, name) for name in _keyed(pattern, sentence))
        yield from islice((cue for cue in found if cue is not None), 1)


def _keyed(pattern: Pattern, sentence: Sentence) -> list[str]:
    return sorted(pattern.slots, key=lambda name: digest(SEED, sentence.pair.source, name))


def _noun_cue(kind: Kind, pattern: Pattern, sentence: Sentence, filled: Fillers, name: str) -> Cue | None:
    """The word that changes with another noun, as it would if the noun itself had that gender or number."""
    plural = pattern.slots[name][0].plural
    form = _form(filled[name], plural)
    if form is None or " " in filled[name].english:
        return None
    number, gender = form
    wanted = (number, OTHER_GENDER[gender]) if kind == "gender" else (OTHER_NUMBER[number], gender)
    for lexeme in fillers(pattern, name, SEED, "any"):
        if _form(lexeme, plural) == wanted:
            cue = _cue(kind, pattern, sentence.pair[:2], _rendered(pattern, {**filled, name: lexeme}))
            alone = _rendered(pattern, {**filled, name: _turned(filled[name], plural, *wanted)})[1] if cue else ""
            if cue and words_of(alone)[: cue.place + 1] == [*words_of(sentence.pair.target)[: cue.place], cue.instead]:
                return cue
    return None


def _form(lexeme: Lexeme, plural: bool) -> tuple[Number, Gender] | None:
    """Number and gender of its own in Italian; None if it has none."""
    match lexeme:
        case Subject():
            return lexeme.agreement.number, lexeme.agreement.gender
        case Noun(feminine=None):
            number, form = lexeme.form("p" if plural else "s")
            return number, form.gender
        case _:
            return None


def _turned(lexeme: Lexeme, plural: bool, number: Number, gender: Gender) -> Lexeme:
    """The same word, as if it had that number and gender."""
    if isinstance(lexeme, Subject):
        return replace(lexeme, agreement=lexeme.agreement._replace(number=number, gender=gender))
    assert isinstance(lexeme, Noun)
    return replace(lexeme, italian={number: Form(lexeme.form("p" if plural else "s")[1].text, gender)})


# Number: I and we, and nouns that Italian has in the other number


def _numbers(pattern: Pattern) -> Iterator[Cue]:
    yield from _noun_cues("number", pattern)
    for name, uses in pattern.slots.items():
        if uses[0].tag == "who":
            yield from _speaker_cues(pattern, name)


def _speaker_cues(pattern: Pattern, name: str) -> Iterator[Cue]:
    """*I lost* and *we lost*: in Italian, only the verb says who."""
    speakers = [lexeme for lexeme in fillers(pattern, name, SEED, "any") if lexeme.english in SPEAKERS]
    for pair in zip(*(_sentences(pattern, {name: speaker}) for speaker in speakers), strict=True):
        (one, _), (other, _) = pair if digest(SEED, pattern.key, name)[0] % 2 else pair[::-1]
        if cue := _cue("number", pattern, one.pair[:2], other.pair[:2]):
            yield cue


# Register: several people who are spoken to, and a stranger


def _registers(pattern: Pattern) -> Iterator[Cue]:
    for sentence, filled in _sentences(pattern):
        if cue := _register_cue(pattern, sentence, filled):
            yield cue


def _register_cue(pattern: Pattern, sentence: Sentence, filled: Fillers) -> Cue | None:
    """*All* and *both* make plain *you*, a stranger (Lei), several people (voi)."""
    if not OPENING.match(sentence.pair.source):
        return None
    word, words = SEVERAL[digest(SEED, sentence.pair.source)[0] % 2]
    source = OPENING.sub(rf"\g<0> {word}", sentence.pair.source)
    italian = _to_several(pattern.italian, words)
    several = source, render_italian(italian, filled)
    return _cue("register", pattern, several, sentence.pair[:2])


def _to_several(template: tuple[Part, ...], all_of_you: str) -> tuple[Part, ...]:
    """The first verb that is said to a stranger, as it is said to several people."""
    changed: list[Part] = []
    for part in template:
        done = any(old != new for old, new in zip(template, changed, strict=False))
        if isinstance(part, str) and not done:
            part = TO_A_STRANGER.sub(lambda verb: f"{FORMS[verb[1].lower()]}{verb[2]} {all_of_you}", part, count=1)
        changed.append(part)
    return tuple(changed)


_OF_KIND: dict[Kind, Callable[[Pattern], Iterator[Cue]]] = {
    "gender": _genders,
    "number": _numbers,
    "register": _registers,
}
