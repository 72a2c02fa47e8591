"""Prepares parallel text: streams each input once into a `PairSet`, splits it, and reports on it.

The split follows from the keys of the pairs. Then the lines of the training text are distributed to its sets.
"""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path

import numpy as np

from dragoman.errors import DataError
from dragoman.files import REPORT, remove, sha256
from dragoman.languages import UNKNOWN_LANGUAGE
from dragoman.progress import Progress
from dragoman.run_folder import split_of
from dragoman.text.alignment import EXCHANGED, ONE_LANGUAGE
from dragoman.text.checks import DUPLICATE, MISREAD, PLACEHOLDER
from dragoman.text.pair_set import (
    EMPTY_SOURCES,
    EMPTY_TARGETS,
    ENTITIES,
    TAGS,
    Observations,
    PairSet,
    WrittenSplit,
    learn_side_languages,
)
from dragoman.text.prepared import parts_of
from dragoman.text.readers import Reading
from dragoman.text.report import (
    FORMAT_NUMBER,
    DataReport,
    InputReport,
    Leaks,
    SplitReport,
    Tally,
    read_report,
)
from dragoman.text.settings import PHRASEBOOK, DataSettings, lasting
from dragoman.text.split import (
    DEV,
    TEST,
    TRAIN,
    assign,
    first_occurrences,
    held_out_sizes,
    refuse_too_few,
    shared_sentences,
)

HELD_OUT = 0.05
"""Share of the pairs that is held out for dev, and the same again for test."""
SPLITS = {"train": TRAIN, "dev": DEV, "test": TEST}
DROPPED = 255
"""The number of a pair that is in no split."""
MISALIGNED_SHOWN = 5
"""Stretches of misaligned rows that are warned of one by one."""
LEAST_SHARE = 0.001
"""The share of rows in a wrong language that is worth a warning; in real text it was 0.00003."""

log = logging.getLogger(__name__)


class PairText:
    """Pairs of the training text, as `train`, and of separate sets."""

    read_report = staticmethod(read_report)

    def __init__(self, settings: DataSettings, inputs: Mapping[str, Reading], progress: Progress) -> None:
        self._settings, self._inputs, self._progress = settings, inputs, progress

    @cached_property
    def identity(self) -> str:
        """A hash of the pairs and of the settings that decide the result, wherever the files lie."""
        return _identity(self._settings, {name: hashes(reading) for name, reading in self._inputs.items()})

    def changes(self, report: DataReport) -> list[str]:
        """Return the differences from the text of a report, in words."""
        before, now = report.settings, lasting(self._settings)
        keys = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
        differences = [f"{key} was {before.get(key)}, is {now.get(key)}" for key in keys]
        read = {name: list(hashes(reading).values()) for name, reading in self._inputs.items()}
        known = {name: list(described.sha256.values()) for name, described in report.inputs.items()}
        names = sorted(name for name in known.keys() | read.keys() if known.get(name) != read.get(name))
        return differences + [f"the {name} text changed" for name in names]

    def fill(self, folder: Path) -> DataReport:
        """Write the splits into a new folder."""
        for name, reading in self._inputs.items():
            chosen = "; ".join(f"{choice}: {reason}" for choice, reason in reading.reasons.items())
            log.info("%s: %s", name, chosen)
        if report := self._copied(folder):
            return report
        checks, train = self._settings.checks, self._inputs["train"]
        side_languages = learn_side_languages(train, checks)
        sets = {
            name: PairSet(reading, split_of(folder, name), checks, side_languages, keep_all=True)
            for name, reading in self._inputs.items()
        }
        sets["train"] = PairSet(
            train, folder / "whole.jsonl", checks, side_languages, keep_all=False, exchanged=self._settings.exchanged
        )
        for pairs in sets.values():
            pairs.fill(self._progress)
        read = {name: hashes(pairs.reading) for name, pairs in sets.items()}

        def write(numbers: np.ndarray, names: Sequence[str]) -> dict[str, str]:
            deal_out(sets["train"].path, numbers, names, folder)
            remove(sets["train"].path)
            return {name: sha256(split_of(folder, name)) for name in names}

        report = split_pairs(self._settings, sets, read, write)
        for pairs in sets.values():
            remove(pairs.keys_path)
        return report

    def _copied(self, folder: Path) -> DataReport | None:
        """Copy text that is prepared data, if its splits are unchanged and all wanted, by the same rules."""
        settings = self._settings
        source_folder = Path(str(settings.inside(settings.path)))
        if not (source_folder / REPORT).is_file() or settings.source_column or settings.target_column:
            return None
        report, now = read_report(source_folder), lasting(settings)
        written = {name: split.sha256 for name, split in report.splits.items() if split.pairs}
        if written != {name: "".join(hashes(reading).values()) for name, reading in self._inputs.items()}:
            return None
        if any(
            report.settings.get(key) != now.get(key) for key in {*report.settings, *now} if key.startswith("checks.")
        ):
            return None
        for name in report.splits:
            with split_of(folder, name).open("wb") as whole:
                for part in parts_of(source_folder, name):
                    with part.open("rb") as file:
                        shutil.copyfileobj(file, whole)
        log.info("%s is prepared data, and is copied as it is", source_folder)
        source, target = self._inputs["train"].languages
        splits = {name: split.but(sha256=sha256(split_of(folder, name))) for name, split in report.splits.items()}
        return report.model_copy(
            update={
                "identity": self.identity,
                "splits": splits,
                "settings": now,
                "source_language": source,
                "target_language": target,
                "inputs": {
                    name: _report_input(reading, report.splits[name].pairs, hashes(reading))
                    for name, reading in self._inputs.items()
                },
            }
        )


def split_pairs(
    settings: DataSettings,
    sets: Mapping[str, PairSet],
    read: Mapping[str, dict[str, str]],
    write: Callable[[np.ndarray, Sequence[str]], Mapping[str, str]],
) -> DataReport:
    """Split the training text by its keys, have it written, and report on all sets.

    `read` holds the SHA-256 of each set's files. `write` is given the number of each pair (`SPLITS` or `DROPPED`) and
    the names of the sets that the pairs are dealt to; it returns the SHA-256 of what it has written for each.
    """
    train = sets["train"]
    separate = {name: pairs for name, pairs in sets.items() if name != "train"}
    kept, dropped = _usable(settings, train)
    for pairs in separate.values():
        pairs.observed.notes.update(pairs.tally(PLACEHOLDER, pairs.repeating()))
    sources, targets = (keys if kept.all() else keys[kept] for keys in train.sentences)
    wanted, origins = _plan_splits(settings, sets, dropped, len(sources))
    numbers = np.full(len(kept), DROPPED, np.uint8)
    sentences = [pairs.sentences for pairs in separate.values()]
    numbers[kept] = assign(sources, targets, wanted.get("dev", 0), wanted.get("test", 0), settings.seed, sentences)
    written = write(numbers, ["train", *wanted])

    def split(name: str) -> WrittenSplit:
        if pairs := separate.get(name):
            return WrittenSplit(len(pairs.keys()), sha256(pairs.path), pairs.sentences, pairs.origin)
        chosen = numbers == SPLITS[name]
        source_keys, target_keys = (keys[chosen] for keys in train.sentences)
        rows = np.flatnonzero(chosen)
        return WrittenSplit(
            len(rows), written[name], (source_keys, target_keys), lambda index: train.origin(int(rows[index]))
        )

    splits = _report_splits({name: split(name) for name in origins}, origins)
    others = Observations.merged([pairs.observed for pairs in separate.values()])
    observed = Observations.merged([pairs.observed for pairs in sets.values()])
    return DataReport(
        format_number=FORMAT_NUMBER,
        identity=_identity(settings, read),
        settings=lasting(settings),
        source_language=train.reading.languages[0],
        target_language=train.reading.languages[1],
        inputs={name: _report_input(pairs.reading, pairs.observed.rows, read[name]) for name, pairs in sets.items()},
        rows=train.observed.rows,
        dropped=dropped,
        kept_faults=others.faults,
        noted=observed.notes,
        repairs=dict(sorted(observed.repairs.items())),
        warnings=tuple(_warnings(sets, wanted, splits)),
        longest_source=observed.longest[0],
        longest_target=observed.longest[1],
        splits=splits,
    )


def _usable(settings: DataSettings, train: PairSet) -> tuple[np.ndarray, dict[str, Tally]]:
    """Return True for each training pair that is kept, and the tallies of those that are dropped."""
    texts, checks = train.keys()["text"], settings.checks
    kept = first_occurrences(np.ascontiguousarray(texts)) if checks.drop_duplicates else np.ones(len(texts), bool)
    dropped = dict(train.observed.faults)
    if repeated := len(kept) - int(kept.sum()):
        dropped[DUPLICATE] = Tally(pairs=repeated, first=train.origin(int(kept.argmin())))
    placeholders = train.repeating() & kept
    tallies = dropped if checks.drop_placeholders else train.observed.notes
    tallies.update(train.tally(PLACEHOLDER, placeholders))
    return kept & ~placeholders if checks.drop_placeholders else kept, dropped


def _plan_splits(
    settings: DataSettings, sets: Mapping[str, PairSet], dropped: Mapping[str, Tally], pairs: int
) -> tuple[dict[str, int], dict[str, str]]:
    """Return the size of each set that is split off, and the origin of every set."""
    train, separate = sets["train"], {name: pairs for name, pairs in sets.items() if name != "train"}
    asked = {name: getattr(settings, f"{name}_size") for name in ("dev", "test") if name not in separate}
    wanted, sized = held_out_sizes(asked, pairs, HELD_OUT, "pairs each")
    if not pairs:
        why = ", ".join(f"{tally.pairs:,} {reason}" for reason, tally in dropped.items())
        raise DataError(f"none of the {train.observed.rows:,} rows of {train.reading.name} can be used ({why})")
    usable = "1 usable pair" if pairs == 1 else f"{pairs:,} usable pairs"
    refuse_too_few(f"{train.reading.name} holds {usable}", pairs, wanted)
    reason = f"split off with seed {settings.seed}, pairs that share a sentence kept together; {sized}"
    is_named = settings.path != PHRASEBOOK
    origins = {name: f"given: {pairs.reading.name}" if is_named else "given" for name, pairs in separate.items()}
    origins = {"train": "the rest", **dict.fromkeys(wanted, reason), **origins}
    return wanted, {name: origins[name] for name in dict.fromkeys((*SPLITS, *separate))}


def deal_out(whole: Path, numbers: np.ndarray, names: Iterable[str], folder: Path) -> None:
    """Write each line of a file of pairs to the set of its number; those with `DROPPED` to none."""
    with ExitStack() as stack:
        files = {SPLITS[name]: stack.enter_context(split_of(folder, name).open("wb")) for name in names}
        for line, number in zip(stack.enter_context(whole.open("rb")), numbers.tobytes(), strict=True):
            if number != DROPPED:
                files[number].write(line)


def hashes(reading: Reading) -> dict[str, str]:
    """Return file name -> SHA-256; for a data set of the hub, of its address, because the library keeps its files."""
    if not reading.files:
        return {reading.name: hashlib.sha256(f"{reading.name} {reading.reasons['format']}".encode()).hexdigest()}
    files = [file.absolute() for file in reading.files]
    if len({file.drive for file in files}) > 1:  # on Windows: no folder holds them all
        return {file.as_posix(): sha256(file) for file in files}
    folder = os.path.commonpath([file.parent for file in files])
    return {file.relative_to(folder).as_posix(): sha256(file) for file in files}


def _identity(settings: DataSettings, read: Mapping[str, Mapping[str, str]]) -> str:
    """Return a hash of the settings that decide the result, and of the files that were read for each set."""
    inputs = {name: list(files.values()) for name, files in read.items()}
    facts = {"format_number": FORMAT_NUMBER, "settings": lasting(settings), "inputs": inputs}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _report_input(reading: Reading, rows: int, sha256: dict[str, str]) -> InputReport:
    return InputReport(
        name=reading.name,
        format=reading.format,
        columns=reading.columns[:2],
        reasons=dict(reading.reasons),
        sha256=sha256,
        rows=rows,
    )


def _report_splits(splits: Mapping[str, WrittenSplit], origins: Mapping[str, str]) -> dict[str, SplitReport]:
    """Report on each set, and on the sentences that are in two of them."""

    def leaks_from(other_name: str, name: str) -> Leaks:
        source, target = shared_sentences(splits[other_name].sentences, splits[name].sentences)
        places = np.flatnonzero(source | target)
        first = splits[name].origin(int(places[0])) if len(places) else None
        return Leaks(sources=int(source.sum()), targets=int(target.sum()), either=len(places), first=first)

    return {
        name: SplitReport(
            pairs=split.pairs,
            sha256=split.sha256,
            origin=origins[name],
            leaks=None if name == "train" else leaks_from("train", name),
            leaks_from_dev=None if name in ("train", "dev") else leaks_from("dev", name),
        )
        for name, split in splits.items()
    }


def _warnings(
    sets: Mapping[str, PairSet], wanted: Mapping[str, int], splits: Mapping[str, SplitReport]
) -> Iterator[str]:
    train = sets["train"].reading
    for pairs in sets.values():
        yield from pairs.reading.doubts
    for name, pairs in sets.items():
        yield from _warnings_of_rows(name, pairs.observed)
    if UNKNOWN_LANGUAGE in train.languages:
        yield f"{train.name}: the languages are unknown ({UNKNOWN_LANGUAGE}): {train.reasons['languages']}"
    for name, size in wanted.items():
        if splits[name].pairs < size:
            yield (
                f"the {name} set holds {splits[name].pairs:,} pairs, not {size:,}: too many pairs share "
                f"sentences; give a separate set with {name}_path"
            )
    for name, split in splits.items():
        for leaks, where, why in (
            (split.leaks, "training", ""),
            (split.leaks_from_dev, "dev", "the best checkpoint is chosen on dev, so "),
        ):
            if leaks and leaks.either:
                yield (
                    f"{leaks.either:,} of {split.pairs:,} {name} pairs have a sentence that is also in {where} "
                    f"(first at {leaks.first}): {why}a score on them is too high"
                )


def _warnings_of_rows(name: str, observed: Observations) -> Iterator[str]:
    yield from map(str, observed.misaligned[:MISALIGNED_SHOWN])
    if len(observed.misaligned) > MISALIGNED_SHOWN:
        yield f"{len(observed.misaligned) - MISALIGNED_SHOWN:,} more stretches of rows look misaligned"
    is_train, unscored = name == "train", "it is left out of validation"
    for kind, advice in {
        EXCHANGED: "--set data.exchanged=swap corrects them, drop leaves them out" * is_train,
        ONE_LANGUAGE: "",
        PLACEHOLDER: "--set data.checks.drop_placeholders=true leaves them out" * is_train,
        MISREAD: "write the file again, and read its original as UTF-8",
        ENTITIES: "a model would learn to write them; replace them by their characters",
        TAGS: "`translate` takes tags out of a text and puts them back, so a model need not learn them; remove them",
        EMPTY_SOURCES: unscored if name == "dev" else "its translation is empty",
        EMPTY_TARGETS: unscored if name == "dev" else "any translation of it counts as wrong",
    }.items():
        what = kind if kind in (EXCHANGED, ONE_LANGUAGE) else f"{name} pairs have {kind}"
        tally = observed.notes.get(kind)
        if tally and (what != kind or tally.pairs >= LEAST_SHARE * observed.rows):
            counts = f"{tally.pairs:,} of {observed.rows:,} {what} (first at {tally.first})"
            yield f"{counts}{': ' * bool(advice)}{advice}{f'; all lines are in {REPORT}' * bool(tally.lines)}"
