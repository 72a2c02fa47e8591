"""Streams one input into a file of JSON lines, judges every pair, and keeps what the split and the report need.

The keys of the pairs are written beside them, so that memory does not grow with the text. A shard is the part of an
input that one of several jobs takes in: stretches of rows go to the jobs in turn.
"""

import json
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from dragoman.config import Settings
from dragoman.errors import ConfigError
from dragoman.files import remove
from dragoman.progress import Progress
from dragoman.text.alignment import AlignmentDetector
from dragoman.text.checks import CheckSettings, fault
from dragoman.text.mending import has_entity, mend
from dragoman.text.reading.pairs import Pair, Reading
from dragoman.text.report import Longest, Tally
from dragoman.text.sides import Sides, learn_sides, words_of
from dragoman.text.split import Keys, one_form, sentence_key, text_key

STRETCH = 50_000
"""The number of consecutive rows that belong to one shard."""
_NUMBERS = ("place", "text", "source", "target")
KEYS = np.dtype([(name, "<u8") for name in _NUMBERS])
"""What is kept of a pair: its file and line, a key of its text, and a key of each sentence."""

ENTITIES = "pairs with HTML entities"
EMPTY_SOURCES = "empty sources in given sets"
EMPTY_TARGETS = "empty references in given sets"

_LINE_BITS = 40
_ADVANCE_EVERY = 1000
_JSON = json.JSONEncoder(ensure_ascii=False)


class Shard(NamedTuple):
    """One part of an input: its number, from 1, and how many parts there are."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """The shard that a text such as 3/16 names.

        >>> Shard.parse("3/16")
        Shard(number=3, of=16)

        Raises:
            ConfigError: the text names no part of a whole.
        """
        number, _, of = text.partition("/")
        if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
            raise ConfigError(f"a shard is given as NUMBER/OF, from 1/16 to 16/16 for sixteen jobs, but is {text!r}")
        return cls(int(number), int(of))


WHOLE = Shard(1, 1)


class Fault(Settings):
    """The pairs that break one rule, or that were noted for another reason."""

    pairs: int
    row: int
    first: str
    """Where the first of them stood; `row` is its row, from 0."""


class Long(Settings):
    """The longest sentence of one side, and its row."""

    row: int
    longest: Longest


class Facts(Settings):
    """What is known about an input, or about one shard of it."""

    rows: int
    """Rows of the whole input."""
    mended: dict[str, int]
    """How often pairs were mended, by kind."""
    faults: dict[str, Fault]
    """By reason, in the order in which they were first met."""
    notes: dict[str, Fault]
    """What was noted and left as it is, by kind, in the same order."""
    repairs: dict[str, int]
    """How often the reading of the whole input mended something, by kind."""
    longest: tuple[Long, Long]
    warnings: tuple[str, ...]
    names: tuple[str, ...]
    """The files of the input, which keys refer to by number."""
    stretches: tuple[tuple[int, int], ...]
    """The pairs and bytes written for each stretch of rows."""


@dataclass(frozen=True)
class Intake:
    """An input as it was taken in: a file of pairs, and their keys."""

    path: Path
    facts: Facts

    @property
    def tallies(self) -> dict[str, Tally]:
        return _tallies(self.facts.faults)

    @property
    def notes(self) -> dict[str, Tally]:
        return _tallies(self.facts.notes)

    @property
    def texts(self) -> Keys:
        """A key of each pair's text, in one Unicode form."""
        return self._keys()["text"]

    @property
    def sentences(self) -> tuple[Keys, Keys]:
        """A key of each pair's source and target sentence."""
        keys = self._keys()
        return keys["source"], keys["target"]

    def origin(self, index: int) -> str:
        """Where the pair number `index`, from 0, stood in the input."""
        place = int(self._keys()["place"][index])
        return f"{self.facts.names[place >> _LINE_BITS]}:{place & (1 << _LINE_BITS) - 1}"

    def forget_keys(self) -> None:
        remove(keys_of(self.path))

    def _keys(self) -> np.ndarray:
        path = keys_of(self.path)
        return np.memmap(path, KEYS, "r") if path.stat().st_size else np.empty(0, KEYS)


def keys_of(path: Path) -> Path:
    """The file of keys beside a file of pairs."""
    return path.with_suffix(".keys")


def learn_from(reading: Reading, checks: CheckSettings) -> Sides:
    """Learns from the first rows of an input which words are typical of which side."""

    def words() -> Iterator[tuple[list[str], list[str]]]:
        for pair in reading:
            source, target = (mend(side, checks.decodes, Counter()) for side in (pair.source, pair.target))
            if not fault(source, target, checks):
                yield words_of(source), words_of(target)

    return learn_sides(words())


def take_in(
    reading: Reading,
    path: Path,
    checks: CheckSettings,
    sides: Sides,
    keep_all: bool,
    progress: Progress,
    shard: Shard = WHOLE,
) -> Intake:
    """Streams an input into `path`, without the pairs that break a rule; with `keep_all` they are only counted.

    Pairs are mended first. A shard reads all rows, and skips those of other shards.
    """
    row, mine = -1, False
    with (
        path.open("wb") as pairs,
        keys_of(path).open("wb") as keys,
        progress.track(f"read {reading.name}", unit="pairs") as advance,
    ):
        taking = _Taking(reading, checks, sides, keep_all, pairs, keys)
        for row, pair in enumerate(reading):
            if row % STRETCH == 0:
                if mine:
                    taking.end_stretch()
                mine = row // STRETCH % shard.of == shard.number - 1
            if mine:
                taking.take(row, pair)
            if (row + 1) % _ADVANCE_EVERY == 0:
                advance(_ADVANCE_EVERY)
        advance((row + 1) % _ADVANCE_EVERY)
        if mine:
            taking.end_stretch()
    return Intake(path, taking.facts(row + 1))


def merge(shards: Sequence[Facts]) -> Facts:
    """What is known about an input from all of its shards, in order."""
    stretches = sum(len(shard.stretches) for shard in shards)
    return shards[0].but(
        mended=dict(sum((Counter(shard.mended) for shard in shards), Counter[str]())),
        faults=_together([shard.faults for shard in shards]),
        notes=_together([shard.notes for shard in shards]),
        longest=tuple(max((shard.longest[side] for shard in shards), key=_length).model_dump() for side in (0, 1)),
        warnings=tuple(warning for shard in shards for warning in shard.warnings),
        stretches=tuple(shards[i % len(shards)].stretches[i // len(shards)] for i in range(stretches)),
    )


def _together(shards: Sequence[Mapping[str, Fault]]) -> dict[str, object]:
    """What several shards counted, in the order of the text."""
    found: dict[str, Fault] = {}
    for kind in {kind for shard in shards for kind in shard}:
        met = [shard[kind] for shard in shards if kind in shard]
        first = min(met, key=lambda each: each.row)
        found[kind] = first.but(pairs=sum(each.pairs for each in met))
    return {kind: each.model_dump() for kind, each in _in_order(found).items()}


def _in_order(found: Mapping[str, Fault]) -> dict[str, Fault]:
    return dict(sorted(found.items(), key=lambda item: (item[1].row, item[0])))


def _tallies(found: Mapping[str, Fault]) -> dict[str, Tally]:
    return {kind: Tally(pairs=each.pairs, first=each.first) for kind, each in found.items()}


class _Taking:
    """An input on its way to the disk."""

    def __init__(
        self,
        reading: Reading,
        checks: CheckSettings,
        sides: Sides,
        keep_all: bool,
        pairs: IO[bytes],
        keys: IO[bytes],
    ) -> None:
        self._reading, self._checks, self._keep_all, self._pairs, self._keys = reading, checks, keep_all, pairs, keys
        self._sides, self._decode = sides, checks.decodes
        names = [file.name for file in reading.files] or [Path(reading.name).name]
        self._names = {name: names.index(name) << _LINE_BITS for name in names}
        self._order = tuple(names)
        self._buffer = array("Q")
        self._stretches: list[tuple[int, int]] = []
        self._begin = 0
        self._mended = Counter[str]()
        self._faults: dict[str, Fault] = {}
        self._notes: dict[str, Fault] = {}
        self._longest = [Long(row=0, longest=Longest(words=0, characters=0, text="", origin=""))] * 2
        self._alignment = AlignmentDetector()

    def take(self, row: int, given: Pair) -> None:
        """Mends and judges a pair, and writes it unless it is dropped."""
        origin = given.origin
        source = mend(given.source, self._decode, self._mended)
        target = mend(given.target, self._decode, self._mended)
        words = words_of(source), words_of(target)
        self._alignment.see(source, target, words, origin)
        reason = given.fault or fault(source, target, self._checks)
        if reason:
            _count(self._faults, reason, row, origin)
        elif verdict := self._sides.verdict(*words):
            _count(self._notes, verdict, row, origin)
        if self._keep_all or not reason:
            self._note(source, target, row, origin)
            self._write(source, target, origin)
            self._measure(0, source, row, origin)
            self._measure(1, target, row, origin)

    def end_stretch(self) -> None:
        self._keys.write(self._buffer.tobytes())
        end = self._pairs.tell()
        self._stretches.append((len(self._buffer) // len(_NUMBERS), end - self._begin))
        self._buffer, self._begin = array("Q"), end

    def facts(self, rows: int) -> Facts:
        return Facts(
            rows=rows,
            mended=dict(+self._mended),
            faults=self._faults,
            notes=_in_order(self._notes),
            repairs=dict(+self._reading.repairs),
            longest=(self._longest[0], self._longest[1]),
            warnings=tuple(map(str, self._alignment.finish())),
            names=self._order,
            stretches=tuple(self._stretches),
        )

    def _note(self, source: str, target: str, row: int, origin: str) -> None:
        """Counts what is kept, but worth a note."""
        if not source:
            _count(self._notes, EMPTY_SOURCES, row, origin)
        if not target:
            _count(self._notes, EMPTY_TARGETS, row, origin)
        if has_entity(source) or has_entity(target):
            _count(self._notes, ENTITIES, row, origin)

    def _write(self, source: str, target: str, origin: str) -> None:
        line = _JSON.encode([source, target])
        self._pairs.write(line.encode() + b"\n")
        name, _, number = origin.rpartition(":")
        place = self._names[name] | int(number)
        plain = line if one_form(line) == line else _JSON.encode([one_form(source), one_form(target)])
        self._buffer.extend((place, text_key(plain), sentence_key(source), sentence_key(target)))

    def _measure(self, side: int, text: str, row: int, origin: str) -> None:
        longest = self._longest[side].longest
        if (len(text) + 1) // 2 < longest.words:  # it cannot have more words
            return
        words = len(text.split())
        if (words, len(text)) > (longest.words, longest.characters):
            longest = Longest(words=words, characters=len(text), text=text, origin=origin)
            self._longest[side] = Long(row=row, longest=longest)


def _count(found: dict[str, Fault], kind: str, row: int, origin: str) -> None:
    before = found.get(kind) or Fault(pairs=0, row=row, first=origin)
    found[kind] = Fault(pairs=before.pairs + 1, row=before.row, first=before.first)


def _length(found: Long) -> tuple[int, int, int]:
    return found.longest.words, found.longest.characters, -found.row
