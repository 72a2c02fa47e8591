"""All sentences of the phrasebook, dealt out to training, development and two tests.

In each slot of each pattern some lexemes belong to the test and as many to the development set, the rest to training; a
sentence whose slots disagree belongs to nobody. So no lexeme of a test sentence fills the same slot of the same pattern
in training. Every order is that of BLAKE2 digests: the same on every machine. Start reading at `sentences`.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Literal, NamedTuple

from dragoman.errors import DataError
from dragoman.text.phrasebook import words
from dragoman.text.readers import Pair
from dragoman.text.split import sentence_key
from phrasebook.lexemes import Lexeme, Noun
from phrasebook.lexicon import tagged
from phrasebook.patterns import Pattern, Word, patterns
from phrasebook.rendering import render_english, render_italian

Part = Literal["train", "dev", "test", "any"]

SIZES = {"train": 50_000, "dev": 1_000, "test": 1_000, "new_patterns": 500}
HELD_OUT = 10  # one lexeme of a slot in so many goes to the test, another to the development set
EACH = 14  # sentences of training that a pattern has, on average, before rare lexemes are given more
ENOUGH = 12  # sentences of training that each lexeme has at least; the promise is 10
OFTEN = 20  # sentences of training that each lexeme of the first test and of the development set has at least


class Sentence(NamedTuple):
    """A pair, its pattern, and what fills the slots, in their order."""

    pair: Pair
    lexemes: tuple[Lexeme, ...]
    pattern: Pattern


Accept = Callable[[Sentence], bool]
"""Says whether a sentence may be dealt, and remembers those that may."""


class Sentences(NamedTuple):
    """The four sets: training, development, new fillings of known patterns, and patterns that training never sees."""

    train: list[Sentence]
    dev: list[Sentence]
    test: list[Sentence]
    new_patterns: list[Sentence]


def sentences(seed: int = 0) -> Sentences:
    """The four sets. No text stands twice in one; and none in two, on either side, not even with another last mark."""
    known = [pattern for pattern in patterns() if not pattern.unseen]
    unseen = [pattern for pattern in patterns() if pattern.unseen]
    learns, hands = new_to_training(), [expand(pattern, seed, "train") for pattern in known]
    train = deal(hands, EACH * len(hands), learns)
    train += cover(known, seed, learns, train)
    train += deal(hands, SIZES["train"] - len(train), learns)
    often, tests = frequent(train), fit_for_tests(train)
    mixed = sorted(known, key=lambda pattern: digest(seed, pattern.key))  # there are more patterns than test sentences
    dev = deal([filter(often, expand(pattern, seed, "dev")) for pattern in mixed], SIZES["dev"], tests)
    test = deal([filter(often, expand(pattern, seed, "test")) for pattern in mixed], SIZES["test"], tests)
    new = deal([expand(pattern, seed, "any") for pattern in unseen], SIZES["new_patterns"], tests)
    return Sentences(train, dev, test, new)


def cover(known: Sequence[Pattern], seed: int, learns: Accept, train: Sequence[Sentence]) -> list[Sentence]:
    """More training sentences, so that every lexeme stands in enough of them, however many patterns it fits."""
    places: dict[Lexeme, list[tuple[Pattern, str]]] = {}
    for pattern in known:
        for name in pattern.slots:
            for lexeme in fillers(pattern, name, seed, "train"):
                places.setdefault(lexeme, []).append((pattern, name))
    dealt: list[Sentence] = []
    seen = Counter(lexeme for sentence in train for lexeme in sentence.lexemes)
    for lexeme, fitting in places.items():
        mixed = sorted(fitting, key=lambda place, word=lexeme.english: digest(seed, word, place[0].key, place[1]))
        hands = [expand(pattern, seed, "train", {name: lexeme}) for pattern, name in mixed]
        more = deal(hands, ENOUGH - seen[lexeme], learns)
        seen.update(lexeme for sentence in more for lexeme in sentence.lexemes)
        dealt += more
    return dealt


def deal(hands: Sequence[Iterator[Sentence]], count: int, accept: Accept) -> list[Sentence]:
    """``count`` sentences that are accepted, one from each hand in turn until it is empty."""
    dealt: list[Sentence] = []
    waiting = list(hands)
    while waiting and len(dealt) < count:
        holding = []
        for hand in waiting:
            if len(dealt) == count:
                break
            if drawn := next(filter(accept, hand), None):
                dealt.append(drawn)
                holding.append(hand)
        waiting = holding
    return dealt


def new_to_training() -> Accept:
    """Accepts a sentence that is new on both sides, and that has no other topic with another last mark."""
    texts: set[str] = set()
    topics: dict[int, str] = {}

    def accept(sentence: Sentence) -> bool:
        topic = sentence.pattern.topic
        if (
            texts.isdisjoint(sentence.pair[:2])
            and topics.setdefault(sentence_key(sentence.pair.source), topic) == topic
        ):
            texts.update(sentence.pair[:2])
            return True
        return False

    return accept


def frequent(train: list[Sentence]) -> Accept:
    """Accepts a sentence whose lexemes all stand often in training."""
    counts = Counter(lexeme for sentence in train for lexeme in sentence.lexemes)
    return lambda sentence: all(counts[lexeme] >= OFTEN for lexeme in sentence.lexemes)


def fit_for_tests(train: list[Sentence]) -> Accept:
    """Accepts a sentence that is new on both sides, whatever its last mark, if training holds its lexemes often enough
    and all its words.
    """
    counts = Counter(lexeme for sentence in train for lexeme in sentence.lexemes)
    known = [{word for sentence in train for word in words(sentence.pair[:2][side])} for side in (0, 1)]
    taken = {sentence_key(text) for sentence in train for text in sentence.pair[:2]}

    def accept(sentence: Sentence) -> bool:
        keys = set(map(sentence_key, sentence.pair[:2]))
        often = all(counts[lexeme] >= ENOUGH for lexeme in sentence.lexemes)
        familiar = all(known[side].issuperset(words(sentence.pair[:2][side])) for side in (0, 1))
        if often and familiar and taken.isdisjoint(keys):
            taken.update(keys)
            return True
        return False

    return accept


def expand(pattern: Pattern, seed: int, part: Part, chosen: Mapping[str, Lexeme] | None = None) -> Iterator[Sentence]:
    """The sentences of a pattern that belong to one part; some slots may be chosen already."""
    names = list(pattern.slots)
    given = chosen or {}
    choices = [[given[name]] if name in given else fillers(pattern, name, seed, part) for name in names]
    start = int.from_bytes(digest(seed, *(lexeme.english for lexeme in given.values()))) if given else 0
    for combination in walk(choices, start):
        if len({lexeme.english for lexeme in combination}) == len(combination):
            filled = dict(zip(names, combination, strict=True))
            source, target = render_english(pattern.english, filled), render_italian(pattern.italian, filled)
            yield Sentence(Pair(source, target, pattern.origin), combination, pattern)


def walk(choices: Sequence[Sequence[Lexeme]], start: int = 0) -> Iterator[tuple[Lexeme, ...]]:
    """Every combination once, spread evenly: steps of the golden section through the product, coprime to its size."""
    size = math.prod(len(choice) for choice in choices)
    step = max(1, size * 618 // 1000)
    while math.gcd(step, size) != 1:
        step += 1
    for index in range(size):
        place = (start + index * step) % size
        combination = []
        for choice in choices:
            place, digit = divmod(place, len(choice))
            combination.append(choice[digit])
        yield tuple(combination)


@cache
def fillers(pattern: Pattern, name: str, seed: int, part: Part) -> list[Lexeme]:
    """What may fill a slot in one part, in keyed order."""
    fitting = _fitting(pattern, name, tagged(_tag(pattern, name)))
    if not fitting:
        raise DataError(f"{pattern.origin}: the lexicon has nothing that fits the slot {name}")
    held = {} if part == "any" else held_out(seed)[pattern, name]
    chosen = [lexeme for lexeme in fitting if part in ("any", held.get(lexeme, "train"))]
    return sorted(chosen, key=lambda lexeme: digest(seed, pattern.key, name, lexeme.english))


@cache
def held_out(seed: int) -> dict[tuple[Pattern, str], dict[Lexeme, Part]]:
    """Which lexemes of which slot belong to the test or the development set.

    The lexemes of a tag take turns, so that none is held out of more slots than it must. A slot with three lexemes or
    fewer holds out none, and its pattern has no test sentences.
    """
    queues: dict[str, list[Lexeme]] = {}
    held: dict[tuple[Pattern, str], dict[Lexeme, Part]] = {}
    for pattern in patterns():
        for name in () if pattern.unseen else pattern.slots:
            tag = _tag(pattern, name)
            if tag not in queues:
                queues[tag] = sorted(tagged(tag), key=lambda lexeme, tag=tag: digest(seed, tag, lexeme.english))
            fitting = _fitting(pattern, name, queues[tag])
            count = max(1, len(fitting) // HELD_OUT) if len(fitting) > 3 else 0
            parts: list[Part] = ["test", "dev"] * count
            held[pattern, name] = dict(zip(fitting, parts, strict=False))
            queues[tag].sort(key=held[pattern, name].__contains__)  # a stable sort: who had a turn goes to the end
    return held


def _tag(pattern: Pattern, name: str) -> str:
    return pattern.slots[name][0].tag or ""


def _fitting(pattern: Pattern, name: str, lexemes: Sequence[Lexeme]) -> list[Lexeme]:
    return [lexeme for lexeme in lexemes if all(_fits(lexeme, word) for word in pattern.slots[name])]


def _fits(lexeme: Lexeme, word: Word) -> bool:
    """Whether a noun has the number that its slot asks for."""
    if not isinstance(lexeme, Noun):
        return True
    if word.plural:
        return lexeme.plural is not None
    return lexeme.singular is not None and (lexeme.plural is not None or not word.countable)


def digest(seed: int, *parts: str) -> bytes:
    """An order without rhyme that is the same everywhere."""
    return hashlib.blake2b("\t".join((str(seed), *parts)).encode(), digest_size=8).digest()
