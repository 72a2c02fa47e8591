"""Prepares parallel text: streams each input once into a `PairSet`, splits it, and reports on it.

The split follows from the keys of the pairs. Then the lines of the training text are distributed to its sets.
"""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path

import numpy as np

from dragoman.errors import DataError
from dragoman.files import REPORT, remove, sha256
from dragoman.languages import UNKNOWN_LANGUAGE, base_language
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
    read_pairs_report,
    read_report,
)
from dragoman.text.settings import PHRASEBOOK, DataSettings, lasting
from dragoman.text.split import (
    DEV,
    TEST,
    TRAIN,
    Keys,
    assign,
    first_occurrences,
    held_out_sizes,
    in_language,
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

    read_report = staticmethod(read_pairs_report)

    def __init__(self, settings: DataSettings, inputs: Mapping[str, Reading], progress: Progress) -> None:
        self.settings, self._inputs, self._progress = settings, inputs, progress

    @cached_property
    def identity(self) -> str:
        """A hash of the pairs and of the settings that decide the result, wherever the files lie."""
        return _identity(self.settings, {name: hashes(reading) for name, reading in self._inputs.items()})

    def changes(self, report: DataReport) -> list[str]:
        """Return the differences from the text of a report, in words."""
        before, now = report.settings, lasting(self.settings)
        keys = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
        differences = [f"{key} was {before.get(key)}, is {now.get(key)}" for key in keys]
        read = {name: list(hashes(reading).values()) for name, reading in self._inputs.items()}
        known = {name: list(described.sha256.values()) for name, described in report.inputs.items()}
        names = sorted(name for name in known.keys() | read.keys() if known.get(name) != read.get(name))
        return differences + [f"the {name} text changed" for name in names]

    def fill(self, folder: Path) -> DataReport:
        """Write the splits into a new folder."""
        if report := self.copied(folder):
            return report
        split = PairSplit(self.settings, self.read_sets(folder))
        split.assign_alone()
        return split.write(folder)

    def read_sets(self, folder: Path) -> dict[str, PairSet]:
        """Read and check all text, and write it into a folder: separate sets, and the training text as one."""
        for name, reading in self._inputs.items():
            chosen = "; ".join(f"{choice}: {reason}" for choice, reason in reading.reasons.items())
            log.info("%s: %s", name, chosen)
        checks, train = self.settings.checks, self._inputs["train"]
        side_languages = learn_side_languages(train, checks)
        sets = {
            name: PairSet(reading, split_of(folder, name), checks, side_languages, keep_all=True)
            for name, reading in self._inputs.items()
        }
        sets["train"] = PairSet(
            train, folder / "whole.jsonl", checks, side_languages, keep_all=False, exchanged=self.settings.exchanged
        )
        for pairs in sets.values():
            pairs.fill(self._progress)
        return sets

    def copied(self, folder: Path) -> DataReport | None:
        """Copy text that is prepared data, if its splits are unchanged and all wanted, by the same rules."""
        settings = self.settings
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


class PairSplit:
    """The split of pairs that were read. `sizes` are those of the sets that are split off; once it is assigned,
    `numbers` holds the set of each pair of the training text (`SPLITS` or `DROPPED`).
    """

    def __init__(self, settings: DataSettings, sets: Mapping[str, PairSet]) -> None:
        self.settings, self.sets, self.train = settings, sets, sets["train"]
        self.languages = list(map(base_language, self.train.reading.languages))
        self.separate = {name: pairs for name, pairs in sets.items() if name != "train"}
        self._kept, self._dropped = _usable(settings, self.train)
        for pairs in self.separate.values():
            pairs.observed.notes.update(pairs.tally(PLACEHOLDER, pairs.repeating()))
        self.sizes, self._origins = self._plan(int(self._kept.sum()))
        self.numbers = np.full(len(self._kept), DROPPED, np.uint8)

    def _plan(self, pairs: int) -> tuple[dict[str, int], dict[str, str]]:
        """Return the size of each set that is split off, and the origin of every set."""
        settings, train, separate = self.settings, self.train, self.separate
        asked = {name: getattr(settings, f"{name}_size") for name in ("dev", "test") if name not in separate}
        wanted, sized = held_out_sizes(asked, pairs, HELD_OUT, "pairs each")
        if not pairs:
            why = ", ".join(f"{tally.pairs:,} {reason}" for reason, tally in self._dropped.items())
            raise DataError(f"none of the {train.observed.rows:,} rows of {train.reading.name} can be used ({why})")
        usable = "1 usable pair" if pairs == 1 else f"{pairs:,} usable pairs"
        refuse_too_few(f"{train.reading.name} holds {usable}", pairs, wanted)
        reason = f"split off with seed {settings.seed}, pairs that share a sentence kept together; {sized}"
        is_named = settings.path != PHRASEBOOK
        origins = {name: f"given: {pairs.reading.name}" if is_named else "given" for name, pairs in separate.items()}
        origins = {"train": "the rest", **dict.fromkeys(wanted, reason), **origins}
        return wanted, {name: origins[name] for name in dict.fromkeys((*SPLITS, *separate))}

    @property
    def sentences(self) -> tuple[Keys, Keys]:
        """The keys of the sources and targets that are kept."""
        sources, targets = (keys if self._kept.all() else keys[self._kept] for keys in self.train.sentences)
        return sources, targets

    def assign(self, sides: np.ndarray) -> None:
        """Give each pair that is kept its set."""
        self.numbers[self._kept] = sides

    def assign_alone(self) -> None:
        separate = [pairs.sentences for pairs in self.separate.values()]
        dev, test = (self.sizes.get(name, 0) for name in ("dev", "test"))
        self.assign(assign(*self.sentences, dev, test, self.settings.seed, separate))

    def sentences_of(self, name: str) -> tuple[Keys, Keys]:
        """Return the keys of the sources and targets of one set, made `in_language`."""
        own = self.separate.get(name)
        keys = own.sentences if own else (side[self.numbers == SPLITS[name]] for side in self.train.sentences)
        sources, targets = map(in_language, keys, self.languages)
        return sources, targets

    def write(self, folder: Path, known: Mapping[str, Keys] | None = None) -> DataReport:
        """Write the sets that are split off, and report on all. `known` holds the sentences of sets in all directions,
        if there are several.
        """
        names = ["train", *self.sizes]
        deal_out(self.train.path, self.numbers, names, folder)
        read = {name: hashes(pairs.reading) for name, pairs in self.sets.items()}
        report = self.report(read, {name: sha256(split_of(folder, name)) for name in names}, known)
        for path in (self.train.path, *(pairs.keys_path for pairs in self.sets.values())):
            remove(path)
        return report

    def report(
        self, read: Mapping[str, dict[str, str]], written: Mapping[str, str], known: Mapping[str, Keys] | None = None
    ) -> DataReport:
        """Report on all sets. `read` holds the SHA-256 of each set's files, `written` that of each set split off."""

        def split(name: str) -> WrittenSplit:
            if own := self.separate.get(name):
                return WrittenSplit(len(own.keys()), sha256(own.path), self.sentences_of(name), own.origin)
            rows, origin = np.flatnonzero(self.numbers == SPLITS[name]), self.train.origin
            return WrittenSplit(
                len(rows), written[name], self.sentences_of(name), lambda index: origin(int(rows[index]))
            )

        splits = _report_splits({name: split(name) for name in self._origins}, self._origins, known or {})
        others = Observations.merged([pairs.observed for pairs in self.separate.values()])
        observed = Observations.merged([pairs.observed for pairs in self.sets.values()])
        return DataReport(
            format_number=FORMAT_NUMBER,
            identity=_identity(self.settings, read),
            settings=lasting(self.settings),
            source_language=self.train.reading.languages[0],
            target_language=self.train.reading.languages[1],
            inputs={
                name: _report_input(pairs.reading, pairs.observed.rows, read[name]) for name, pairs in self.sets.items()
            },
            rows=self.train.observed.rows,
            dropped=self._dropped,
            kept_faults=others.faults,
            noted=observed.notes,
            repairs=dict(sorted(observed.repairs.items())),
            warnings=tuple(_warnings(self.sets, self.sizes, splits)),
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


def _report_splits(
    splits: Mapping[str, WrittenSplit], origins: Mapping[str, str], known: Mapping[str, Keys]
) -> dict[str, SplitReport]:
    """Report on each set, and on its sentences that are in another."""
    sentences = {name: split.sentences for name, split in splits.items()} | {
        name: (keys, keys) for name, keys in known.items()
    }

    def leaks_from(other_name: str, name: str) -> Leaks:
        source, target = shared_sentences(sentences[other_name], splits[name].sentences)
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
        is_guess = kind in (EXCHANGED, ONE_LANGUAGE)
        tally = observed.notes.get(kind)
        if tally and (not is_guess or tally.pairs >= LEAST_SHARE * observed.rows):
            counts = f"{tally.pairs:,} of {observed.rows:,}"
            warning = f"{counts} {kind}" if is_guess else f"{kind} in {counts} {name} rows"
            warning += f" (first at {tally.first})"
            yield f"{warning}{': ' * bool(advice)}{advice}{f'; all lines are in {REPORT}' * bool(tally.lines)}"
