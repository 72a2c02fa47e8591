"""One input streamed into a file of JSON lines, judged pair by pair; what the split and the report need is remembered.

Memory holds four numbers a pair, whatever the pairs hold.
"""

import json
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np

from dragoman.data.checks import CheckSettings, ShiftDetector, fault
from dragoman.data.readers import Pair, Reading
from dragoman.data.report import Longest, Tally
from dragoman.data.split import Keys, sentence_key, text_key
from dragoman.progress import Progress

_ADVANCE_EVERY = 1000
_JSON = json.JSONEncoder(ensure_ascii=False)


@dataclass
class Intake:
    """What is remembered of an input: keys and place of every pair written, and what was met on the way."""

    rows: int = 0
    trimmed: int = 0
    """Sides that had spaces around them."""
    faults: dict[str, Tally] = field(default_factory=dict)
    longest: list[Longest] = field(default_factory=lambda: [Longest(words=0, characters=0, text="", origin="")] * 2)
    shifts: ShiftDetector = field(default_factory=ShiftDetector)
    _name: str = ""
    _numbers: array = field(default_factory=lambda: array("Q"))
    _texts: array = field(default_factory=lambda: array("Q"))
    _sources: array = field(default_factory=lambda: array("Q"))
    _targets: array = field(default_factory=lambda: array("Q"))

    @property
    def texts(self) -> Keys:
        """A key of each pair's exact text."""
        return np.frombuffer(self._texts, np.uint64)

    @property
    def sentences(self) -> tuple[Keys, Keys]:
        """A key of each pair's source and target sentence."""
        return np.frombuffer(self._sources, np.uint64), np.frombuffer(self._targets, np.uint64)

    def origin(self, index: int) -> str:
        """Where the pair written as number `index` (from 0) stood."""
        return f"{self._name}:{self._numbers[index]}"

    def note(self, reason: str, first: str, pairs: int = 1) -> None:
        before = self.faults.get(reason)
        self.faults[reason] = Tally(
            pairs=pairs + (before.pairs if before else 0), first=before.first if before else first
        )

    def add(self, pair: Pair, file: IO[bytes]) -> None:
        """Writes a pair and remembers it."""
        line = _JSON.encode([pair.source, pair.target])
        file.write(line.encode() + b"\n")
        self._name, _, number = pair.origin.rpartition(":")
        self._numbers.append(int(number))
        self._texts.append(text_key(line))
        self._sources.append(sentence_key(pair.source))
        self._targets.append(sentence_key(pair.target))
        self._measure(0, pair.source, pair.origin)
        self._measure(1, pair.target, pair.origin)

    def _measure(self, side: int, text: str, origin: str) -> None:
        longest = self.longest[side]
        if (len(text) + 1) // 2 < longest.words:  # it cannot have more words than that
            return
        words = len(text.split())
        if (words, len(text)) > (longest.words, longest.characters):
            self.longest[side] = Longest(words=words, characters=len(text), text=text, origin=origin)


def take_in(reading: Reading, path: Path, checks: CheckSettings, keep_all: bool, progress: Progress) -> Intake:
    """Streams an input into `path`, without the pairs that break a rule; with `keep_all` they are only noted.

    Spaces around a side are trimmed.
    """
    intake = Intake()
    with path.open("wb") as file, progress.track(f"read {reading.name}", unit="pairs") as advance:
        for source, target, origin in reading:
            intake.rows += 1
            if not intake.rows % _ADVANCE_EVERY:
                advance(_ADVANCE_EVERY)
            intake.shifts.see(len(source), len(target), origin)
            pair = Pair(source.strip(), target.strip(), origin)
            intake.trimmed += (pair.source != source) + (pair.target != target)
            reason = fault(pair.source, pair.target, checks)
            if reason:
                intake.note(reason, origin)
            if keep_all or not reason:
                intake.add(pair, file)
        advance(intake.rows % _ADVANCE_EVERY)
    return intake
