"""The report on prepared pairs, made from what was observed in all sets, with its warnings."""

from collections.abc import Iterator, Mapping

import numpy as np

from dragoman.languages import UNKNOWN_LANGUAGE
from dragoman.text.alignment import EXCHANGED, ONE_LANGUAGE
from dragoman.text.checks import MISREAD, PLACEHOLDER
from dragoman.text.pair_set import EMPTY_SOURCES, EMPTY_TARGETS, ENTITIES, Observations, PairSet, WrittenSplit
from dragoman.text.readers import Reading
from dragoman.text.report import FORMAT_NUMBER, REPORT, DataReport, InputReport, Leaks, SplitReport, Tally
from dragoman.text.settings import DataSettings, lasting
from dragoman.text.split import shared_sentences

MISALIGNED_SHOWN = 5
"""Stretches of misaligned rows that are warned of one by one."""
LEAST_SHARE = 0.001
"""The share of rows in a wrong language that is worth a warning; in real text it was 0.00003."""


def make_report(
    settings: DataSettings,
    sets: Mapping[str, PairSet],
    identity: str,
    inputs: dict[str, InputReport],
    dropped: dict[str, Tally],
    wanted: Mapping[str, int],
    splits: dict[str, SplitReport],
) -> DataReport:
    """Report on prepared pairs; `wanted` are the sizes of the splits that were to be split off."""
    train = sets["train"]
    separate = Observations.merged([pairs.observed for name, pairs in sets.items() if name != "train"])
    observed = Observations.merged([pairs.observed for pairs in sets.values()])
    return DataReport(
        format_number=FORMAT_NUMBER,
        identity=identity,
        settings=lasting(settings),
        source_language=train.reading.languages[0],
        target_language=train.reading.languages[1],
        inputs=inputs,
        rows=train.observed.rows,
        dropped=dropped,
        kept_faults=separate.faults,
        noted=observed.notes,
        repairs=dict(sorted(observed.repairs.items())),
        warnings=tuple(_warnings(sets, wanted, splits)),
        longest_source=observed.longest[0],
        longest_target=observed.longest[1],
        splits=splits,
    )


def report_input(reading: Reading, rows: int, sha256: dict[str, str]) -> InputReport:
    """Report on an input."""
    return InputReport(
        name=reading.name,
        format=reading.format,
        columns=reading.columns[:2],
        reasons=dict(reading.reasons),
        sha256=sha256,
        rows=rows,
    )


def report_splits(splits: Mapping[str, WrittenSplit], origins: Mapping[str, str]) -> dict[str, SplitReport]:
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
    """Yield warnings about the rows of a set."""
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
        EMPTY_SOURCES: unscored if name == "dev" else "its translation is empty",
        EMPTY_TARGETS: unscored if name == "dev" else "any translation of it counts as wrong",
    }.items():
        what = kind if kind in (EXCHANGED, ONE_LANGUAGE) else f"{name} pairs have {kind}"
        tally = observed.notes.get(kind)
        if tally and (what != kind or tally.pairs >= LEAST_SHARE * observed.rows):
            counts = f"{tally.pairs:,} of {observed.rows:,} {what} (first at {tally.first})"
            yield f"{counts}{': ' * bool(advice)}{advice}{f'; all lines are in {REPORT}' * bool(tally.lines)}"
