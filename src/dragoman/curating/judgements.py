"""Judgements of pairs by models (`Judgement`), and the pairs that are kept for them (`choose`), in a folder:

    judged.jsonl    each pair, in order: its probabilities, or the rule that it breaks
    judged.json     the languages, and all that decides the judgements: models, text, settings
    kept.jsonl      pairs to train on
    dropped.jsonl   the others, each with its reason
    report.json     counts, reasons and the worst pairs

Judging is resumable; another threshold needs no model again.
"""

import json
import math
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.config import Settings, differences
from dragoman.errors import ConfigError, DataError
from dragoman.files import check_output, lock, make_folders, new_file, remove
from dragoman.languages import UNKNOWN_LANGUAGE
from dragoman.serialization import read_object, write_json
from dragoman.text.report import Tally

FORMAT = 1
JUDGED, ASKED, KEPT, DROPPED, REPORT = "judged.jsonl", "judged.json", "kept.jsonl", "dropped.jsonl", "report.json"
WORST = 10
"""Pairs that the report shows."""
IMPROBABLE = "less probable to the models than others"


class Judgement(Settings):
    """A pair, and what models say of it."""

    source: str
    target: str
    origin: str
    forward: float | None = None
    """Cross-entropy of the target given the source, in nats a token."""
    backward: float | None = None
    """Cross-entropy of the source given the target."""
    reason: str = ""
    """The rule that the pair breaks, or why a model cannot score it."""

    @property
    def quality(self) -> float | None:
        """A score from 0 to 1. For one direction it is exp(-H), of its cross-entropy H; for both it is exp(-(|H_f -
        H_b| + (H_f + H_b) / 2)), which is low if one is improbable, or far more so than the other (dual conditional
        cross-entropy, Junczys-Dowmunt 2018, section 4.2).
        """
        known = [nats for nats in (self.forward, self.backward) if nats is not None]
        if self.reason or not known:
            return None
        return math.exp(-(max(known) - min(known) + sum(known) / len(known)))


class CurationReport(Settings):
    """The pairs that were kept and dropped: `report.json`."""

    format: int = FORMAT
    languages: tuple[str, str]
    rows: int
    kept: int
    dropped: dict[str, Tally]
    """The pairs that are dropped, by reason."""
    least: float
    """The least quality of a pair that is kept."""
    tenths: tuple[float, ...] = ()
    """The quality below which 10, 20, … 90 % of the judged pairs lie."""
    worst: tuple[Judgement, ...] = ()
    """The judged pairs with the least quality."""


def check_threshold(keep: float | None, at_least: float | None) -> None:
    """Raise `ConfigError` for a share to keep, or a least quality, that cannot be."""
    if keep is not None and at_least is not None:
        raise ConfigError("keep and at_least both say what is kept; give one of them")
    if (keep is not None and not 0 < keep <= 1) or not 0 <= (at_least or 0) <= 1:
        raise ConfigError("keep is a share, above 0 and at most 1, and at_least a quality, from 0 to 1")


@contextmanager
def judging(folder: Path, asked: Mapping[str, Any], fresh: bool, *inputs: Path) -> Generator[bool]:
    """Open a folder, and yield True if the judgements of pairs are still to be written into it. `asked` is all that
    decides them; `fresh` discards what the folder holds.

    Raises:
        DataError: the folder holds the result of something else, or one of the `inputs`.
    """
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file; name a folder")
    make_folders(folder)
    with lock(folder):
        for name in (JUDGED, ASKED, KEPT, DROPPED, REPORT):
            check_output(folder / name, *inputs)
        if fresh:
            for name in (ASKED, JUDGED):
                remove(folder / name)
        elif (folder / ASKED).is_file():
            known = read_object(folder / ASKED).get("asked", {})
            if changes := differences(known, asked):
                raise DataError(
                    f"{folder} was made with another model, text or setting ({changes}); use --fresh, or another folder"
                )
        elif others := [name for name in (JUDGED, KEPT, DROPPED, REPORT) if (folder / name).exists()]:
            raise DataError(f"{folder} holds {', '.join(others)} of something else; use --fresh, or another folder")
        is_open = not (folder / ASKED).is_file() or not (folder / JUDGED).is_file()
        yield is_open


def finish(folder: Path, asked: Mapping[str, Any], languages: tuple[str, str]) -> None:
    """Note that a folder holds the judgements of all pairs."""
    write_json(folder / ASKED, {"languages": languages, "asked": dict(asked)})


def choose(folder: Path, keep: float | None, at_least: float | None) -> CurationReport:
    """Write the pairs that are kept, those that are dropped, and the report. Of the pairs with a quality, the share
    `keep` is kept, or those with a quality of `at_least` so much.

    Raises:
        DataError: no pair can be kept.
    """
    languages: tuple[str, str] = tuple(read_object(folder / ASKED)["languages"])
    scored, can_keep = list[float](), False
    for judged in _judgements(folder):
        can_keep = can_keep or not judged.reason
        if (quality := judged.quality) is not None:
            scored.append(quality)
    if not can_keep:
        raise DataError(f"no pair can be kept; {folder / JUDGED} holds the reasons")
    qualities, least = np.array(scored), at_least or 0.0
    if at_least is None and len(qualities):
        least = float(np.quantile(qualities, 1 - (1 if keep is None else keep)))
    worst_quality = np.sort(qualities)[:WORST][-1] if len(qualities) else -1.0
    source, target = ("source", "target") if UNKNOWN_LANGUAGE in languages else languages
    dropped, kept, rows, worst = dict[str, Tally](), 0, 0, list[Judgement]()
    with new_file(folder / KEPT) as kept_file, new_file(folder / DROPPED) as dropped_file:
        for judged in _judgements(folder):
            rows += 1
            quality = judged.quality
            if quality is not None and quality <= worst_quality:
                worst.append(judged)
            row = {source: judged.source, target: judged.target, "quality": quality and round(quality, 4)}
            row |= {"origin": judged.origin}
            reason = judged.reason or ("" if quality is None or quality >= least else IMPROBABLE)
            if reason:
                tally = dropped.setdefault(reason, Tally(pairs=0, first=judged.origin))
                dropped[reason] = tally.but(pairs=tally.pairs + 1)
                row = {"reason": reason, **row}
            kept += not reason
            (dropped_file if reason else kept_file).write(f"{json.dumps(row, ensure_ascii=False)}\n".encode())
    report = CurationReport(
        languages=languages,
        rows=rows,
        kept=kept,
        dropped=dict(sorted(dropped.items(), key=lambda named: -named[1].pairs)),
        least=least,
        tenths=tuple(np.quantile(qualities, np.arange(1, 10) / 10).tolist()) if len(qualities) else (),
        worst=tuple(sorted(worst, key=lambda judged: judged.quality or 0)[:WORST]),
    )
    write_json(folder / REPORT, report.model_dump(mode="json"))
    return report


def _judgements(folder: Path) -> Iterator[Judgement]:
    with (folder / JUDGED).open("rb") as file:
        for line in file:
            yield Judgement.model_validate_json(line)
