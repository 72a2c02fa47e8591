"""What is found about prepared data once its pairs are dealt out: the sizes and leaks of the splits, and warnings."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dragoman.files import sha256
from dragoman.run_folder import split_of
from dragoman.text.alignment import EXCHANGED, ONE_LANGUAGE
from dragoman.text.intake import EMPTY_SOURCES, EMPTY_TARGETS, ENTITIES, Intake
from dragoman.text.languages import UNKNOWN_LANGUAGE
from dragoman.text.prepared import describe_input
from dragoman.text.readers import Reading
from dragoman.text.report import Leaks, Longest, SplitReport, Tally
from dragoman.text.split import DEV, TEST, TRAIN, Keys, leakage

SIDES = {"train": TRAIN, "dev": DEV, "test": TEST}
DROPPED = 255
"""The side of a pair that is in no split."""

MISALIGNED_SHOWN = 5
"""Stretches of misaligned rows that are warned of one by one."""
SIDES_SHARE = 0.001
"""The share of rows in a wrong language that is worth a warning; in real text it was 0.00003."""


class Deal(NamedTuple):
    """Where each pair of the training text goes, and why."""

    side: np.ndarray
    reason: str
    wanted: dict[str, int]
    """Pairs to split off, for each set that is not given."""
    dropped: dict[str, Tally]
    """What is left out, by reason."""


@dataclass(frozen=True)
class Findings:
    """The inputs, what was taken in from each, and where the pairs of the training text went."""

    inputs: Mapping[str, Reading]
    intakes: Mapping[str, Intake]
    deal: Deal

    def facts(self, folder: Path) -> dict[str, Any]:
        """The fields of a `DataReport` that say what was found; the splits lie in `folder`."""
        train, splits = self.inputs["train"], self._splits(folder)
        given = [intake for role, intake in self.intakes.items() if role != "train"]
        return {
            "source_language": train.languages[0],
            "target_language": train.languages[1],
            "inputs": {role: describe_input(each, self._rows(role)) for role, each in self.inputs.items()},
            "rows": self._rows("train"),
            "dropped": self.deal.dropped,
            "kept_faults": _merged(intake.facts.faults for intake in given),
            "noted": self._noted,
            "repairs": self._repairs(),
            "warnings": tuple(self._warnings(splits)),
            "longest_source": self._longest(0),
            "longest_target": self._longest(1),
            "splits": splits,
        }

    @cached_property
    def _noted(self) -> dict[str, Tally]:
        return _merged(intake.facts.notes for intake in self.intakes.values())

    def _rows(self, role: str) -> int:
        return self.intakes[role].facts.rows

    def _repairs(self) -> dict[str, int]:
        repairs = Counter[str]()
        for intake in self.intakes.values():
            repairs.update(intake.facts.mended)
            repairs.update(intake.facts.repairs)
        return dict(sorted((+repairs).items()))

    def _longest(self, side: int) -> Longest:
        found = [intake.facts.longest[side] for intake in self.intakes.values()]
        return max(found, key=lambda longest: (longest.words, longest.characters))

    def _splits(self, folder: Path) -> dict[str, SplitReport]:
        sources, targets = self.intakes["train"].sentences
        sentences = {
            role: (sources[self.deal.side == side], targets[self.deal.side == side]) for role, side in SIDES.items()
        }
        sentences |= {role: intake.sentences for role, intake in self.intakes.items() if role != "train"}
        return {
            role: SplitReport(
                pairs=len(keys[0]),
                sha256=sha256(split_of(folder, role)),
                origin=self._origin_of_split(role),
                leaks=None if role == "train" else self._leaks(role, sentences["train"], keys),
                leaks_from_dev=None if role in ("train", "dev") else self._leaks(role, sentences["dev"], keys),
            )
            for role, keys in sentences.items()
        }

    def _origin_of_split(self, role: str) -> str:
        if role in self.deal.wanted:
            return self.deal.reason
        return "the rest" if role == "train" else f"given: {self.inputs[role].name}"

    def _leaks(self, role: str, other: tuple[Keys, Keys], held_out: tuple[Keys, Keys]) -> Leaks:
        found = leakage(other, held_out)
        first = None if found.first is None else self._origin_of_pair(role, found.first)
        return Leaks(sources=found.sources, targets=found.targets, either=found.either, first=first)

    def _origin_of_pair(self, role: str, index: int) -> str:
        """Where the pair of a set that has this number, from 0, stood."""
        if role in self.intakes:
            return self.intakes[role].origin(index)
        return self.intakes["train"].origin(int(np.flatnonzero(self.deal.side == SIDES[role])[index]))

    def _warnings(self, splits: Mapping[str, SplitReport]) -> Iterator[str]:
        for reading in self.inputs.values():
            yield from reading.doubts
        for role, intake in self.intakes.items():
            yield from _misaligned(intake.facts.warnings)
            yield from _wrong_languages(intake)
            if role != "train":
                yield from _empty_sides(role, intake)
        yield from self._of_the_text()
        yield from self._small_sets(splits)
        for role, split in splits.items():
            yield from _leaking(role, split)

    def _of_the_text(self) -> Iterator[str]:
        train = self.inputs["train"]
        if entities := self._noted.get(ENTITIES):
            yield (
                f"pairs with HTML entities such as &amp;: {entities.pairs:,}, first at {entities.first}; "
                "--set data.checks.html_entities=decode replaces them by the characters they stand for"
            )
        if UNKNOWN_LANGUAGE in train.languages:
            yield f"{train.name}: the languages are unknown ({UNKNOWN_LANGUAGE}): {train.reasons['languages']}"

    def _small_sets(self, splits: Mapping[str, SplitReport]) -> Iterator[str]:
        for role, wanted in self.deal.wanted.items():
            if splits[role].pairs < wanted:
                yield (
                    f"the {role} set holds {splits[role].pairs:,} pairs, not {wanted:,}: too many pairs share "
                    f"sentences; give a set of its own with {role}_path"
                )


def _merged(counts: Iterable[Mapping[str, Tally]]) -> dict[str, Tally]:
    total: dict[str, Tally] = {}
    for each in counts:
        for reason, found in each.items():
            before = total.get(reason) or Tally(pairs=0, first=found.first)
            total[reason] = Tally(pairs=before.pairs + found.pairs, first=before.first)
    return total


def _misaligned(stretches: Sequence[str]) -> Iterator[str]:
    yield from stretches[:MISALIGNED_SHOWN]
    if len(stretches) > MISALIGNED_SHOWN:
        yield f"{len(stretches) - MISALIGNED_SHOWN:,} more stretches of rows look misaligned"


def _wrong_languages(intake: Intake) -> Iterator[str]:
    for kind in (EXCHANGED, ONE_LANGUAGE):
        found = intake.facts.notes.get(kind)
        if found and found.pairs >= SIDES_SHARE * intake.facts.rows:
            yield f"{found.pairs:,} of {intake.facts.rows:,} {kind} (first at {found.first})"


def _empty_sides(role: str, intake: Intake) -> Iterator[str]:
    """What becomes of the empty sides of a given set, which keeps every pair so that other files stay aligned."""
    for kind, side, scored in (
        (EMPTY_SOURCES, "source", "its translation is empty"),
        (EMPTY_TARGETS, "reference", "any translation of it counts as wrong"),
    ):
        if found := intake.facts.notes.get(kind):
            what = "it is left out of validation" if role == "dev" else scored
            pairs = f"{found.pairs:,} of {intake.facts.rows:,} {role} pairs"
            yield f"{pairs} have an empty {side} (first at {found.first}): {what}"


def _leaking(role: str, split: SplitReport) -> Iterator[str]:
    if split.leaks and split.leaks.either:
        yield (
            f"{split.leaks.either:,} of {split.pairs:,} {role} pairs have a sentence that stands in training too "
            f"(first at {split.leaks.first}): a score on them flatters"
        )
    if split.leaks_from_dev and split.leaks_from_dev.either:
        yield (
            f"{split.leaks_from_dev.either:,} of {split.pairs:,} {role} pairs have a sentence that stands in dev "
            f"too (first at {split.leaks_from_dev.first}): the best checkpoint is chosen on dev, so a score on "
            "them flatters"
        )
