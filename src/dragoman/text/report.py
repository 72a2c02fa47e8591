"""Reports on prepared text: what was read and how, what was dropped and why, what the splits hold.

A report is `data.json` in the folder of the text. There is one for pairs, one for labelled text, one for running text;
`report_rows` makes a table of the report on pairs.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import pydantic

from dragoman.brief import brief
from dragoman.config import Settings, read_json_as
from dragoman.errors import CheckpointError, DataError
from dragoman.files import REPORT
from dragoman.languages import LanguageTag
from dragoman.serialization import read_object
from dragoman.text.labels import Task

FORMAT_NUMBER = 3
"""The format of the report on pairs."""
LABELLED_FORMAT = TEXT_FORMAT = DIRECTIONS_FORMAT = 1


class Tally(Settings):
    """The number of pairs of one kind, and where the first of them is."""

    pairs: int
    first: str
    lines: tuple[str, ...] = ()
    """The places of all of them, for kinds that are listed."""


class Longest(Settings):
    """The longest sentence of one side, in words, then characters."""

    words: int
    characters: int
    text: str
    origin: str


class InputReport(Settings):
    """An input: its name, how it was read, and why."""

    name: str
    format: str
    columns: tuple[str, str]
    reasons: dict[str, str]
    """Why this format, these columns, these languages."""
    sha256: dict[str, str]
    """File name -> SHA-256; for a data set of the hub, of its address."""
    rows: int


class Leaks(Settings):
    """Pairs of a held-out set that share a sentence with another set (case, spacing, final punctuation and Unicode form
    aside)."""

    sources: int
    targets: int
    either: int
    first: str | None
    """The place of the first of them."""


class SplitReport(Settings):
    """A split: its size, its file's SHA-256, its origin, and the leaks into it."""

    pairs: int
    sha256: str
    origin: str
    """`given`, or how it was held out of the training text."""
    leaks: Leaks | None
    """From training; None for training itself."""
    leaks_from_dev: Leaks | None
    """None for training and dev."""


class DataReport(Settings):
    """The report on prepared pairs: `data.json`."""

    __repr__ = brief

    format_number: int
    identity: str
    """Equal for equal inputs and settings, wherever the files lie."""
    settings: dict[str, pydantic.JsonValue]
    source_language: str
    target_language: str
    inputs: dict[str, InputReport]
    rows: int
    """Rows read from the training input."""
    dropped: dict[str, Tally]
    """Reason -> pairs dropped from the training input."""
    kept_faults: dict[str, Tally]
    """Reason -> pairs with the same faults in separate sets, which keep every pair."""
    noted: dict[str, Tally]
    """Kind -> pairs of all inputs that were noted, and left as they are."""
    repairs: dict[str, int]
    """The number of repairs, by kind."""
    warnings: tuple[str, ...]
    longest_source: Longest
    longest_target: Longest
    splits: dict[str, SplitReport]

    def notes(self) -> Iterator[str]:
        """Yield what was dropped, in words."""
        yield from _sets(self.splits, "pairs")
        yield from (f"{kind}: {count:,}" for kind, count in self.repairs.items())
        for reason, tally in self.dropped.items():
            yield f"dropped: {tally.pairs:,} pairs of {self.rows:,}: {reason}, first at {tally.first}"


def read_report(folder: Path | str) -> DataReport:
    """Return the report in a folder of prepared pairs in one direction."""
    report = read_pairs_report(folder)
    if isinstance(report, DirectionsReport):
        example = Path(folder) / "-".join(report.directions[0])
        raise DataError(f"{folder} holds text in several directions; name the folder of one, as in {example}")
    return report


class DirectionsReport(Settings):
    """The report on prepared pairs in several directions: `data.json` of a folder that holds one folder for each, such
    as `en-it`, with its own `DataReport`.
    """

    __repr__ = brief

    format: Literal[1] = DIRECTIONS_FORMAT
    task: Literal["directions"] = "directions"
    """Distinguishes this report from those of other text."""
    identity: str
    """Equal for equal inputs and settings, wherever the files lie."""
    directions: tuple[tuple[LanguageTag, LanguageTag], ...]
    """Source and target language of each direction, in the order in which they were given."""
    warnings: tuple[str, ...] = ()


def read_pairs_report(folder: Path | str) -> DataReport | DirectionsReport:
    """Return the report in a folder of prepared pairs, in one direction or several."""
    path = Path(folder) / REPORT
    try:
        is_of_several = read_object(path).get("task") == "directions"
    except CheckpointError as error:
        raise DataError(str(error)) from None
    if is_of_several:
        return read_json_as(path, DirectionsReport, DIRECTIONS_FORMAT, error=DataError)
    return read_json_as(path, DataReport, FORMAT_NUMBER, number_key="format_number", error=DataError)


def direction_folders(folder: Path | str) -> dict[tuple[str, str], Path]:
    """Return the folder of each direction of prepared pairs; a folder of one direction is its own."""
    folder, report = Path(folder), read_pairs_report(folder)
    if isinstance(report, DataReport):
        return {(report.source_language, report.target_language): folder}
    return {direction: folder / "-".join(direction) for direction in report.directions}


def direction_rows(folder: Path | str) -> Iterator[list[str]]:
    """Yield a row of a table for each direction: its pairs in each set, those that were dropped, and its warnings."""
    for direction, part in direction_folders(folder).items():
        report = read_report(part)
        sizes = (f"{report.splits[name].pairs:,}" if name in report.splits else "" for name in ("train", "dev", "test"))
        dropped = sum(tally.pairs for tally in report.dropped.values())
        yield [" → ".join(direction), *sizes, f"{dropped:,}", f"{len(report.warnings):,}"]


def report_rows(report: DataReport) -> Iterator[tuple[str, str, str]]:
    """Yield the report as a table: what, how much, and why or where."""
    train = report.inputs["train"]
    yield "input", train.name, f"{train.format}: {train.reasons['format']}"
    yield "columns", " → ".join(train.columns), train.reasons["columns"]
    yield "languages", f"{report.source_language} → {report.target_language}", train.reasons["languages"]
    yield "rows read", f"{report.rows:,}", ""
    for kind, count in report.repairs.items():
        yield kind, f"{count:,}", ""
    for reason, tally in report.dropped.items():
        yield f"dropped: {reason}", f"{tally.pairs:,}", f"first at {tally.first}"
    for reason, tally in report.kept_faults.items():
        yield f"kept in given sets: {reason}", f"{tally.pairs:,}", f"first at {tally.first}"
    for kind, tally in report.noted.items():
        yield f"kept: {kind}", f"{tally.pairs:,}", f"first at {tally.first}"
    for name, split in report.splits.items():
        yield name, f"{split.pairs:,} pairs", split.origin
        for place, leaks in (("training", split.leaks), ("dev", split.leaks_from_dev)):
            if leaks and leaks.either:
                count = f"{leaks.either:,} ({100 * leaks.either / max(split.pairs, 1):.1f} %)"
                where = f"{leaks.sources:,} by source, {leaks.targets:,} by target; first at {leaks.first}"
                yield f"{name} pairs found in {place}", count, where
            elif leaks:
                yield f"{name} pairs found in {place}", "0", "no sentence on either side"
    for side, longest in (("source", report.longest_source), ("target", report.longest_target)):
        yield f"longest {side}", f"{longest.words:,} words, {longest.characters:,} characters", f"at {longest.origin}"


class LabelledSplit(Settings):
    """A split: its size, the SHA-256 of its file, and its origin."""

    examples: int = pydantic.Field(ge=0)
    words: int | None
    """The words of all its texts; None where a label belongs to a whole text."""
    sha256: str
    origin: str
    """`given`, `the rest`, or how it was held out of the training text."""


class ExampleTally(Settings):
    """A number of examples with something in common, and the place of the first."""

    count: int = pydantic.Field(ge=1)
    first: str


class LabelledReport(Settings):
    """The report on prepared labelled text: `data.json`."""

    __repr__ = brief

    format: Literal[1] = LABELLED_FORMAT
    task: Task
    """Distinguishes this report from that of pairs and of running text."""
    identity: str
    """A hash, equal for equal text and settings, wherever the files lie."""
    name: str
    """Address of the training text."""
    language: str
    rows: dict[str, int]
    """Examples read from each set, before any is dropped or held out."""
    reasons: dict[str, str]
    """The way in which each of them was read, and why."""
    labels: dict[str, int]
    """Label -> texts, or words, that have it in training; sorted by label."""
    splits: dict[str, LabelledSplit]
    findings: dict[str, ExampleTally]
    """Kind -> examples with something in common."""
    repairs: dict[str, int]
    """The number of repairs, by kind."""
    warnings: tuple[str, ...]

    def notes(self) -> Iterator[str]:
        """Yield how the text was read, and the findings, in words."""
        yield from _sets(self.splits, "examples")
        yield from (f"{name}: {reason}" for name, reason in self.reasons.items())
        yield from (f"{kind}: {tally.count:,}, first at {tally.first}" for kind, tally in self.findings.items())


def read_labelled_report(folder: Path | str) -> LabelledReport:
    """Return the report in a folder of labelled text."""
    return read_json_as(Path(folder) / REPORT, LabelledReport, LABELLED_FORMAT, error=DataError)


class TextSplit(Settings):
    """A split: its size, the SHA-256 of its file, and its origin."""

    characters: int = pydantic.Field(ge=0)
    sha256: str
    origin: str
    """`given`, or the part of the training text that was held out."""


class TextReport(Settings):
    """The report on prepared running text: `data.json`."""

    __repr__ = brief

    format: int
    task: str
    """Always `language_model`; distinguishes this report from that of pairs."""
    identity: str
    """A hash, equal for equal text, wherever the files lie."""
    name: str
    """Address of the training text."""
    language: str
    splits: dict[str, TextSplit]

    @property
    def warnings(self) -> tuple[str, ...]:
        """None: running text is not judged."""
        return ()

    def notes(self) -> Iterator[str]:
        return _sets(self.splits, "characters")


def read_text_report(folder: Path | str) -> TextReport:
    """Return the report in a folder of running text."""
    return read_json_as(Path(folder) / REPORT, TextReport, TEXT_FORMAT, error=DataError)


def _sets(splits: Mapping[str, SplitReport | LabelledSplit | TextSplit], unit: str) -> Iterator[str]:
    """Yield all sets with their origins, in one line, if any was given separately."""
    if any(split.origin.startswith("given:") for name, split in splits.items() if name != "train"):
        yield ", ".join(f"{name} {getattr(split, unit):,} {unit} ({split.origin})" for name, split in splits.items())
