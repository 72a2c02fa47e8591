"""Parallel text becomes a folder of prepared data: `train.jsonl`, `dev.jsonl`, `test.jsonl` and a report, `data.json`.

Start at `prepare_data`. Each input is streamed once, judged, and written aside (`intake`), by one job or by several
(`shards`); from a few numbers a pair the split is made (`split`), and the lines are dealt out.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dragoman.documents import write_json
from dragoman.errors import DataError
from dragoman.files import check_new_folder, new_folder, remove, sha256
from dragoman.progress import Progress, silent
from dragoman.text.checks import DUPLICATE
from dragoman.text.inputs import DataSettings, changes, data_identity, identities, lasting, open_inputs
from dragoman.text.intake import EMPTY_SOURCES, EMPTY_TARGETS, ENTITIES, Intake, learn_from, take_in
from dragoman.text.prepared import describe_input, read_split, reuse, take_over
from dragoman.text.reading.columns import UNKNOWN_LANGUAGE
from dragoman.text.reading.readers import Reading
from dragoman.text.report import (
    FORMAT_NUMBER,
    REPORT,
    DataReport,
    Leaks,
    Longest,
    SplitReport,
    Tally,
    read_report,
    report_rows,
)
from dragoman.text.shards import find_shards, join, shards_folder
from dragoman.text.sides import EXCHANGED, ONE_LANGUAGE
from dragoman.text.split import DEV, TEST, TRAIN, assign, default_sizes, first_occurrences, leakage

__all__ = [
    "DataReport",
    "DataSettings",
    "changes",
    "data_identity",
    "prepare_data",
    "read_report",
    "read_split",
    "report_rows",
]

log = logging.getLogger(__name__)

MISALIGNED_SHOWN = 5
"""Stretches of misaligned rows that are warned of one by one."""
SIDES_SHARE = 0.001
"""Share of rows whose language looks wrong from which on they are warned of; of real text it was 0.00003."""

_SIDES = {"train": TRAIN, "dev": DEV, "test": TEST}
_DROPPED = 255


class _Deal(NamedTuple):
    """Where each pair of the training text goes, and why."""

    side: np.ndarray
    reason: str
    wanted: dict[str, int]
    """Pairs to be split off, for each set that is not given."""
    dropped: dict[str, Tally]
    """What is left out, by reason."""


def prepare_data(settings: DataSettings, folder: Path | str, progress: Progress = silent) -> DataReport:
    """Reads, checks and splits parallel text into `folder`; a folder made from the same before is used as it is.

    Shards that `prepare_shard` made for this folder are joined, and then deleted. Prepared data given as text is taken
    over as it is. Each line of a split is a JSON list of source and target. Sets that are given beside the training
    text keep every pair in its order, so that other files stay aligned with them; what is wrong with them is counted
    all the same.

    Raises:
        DataError: the text cannot be read or used, `folder` was made from other data, or shards of it are missing.
        DiskFull: nothing is left behind.
    """
    folder = Path(folder)
    with open_inputs(settings) as inputs:
        names = identities(settings, inputs)
        if (folder / REPORT).exists():
            return reuse(folder, settings, names)
        check_new_folder(folder)
        for role, reading in inputs.items():
            for choice, reason in reading.reasons.items():
                log.info("%s: %s: %s", role, choice, reason)
        shards = find_shards(folder)
        with new_folder(folder) as aside:
            report = take_over(settings, inputs, names[0], aside) or _prepare(
                settings, inputs, names[0], shards, aside, progress
            )
            write_json(aside / REPORT, report.model_dump(mode="json"))
        remove(shards_folder(folder))
    for reason, tally in report.dropped.items():
        log.info(
            "dropped: %s pairs of %s: %s, first at %s", f"{tally.pairs:,}", f"{report.rows:,}", reason, tally.first
        )
    for warning in report.warnings:
        log.warning("%s", warning)
    return report


def _prepare(
    settings: DataSettings,
    inputs: Mapping[str, Reading],
    name: str,
    shards: Sequence[Path],
    folder: Path,
    progress: Progress,
) -> DataReport:
    whole = folder / "whole.jsonl"
    sides = learn_from(inputs["train"], settings.checks)
    if shards:
        log.info("joining %d shards", len(shards))
        train = join(shards, name, whole)
    else:
        train = take_in(inputs["train"], whole, settings.checks, sides, keep_all=False, progress=progress)
    given = {
        role: take_in(reading, folder / f"{role}.jsonl", settings.checks, sides, keep_all=True, progress=progress)
        for role, reading in inputs.items()
        if role != "train"
    }
    intakes = {"train": train, **given}
    deal = _deal(settings, inputs, train, given)
    _deal_out(whole, deal, folder)
    splits = _split_reports(folder, inputs, intakes, deal)
    for intake in intakes.values():
        intake.forget_keys()
    repairs = Counter[str]()
    for intake in intakes.values():
        repairs.update(intake.facts.mended)
        repairs.update(intake.facts.repairs)
    return DataReport(
        format_number=FORMAT_NUMBER,
        identity=name,
        settings=lasting(settings),
        source_language=inputs["train"].languages[0],
        target_language=inputs["train"].languages[1],
        inputs={role: describe_input(reading, intakes[role].facts.rows) for role, reading in inputs.items()},
        rows=train.facts.rows,
        dropped=deal.dropped,
        kept_faults=_merged(intake.tallies for intake in given.values()),
        noted=_merged(intake.notes for intake in intakes.values()),
        repairs=dict(sorted((+repairs).items())),
        warnings=tuple(_warnings(inputs, intakes, deal, splits)),
        longest_source=_longest(0, intakes),
        longest_target=_longest(1, intakes),
        splits=splits,
    )


def _deal(settings: DataSettings, inputs: Mapping[str, Reading], train: Intake, given: Mapping[str, Intake]) -> _Deal:
    """Drops repeated pairs, and splits off the sets that are not given."""
    sources, targets = train.sentences
    side = np.full(len(sources), _DROPPED, np.uint8)
    kept = first_occurrences(train.texts) if settings.checks.drop_duplicates else np.ones(len(side), bool)
    dropped = train.tallies
    if repeated := len(kept) - int(kept.sum()):
        dropped[DUPLICATE] = Tally(pairs=repeated, first=train.origin(int(kept.argmin())))
        sources, targets = sources[kept], targets[kept]
    sizes = default_sizes(len(sources))
    derived = {"dev": sizes.dev, "test": sizes.test}
    asked = {"dev": settings.dev_size, "test": settings.test_size}
    wanted = {
        role: derived[role] if (size := asked[role]) is None else size for role in ("dev", "test") if role not in inputs
    }
    _refuse_too_few(inputs["train"].name, train.facts.rows, dropped, len(sources), wanted)
    others = [intake.sentences for intake in given.values()]
    side[kept] = assign(sources, targets, wanted.get("dev", 0), wanted.get("test", 0), settings.seed, others)
    sized = sizes.reason if any(asked[role] is None for role in wanted) else "sizes as given"
    reason = f"split off with seed {settings.seed}, pairs that share a sentence kept together; {sized}"
    return _Deal(side, reason, wanted, dropped)


def _refuse_too_few(name: str, rows: int, dropped: Mapping[str, Tally], pairs: int, wanted: Mapping[str, int]) -> None:
    if not pairs:
        why = ", ".join(f"{tally.pairs:,} {reason}" for reason, tally in dropped.items())
        raise DataError(f"none of the {rows:,} rows of {name} can be used ({why})")
    if pairs <= sum(wanted.values()):
        asked = " and ".join(f"{size:,} for {role}" for role, size in wanted.items())
        usable = "1 usable pair" if pairs == 1 else f"{pairs:,} usable pairs"
        raise DataError(f"{name} holds {usable}: too few to split off {asked}; give more text, or smaller sets")


def _deal_out(whole: Path, deal: _Deal, folder: Path) -> None:
    """Copies each line to the file of its side."""
    with ExitStack() as stack:
        files = {
            _SIDES[role]: stack.enter_context((folder / f"{role}.jsonl").open("wb")) for role in ("train", *deal.wanted)
        }
        for line, side in zip(stack.enter_context(whole.open("rb")), deal.side.tobytes(), strict=True):
            if side != _DROPPED:
                files[side].write(line)
    remove(whole)


# The report


def _split_reports(
    folder: Path, inputs: Mapping[str, Reading], intakes: Mapping[str, Intake], deal: _Deal
) -> dict[str, SplitReport]:
    sources, targets = intakes["train"].sentences
    sentences = {role: (sources[deal.side == side], targets[deal.side == side]) for role, side in _SIDES.items()}
    sentences |= {role: intake.sentences for role, intake in intakes.items() if role != "train"}
    reports = {}

    def leaks(role: str, other: str) -> Leaks:
        found = leakage(sentences[other], sentences[role])
        first = None if found.first is None else _origin(role, found.first, intakes, deal)
        return Leaks(sources=found.sources, targets=found.targets, either=found.either, first=first)

    for role, keys in sentences.items():
        origin = (
            deal.reason if role in deal.wanted else f"given: {inputs[role].name}" if role != "train" else "the rest"
        )
        reports[role] = SplitReport(
            pairs=len(keys[0]),
            sha256=sha256(folder / f"{role}.jsonl"),
            origin=origin,
            leaks=None if role == "train" else leaks(role, "train"),
            leaks_from_dev=None if role in ("train", "dev") else leaks(role, "dev"),
        )
    return reports


def _origin(role: str, index: int, intakes: Mapping[str, Intake], deal: _Deal) -> str:
    """Where a pair of a set stood, by its number in the set."""
    if role in intakes:
        return intakes[role].origin(index)
    return intakes["train"].origin(int(np.flatnonzero(deal.side == _SIDES[role])[index]))


def _merged(counts: Iterable[Mapping[str, Tally]]) -> dict[str, Tally]:
    total: dict[str, Tally] = {}
    for each in counts:
        for reason, found in each.items():
            before = total.get(reason) or Tally(pairs=0, first=found.first)
            total[reason] = Tally(pairs=before.pairs + found.pairs, first=before.first)
    return total


def _longest(side: int, intakes: Mapping[str, Intake]) -> Longest:
    found = [intake.facts.longest[side].longest for intake in intakes.values()]
    return max(found, key=lambda longest: (longest.words, longest.characters))


def _warnings(
    inputs: Mapping[str, Reading], intakes: Mapping[str, Intake], deal: _Deal, splits: Mapping[str, SplitReport]
) -> Iterator[str]:
    for reading in inputs.values():
        yield from reading.doubts
    for role, intake in intakes.items():
        yield from _misaligned(intake.facts.warnings)
        yield from _wrong_languages(intake)
        if role != "train":
            yield from _empty_sides(role, intake)
    entities = _merged(intake.notes for intake in intakes.values()).get(ENTITIES)
    if entities:
        yield (
            f"{entities.pairs:,} pairs hold HTML entities such as &amp; (first at {entities.first}): "
            "--set data.checks.html_entities=decode replaces them by the characters they stand for"
        )
    train = inputs["train"]
    if UNKNOWN_LANGUAGE in train.languages:
        yield f"{train.name}: the languages are unknown ({UNKNOWN_LANGUAGE}): {train.reasons['languages']}"
    for role, wanted in deal.wanted.items():
        if splits[role].pairs < wanted:
            yield (
                f"the {role} set holds {splits[role].pairs:,} pairs, not {wanted:,}: too many pairs share sentences; "
                f"give a set of its own with {role}_path"
            )
    for role, split in splits.items():
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


def _misaligned(stretches: Sequence[str]) -> Iterator[str]:
    yield from stretches[:MISALIGNED_SHOWN]
    if len(stretches) > MISALIGNED_SHOWN:
        yield f"{len(stretches) - MISALIGNED_SHOWN:,} more stretches of rows look misaligned"


def _wrong_languages(intake: Intake) -> Iterator[str]:
    for kind in (EXCHANGED, ONE_LANGUAGE):
        found = intake.notes.get(kind)
        if found and found.pairs >= SIDES_SHARE * intake.facts.rows:
            yield f"{found.pairs:,} of {intake.facts.rows:,} {kind} (first at {found.first})"


def _empty_sides(role: str, intake: Intake) -> Iterator[str]:
    """What becomes of the empty sides of a given set, which keeps every pair so that other files stay aligned."""
    for kind, side, scored in (
        (EMPTY_SOURCES, "source", "its translation is empty"),
        (EMPTY_TARGETS, "reference", "any translation of it counts as wrong"),
    ):
        if found := intake.notes.get(kind):
            what = "it is left out of validation" if role == "dev" else scored
            pairs = f"{found.pairs:,} of {intake.facts.rows:,} {role} pairs"
            yield f"{pairs} have an empty {side} (first at {found.first}): {what}"
