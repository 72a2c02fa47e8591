"""Noisy pairs, filtered: by rules, by languages, and by two models that translate in both directions (`filter_pairs`).

    judged.jsonl    each pair, in order: what the models say of it, or the rule that it breaks
    kept.jsonl      pairs to train on
    dropped.jsonl   the others, each with its reason
    filter.json     the report

Judging is resumable; another threshold needs no model again.
"""

import heapq
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.config import Settings, choose, differences, read_json_as
from dragoman.errors import ConfigError, DataError
from dragoman.evaluating.pairs import open_scored, score_pairs
from dragoman.files import lock, make_folders, new_file
from dragoman.formats.addresses import Address
from dragoman.inference.documents import chunks
from dragoman.inference.options import SearchOptions
from dragoman.inference.resumable import identity, resumable_file
from dragoman.inference.translator import Translator
from dragoman.languages import UNKNOWN_LANGUAGE, differing
from dragoman.progress import Progress, as_progress
from dragoman.serialization import parse_json, write_json
from dragoman.text.alignment import LONGEST, words_of
from dragoman.text.checks import CheckSettings, fault, repair
from dragoman.text.pair_set import SideLanguages, learn_side_languages
from dragoman.text.prepare_pairs import hashes
from dragoman.text.readers import Pair, Reading
from dragoman.text.report import Tally
from dragoman.text.settings import ReadingSettings

FORMAT = 1
KEEP = 0.9
"""Share of the judged pairs that is kept by default."""
WORST = 10
"""Pairs that the report shows."""
DISAGREE = "the two models agree on it less than on others"


class Judgement(Settings):
    """What is known about a pair.

    The agreement is exp(-(|H_f - H_b| + (H_f + H_b) / 2)), from 0 to 1, of the cross-entropies of both directions in
    nats a token (dual conditional cross-entropy, Junczys-Dowmunt 2018, equations 2 and 3).
    """

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
    def agreement(self) -> float | None:
        if self.forward is None or self.backward is None:
            return None
        return math.exp(-(abs(self.forward - self.backward) + (self.forward + self.backward) / 2))


class FilterReport(Settings):
    """The result of a filter: `filter.json`."""

    format: int = FORMAT
    asked: dict[str, Any]
    """All that decides the judgements: models, text, settings."""
    languages: tuple[str, str]
    rows: int
    kept: int
    dropped: dict[str, Tally]
    """The pairs that are dropped, by reason."""
    least: float
    """The least agreement of a pair that is kept."""
    tenths: tuple[float, ...] = ()
    """The agreement below which 10, 20, … 90 % of the judged pairs lie."""
    worst: tuple[Judgement, ...] = ()
    """The judged pairs with the least agreement."""


def filter_pairs(
    model: Path | str,
    reverse: Path | str,
    data: Address,
    folder: Path | str,
    *,
    keep: float | None = None,
    at_least: float | None = None,
    overrides: Sequence[str] = (),
    device: str = "auto",
    precision: str = "auto",
    threads: int | None = None,
    fresh: bool = False,
    progress: Progress | bool = True,
) -> FilterReport:
    """Judge pairs, and write those to train on and the others into a folder.

    A pair is dropped if it breaks a rule by which training drops it (`CheckSettings`), is in other languages than the
    rest, or has a low `agreement` of `model`, which translates its source, and `reverse`, which translates its target;
    they may be one model of several languages. Of the pairs that the models judge, the share `keep` is kept (by
    default 0.9), or those that agree `at_least` so much. Text that these models have judged in this folder is not
    judged again. `overrides` are `data.key=value`.

    Raises:
        CheckpointError: a model is missing, damaged or newer.
        ConfigError: a setting is wrong, or `reverse` does not translate back.
        DataError: the text cannot be read, or the folder is of other text, models or settings.
        Interrupted: it was stopped; the same call goes on.
    """
    if keep is not None and at_least is not None:
        raise ConfigError("keep and at_least both say what is kept; give one of them")
    if not 0 < (KEEP if keep is None else keep) <= 1 or not 0 <= (at_least or 0) <= 1:
        raise ConfigError("keep is a share, above 0 and at most 1, and at_least an agreement, from 0 to 1")
    folder, progress = Path(folder), as_progress(progress)
    reading = open_scored(model, data, choose(ReadingSettings, "data", overrides))
    if not reading.files:
        raise ConfigError("filter reads files; save the data set of the hub as one")
    load = partial(Translator.load, device=device, precision=precision, progress=progress, threads=threads)
    make_folders(folder)
    with lock(folder):
        facts = {"text": hashes(reading), "columns": reading.columns[:2], "device": device, "precision": precision}
        asked = identity([model, reverse], None, SearchOptions(), **facts)
        if fresh or not _is_judged(folder, asked):
            directed = _directed(load(model), load(reverse), reading)
            _judge(directed, reading, folder / "judged.jsonl", asked, fresh, progress)
        report = _choose(folder, reading, keep, at_least, asked)
        write_json(folder / "filter.json", report.model_dump(mode="json"))
    return report


def _is_judged(folder: Path, asked: Mapping[str, Any]) -> bool:
    """Return True if a folder holds all judgements; raise DataError if they are of something else."""
    if not (folder / "filter.json").is_file() or not (folder / "judged.jsonl").is_file():
        return False
    known = read_json_as(folder / "filter.json", FilterReport, FORMAT, error=DataError).asked
    if changes := differences(known, asked):
        raise DataError(f"{folder} was made with another model, text or setting ({changes}); use --fresh, or another")
    return True


def _directed(model: Translator, reverse: Translator, reading: Reading) -> tuple[Translator, Translator]:
    """Return both models in their directions."""
    languages = reading.languages
    if UNKNOWN_LANGUAGE in languages and (model.directions or reverse.directions):
        raise ConfigError("a model of several languages needs those of the text: --set data.source_language=CODE …")
    forward = model.bound(model.options, languages)
    backward = reverse.bound(reverse.options, (languages[1], languages[0]))
    if differing(backward.languages, forward.languages[::-1]):
        raise ConfigError(
            f"the reverse model translates {backward.languages[0]} to {backward.languages[1]}, not "
            f"{forward.languages[1]} to {forward.languages[0]}"
        )
    return forward, backward


def _judge(
    directed: tuple[Translator, Translator],
    reading: Reading,
    path: Path,
    asked: Mapping[str, Any],
    fresh: bool,
    progress: Progress,
) -> None:
    """Write the judgement of each pair, in order."""
    checks, name = CheckSettings(), reading.name
    languages, total = learn_side_languages(reading, checks), sum(1 for _ in reading)
    lines = (json.dumps([*map(_repaired, pair[:2]), *pair[2:4]], ensure_ascii=False) for pair in reading)
    with resumable_file(path, asked, fresh) as file, progress.track(f"judge {name}", total, "pairs") as advance:
        advance(file.record.lines)
        for chunk in chunks(file.rest(lines, name), len):
            judged = _judged(directed, [Pair(*parse_json(line)) for line in chunk], languages, checks)
            file.add(chunk, "".join(f"{judgement.model_dump_json()}\n" for judgement in judged))
            advance(len(chunk))


def _repaired(text: str) -> str:
    return repair(text, Counter())


def _judged(
    directed: tuple[Translator, Translator], chunk: Sequence[Pair], languages: SideLanguages, checks: CheckSettings
) -> Iterator[Judgement]:
    """Yield the judgement of each pair of a chunk, which is scored as one batch in each direction."""
    reasons = [_broken_rule(pair, languages, checks) for pair in chunk]
    whole = [pair for pair, reason in zip(chunk, reasons, strict=True) if not reason]
    turned = [pair._replace(source=pair.target, target=pair.source) for pair in whole]
    model, reverse = directed
    forward = iter(score_pairs(model, whole, model.options))
    backward = iter(score_pairs(reverse, turned, reverse.options))
    for pair, reason in zip(chunk, reasons, strict=True):
        scored = () if reason else (next(forward), next(backward))
        problem = next((side.problem for side in scored if side.problem), "")
        nats = [None if side.mean_log_prob is None else -side.mean_log_prob for side in scored] or [None, None]
        yield Judgement(
            source=pair.source,
            target=pair.target,
            origin=pair.origin,
            forward=None if problem else nats[0],
            backward=None if problem else nats[1],
            reason=reason or problem,
        )


def _broken_rule(pair: Pair, languages: SideLanguages, checks: CheckSettings) -> str:
    """Return the rule that a pair breaks by itself or by its languages; empty if none."""
    if broken := pair.fault or fault(pair.source, pair.target, checks):
        return broken
    words = (words_of(side)[:LONGEST] for side in (pair.source, pair.target))
    return languages.verdict(pair.source, pair.target, *map(tuple, words)) or ""


def _choose(
    folder: Path, reading: Reading, keep: float | None, at_least: float | None, asked: Mapping[str, Any]
) -> FilterReport:
    """Write the pairs that are kept and those that are dropped."""
    agreements = np.array([judged.agreement for judged in _judgements(folder) if judged.agreement is not None])
    if not len(agreements):
        raise DataError(f"no pair of {reading.name} could be judged; {folder / 'judged.jsonl'} holds the reasons")
    least = np.quantile(agreements, 1 - (KEEP if keep is None else keep)) if at_least is None else at_least
    source, target = ("source", "target") if UNKNOWN_LANGUAGE in reading.languages else reading.languages
    dropped, kept, rows = dict[str, Tally](), 0, 0
    with new_file(folder / "kept.jsonl") as kept_file, new_file(folder / "dropped.jsonl") as dropped_file:
        for judged in _judgements(folder):
            rows += 1
            facts = {"agreement": judged.agreement and round(judged.agreement, 4), "origin": judged.origin}
            row = {source: judged.source, target: judged.target, **facts}
            reason = judged.reason or ("" if (judged.agreement or 0) >= least else DISAGREE)
            if reason:
                tally = dropped.setdefault(reason, Tally(pairs=0, first=judged.origin))
                dropped[reason] = tally.but(pairs=tally.pairs + 1)
                row = {"reason": reason, **row}
            kept += not reason
            line = f"{json.dumps(row, ensure_ascii=False)}\n".encode()
            (dropped_file if reason else kept_file).write(line)
    scored = (judged for judged in _judgements(folder) if judged.agreement is not None)
    worst = heapq.nsmallest(WORST, scored, key=lambda judged: judged.agreement or 0)
    return FilterReport(
        asked=dict(asked),
        languages=reading.languages,
        rows=rows,
        kept=kept,
        dropped=dict(sorted(dropped.items(), key=lambda named: -named[1].pairs)),
        least=float(least),
        tenths=tuple(np.quantile(agreements, np.arange(1, 10) / 10).tolist()),
        worst=tuple(worst),
    )


def _judgements(folder: Path) -> Iterator[Judgement]:
    with (folder / "judged.jsonl").open("rb") as file:
        for line in file:
            yield Judgement.model_validate_json(line)
