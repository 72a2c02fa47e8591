"""Pairs made from monolingual text, whose sources a model of the other direction writes (`back_translate`; Sennrich et
al. 2016, Edunov et al. 2018).
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dragoman.config import choose as chosen
from dragoman.curating.judgements import JUDGED, CurationReport, Judgement, check_threshold, choose, finish, judging
from dragoman.curating.rules import MadePairs, in_one_direction, lines_for
from dragoman.errors import DataError
from dragoman.files import sha256
from dragoman.formats.addresses import missing
from dragoman.formats.lines import read_lines, without_packing
from dragoman.formats.registry import DATA_FORMAT_OF_SUFFIX
from dragoman.inference.documents import translate_file
from dragoman.inference.options import SearchOptions
from dragoman.inference.resumable import identity
from dragoman.inference.translation import Translation
from dragoman.inference.translator import Translator
from dragoman.progress import Progress, as_progress


def back_translate(
    model: Path | str,
    text: Path | str,
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
    **settings: Any,
) -> CurationReport:
    """Write pairs of a synthetic source and a line of `text` into a folder (`judgements`).

    The text is a plain file, a sentence a line, in the language that `model` reads. A pair is dropped if it breaks a
    rule by which training drops it, if its source is cut off, repeats itself or lacks a name or number, or if a side is
    in another language. Of the others, the share `keep` with the most probable sources is kept, by default all, or
    those with a quality of `at_least` so much. `overrides` are `decode.key=value`, and `settings` those of
    `SearchOptions`: `temperature=1.0` draws samples instead of searching.

    Raises:
        CheckpointError: the model is missing, damaged or newer.
        ConfigError: a setting is wrong.
        DataError: the text cannot be read, or the folder is of another text, model or setting.
        Interrupted: it was stopped; the same call goes on.
    """
    check_threshold(keep, at_least)
    text, folder, progress = Path(text), Path(folder), as_progress(progress)
    if not text.is_file():
        raise missing(text, prefixes=False)
    if DATA_FORMAT_OF_SUFFIX.get(without_packing(text).suffix.lower(), "plain") != "plain":
        raise DataError(f"{text} is a table; back-translate reads plain text, a sentence a line")
    asked = {"text": sha256(text), "settings": settings, "overrides": list(overrides), "device": device}
    asked = identity([model], None, SearchOptions(), **asked, precision=precision)
    translator = Translator.load(model, device, precision, progress, threads=threads)
    options = chosen(SearchOptions, "decode", overrides, translator.options.but(**settings))
    translator = in_one_direction(translator, options)
    read, written = translator.languages
    with judging(folder, asked, fresh, text) as is_open:
        if is_open:
            lines, total = lines_for(translator, text), sum(1 for _ in read_lines(text))
            out, write = folder / JUDGED, _judge(text.name, MadePairs(read, written))
            translate_file(translator, text, lines, out, options, progress, write=write, fresh=fresh, total=total)
            finish(folder, asked)
        return choose(folder, (written, read), keep, at_least)


def _judge(name: str, rules: MadePairs) -> Callable[[int, Translation], Iterator[str]]:
    """Return a function that judges a pair, given the number of a line and its translation."""

    def judge(number: int, translation: Translation) -> Iterator[str]:
        source, target = translation.text.strip(), translation.source.strip()
        nats = -translation.log_prob / len(translation.tokens) if translation.tokens else None
        yield Judgement(
            source=source,
            target=target,
            origin=f"{name}:{number}",
            backward=nats,
            reason=rules.broken(target, source, translation.flags),
        ).model_dump_json()

    return judge
