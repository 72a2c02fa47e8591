"""Labelled text becomes a folder of prepared data: `train.jsonl`, `dev.jsonl`, `test.jsonl`, and a report, `data.json`.

A line is `["text", "label"]` for a classifier, `[["word", …], ["label", …]]` for a tagger. Start at `prepare_labelled`.
The examples are held in memory: about 0.4 kB a text with one label, and 0.11 kB a tagged word.
"""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.documents import write_json
from dragoman.errors import DataError
from dragoman.files import check_new_folder, new_folder, sha256, write_file
from dragoman.progress import Progress, silent
from dragoman.run_folder import split_of
from dragoman.text.labelled.findings import (
    DUPLICATES,
    DUPLICATES_DROPPED,
    EMPTY,
    KEPT_EMPTY,
    found_at,
    look,
    repeated,
    split_out,
    warnings,
)
from dragoman.text.labelled.sources import Taken, refuse_one_label, take
from dragoman.text.labels import Example, Task
from dragoman.text.report import FORMAT, REPORT, Found, LabelledReport, read_labelled_report
from dragoman.text.settings import PHRASEBOOK, DataSettings
from dragoman.text.split import default_size, hold_out, sentence_key

log = logging.getLogger(__name__)

_JSON = json.JSONEncoder(ensure_ascii=False)


def prepare_labelled(
    settings: DataSettings, task: Task, folder: Path | str, progress: Progress = silent
) -> LabelledReport:
    """Reads, checks and splits labelled text into a new folder. A folder made from the same text is used again.

    Dev and test sets that are given keep every example; those that are not are held out of the training text.

    Raises:
        DataError: the text cannot be read or is not labelled, or the folder was made from other text.
        DiskFull: nothing is left behind.
    """
    folder = Path(folder)
    taken = take(settings, task, progress)
    identity = _identity(settings, task, taken.examples)
    if folder.exists():
        return _reuse(folder, task, identity)
    check_new_folder(folder)
    splits, origins, findings = _dealt(settings, task, taken)
    labels = dict(sorted(Counter(label for each in splits["train"] for label in each.labels).items()))
    findings |= look(splits, labels)
    with new_folder(folder) as aside:
        facts = {
            "format": FORMAT,
            "task": task,
            "identity": identity,
            "name": str(settings.path),
            "language": _language(settings),
            "rows": {name: len(examples) for name, examples in taken.examples.items()},
            "reasons": taken.reasons,
            "labels": labels,
            "splits": {name: _write(aside, name, split, task, origins[name]) for name, split in splits.items()},
            "findings": {kind: found.model_dump() for kind, found in findings.items()},
            "repairs": taken.repairs,
            "warnings": list(warnings(findings, splits)),
        }
        write_json(aside / REPORT, facts)
    report = read_labelled_report(folder)
    _tell(report)
    return report


def labelled_identity(settings: DataSettings, task: Task) -> str:
    """The `LabelledReport.identity` of the text that these settings name."""
    return _identity(settings, task, take(settings, task, silent).examples)


def _identity(settings: DataSettings, task: Task, examples: Mapping[str, Sequence[Example]]) -> str:
    """A hash of the examples as they were read, and of the settings that decide what becomes of them."""
    facts = [task, settings.seed, settings.dev_size, settings.test_size, settings.checks.drop_duplicates]
    digest = hashlib.sha256(json.dumps(facts).encode())
    for name, each in examples.items():
        digest.update(json.dumps([name, len(each)]).encode())
        for example in each:
            digest.update(json.dumps(example[:2]).encode())
    return digest.hexdigest()


def _language(settings: DataSettings) -> str:
    if settings.path == PHRASEBOOK:
        return "en"
    return settings.source_language or settings.target_language or "und"


def _dealt(
    settings: DataSettings, task: Task, taken: Taken
) -> tuple[dict[str, list[Example]], dict[str, str], dict[str, Found]]:
    """The splits, where each is from, and what was found on the way."""
    train, given = taken.examples["train"], {name: each for name, each in taken.examples.items() if name != "train"}
    train, findings = _cleaned(train, given, settings.checks.drop_duplicates)
    wanted, reason = _wanted(settings, given, len(train))
    _refuse_too_few(settings, len(train), wanted)
    refuse_one_label(settings, task, train)
    keys = {sentence_key(example.text) for each in given.values() for example in each} if wanted else set[int]()
    sides = hold_out(train, wanted, settings.seed, keys)
    _refuse_empty(settings, wanted, sides)
    splits = {
        name: [example for example, side in zip(train, sides, strict=True) if side == name]
        for name in ("train", *wanted)
    }
    held_out = f"held out of the training text with seed {settings.seed}, by label, equal texts together: {reason}"
    origins = {"train": "the rest" if wanted else "given", **dict.fromkeys(wanted, held_out)}
    origins |= dict.fromkeys(given, "given")
    splits |= given
    return {name: splits[name] for name in ("train", "dev", "test", *splits)}, origins, findings


def _cleaned(
    train: Sequence[Example], given: Mapping[str, Sequence[Example]], drop_duplicates: bool
) -> tuple[list[Example], dict[str, Found]]:
    """Training examples without empty texts and, if asked for, without duplicates; and what was found."""
    kept, empty = split_out(train, lambda example: bool(example.text.strip()))
    again = repeated(kept)
    places = {
        EMPTY: [example.origin for example in empty],
        KEPT_EMPTY: [each.origin for examples in given.values() for each in examples if not each.text.strip()],
        DUPLICATES_DROPPED if drop_duplicates else DUPLICATES: [
            example.origin for example, is_repeated in zip(kept, again, strict=True) if is_repeated
        ],
    }
    if drop_duplicates:
        kept = [example for example, is_repeated in zip(kept, again, strict=True) if not is_repeated]
    return kept, {kind: found for kind, where in places.items() if (found := found_at(where))}


def _wanted(settings: DataSettings, given: Mapping[str, object], examples: int) -> tuple[dict[str, int], str]:
    """How many examples are held out for each set that is not given, and why so many."""
    size, reason = default_size(examples)
    asked = {"test": settings.test_size, "dev": settings.dev_size}
    wanted = {name: size if count is None else count for name, count in asked.items() if name not in given}
    return wanted, reason if any(asked[name] is None for name in wanted) else "sizes as given"


def _refuse_too_few(settings: DataSettings, examples: int, wanted: Mapping[str, int]) -> None:
    if examples <= sum(wanted.values()):
        asked = " and ".join(f"{size:,} for {name}" for name, size in wanted.items())
        raise DataError(
            f"{settings.path} leaves {examples:,} different examples: too few to hold out {asked}; give more, or "
            "smaller sets"
        )


def _refuse_empty(settings: DataSettings, wanted: Mapping[str, int], sides: Sequence[str]) -> None:
    for name, size in wanted.items():
        if size and name not in sides:
            raise DataError(
                f"{settings.path} has no text to hold out for {name}: each occurs more than {size:,} times, is the "
                f"only one with its label, or stands in a given set; give data.{name}_path or another data.{name}_size"
            )


def _write(folder: Path, name: str, split: Sequence[Example], task: Task, origin: str) -> dict[str, Any]:
    path = split_of(folder, name)
    write_file(path, "".join(_JSON.encode(_line(example, task)) + "\n" for example in split))
    words = sum(len(example.parts) for example in split) if task == "tag" else None
    return {"examples": len(split), "words": words, "sha256": sha256(path), "origin": origin}


def _line(example: Example, task: Task) -> list[Any]:
    if task == "tag":
        return [example.parts, example.labels]
    return [example.parts[0], example.labels[0]]


def _reuse(folder: Path, task: Task, identity: str) -> LabelledReport:
    report = read_labelled_report(folder)
    if report.identity != identity:
        what = "text or settings" if report.task == task else f"text, for the task {report.task}"
        raise DataError(f"{folder} was prepared from other {what}; name another folder")
    for name, split in report.splits.items():
        path = split_of(folder, name)
        if not path.is_file() or sha256(path) != split.sha256:
            raise DataError(f"{path} is missing or was changed; remove {folder} and prepare the text again")
    log.info("%s holds this text already", folder)
    return report


def _tell(report: LabelledReport) -> None:
    for name, reason in report.reasons.items():
        log.info("%s: %s", name, reason)
    for kind, found in report.findings.items():
        log.info("%s: %s, first at %s", kind, f"{found.count:,}", found.first)
    for warning in report.warnings:
        log.warning("%s", warning)
