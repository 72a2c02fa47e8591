"""Streams one input into a file of JSON lines, judges every pair, and keeps what the split and the report need.

The keys of the pairs are written beside them, so that memory does not grow with the text.
"""

import json
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from dragoman.files import remove
from dragoman.progress import Progress
from dragoman.text.alignment import AlignmentDetector, Sides, learn_sides, words_of
from dragoman.text.checks import CheckSettings, fault, has_entity, mend
from dragoman.text.readers import Pair, Reading
from dragoman.text.report import Longest, Tally
from dragoman.text.split import Keys, one_form, sentence_key, text_key

KEYS = np.dtype([(name, "<u8") for name in ("place", "text", "source", "target")])
"""What is kept of a pair: its file and line, a key of its text, and a key of each sentence."""

ENTITIES = "pairs with HTML entities"
EMPTY_SOURCES = "empty sources in given sets"
EMPTY_TARGETS = "empty references in given sets"

_LINE_BITS = 40
_ADVANCE_EVERY = 1000
_PACKED_KEYS = struct.Struct("<4Q")
_JSON = json.JSONEncoder(ensure_ascii=False)


@dataclass(frozen=True)
class Facts:
    """What is known about an input."""

    rows: int
    mended: dict[str, int]
    """How often pairs were mended, by kind."""
    faults: dict[str, Tally]
    """The pairs that break a rule, by reason, in the order in which they were first met."""
    notes: dict[str, Tally]
    """What was noted and left as it is, by kind, in the same order."""
    repairs: dict[str, int]
    """How often reading mended something, by kind."""
    longest: tuple[Longest, Longest]
    """The longest sentence of each side."""
    warnings: tuple[str, ...]
    names: tuple[str, ...]
    """The files of the input, which keys refer to by number."""


@dataclass(frozen=True)
class Intake:
    """An input as it was taken in: a file of pairs, and their keys."""

    path: Path
    facts: Facts

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
    reading: Reading, path: Path, checks: CheckSettings, sides: Sides, keep_all: bool, progress: Progress
) -> Intake:
    """Streams an input into `path`, without the pairs that break a rule; with `keep_all` they are only counted.

    Pairs are mended first.
    """
    with (
        path.open("wb") as pairs,
        keys_of(path).open("wb") as keys,
        progress.track(f"read {reading.name}", unit="pairs") as advance,
    ):
        taking = _Taking(reading, checks, sides, keep_all, pairs, keys)
        for pair in reading:
            taking.take(pair)
            if taking.rows % _ADVANCE_EVERY == 0:
                advance(_ADVANCE_EVERY)
        advance(taking.rows % _ADVANCE_EVERY)
        return Intake(path, taking.finish())


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
        self.rows = 0
        self._mended = Counter[str]()
        self._faults: dict[str, Tally] = {}
        self._notes: dict[str, Tally] = {}
        self._longest = [Longest(words=0, characters=0, text="", origin="")] * 2
        self._alignment = AlignmentDetector()

    def take(self, given: Pair) -> None:
        """Mends and judges a pair, and writes it unless it is dropped."""
        self.rows += 1
        origin = given.origin
        source = mend(given.source, self._decode, self._mended)
        target = mend(given.target, self._decode, self._mended)
        words = words_of(source), words_of(target)
        self._alignment.see(source, target, words, origin)
        reason = given.fault or fault(source, target, self._checks)
        if reason:
            _count(self._faults, reason, origin)
        if self._keep_all or not reason:
            self._note(source, target, origin)
            self._write(source, target, origin)
            self._measure(0, source, origin)
            self._measure(1, target, origin)
        if not reason and (verdict := self._sides.verdict(*words)):
            _count(self._notes, verdict, origin)

    def finish(self) -> Facts:
        return Facts(
            rows=self.rows,
            mended=dict(+self._mended),
            faults=self._faults,
            notes=self._notes,
            repairs=dict(+self._reading.repairs),
            longest=(self._longest[0], self._longest[1]),
            warnings=tuple(map(str, self._alignment.finish())),
            names=self._order,
        )

    def _note(self, source: str, target: str, origin: str) -> None:
        """Counts what is kept, but worth a note."""
        if not target:
            _count(self._notes, EMPTY_TARGETS, origin)
        if not source:
            _count(self._notes, EMPTY_SOURCES, origin)
        if has_entity(source) or has_entity(target):
            _count(self._notes, ENTITIES, origin)

    def _write(self, source: str, target: str, origin: str) -> None:
        line = _JSON.encode([source, target])
        self._pairs.write(line.encode() + b"\n")
        name, _, number = origin.rpartition(":")
        place = self._names[name] | int(number)
        plain = line if one_form(line) == line else _JSON.encode([one_form(source), one_form(target)])
        keys = place, text_key(plain), sentence_key(source), sentence_key(target)
        self._keys.write(_PACKED_KEYS.pack(*keys))

    def _measure(self, side: int, text: str, origin: str) -> None:
        longest = self._longest[side]
        if (len(text) + 1) // 2 < longest.words:  # it cannot have more words
            return
        words = len(text.split())
        if (words, len(text)) > (longest.words, longest.characters):
            self._longest[side] = Longest(words=words, characters=len(text), text=text, origin=origin)


def _count(found: dict[str, Tally], kind: str, origin: str) -> None:
    before = found.get(kind) or Tally(pairs=0, first=origin)
    found[kind] = Tally(pairs=before.pairs + 1, first=before.first)
