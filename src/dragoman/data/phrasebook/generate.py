"""All sentences of the phrasebook, dealt out to training, development and two tests.

The order of everything is that of BLAKE2 digests of ``(seed, pattern, slot, lexeme)``, so it is the same on every machine. In
each slot of each pattern some lexemes belong to the development set and some to the test, the rest to training; a sentence
whose slots disagree belongs to nobody.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from dragoman.data.phrasebook.lexicon import tagged
from dragoman.data.phrasebook.patterns import Pattern, Word, patterns
from dragoman.data.phrasebook.rendering import render_english, render_italian
from dragoman.data.phrasebook.words import Lexeme, Noun
from dragoman.data.readers import Pair
from dragoman.errors import DataError
from dragoman.files import write_file

TRAIN, DEV, TEST, NEW_PATTERNS = 50_000, 1_000, 1_000, 500
HELD_OUT = 10  # one lexeme of a slot in so many goes to the test, one to the development set
ENOUGH = 30  # times that training holds a lexeme; a test asks for SEEN_OFTEN_ENOUGH
SEEN_OFTEN_ENOUGH = 20
WORDS = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


class Sentence(NamedTuple):
    """A pair and what it was made of."""

    pair: Pair
    lexemes: tuple[Lexeme, ...]


class Phrasebook(NamedTuple):
    """The four sets: training, development, new fillings of known patterns, and patterns never seen."""

    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]
    new_patterns: list[Pair]

    def vocabulary(self) -> frozenset[str]:
        """The English words of the training set, in lower case."""
        return frozenset(word for pair in self.train for word in words(pair.source))


def words(text: str) -> list[str]:
    """The words of a sentence, in lower case.

    >>> words("Where's the X-ray?")
    ["where's", 'the', 'x-ray']
    """
    return WORDS.findall(text.lower())


def phrasebook(seed: int = 0) -> Phrasebook:
    """The corpus, the same for the same seed on every machine."""
    sets = sentences(seed)
    return Phrasebook(*([sentence.pair for sentence in part] for part in sets))


def sentences(seed: int = 0) -> tuple[list[Sentence], list[Sentence], list[Sentence], list[Sentence]]:
    """Training, development, test and new patterns, with the lexemes of every sentence."""
    known = [pattern for pattern in patterns() if not pattern.unseen]
    unseen = [pattern for pattern in patterns() if pattern.unseen]
    texts: set[str] = set()
    train = cover(known, seed, texts)
    train += deal([expand(pattern, seed, "train") for pattern in known], TRAIN - len(train), texts)
    learned = _Learned(train)
    dev = deal([expand(pattern, seed, "dev") for pattern in known], DEV, texts, learned)
    test = deal([expand(pattern, seed, "test") for pattern in known], TEST, texts, learned)
    new = deal([expand(pattern, seed, None) for pattern in unseen], NEW_PATTERNS, texts, learned)
    return train, dev, test, new


def cover(known: Sequence[Pattern], seed: int, texts: set[str]) -> list[Sentence]:
    """Training sentences that hold every lexeme often enough, so that the even deal that follows need not."""
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


def write_phrasebook(folder: str | Path, seed: int = 0) -> Phrasebook:
    """Write ``train``, ``dev``, ``test`` and ``new_patterns``, each as two aligned files, ``.en`` and ``.it``."""
    made = phrasebook(seed)
    for name, pairs in made._asdict().items():
        write_file(Path(folder) / f"{name}.en", "".join(pair.source + "\n" for pair in pairs))
        write_file(Path(folder) / f"{name}.it", "".join(pair.target + "\n" for pair in pairs))
    return made


def deal(
    hands: Sequence[Iterator[Sentence]],
    count: int,
    texts: set[str],
    accept: Callable[[Sentence], bool] = lambda sentence: True,
) -> list[Sentence]:
    """``count`` sentences, one from each hand in turn until it is empty; none with a text that is already in ``texts``."""
    dealt: list[Sentence] = []
    waiting = list(hands)
    while waiting and len(dealt) < count:
        still_waiting = []
        for hand in waiting:
            for sentence in hand:
                source, target, _ = sentence.pair
                if source not in texts and target not in texts and accept(sentence):
                    texts.update((source, target))
                    dealt.append(sentence)
                    still_waiting.append(hand)
                    break
            if len(dealt) == count:
                break
        waiting = still_waiting
    return dealt


class _Learned:
    """Accepts a sentence whose lexemes are seen often enough in training, and whose words all are."""

    def __init__(self, train: list[Sentence]) -> None:
        self.lexemes = Counter(lexeme for sentence in train for lexeme in sentence.lexemes)
        self.words = {word for sentence in train for text in sentence.pair[:2] for word in words(text)}

    def __call__(self, sentence: Sentence) -> bool:
        often = all(self.lexemes[lexeme] >= SEEN_OFTEN_ENOUGH for lexeme in sentence.lexemes)
        return often and all(word in self.words for text in sentence.pair[:2] for word in words(text))


def expand(
    pattern: Pattern, seed: int, part: str | None, chosen: Mapping[str, Lexeme] | None = None
) -> Iterator[Sentence]:
    """The sentences of a pattern that belong to one part, or to any if it is None; some slots may be chosen already."""
    names = list(pattern.slots)
    choices = [[chosen[name]] if chosen and name in chosen else fillers(pattern, name, seed, part) for name in names]
    for combination in walk(choices):
        if len(set(lexeme.english for lexeme in combination)) == len(combination):
            filled = dict(zip(names, combination, strict=True))
            source, target = render_english(pattern.english, filled), render_italian(pattern.italian, filled)
            yield Sentence(Pair(source, target, pattern.origin), combination)


@cache
def fillers(pattern: Pattern, name: str, seed: int, part: str | None) -> list[Lexeme]:
    """What may fill a slot in one part, or in any if it is None, in keyed order."""
    uses = pattern.slots[name]
    fitting = [lexeme for lexeme in tagged(uses[0].tag or "") if all(fits(lexeme, word) for word in uses)]
    if not fitting:
        raise DataError(f"{pattern.origin}: the lexicon has nothing for the slot {name}")
    held = {} if part is None else held_out(seed)[pattern, name]
    chosen = [lexeme for lexeme in fitting if part is None or held.get(lexeme, "train") == part]
    return sorted(chosen, key=lambda lexeme: digest(seed, pattern.key, name, lexeme.english))


@cache
def held_out(seed: int) -> dict[tuple[Pattern, str], dict[Lexeme, str]]:
    """Which lexemes of which slot belong to the test or the development set.

    The lexemes of a tag take turns, so that none is held out in more slots than it must.
    """
    queues: dict[str, list[Lexeme]] = {}
    held: dict[tuple[Pattern, str], dict[Lexeme, str]] = {}
    for pattern in patterns():
        for name, uses in () if pattern.unseen else pattern.slots.items():
            queue = queues.setdefault(tag := uses[0].tag or "", _queue(seed, tag))
            turn = [lexeme for lexeme in queue if all(fits(lexeme, word) for word in uses)]
            count = max(1, len(turn) // HELD_OUT) if len(turn) > 3 else 0
            parts = ("test", "dev") * count
            held[pattern, name] = dict(zip(turn, parts, strict=False))
            for lexeme in turn[: len(parts)]:
                queue.append(queue.pop(queue.index(lexeme)))
    return held


def _queue(seed: int, tag: str) -> list[Lexeme]:
    return sorted(tagged(tag), key=lambda lexeme: digest(seed, tag, lexeme.english))


def fits(lexeme: Lexeme, word: Word) -> bool:
    """Whether a noun has the number that its slot asks for."""
    if not isinstance(lexeme, Noun):
        return True
    has_number = lexeme.plural if word.plural or word.countable else lexeme.singular
    return has_number is not None and (word.plural or lexeme.singular is not None)


def walk(choices: Sequence[Sequence[Lexeme]]) -> Iterator[tuple[Lexeme, ...]]:
    """Every combination once, spread evenly: steps of the golden section through the product, coprime to its size."""
    size = math.prod(len(choice) for choice in choices)
    step = max(1, int(size * 0.6180339887))
    while math.gcd(step, size) != 1:
        step += 1
    for index in range(size):
        place = index * step % size
        combination = []
        for choice in choices:
            place, digit = divmod(place, len(choice))
            combination.append(choice[digit])
        yield tuple(combination)


def digest(seed: int, *parts: str) -> bytes:
    """A number for anything, without rhyme but with reason: the same everywhere."""
    return hashlib.blake2b("\t".join((str(seed), *parts)).encode(), digest_size=8).digest()
