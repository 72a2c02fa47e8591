"""Pairs of an input on the disk: a file of lines, a record of keys for each pair, and what was observed in reading.

The keys are in a file too, so that memory does not grow with the text. From them follow the duplicates, the split and
its leaks. `SideLanguages` are learned from the first rows, and show rows that have other languages.
"""

import json
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from sys import intern
from typing import IO, NamedTuple

import numpy as np

from dragoman.progress import Progress
from dragoman.text.alignment import (
    CLEAR,
    EXCHANGED,
    LEARN_ROWS,
    LONGEST,
    ONE_LANGUAGE,
    AlignmentDetector,
    Misalignment,
    WordEvidence,
    Words,
    learn_evidence,
    words_of,
)
from dragoman.text.checks import (
    HEADER,
    LINE_BREAKS,
    MISREAD,
    OTHER_LANGUAGE,
    SPREADSHEET,
    CheckSettings,
    fault,
    has_entity,
    has_tag,
    is_misread,
    repair,
)
from dragoman.text.detection import ColumnLanguage, Direction, Guess, best_guess, find_direction, lean
from dragoman.text.readers import Pair, Reading
from dragoman.text.report import Longest, Tally
from dragoman.text.split import Keys, one_form, repeating, sentence_key, text_key, words_key

ENTITIES = "HTML entities such as &amp;"
TAGS = "tags such as <b>"
EMPTY_SOURCES = "an empty source"
EMPTY_TARGETS = "an empty reference"
SWAPPED = "rows whose sides looked exchanged, swapped back"
LISTED = (EXCHANGED, SWAPPED, ONE_LANGUAGE, OTHER_LANGUAGE, SPREADSHEET, LINE_BREAKS, MISREAD)
"""Kinds of pairs whose lines are all reported."""

KEYS = np.dtype([("place", "<u8"), ("text", "<u8"), ("keys", "<u8", 2), ("words", "<u8", 2), ("lengths", "<u4", 2)])
"""The record of a pair: its file and line, a key of its text; for each side a key, a key of its words, its length."""
_PACKED_KEYS = struct.Struct("<6Q2I")
LINE_BITS = 40
"""Bits of a place that hold the number of a line in its file; the number of the file is in the bits above."""
_ADVANCE_EVERY = 1000
_JSON = json.JSONEncoder(ensure_ascii=False)

CLEARLY = 3.0
"""Nats by which both sides of a row must be likelier in each other's language, as py3langid says."""
ENOUGH = 50
"""Characters of a text that are enough to guess its language."""


@dataclass
class Observations:
    """Counts and places of what was observed in an input, or in a part of it."""

    rows: int = 0
    repairs: Counter[str] = field(default_factory=Counter)
    """The number of repairs, by kind."""
    faults: dict[str, Tally] = field(default_factory=dict)
    """The pairs that break a rule, by reason, in the order of the first of each."""
    notes: dict[str, Tally] = field(default_factory=dict)
    """The pairs that were noted and left as they are, by kind, in the same order."""
    longest: list[Longest] = field(default_factory=lambda: [Longest(words=0, characters=0, text="", origin="")] * 2)
    """The longest sentence of each side."""
    misaligned: list[Misalignment] = field(default_factory=list)

    @classmethod
    def merged(cls, parts: Sequence["Observations"]) -> "Observations":
        """Return the observations in all the parts, in their order."""
        return cls(
            rows=sum(part.rows for part in parts),
            repairs=sum((part.repairs for part in parts), Counter()),
            faults=_merged(part.faults for part in parts),
            notes=_merged(part.notes for part in parts),
            longest=[
                max((part.longest[side] for part in (cls(), *parts)), key=lambda text: (text.words, text.characters))
                for side in (0, 1)
            ],
            misaligned=[stretch for part in parts for stretch in part.misaligned],
        )


class WrittenSplit(NamedTuple):
    """A set that is written to the disk."""

    pairs: int
    sha256: str
    sentences: tuple[Keys, Keys]
    """The keys of its sources and targets."""
    origin: Callable[[int], str]
    """Maps a pair's index (from 0) to its place in the input."""


class SideLanguages(NamedTuple):
    """The words that are typical of each side, and the languages of both."""

    words: WordEvidence
    columns: tuple[ColumnLanguage, ColumnLanguage]
    direction: Direction | None

    def verdict(self, source: str, target: str, source_words: Words, target_words: Words) -> str | None:
        """Return what looks wrong with the languages of a row, or None."""
        verdict = self.words.verdict(source_words, target_words)
        is_unclear = self.words.lean(source_words) - self.words.lean(target_words) < CLEAR
        if verdict is None and self.direction and is_unclear:
            leans = lean(source, self.direction), lean(target, self.direction)
            verdict = EXCHANGED if leans[0] < 0 < leans[1] and leans[1] - leans[0] > CLEARLY else None
        if verdict == EXCHANGED:
            return verdict
        sources, targets = self.columns
        is_other = sources.lacks(source, source_words) or targets.lacks(target, target_words)
        return OTHER_LANGUAGE if is_other else verdict


def learn_side_languages(reading: Reading, checks: CheckSettings) -> SideLanguages:
    """Learn from the first usable rows."""
    rows: list[tuple[Words, Words]] = []
    guesses: list[tuple[Guess, Guess]] = []
    known: dict[tuple[Guess, Guess], tuple[Guess, Guess]] = {}
    repaired = ([repair(side, Counter()) for side in (pair.source, pair.target)] for pair in reading)
    for source, target in islice((sides for sides in repaired if not fault(sides[0], sides[1], checks)), LEARN_ROWS):
        source_words, target_words = (tuple(map(intern, words_of(side)[:LONGEST])) for side in (source, target))
        guess = best_guess(source[:ENOUGH]), best_guess(target[:ENOUGH])
        rows.append((source_words, target_words))
        guesses.append(known.setdefault(guess, guess))  # equal ones share memory, as interned words do
    direction, exchanged = find_direction(reading.languages, guesses)
    columns = ColumnLanguage(reading.languages[0]), ColumnLanguage(reading.languages[1])
    for words, sides, is_exchanged in zip(rows, guesses, exchanged, strict=True):
        for column, guess, text in zip(columns, sides, words, strict=True) if not is_exchanged else ():
            column.learn(guess, text)
    return SideLanguages(learn_evidence(rows, exchanged), columns, direction)


class PairSet:
    """An input that is read, written to the disk with its keys, and observed. Pairs that break a rule are dropped, or
    with `keep_all` only counted.
    """

    def __init__(
        self,
        reading: Reading,
        path: Path,
        checks: CheckSettings,
        side_languages: SideLanguages,
        keep_all: bool,
        exchanged: str | None = None,
    ) -> None:
        self.reading, self.path, self.observed = reading, path, Observations()
        self._checks, self._side_languages = checks, side_languages
        self._keep_all, self._exchanged = keep_all, exchanged
        self._lines: defaultdict[str, list[str]] = defaultdict(list)
        self.names = [file.name for file in reading.files] or [Path(reading.name).name]
        self._header = sorted(reading.columns[:2])
        self._places = {name: self.names.index(name) << LINE_BITS for name in self.names}

    def fill(self, progress: Progress) -> None:
        """Stream the input to the disk."""
        detector = AlignmentDetector()
        with (
            self.path.open("wb") as lines,
            self.keys_path.open("wb") as keys,
            progress.track(f"read {self.reading.name}", unit="pairs") as advance,
        ):
            for pair in self.reading:
                self._add(pair, lines, keys, detector)
                if self.observed.rows % _ADVANCE_EVERY == 0:
                    advance(_ADVANCE_EVERY)
            advance(self.observed.rows % _ADVANCE_EVERY)
        self.observed.misaligned = detector.finish()
        self.observed.repairs.update(self.reading.repairs)
        for kind, lines in self._lines.items():
            tallies = self.observed.faults if kind in self.observed.faults else self.observed.notes
            tallies[kind] = tallies[kind].but(lines=tuple(lines))

    @property
    def keys_path(self) -> Path:
        """The file of the records of all pairs (`KEYS`)."""
        return self.path.with_suffix(".keys")

    def keys(self) -> np.ndarray:
        """Return the records of all pairs (`KEYS`)."""
        return np.memmap(self.keys_path, KEYS, "r") if self.keys_path.stat().st_size else np.empty(0, KEYS)

    @property
    def sentences(self) -> tuple[Keys, Keys]:
        """A key of each pair's source and target sentence."""
        source, target = self.keys()["keys"].T
        return source, target

    def repeating(self) -> np.ndarray:
        """Return True for each pair with a text whose many partners do not resemble each other."""
        # read in any order, which takes half the time
        columns = (np.ascontiguousarray(self.keys()[name].T) for name in ("keys", "words", "lengths"))
        (sources, targets), (source_words, target_words), (source_lengths, target_lengths) = columns
        return repeating(sources, targets, target_words, source_lengths, target_lengths) | repeating(
            targets, sources, source_words, target_lengths, source_lengths
        )

    def tally(self, kind: str, chosen: np.ndarray) -> dict[str, Tally]:
        """Count the pairs that are `chosen`, by True, as a kind, unless there are none."""
        lines = tuple(self.origin(int(row)) for row in np.flatnonzero(chosen))
        return {kind: Tally(pairs=len(lines), first=lines[0], lines=lines)} if lines else {}

    def origin(self, index: int) -> str:
        """Return the place in the input of the pair with an index, from 0."""
        place = int(self.keys()["place"][index])
        return f"{self.names[place >> LINE_BITS]}:{place & (1 << LINE_BITS) - 1}"

    def _add(self, pair: Pair, lines: IO[bytes], keys: IO[bytes], detector: AlignmentDetector) -> None:
        self.observed.rows += 1
        origin = pair.origin
        source = repair(pair.source, self.observed.repairs)
        target = repair(pair.target, self.observed.repairs)
        words = words_of(source), words_of(target)
        reason = pair.fault or fault(source, target, self._checks)
        if sorted((source, target)) == self._header:
            reason = HEADER
        verdict = None if reason else self._side_languages.verdict(source, target, *words)
        straight = (target, source, words[::-1]) if verdict == EXCHANGED else (source, target, words)
        detector.add(*straight, origin)
        if verdict == OTHER_LANGUAGE and self._checks.drop_other_languages:
            reason = OTHER_LANGUAGE
        elif verdict == EXCHANGED and self._exchanged == "drop":
            reason = EXCHANGED
        elif verdict == EXCHANGED and self._exchanged == "swap":
            source, target, words, verdict = target, source, words[::-1], SWAPPED
        if reason:
            self._count(self.observed.faults, reason, origin)
        if self._keep_all or not reason:
            for kind, applies in (
                (EMPTY_TARGETS, not target),
                (EMPTY_SOURCES, not source),
                (ENTITIES, has_entity(source) or has_entity(target)),
                (TAGS, has_tag(source) or has_tag(target)),
                (MISREAD, is_misread(source) or is_misread(target)),
            ):
                if applies:
                    self._count(self.observed.notes, kind, origin)
            lines.write(_JSON.encode([source, target]).encode() + b"\n")
            keys.write(self._record(source, target, words, origin))
            self._measure(0, source, origin)
            self._measure(1, target, origin)
        if verdict and not reason:
            self._count(self.observed.notes, verdict, origin)
        if "\n" in pair.source or "\n" in pair.target:
            self._count(self.observed.notes, LINE_BREAKS, origin)

    def _count(self, tallies: dict[str, Tally], kind: str, origin: str) -> None:
        before = tallies.get(kind) or Tally(pairs=0, first=origin)
        tallies[kind] = Tally(pairs=before.pairs + 1, first=before.first)
        if kind in LISTED:
            self._lines[kind].append(origin)

    def _record(self, source: str, target: str, words: Sequence[Sequence[str]], origin: str) -> bytes:
        name, _, number = origin.rpartition(":")
        place = self._places[name] | int(number)
        plain = _JSON.encode([one_form(source), one_form(target)])
        keys = sentence_key(source), sentence_key(target), *(words_key(side[:LONGEST]) for side in words)
        return _PACKED_KEYS.pack(place, text_key(plain), *keys, len(source), len(target))

    def _measure(self, side: int, text: str, origin: str) -> None:
        longest = self.observed.longest[side]
        if (len(text) + 1) // 2 < longest.words:  # it cannot have more words
            return
        words = len(text.split())
        if (words, len(text)) > (longest.words, longest.characters):
            self.observed.longest[side] = Longest(words=words, characters=len(text), text=text, origin=origin)


def _merged(parts: Iterable[Mapping[str, Tally]]) -> dict[str, Tally]:
    total: dict[str, Tally] = {}
    for tallies in parts:
        for reason, tally in tallies.items():
            before = total.get(reason) or Tally(pairs=0, first=tally.first)
            lines = before.lines + tally.lines
            total[reason] = Tally(pairs=before.pairs + tally.pairs, first=before.first, lines=lines)
    return total
