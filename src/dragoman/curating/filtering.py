"""Noisy pairs, filtered: by rules, by languages, and by two models, one for each direction (`filter_pairs`)."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dragoman.config import choose as chosen
from dragoman.curating.judgements import JUDGED, CurationReport, Judgement, check_threshold, choose, finish, judging
from dragoman.directions import TAG
from dragoman.errors import ConfigError
from dragoman.evaluating.pairs import open_scored, score_pairs
from dragoman.formats.addresses import Address
from dragoman.inference.documents import chunks
from dragoman.inference.options import SearchOptions
from dragoman.inference.resumable import identity, resumable_file
from dragoman.inference.translator import Translator
from dragoman.languages import UNKNOWN_LANGUAGE, differing
from dragoman.progress import Progress, as_progress
from dragoman.serialization import parse_json
from dragoman.text.alignment import LONGEST, words_of
from dragoman.text.checks import CheckSettings, fault, repair
from dragoman.text.pair_set import SideLanguages, learn_side_languages
from dragoman.text.prepare_pairs import hashes
from dragoman.text.readers import Pair, Reading
from dragoman.text.settings import ReadingSettings

KEEP = 0.9
"""Share of the judged pairs that is kept by default."""


def filter_pairs(
    model: Path | str,
    reverse: Path | str,
    data: Address | Path,
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
) -> CurationReport:
    """Judge pairs, and write those to train on and the others into a folder (`judgements`).

    A pair is dropped if it breaks a rule by which training drops it (`CheckSettings`), is in other languages than the
    rest, or has a low `quality` by `model`, which translates its source, and `reverse`, which translates its target;
    they may be one model of several languages. Of the pairs that the models judge, the share `keep` is kept (by
    default 0.9), or those with a quality of `at_least` so much. Text that these models have judged in this folder is
    not judged again. `overrides` are `data.key=value`.

    Raises:
        CheckpointError: a model is missing, damaged or newer.
        ConfigError: a setting is wrong, or `reverse` does not translate back.
        DataError: the text cannot be read, or the folder is of other text, models or settings.
        Interrupted: it was stopped; the same call goes on.
    """
    check_threshold(keep, at_least)
    folder, progress = Path(folder), as_progress(progress)
    settings = chosen(ReadingSettings, "data", overrides)
    reading = open_scored(model, str(data) if isinstance(data, Path) else data, settings)
    if not reading.files:
        raise ConfigError("filter reads files; save the data set of the hub as one")
    load = partial(Translator.load, device=device, precision=precision, progress=progress, threads=threads)
    facts = {"text": hashes(reading), "languages": reading.languages, "data": settings.model_dump(mode="json")}
    asked = identity([model, reverse], None, SearchOptions(), **facts, device=device, precision=precision)
    with judging(folder, asked, fresh, *reading.files) as is_open:
        if is_open:
            directed = _directed(load(model), load(reverse), reading)
            _judge(directed, reading, folder / JUDGED, asked, fresh, progress)
            finish(folder, asked, reading.languages)
        return choose(folder, KEEP if keep is None else keep, at_least)


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
    reasons = [_broken_rule(pair, languages, checks, bool(directed[0].tags.ids)) for pair in chunk]
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


def _broken_rule(pair: Pair, languages: SideLanguages, checks: CheckSettings, has_tags: bool) -> str:
    """Return the rule that a pair breaks by itself or by its languages; empty if none."""
    if has_tags and any(map(TAG.match, pair[:2])):
        return "a side begins with the tag of a language"
    if broken := pair.fault or fault(pair.source, pair.target, checks):
        return broken
    words = (words_of(side)[:LONGEST] for side in (pair.source, pair.target))
    return languages.verdict(pair.source, pair.target, *map(tuple, words)) or ""
