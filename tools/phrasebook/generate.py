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
from phrasebook.lexemes import Lexeme, Noun
from phrasebook.lexicon import tagged
from phrasebook.patterns import Pattern, Word, patterns
from phrasebook.rendering import render_english, render_italian

Part = Literal["train", "dev", "test", "any"]

SIZES = {"train": 50_000, "dev": 1_000, "test": 1_000, "new_patterns": 500}
HELD_OUT = 10  # one lexeme of a slot in so many goes to the test, another to the development set
ENOUGH = 30  # sentences of training that each lexeme has at least; the promise is 20


class Sentence(NamedTuple):
    """A pair, its pattern, and what fills the slots, in their order."""

    pair: Pair
    lexemes: tuple[Lexeme, ...]
    pattern: Pattern


class Sentences(NamedTuple):
    """The four sets: training, development, new fillings of known patterns, and patterns that training never sees."""

    train: list[Sentence]
    dev: list[Sentence]
    test: list[Sentence]
    new_patterns: list[Sentence]


def sentences(seed: int = 0) -> Sentences:
    """The four sets. No text stands in two of them, on either side, nor twice in one."""
    known = [pattern for pattern in patterns() if not pattern.unseen]
    unseen = [pattern for pattern in patterns() if pattern.unseen]
    texts: set[str] = set()
    train = cover(known, seed, texts)
    train += deal([expand(pattern, seed, "train") for pattern in known], SIZES["train"] - len(train), texts)
    learned = _learned(train)
    dev = deal([expand(pattern, seed, "dev") for pattern in known], SIZES["dev"], texts, learned)
    test = deal([expand(pattern, seed, "test") for pattern in known], SIZES["test"], texts, learned)
    new = deal([expand(pattern, seed, "any") for pattern in unseen], SIZES["new_patterns"], texts, learned)
    return Sentences(train, dev, test, new)


def cover(known: Sequence[Pattern], seed: int, texts: set[str]) -> list[Sentence]:
    """Training sentences that hold every lexeme often enough, however many patterns it fits."""
    places: dict[Lexeme, list[tuple[Pattern, str]]] = {}
    for pattern in known:
        for name in pattern.slots:
            for lexeme in fillers(pattern, name, seed, "train"):
                places.setdefault(lexeme, []).append((pattern, name))
    dealt: list[Sentence] = []
    seen: Counter[Lexeme] = Counter()
    for lexeme, fitting in places.items():
        hands = [expand(pattern, seed, "train", {name: lexeme}) for pattern, name in fitting]
        more = deal(hands, ENOUGH - seen[lexeme], texts)
        seen.update(lexeme for sentence in more for lexeme in sentence.lexemes)
        dealt += more
    return dealt


def deal(
    hands: Sequence[Iterator[Sentence]],
    count: int,
    texts: set[str],
    accept: Callable[[Sentence], bool] = lambda sentence: True,
) -> list[Sentence]:
    """``count`` sentences, one from each hand in turn until it is empty; none with a text already in ``texts``."""
    dealt: list[Sentence] = []
    waiting = list(hands)
    while waiting and len(dealt) < count:
        holding = []
        for hand in waiting[: count - len(dealt)]:
            drawn = next(
                (sentence for sentence in hand if texts.isdisjoint(sentence.pair[:2]) and accept(sentence)), None
            )
            if drawn is not None:
                texts.update(drawn.pair[:2])
                dealt.append(drawn)
                holding.append(hand)
        waiting = holding
    return dealt


def _learned(train: list[Sentence]) -> Callable[[Sentence], bool]:
    """Whether training holds the lexemes of a sentence often enough, and all its words on both sides."""
    counts = Counter(lexeme for sentence in train for lexeme in sentence.lexemes)
    known = [{word for sentence in train for word in words(sentence.pair[side])} for side in (0, 1)]

    def learned(sentence: Sentence) -> bool:
        often = all(counts[lexeme] >= ENOUGH for lexeme in sentence.lexemes)
        return often and all(known[side].issuperset(words(sentence.pair[side])) for side in (0, 1))

    return learned


def expand(pattern: Pattern, seed: int, part: Part, chosen: Mapping[str, Lexeme] | None = None) -> Iterator[Sentence]:
    """The sentences of a pattern that belong to one part; some slots may be chosen already."""
    names = list(pattern.slots)
    given = chosen or {}
    choices = [[given[name]] if name in given else fillers(pattern, name, seed, part) for name in names]
    for combination in walk(choices):
        if len({lexeme.english for lexeme in combination}) == len(combination):
            filled = dict(zip(names, combination, strict=True))
            source, target = render_english(pattern.english, filled), render_italian(pattern.italian, filled)
            yield Sentence(Pair(source, target, pattern.origin), combination, pattern)


def walk(choices: Sequence[Sequence[Lexeme]]) -> Iterator[tuple[Lexeme, ...]]:
    """Every combination once, spread evenly: steps of the golden section through the product, coprime to its size."""
    size = math.prod(len(choice) for choice in choices)
    step = max(1, size * 618 // 1000)
    while math.gcd(step, size) != 1:
        step += 1
    for index in range(size):
        place = index * step % size
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
