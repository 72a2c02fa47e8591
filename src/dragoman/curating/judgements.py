"""Judgements of pairs by models (`Judgement`), and the pairs that are kept for them (`choose`), in a folder:

    judged.jsonl    each pair, in order: its probabilities, or the rule that it breaks
    kept.jsonl      pairs to train on
    dropped.jsonl   the others, each with its reason
    report.json     counts, reasons and the worst pairs

Judging is resumable; another threshold needs no model again.
"""

import heapq
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.config import Settings, differences, read_json_as
from dragoman.errors import ConfigError, DataError
from dragoman.files import new_file
from dragoman.languages import UNKNOWN_LANGUAGE
from dragoman.serialization import write_json
from dragoman.text.report import Tally

FORMAT = 1
JUDGED, REPORT = "judged.jsonl", "report.json"
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
    asked: dict[str, Any]
    """All that decides the judgements: models, text, settings."""
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


def is_judged(folder: Path, asked: Mapping[str, Any]) -> bool:
    """Return True if a folder holds all judgements; raise `DataError` if they are of something else."""
    if not (folder / REPORT).is_file() or not (folder / JUDGED).is_file():
        return False
    known = read_json_as(folder / REPORT, CurationReport, FORMAT, error=DataError).asked
    if changes := differences(known, asked):
        raise DataError(f"{folder} was made with another model, text or setting ({changes}); use --fresh, or another")
    return True


def choose(
    folder: Path, languages: tuple[str, str], asked: Mapping[str, Any], keep: float | None, at_least: float | None
) -> CurationReport:
    """Write the pairs that are kept, those that are dropped, and the report. Of the pairs with a quality, the share
    `keep` is kept, or those with a quality of `at_least` so much.

    Raises:
        DataError: no pair can be kept.
    """
    if all(judged.reason for judged in _judgements(folder)):
        raise DataError(f"no pair can be kept; {folder / JUDGED} holds the reasons")
    qualities = np.array([quality for judged in _judgements(folder) if (quality := judged.quality) is not None])
    least = at_least or 0.0
    if at_least is None and len(qualities):
        least = float(np.quantile(qualities, 1 - (1 if keep is None else keep)))
    source, target = ("source", "target") if UNKNOWN_LANGUAGE in languages else languages
    dropped, kept, rows = dict[str, Tally](), 0, 0
    with new_file(folder / "kept.jsonl") as kept_file, new_file(folder / "dropped.jsonl") as dropped_file:
        for judged in _judgements(folder):
            rows += 1
            quality = judged.quality
            row = {source: judged.source, target: judged.target, "quality": quality and round(quality, 4)}
            row |= {"origin": judged.origin}
            reason = judged.reason or ("" if quality is None or quality >= least else IMPROBABLE)
            if reason:
                tally = dropped.setdefault(reason, Tally(pairs=0, first=judged.origin))
                dropped[reason] = tally.but(pairs=tally.pairs + 1)
                row = {"reason": reason, **row}
            kept += not reason
            (dropped_file if reason else kept_file).write(f"{json.dumps(row, ensure_ascii=False)}\n".encode())
    scored = (judged for judged in _judgements(folder) if judged.quality is not None)
    report = CurationReport(
        asked=dict(asked),
        languages=languages,
        rows=rows,
        kept=kept,
        dropped=dict(sorted(dropped.items(), key=lambda named: -named[1].pairs)),
        least=least,
        tenths=tuple(np.quantile(qualities, np.arange(1, 10) / 10).tolist()) if len(qualities) else (),
        worst=tuple(heapq.nsmallest(WORST, scored, key=lambda judged: judged.quality or 0)),
    )
    write_json(folder / REPORT, report.model_dump(mode="json"))
    return report


def _judgements(folder: Path) -> Iterator[Judgement]:
    with (folder / JUDGED).open("rb") as file:
        for line in file:
            yield Judgement.model_validate_json(line)
