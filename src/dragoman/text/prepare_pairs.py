"""Parallel text on its way into a folder: each input is streamed once, mended, judged and written aside as JSON lines.

The keys of the pairs are written beside them, so that memory does not grow with the text. From the keys follow the
duplicates, the split and its leaks. Then the lines are dealt out.
"""

import hashlib
import json
import logging
import os
import shutil
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from sys import intern
from typing import IO, Any, NamedTuple

import numpy as np

from dragoman.errors import DataError
from dragoman.files import remove, sha256
from dragoman.languages import UNKNOWN_LANGUAGE
from dragoman.progress import Progress
from dragoman.run_folder import split_of
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
    DUPLICATE,
    HEADER,
    LINE_BREAKS,
    MISREAD,
    OTHER_LANGUAGE,
    PLACEHOLDER,
    SPREADSHEET,
    CheckSettings,
    fault,
    has_entity,
    is_misread,
    mend,
)
from dragoman.text.detection import ColumnLanguage, Direction, Guess, best_guess, find_direction, lean
from dragoman.text.prepared import parts_of
from dragoman.text.readers import Pair, Reading
from dragoman.text.report import (
    FORMAT_NUMBER,
    REPORT,
    DataReport,
    InputReport,
    Leaks,
    Longest,
    SplitReport,
    Tally,
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
    one_form,
    repeating,
    sentence_key,
    shared_sentences,
    text_key,
    words_key,
)

ENTITIES = "HTML entities such as &amp;"
EMPTY_SOURCES = "an empty source"
EMPTY_TARGETS = "an empty reference"

HELD_OUT = 0.05
"""Share of the pairs that is held out for dev, and the same again for test."""
MISALIGNED_SHOWN = 5
"""Stretches of misaligned rows that are warned of one by one."""
SIDES_SHARE = 0.001
"""The share of rows in a wrong language that is worth a warning; in real text it was 0.00003."""
SPLITS = {"train": TRAIN, "dev": DEV, "test": TEST}
DROPPED = 255
"""The number of a pair that is in no split."""

KEYS = np.dtype([("place", "<u8"), ("text", "<u8"), ("keys", "<u8", 2), ("words", "<u8", 2), ("lengths", "<u4", 2)])
"""The record of a pair: its file and line, a key of its text; for each side a key, a key of its words, its length."""
_PACKED_KEYS = struct.Struct("<6Q2I")
SWAPPED = "rows whose sides looked exchanged, swapped back"
LISTED = (EXCHANGED, SWAPPED, ONE_LANGUAGE, OTHER_LANGUAGE, SPREADSHEET, LINE_BREAKS, MISREAD)
"""Kinds of pairs whose lines are all reported."""
CLEARLY = 3.0  # nats by which both sides of a row must be likelier in each other's language, as py3langid says
ENOUGH = 50
"""Characters of a text that tell enough of its language."""
LINE_BITS = 40
"""Of a place: the number of a line in its file; the number of the file stands above it."""
_ADVANCE_EVERY = 1000
_JSON = json.JSONEncoder(ensure_ascii=False)

log = logging.getLogger(__name__)


class PairText:
    """Pairs of the training text, as `train`, and of the sets beside it."""

    read_report = staticmethod(read_report)

    def __init__(self, settings: DataSettings, inputs: Mapping[str, Reading], progress: Progress) -> None:
        self._settings, self._inputs, self._progress = settings, inputs, progress

    @cached_property
    def identity(self) -> str:
        """A hash of the pairs and of the settings that decide the result, wherever the files lie."""
        return _identity(self._settings, {name: hashes(reading) for name, reading in self._inputs.items()})

    def changes(self, report: DataReport) -> list[str]:
        """The differences from the text of a report, in words."""
        before, now = report.settings, lasting(self._settings)
        keys = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
        differences = [f"{key} was {before.get(key)}, is {now.get(key)}" for key in keys]
        read = {name: list(hashes(reading).values()) for name, reading in self._inputs.items()}
        known = {name: list(given.sha256.values()) for name, given in report.inputs.items()}
        names = sorted(name for name in known.keys() | read.keys() if known.get(name) != read.get(name))
        return differences + [f"the {name} text changed" for name in names]

    def fill(self, folder: Path) -> DataReport:
        """Writes the splits into a new folder."""
        for name, reading in self._inputs.items():
            chosen = "; ".join(f"{choice}: {reason}" for choice, reason in reading.reasons.items())
            log.info("%s: %s", name, chosen)
        return self._taken_over(folder) or self._prepared(folder)

    def _taken_over(self, folder: Path) -> DataReport | None:
        """Copies prepared data that is given as text: if its splits are unchanged, all of them are wanted, and the
        rules are the same.
        """
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
                    name: _describe(reading, report.splits[name].pairs, hashes(reading))
                    for name, reading in self._inputs.items()
                },
            }
        )

    def _prepared(self, folder: Path) -> DataReport:
        checks, train = self._settings.checks, self._inputs["train"]
        usual = learn_usual(train, checks)
        sets = {
            name: PairSet(reading, split_of(folder, name), checks, usual, keep_all=True)
            for name, reading in self._inputs.items()
        }
        sets["train"] = PairSet(train, folder / "whole.jsonl", checks, usual, False, self._settings.exchanged)
        for pairs in sets.values():
            pairs.take_in(self._progress)
        read = {name: hashes(pairs.reading) for name, pairs in sets.items()}

        def write(numbers: np.ndarray, names: Sequence[str]) -> dict[str, str]:
            deal_out(sets["train"].path, numbers, names, folder)
            remove(sets["train"].path)
            return {name: sha256(split_of(folder, name)) for name in names}

        report = split_pairs(self._settings, sets, read, write)
        for pairs in sets.values():
            pairs.forget_keys()
        return report


def split_pairs(
    settings: DataSettings,
    sets: Mapping[str, "PairSet"],
    read: Mapping[str, dict[str, str]],
    write: Callable[[np.ndarray, Sequence[str]], Mapping[str, str]],
) -> DataReport:
    """Splits the training text by its keys, has it written, and reports on all sets.

    `read` holds the SHA-256 of each set's files. `write` is given the number of each pair (`SPLITS` or `DROPPED`) and
    the names of the sets that the pairs are dealt to; it returns the SHA-256 of what it has written for each.
    """
    train = sets["train"]
    beside = {name: pairs for name, pairs in sets.items() if name != "train"}
    texts = train.keys()["text"]
    drops = settings.checks.drop_duplicates
    kept = first_occurrences(np.ascontiguousarray(texts)) if drops else np.ones(len(texts), bool)
    dropped = dict(train.seen.faults)
    if repeated := len(kept) - int(kept.sum()):
        dropped[DUPLICATE] = Tally(pairs=repeated, first=train.origin(int(kept.argmin())))
    says_nothing = train.repeating() & kept
    if settings.checks.drop_placeholders:
        kept &= ~says_nothing
    (dropped if settings.checks.drop_placeholders else train.seen.notes).update(train.tally(PLACEHOLDER, says_nothing))
    for pairs in beside.values():
        pairs.seen.notes.update(pairs.tally(PLACEHOLDER, pairs.repeating()))
    sources, targets = (keys if kept.all() else keys[kept] for keys in train.sentences)
    wanted, origins = _what_is_held_out(settings, sets, dropped, len(sources))
    numbers = np.full(len(kept), DROPPED, np.uint8)
    sentences = [pairs.sentences for pairs in beside.values()]
    numbers[kept] = assign(sources, targets, wanted.get("dev", 0), wanted.get("test", 0), settings.seed, sentences)
    written = write(numbers, ["train", *wanted])

    def dealt(name: str) -> Split:
        if name in beside:
            return beside[name].whole()
        chosen = numbers == SPLITS[name]
        one, other = (keys[chosen] for keys in train.sentences)
        rows = np.flatnonzero(chosen)
        return Split(len(one), written[name], (one, other), lambda row: train.origin(int(rows[row])))

    splits = _split_reports({name: dealt(name) for name in origins}, origins)
    inputs = {name: _describe(pairs.reading, pairs.seen.rows, read[name]) for name, pairs in sets.items()}
    return _report(settings, sets, _identity(settings, read), inputs, dropped, wanted, splits)


def _what_is_held_out(
    settings: DataSettings, sets: Mapping[str, "PairSet"], dropped: Mapping[str, Tally], pairs: int
) -> tuple[dict[str, int], dict[str, str]]:
    """The size of each set that is split off so many pairs, and where each set comes from.

    Raises:
        DataError: the pairs are too few.
    """
    train, beside = sets["train"], {name: given for name, given in sets.items() if name != "train"}
    asked = {name: getattr(settings, f"{name}_size") for name in ("dev", "test") if name not in beside}
    wanted, sized = held_out_sizes(asked, pairs, HELD_OUT, "pairs each")
    _refuse_too_few(train, dropped, pairs, wanted)
    reason = f"split off with seed {settings.seed}, pairs that share a sentence kept together; {sized}"
    is_own = settings.path != PHRASEBOOK
    given = {name: "given" + f": {pairs.reading.name}" * is_own for name, pairs in beside.items()}
    origins = {"train": "the rest", **dict.fromkeys(wanted, reason), **given}
    return wanted, {name: origins[name] for name in dict.fromkeys((*SPLITS, *given))}


def _report(
    settings: DataSettings,
    sets: Mapping[str, "PairSet"],
    identity: str,
    inputs: dict[str, InputReport],
    dropped: dict[str, Tally],
    wanted: Mapping[str, int],
    splits: dict[str, SplitReport],
) -> DataReport:
    """The report on prepared pairs, with its warnings."""
    train = sets["train"]
    repairs = Counter[str]()
    for pairs in sets.values():
        repairs.update(pairs.seen.repairs)
    return DataReport(
        format_number=FORMAT_NUMBER,
        identity=identity,
        settings=lasting(settings),
        source_language=train.reading.languages[0],
        target_language=train.reading.languages[1],
        inputs=inputs,
        rows=train.seen.rows,
        dropped=dropped,
        kept_faults=_merged_tallies(pairs.seen.faults for name, pairs in sets.items() if name != "train"),
        noted=_merged_tallies(pairs.seen.notes for pairs in sets.values()),
        repairs=dict(sorted((+repairs).items())),
        warnings=tuple(_warnings(sets, wanted, splits)),
        longest_source=_longest(pairs.seen.longest[0] for pairs in sets.values()),
        longest_target=_longest(pairs.seen.longest[1] for pairs in sets.values()),
        splits=splits,
    )


@dataclass
class Seen:
    """What was met in an input, or in a part of it."""

    rows: int = 0
    repairs: Counter[str] = field(default_factory=Counter)
    """How often something was mended, by kind."""
    faults: dict[str, Tally] = field(default_factory=dict)
    """The pairs that break a rule, by reason, in the order in which they were first met."""
    notes: dict[str, Tally] = field(default_factory=dict)
    """What was noted and left as it is, by kind, in the same order."""
    longest: list[Longest] = field(default_factory=lambda: [Longest(words=0, characters=0, text="", origin="")] * 2)
    """The longest sentence of each side."""
    misaligned: list[Misalignment] = field(default_factory=list)

    @classmethod
    def merged(cls, parts: Sequence["Seen"]) -> "Seen":
        """What was met in all the parts, in their order."""
        return cls(
            rows=sum(part.rows for part in parts),
            repairs=sum((part.repairs for part in parts), Counter()),
            faults=_merged_tallies(part.faults for part in parts),
            notes=_merged_tallies(part.notes for part in parts),
            longest=[_longest([part.longest[side] for part in parts]) for side in (0, 1)],
            misaligned=[stretch for part in parts for stretch in part.misaligned],
        )


class PairSet:
    """An input on its way to the disk: a file of pairs, their keys, and what was met on the way. Pairs that break a
    rule are dropped, or with `keep_all` only counted.
    """

    def __init__(
        self,
        reading: Reading,
        path: Path,
        checks: CheckSettings,
        usual: "Usual",
        keep_all: bool,
        exchanged: str | None = None,
    ) -> None:
        self.reading, self.path, self.seen = reading, path, Seen()
        self._checks, self._usual, self._keep_all, self._exchanged = checks, usual, keep_all, exchanged
        self._lines: defaultdict[str, list[str]] = defaultdict(list)
        self.names = [file.name for file in reading.files] or [Path(reading.name).name]
        self._header = sorted(reading.columns[:2])
        self._places = {name: self.names.index(name) << LINE_BITS for name in self.names}

    def take_in(self, progress: Progress) -> None:
        """Streams the input to the disk."""
        detector = AlignmentDetector()
        with (
            self.path.open("wb") as lines,
            self.keys_path.open("wb") as keys,
            progress.track(f"read {self.reading.name}", unit="pairs") as advance,
        ):
            for pair in self.reading:
                self._take(pair, lines, keys, detector)
                if self.seen.rows % _ADVANCE_EVERY == 0:
                    advance(_ADVANCE_EVERY)
            advance(self.seen.rows % _ADVANCE_EVERY)
        self.seen.misaligned = detector.finish()
        self.seen.repairs.update(self.reading.repairs)
        for kind, lines in self._lines.items():
            counts = self.seen.faults if kind in self.seen.faults else self.seen.notes
            counts[kind] = counts[kind].but(lines=tuple(lines))

    @property
    def sentences(self) -> tuple[Keys, Keys]:
        """A key of each pair's source and target sentence."""
        source, target = self.keys()["keys"].T
        return source, target

    def repeating(self) -> np.ndarray:
        """Return True for each pair with a text whose many partners do not resemble each other."""
        # read in any order, which takes half the time
        columns = (np.ascontiguousarray(self.keys()[name].T) for name in ("keys", "words", "lengths"))
        (source, target), (source_words, target_words), (one, other) = columns
        return repeating(source, target, target_words, one, other) | repeating(target, source, source_words, other, one)

    def tally(self, kind: str, chosen: np.ndarray) -> dict[str, Tally]:
        """Count the pairs that are `chosen`, by True, as a kind, unless there are none."""
        lines = tuple(self.origin(int(row)) for row in np.flatnonzero(chosen))
        return {kind: Tally(pairs=len(lines), first=lines[0], lines=lines)} if lines else {}

    def origin(self, index: int) -> str:
        """Where the pair number `index`, from 0, stood in the input."""
        place = int(self.keys()["place"][index])
        return f"{self.names[place >> LINE_BITS]}:{place & (1 << LINE_BITS) - 1}"

    def whole(self) -> "Split":
        """All of its pairs as a set."""
        return Split(len(self.keys()), sha256(self.path), self.sentences, self.origin)

    def forget_keys(self) -> None:
        remove(self.keys_path)

    @property
    def keys_path(self) -> Path:
        """The file of what is kept of each pair (`KEYS`)."""
        return self.path.with_suffix(".keys")

    def keys(self) -> np.ndarray:
        """What is kept of each pair (`KEYS`)."""
        return np.memmap(self.keys_path, KEYS, "r") if self.keys_path.stat().st_size else np.empty(0, KEYS)

    def _take(self, pair: Pair, lines: IO[bytes], keys: IO[bytes], detector: AlignmentDetector) -> None:
        self.seen.rows += 1
        origin = pair.origin
        source = mend(pair.source, self.seen.repairs)
        target = mend(pair.target, self.seen.repairs)
        words = words_of(source), words_of(target)
        reason = pair.fault or fault(source, target, self._checks)
        if sorted((source, target)) == self._header:
            reason = HEADER
        verdict = None if reason else self._usual.verdict(source, target, *words)
        straight = (target, source, words[::-1]) if verdict == EXCHANGED else (source, target, words)
        detector.see(*straight, origin)
        if verdict == OTHER_LANGUAGE and self._checks.drop_other_languages:
            reason = OTHER_LANGUAGE
        elif verdict == EXCHANGED and self._exchanged == "drop":
            reason = EXCHANGED
        elif verdict == EXCHANGED and self._exchanged == "swap":
            source, target, words, verdict = target, source, words[::-1], SWAPPED
        if reason:
            self._count(self.seen.faults, reason, origin)
        if self._keep_all or not reason:
            self._note(source, target, origin)
            lines.write(_JSON.encode([source, target]).encode() + b"\n")
            keys.write(self._keys(source, target, words, origin))
            self._measure(0, source, origin)
            self._measure(1, target, origin)
        if verdict and not reason:
            self._count(self.seen.notes, verdict, origin)
        if "\n" in pair.source or "\n" in pair.target:
            self._count(self.seen.notes, LINE_BREAKS, origin)

    def _note(self, source: str, target: str, origin: str) -> None:
        if not target:
            self._count(self.seen.notes, EMPTY_TARGETS, origin)
        if not source:
            self._count(self.seen.notes, EMPTY_SOURCES, origin)
        if has_entity(source) or has_entity(target):
            self._count(self.seen.notes, ENTITIES, origin)
        if is_misread(source) or is_misread(target):
            self._count(self.seen.notes, MISREAD, origin)

    def _count(self, counts: dict[str, Tally], kind: str, origin: str) -> None:
        before = counts.get(kind) or Tally(pairs=0, first=origin)
        counts[kind] = Tally(pairs=before.pairs + 1, first=before.first)
        if kind in LISTED:
            self._lines[kind].append(origin)

    def _keys(self, source: str, target: str, words: Sequence[Sequence[str]], origin: str) -> bytes:
        name, _, number = origin.rpartition(":")
        place = self._places[name] | int(number)
        plain = _JSON.encode([one_form(source), one_form(target)])
        keys = sentence_key(source), sentence_key(target), *(words_key(side[:LONGEST]) for side in words)
        return _PACKED_KEYS.pack(place, text_key(plain), *keys, len(source), len(target))

    def _measure(self, side: int, text: str, origin: str) -> None:
        longest = self.seen.longest[side]
        if (len(text) + 1) // 2 < longest.words:  # it cannot have more words
            return
        words = len(text.split())
        if (words, len(text)) > (longest.words, longest.characters):
            self.seen.longest[side] = Longest(words=words, characters=len(text), text=text, origin=origin)


def hashes(reading: Reading) -> dict[str, str]:
    """File name -> SHA-256. A data set of the hub is identified by its address, because the library keeps its files."""
    if not reading.files:
        return {reading.name: hashlib.sha256(f"{reading.name} {reading.reasons['format']}".encode()).hexdigest()}
    files = [file.absolute() for file in reading.files]
    if len({file.drive for file in files}) > 1:  # on Windows: no folder holds them all
        return {file.as_posix(): sha256(file) for file in files}
    folder = os.path.commonpath([file.parent for file in files])
    return {file.relative_to(folder).as_posix(): sha256(file) for file in files}


def _identity(settings: DataSettings, read: Mapping[str, Mapping[str, str]]) -> str:
    """A hash of the settings that decide the result, and of the files that were read for each set."""
    inputs = {name: list(files.values()) for name, files in read.items()}
    facts = {"format_number": FORMAT_NUMBER, "settings": lasting(settings), "inputs": inputs}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _describe(reading: Reading, rows: int, sha256: dict[str, str]) -> InputReport:
    """What the report says of an input."""
    return InputReport(
        name=reading.name,
        format=reading.format,
        columns=reading.columns[:2],
        reasons=dict(reading.reasons),
        sha256=sha256,
        rows=rows,
    )


class Usual(NamedTuple):
    """What the first rows show about both sides: the words that are typical of each, and their languages."""

    words: WordEvidence
    languages: tuple[ColumnLanguage, ColumnLanguage]
    direction: Direction | None

    def verdict(self, source: str, target: str, source_words: list[str], target_words: list[str]) -> str | None:
        """What looks wrong with the languages of a row, or None."""
        verdict = self.words.verdict(source_words, target_words)
        is_unclear = self.words.lean(source_words) - self.words.lean(target_words) < CLEAR
        if verdict is None and self.direction and is_unclear:
            leans = lean(source, self.direction), lean(target, self.direction)
            verdict = EXCHANGED if leans[0] < 0 < leans[1] and leans[1] - leans[0] > CLEARLY else None
        if verdict == EXCHANGED:
            return verdict
        one, other = self.languages
        return OTHER_LANGUAGE if one.lacks(source, source_words) or other.lacks(target, target_words) else verdict


def learn_usual(reading: Reading, checks: CheckSettings) -> Usual:
    """Learn from the first usable rows."""
    rows, guesses, once = list[tuple[Words, Words]](), list[tuple[Guess, Guess]](), dict[tuple[Guess, Guess], Any]()
    mended = ([mend(side, Counter()) for side in (pair.source, pair.target)] for pair in reading)
    for source, target in islice((sides for sides in mended if not fault(sides[0], sides[1], checks)), LEARN_ROWS):
        one, other = (tuple(map(intern, words_of(side)[:LONGEST])) for side in (source, target))
        guess = best_guess(source[:ENOUGH]), best_guess(target[:ENOUGH])
        rows.append((one, other))
        guesses.append(once.setdefault(guess, guess))  # equal ones share memory, as interned words do
    direction, exchanged = find_direction(reading.languages, guesses)
    columns = ColumnLanguage(reading.languages[0]), ColumnLanguage(reading.languages[1])
    for words, sides, is_exchanged in zip(rows, guesses, exchanged, strict=True):
        for column, guess, text in zip(columns, sides, words, strict=True) if not is_exchanged else ():
            column.learn(guess, text)
    return Usual(learn_evidence(rows, exchanged), columns, direction)


def _refuse_too_few(train: PairSet, dropped: Mapping[str, Tally], pairs: int, wanted: Mapping[str, int]) -> None:
    """Refuses training text of which so few pairs can be used that nothing is left beside the sets split off."""
    if not pairs:
        why = ", ".join(f"{tally.pairs:,} {reason}" for reason, tally in dropped.items())
        raise DataError(f"none of the {train.seen.rows:,} rows of {train.reading.name} can be used ({why})")
    if pairs <= sum(wanted.values()):
        sizes = " and ".join(f"{size:,} for {name}" for name, size in wanted.items())
        usable = "1 usable pair" if pairs == 1 else f"{pairs:,} usable pairs"
        raise DataError(
            f"{train.reading.name} holds {usable}: too few to split off {sizes}; give more text, or smaller sets"
        )


def deal_out(whole: Path, numbers: np.ndarray, names: Iterable[str], folder: Path) -> None:
    """Writes each line of a file of pairs to the set of its number; those with `DROPPED` to none."""
    with ExitStack() as stack:
        files = {SPLITS[name]: stack.enter_context(split_of(folder, name).open("wb")) for name in names}
        for line, number in zip(stack.enter_context(whole.open("rb")), numbers.tobytes(), strict=True):
            if number != DROPPED:
                files[number].write(line)


class Split(NamedTuple):
    """A set that is written."""

    pairs: int
    sha256: str
    sentences: tuple[Keys, Keys]
    """The keys of its sources and targets."""
    origin: Callable[[int], str]
    """Where its pair number so and so, from 0, stood in the input."""


def _split_reports(splits: Mapping[str, Split], origins: Mapping[str, str]) -> dict[str, SplitReport]:
    """What the report says of each set, and of the sentences that stand in two of them."""

    def leaks_from(other: str, name: str) -> Leaks:
        source, target = shared_sentences(splits[other].sentences, splits[name].sentences)
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


def _longest(sentences: Iterable[Longest]) -> Longest:
    return max(sentences, key=lambda sentence: (sentence.words, sentence.characters))


def _merged_tallies(counts: Iterable[Mapping[str, Tally]]) -> dict[str, Tally]:
    total: dict[str, Tally] = {}
    for tallies in counts:
        for reason, tally in tallies.items():
            before = total.get(reason) or Tally(pairs=0, first=tally.first)
            lines = before.lines + tally.lines
            total[reason] = Tally(pairs=before.pairs + tally.pairs, first=before.first, lines=lines)
    return total


def _warnings(
    sets: Mapping[str, PairSet], wanted: Mapping[str, int], splits: Mapping[str, SplitReport]
) -> Iterator[str]:
    train = sets["train"].reading
    for pairs in sets.values():
        yield from pairs.reading.doubts
    for name, pairs in sets.items():
        yield from _of_input(name, pairs)
    if UNKNOWN_LANGUAGE in train.languages:
        yield f"{train.name}: the languages are unknown ({UNKNOWN_LANGUAGE}): {train.reasons['languages']}"
    for name, size in wanted.items():
        if splits[name].pairs < size:
            yield (
                f"the {name} set holds {splits[name].pairs:,} pairs, not {size:,}: too many pairs share "
                f"sentences; give a set of its own with {name}_path"
            )
    for name, split in splits.items():
        for leaks, where, why in (
            (split.leaks, "training", ""),
            (split.leaks_from_dev, "dev", "the best checkpoint is chosen on dev, so "),
        ):
            if leaks and leaks.either:
                yield (
                    f"{leaks.either:,} of {split.pairs:,} {name} pairs have a sentence that stands in {where} too "
                    f"(first at {leaks.first}): {why}a score on them flatters"
                )


def _of_input(name: str, pairs: PairSet) -> Iterator[str]:
    """Yield warnings about the rows of a set; those of a given one are all kept, so that other files stay aligned."""
    yield from map(str, pairs.seen.misaligned[:MISALIGNED_SHOWN])
    if len(pairs.seen.misaligned) > MISALIGNED_SHOWN:
        yield f"{len(pairs.seen.misaligned) - MISALIGNED_SHOWN:,} more stretches of rows look misaligned"
    is_train, unscored = name == "train", "it is left out of validation"
    for kind, advice in {
        EXCHANGED: "--set data.exchanged=swap turns them round, drop leaves them out" * is_train,
        ONE_LANGUAGE: "",
        PLACEHOLDER: "--set data.checks.drop_placeholders=true leaves them out" * is_train,
        MISREAD: "write the file again, and read its original as UTF-8",
        ENTITIES: "a model would learn to write them; replace them by their characters",
        EMPTY_SOURCES: unscored if name == "dev" else "its translation is empty",
        EMPTY_TARGETS: unscored if name == "dev" else "any translation of it counts as wrong",
    }.items():
        what = kind if kind in (EXCHANGED, ONE_LANGUAGE) else f"{name} pairs have {kind}"
        tally = pairs.seen.notes.get(kind)
        if tally and (what != kind or tally.pairs >= SIDES_SHARE * pairs.seen.rows):
            counts = f"{tally.pairs:,} of {pairs.seen.rows:,} {what} (first at {tally.first})"
            yield f"{counts}{': ' * bool(advice)}{advice}{f'; all lines stand in {REPORT}' * bool(tally.lines)}"
