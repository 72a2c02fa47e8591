"""Parallel text becomes a folder of prepared data: `train.jsonl`, `dev.jsonl`, `test.jsonl` and a report, `data.json`.

Start at `prepare_data`. Each input is streamed once, judged and written aside (`intake`). A few numbers for each pair
decide the split (`split`), the lines are dealt out, and `findings` says what came of it.
"""

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from dragoman.documents import write_json
from dragoman.errors import DataError
from dragoman.files import check_new_folder, new_folder, remove
from dragoman.progress import Progress, silent
from dragoman.run_folder import split_of
from dragoman.text.checks import DUPLICATE, CheckSettings
from dragoman.text.findings import DROPPED, SIDES, Deal, Findings
from dragoman.text.inputs import identities, open_inputs
from dragoman.text.intake import Intake, learn_from, take_in
from dragoman.text.prepared import reuse, take_over
from dragoman.text.readers import Reading
from dragoman.text.report import FORMAT_NUMBER, REPORT, DataReport, Tally
from dragoman.text.settings import DataSettings, lasting
from dragoman.text.split import assign, default_sizes, first_occurrences

log = logging.getLogger(__name__)


def prepare_data(settings: DataSettings, folder: Path | str, progress: Progress = silent) -> DataReport:
    """Reads, checks and splits parallel text into `folder`. A folder made from the same text before is used as it is.

    Prepared data given as text is copied. Each line of a split is a JSON list of source and target. Sets that are given
    beside the training text keep every pair in order, so that other files stay aligned with them; their faults are only
    counted.

    Raises:
        DataError: the text cannot be read or used, or `folder` was made from other data.
        DiskFull: nothing is left behind.
    """
    folder = Path(folder)
    with open_inputs(settings) as inputs:
        names = identities(settings, inputs)
        if (folder / REPORT).exists():
            return reuse(folder, settings, names)
        check_new_folder(folder)
        _tell_choices(inputs)
        with new_folder(folder) as aside:
            report = take_over(settings, inputs, names[0], aside) or _prepare(
                settings, inputs, names[0], aside, progress
            )
            write_json(aside / REPORT, report.model_dump(mode="json"))
    _tell(report)
    return report


def _prepare(
    settings: DataSettings, inputs: Mapping[str, Reading], name: str, folder: Path, progress: Progress
) -> DataReport:
    """Fills the folder, whose text and settings are known by the identity `name`."""
    whole = folder / "whole.jsonl"
    intakes = _take_in(settings.checks, inputs, whole, progress)
    deal = _deal(settings, inputs, intakes)
    _deal_out(whole, deal, folder)
    found = Findings(inputs, intakes, deal)
    report = DataReport(format_number=FORMAT_NUMBER, identity=name, settings=lasting(settings), **found.facts(folder))
    for intake in intakes.values():
        intake.forget_keys()
    return report


def _take_in(
    checks: CheckSettings, inputs: Mapping[str, Reading], whole: Path, progress: Progress
) -> dict[str, Intake]:
    """Streams each input to the disk, the training text into `whole`."""
    sides = learn_from(inputs["train"], checks)
    intakes = {}
    for role, reading in inputs.items():
        path = whole if role == "train" else split_of(whole.parent, role)
        intakes[role] = take_in(reading, path, checks, sides, keep_all=role != "train", progress=progress)
    return intakes


def _deal(settings: DataSettings, inputs: Mapping[str, Reading], intakes: Mapping[str, Intake]) -> Deal:
    """Drops repeated pairs, and splits off the sets that are not given."""
    train = intakes["train"]
    kept = first_occurrences(train.texts) if settings.checks.drop_duplicates else np.ones(len(train.texts), bool)
    dropped = dict(train.facts.faults)
    if repeated := len(kept) - int(kept.sum()):
        dropped[DUPLICATE] = Tally(pairs=repeated, first=train.origin(int(kept.argmin())))
    sources, targets = (keys[kept] if repeated else keys for keys in train.sentences)
    wanted, sized = _wanted(settings, inputs, len(sources))
    _refuse_too_few(inputs["train"].name, train.facts.rows, dropped, len(sources), wanted)
    given = [intake.sentences for role, intake in intakes.items() if role != "train"]
    side = np.full(len(kept), DROPPED, np.uint8)
    side[kept] = assign(sources, targets, wanted.get("dev", 0), wanted.get("test", 0), settings.seed, given)
    reason = f"split off with seed {settings.seed}, pairs that share a sentence kept together; {sized}"
    return Deal(side, reason, wanted, dropped)


def _wanted(settings: DataSettings, inputs: Mapping[str, Reading], pairs: int) -> tuple[dict[str, int], str]:
    """How many pairs are split off for each set that is not given, and why so many."""
    sizes = default_sizes(pairs)
    asked = {"dev": settings.dev_size, "test": settings.test_size}
    derived = {"dev": sizes.dev, "test": sizes.test}
    wanted = {role: derived[role] if size is None else size for role, size in asked.items() if role not in inputs}
    return wanted, sizes.reason if any(asked[role] is None for role in wanted) else "sizes as given"


def _refuse_too_few(name: str, rows: int, dropped: Mapping[str, Tally], pairs: int, wanted: Mapping[str, int]) -> None:
    if not pairs:
        why = ", ".join(f"{tally.pairs:,} {reason}" for reason, tally in dropped.items())
        raise DataError(f"none of the {rows:,} rows of {name} can be used ({why})")
    if pairs <= sum(wanted.values()):
        asked = " and ".join(f"{size:,} for {role}" for role, size in wanted.items())
        usable = "1 usable pair" if pairs == 1 else f"{pairs:,} usable pairs"
        raise DataError(f"{name} holds {usable}: too few to split off {asked}; give more text, or smaller sets")


def _deal_out(whole: Path, deal: Deal, folder: Path) -> None:
    """Copies each line to the file of its side."""
    with ExitStack() as stack:
        files = {
            SIDES[role]: stack.enter_context(split_of(folder, role).open("wb")) for role in ("train", *deal.wanted)
        }
        for line, side in zip(stack.enter_context(whole.open("rb")), deal.side.tobytes(), strict=True):
            if side != DROPPED:
                files[side].write(line)
    remove(whole)


def _tell_choices(inputs: Mapping[str, Reading]) -> None:
    for role, reading in inputs.items():
        for choice, reason in reading.reasons.items():
            log.info("%s: %s: %s", role, choice, reason)


def _tell(report: DataReport) -> None:
    for reason, tally in report.dropped.items():
        log.info(
            "dropped: %s pairs of %s: %s, first at %s", f"{tally.pairs:,}", f"{report.rows:,}", reason, tally.first
        )
    for warning in report.warnings:
        log.warning("%s", warning)
