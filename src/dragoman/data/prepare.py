"""Parallel text becomes a folder of prepared data: `train.jsonl`, `dev.jsonl`, `test.jsonl` and a report, `data.json`.

Start at `prepare_data`. Each input is streamed once, judged, and written aside (`intake`); from a few numbers a pair
the split is made (`split`), and the lines are dealt out.
"""

import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dragoman.data.checks import DUPLICATE
from dragoman.data.columns import UNKNOWN_LANGUAGE
from dragoman.data.inputs import DataSettings, changes, data_identity, hashes, identity, lasting, open_inputs
from dragoman.data.intake import Intake, take_in
from dragoman.data.readers import Reading
from dragoman.data.report import (
    FORMAT_NUMBER,
    REPORT,
    DataReport,
    InputReport,
    Leaks,
    Longest,
    SplitReport,
    Tally,
    read_report,
    report_rows,
)
from dragoman.data.split import DEV, TEST, TRAIN, assign, default_sizes, first_occurrences, leakage
from dragoman.errors import DataError
from dragoman.files import new_folder, remove, sha256, write_json
from dragoman.progress import Progress, silent

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

TRIMMED = "sides with spaces around them, trimmed"

_SIDES = {"train": TRAIN, "dev": DEV, "test": TEST}
_DROPPED = 255


class _Deal(NamedTuple):
    """Where each pair of the training text goes, and why."""

    side: np.ndarray
    reason: str
    wanted: dict[str, int]
    """Pairs to be split off, for each set that is not given."""


def prepare_data(settings: DataSettings, folder: Path | str, progress: Progress = silent) -> DataReport:
    """Reads, checks and splits parallel text into `folder`; a folder made from the same before is used as it is.

    Each line of a split is a JSON list of source and target. Sets that are given beside the training text keep every
    pair in its order, so that other files stay aligned with them; what is wrong with them is counted all the same.

    Raises:
        DataError: the text cannot be read or used, or `folder` was made from other data.
        DiskFull: nothing is left behind.
    """
    folder = Path(folder)
    with open_inputs(settings) as inputs:
        name = identity(settings, inputs)
        if (folder / REPORT).exists():
            return _reuse(folder, settings, name)
        for role, reading in inputs.items():
            for choice, reason in reading.reasons.items():
                log.info("%s: %s: %s", role, choice, reason)
        with new_folder(folder) as aside:
            report = _prepare(settings, inputs, name, aside, progress)
            write_json(aside / REPORT, report.model_dump(mode="json"))
    for warning in report.warnings:
        log.warning("%s", warning)
    return report


def read_split(folder: Path | str, name: str) -> Iterator[tuple[str, str]]:
    """The pairs of one split of prepared data, in order.

    Raises:
        DataError: the folder has no such split, or a line of it is damaged.
    """
    path = Path(folder) / f"{name}.jsonl"
    if not path.is_file():
        raise DataError(f"{folder} has no {name} set; it has {', '.join(read_report(folder).splits)}")
    return _read_lines(path)


def _read_lines(path: Path) -> Iterator[tuple[str, str]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                source, target = json.loads(line)
            except ValueError:
                raise DataError(f"{path}:{number} is damaged; remove its folder and prepare the data again") from None
            yield source, target


def _reuse(folder: Path, settings: DataSettings, name: str) -> DataReport:
    """The report of a folder made before, if it was made from the same and is whole."""
    report = read_report(folder)
    if report.identity != name:
        changed = "; ".join(changes(report, settings))
        raise DataError(f"{folder} was prepared from other data or settings ({changed}); name another folder")
    for split, facts in report.splits.items():
        path = folder / f"{split}.jsonl"
        if not path.is_file() or sha256(path) != facts.sha256:
            raise DataError(f"{path} is missing or was changed; remove {folder} and prepare the data again")
    log.info("%s holds this data already", folder)
    return report


def _prepare(
    settings: DataSettings, inputs: Mapping[str, Reading], name: str, folder: Path, progress: Progress
) -> DataReport:
    whole = folder / "whole.jsonl"
    intakes = {
        role: take_in(
            reading,
            whole if role == "train" else folder / f"{role}.jsonl",
            settings.checks,
            keep_all=role != "train",
            progress=progress,
        )
        for role, reading in inputs.items()
    }
    train = intakes["train"]
    given = [intake for role, intake in intakes.items() if role != "train"]
    deal = _deal(settings, inputs, train)
    _deal_out(whole, deal, folder)
    splits = _split_reports(folder, inputs, intakes, deal)
    trimmed = Counter({TRIMMED: sum(intake.trimmed for intake in intakes.values())})
    repairs = sum((reading.repairs for reading in inputs.values()), trimmed)
    return DataReport(
        format_number=FORMAT_NUMBER,
        identity=name,
        settings=lasting(settings),
        source_language=inputs["train"].languages[0],
        target_language=inputs["train"].languages[1],
        inputs={role: _input_report(reading, intakes[role]) for role, reading in inputs.items()},
        rows=train.rows,
        dropped=train.faults,
        kept_faults=_merged(given),
        repairs=dict(sorted((+repairs).items())),
        warnings=tuple(_warnings(inputs["train"], intakes, deal, splits)),
        longest_source=_longest(0, intakes),
        longest_target=_longest(1, intakes),
        splits=splits,
    )


def _deal(settings: DataSettings, inputs: Mapping[str, Reading], train: Intake) -> _Deal:
    """Drops repeated pairs, and splits off the sets that are not given."""
    side = np.full(len(train.texts), _DROPPED, np.uint8)
    kept = first_occurrences(train.texts) if settings.checks.drop_duplicates else np.ones(len(side), bool)
    if repeated := np.flatnonzero(~kept).tolist():
        train.note(DUPLICATE, train.origin(repeated[0]), len(repeated))
    pairs = int(kept.sum())
    sizes = default_sizes(pairs)
    derived = {"dev": sizes.dev, "test": sizes.test}
    asked = {"dev": settings.dev_size, "test": settings.test_size}
    wanted = {
        role: derived[role] if (size := asked[role]) is None else size for role in ("dev", "test") if role not in inputs
    }
    _refuse_too_few(inputs["train"].name, train, pairs, wanted)
    sources, targets = train.sentences
    side[kept] = assign(sources[kept], targets[kept], wanted.get("dev", 0), wanted.get("test", 0), settings.seed)
    sized = sizes.reason if any(asked[role] is None for role in wanted) else "sizes as given"
    return _Deal(
        side, f"split off with seed {settings.seed}, pairs that share a sentence kept together; {sized}", wanted
    )


def _refuse_too_few(name: str, train: Intake, pairs: int, wanted: Mapping[str, int]) -> None:
    if not pairs:
        why = ", ".join(f"{tally.pairs:,} {reason}" for reason, tally in train.faults.items())
        raise DataError(f"none of the {train.rows:,} rows of {name} can be used ({why})")
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
    for role, keys in sentences.items():
        leaks = None
        if role != "train":
            found = leakage(sentences["train"], keys)
            first = None if found.first is None else intakes[role].origin(found.first)
            leaks = Leaks(sources=found.sources, targets=found.targets, either=found.either, first=first)
        origin = (
            deal.reason if role in deal.wanted else f"given: {inputs[role].name}" if role != "train" else "the rest"
        )
        path = folder / f"{role}.jsonl"
        reports[role] = SplitReport(pairs=len(keys[0]), sha256=sha256(path), origin=origin, leaks=leaks)
    return reports


def _input_report(reading: Reading, intake: Intake) -> InputReport:
    return InputReport(
        name=reading.name,
        format=reading.format,
        columns=(reading.columns.source, reading.columns.target),
        reasons=dict(reading.reasons),
        sha256=hashes(reading),
        rows=intake.rows,
    )


def _merged(intakes: list[Intake]) -> dict[str, Tally]:
    total = Intake()
    for intake in intakes:
        for reason, tally in intake.faults.items():
            total.note(reason, tally.first, tally.pairs)
    return total.faults


def _longest(side: int, intakes: Mapping[str, Intake]) -> Longest:
    return max((intake.longest[side] for intake in intakes.values()), key=lambda found: (found.words, found.characters))


def _warnings(
    train: Reading, intakes: Mapping[str, Intake], deal: _Deal, splits: Mapping[str, SplitReport]
) -> Iterator[str]:
    for intake in intakes.values():
        yield from map(str, intake.shifts.finish())
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
