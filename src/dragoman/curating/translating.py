"""Pairs of which a model writes one side: sources for text in the target language (`back_translate`; Sennrich et al.
2016, Edunov et al. 2018), or text for a student (`distil`; Kim & Rush 2016, sequence-level).
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sacrebleu.metrics.chrf import CHRF

from dragoman.config import choose as chosen
from dragoman.curating.judgements import JUDGED, CurationReport, Judgement, check_threshold, choose, finish, judging
from dragoman.curating.rules import MadePairs, plain_text
from dragoman.directions import TAG
from dragoman.errors import ConfigError, DataError
from dragoman.files import sha256
from dragoman.formats.lines import read_lines
from dragoman.inference.documents import translate_file
from dragoman.inference.options import SearchOptions
from dragoman.inference.resumable import identity
from dragoman.inference.translation import Translation
from dragoman.inference.translator import Translator
from dragoman.languages import SEVERAL
from dragoman.progress import Progress, as_progress

_CHRF = CHRF()


def back_translate(model: Path | str, text: Path | str, folder: Path | str, **options: Any) -> CurationReport:
    """Write pairs of a line of `text`, which `model` reads, and a synthetic source into a folder. Options and errors
    are those of `distil`, without references. `temperature=1.0` draws samples instead of searching.
    """
    return _write_pairs(model, text, folder, makes_sources=True, **options)


def distil(
    teacher: Path | str,
    text: Path | str,
    folder: Path | str,
    *,
    references: Path | str | None = None,
    ensemble: Sequence[Path | str] = (),
    **options: Any,
) -> CurationReport:
    """Write pairs of a line of `text` and its translation by a model, or by an ensemble, into a folder (`judgements`).

    The text is a plain file, a sentence a line. With `references`, a line each, the target is the one of the `n_best`
    translations that is most similar to its reference, by chrF. A pair is dropped if it breaks a rule of `MadePairs`.
    The `options` are those of `filter_pairs`, with settings of `SearchOptions`; by default all pairs are kept, else
    those whose translations are the most probable. `overrides` are `decode.key=value`.

    Raises:
        CheckpointError: a model is missing, damaged or newer.
        ConfigError: a setting is wrong.
        DataError: a text cannot be read, or the folder is of another text, teacher or setting.
        Interrupted: it was stopped; the same call goes on.
    """
    if references is not None and options.get("n_best", 1) == 1:
        raise ConfigError("references choose among several translations; give n_best, as in --n-best 8")
    return _write_pairs(teacher, text, folder, references=references, ensemble=ensemble, **options)


def _write_pairs(
    model: Path | str,
    text: Path | str,
    folder: Path | str,
    *,
    makes_sources: bool = False,
    references: Path | str | None = None,
    ensemble: Sequence[Path | str] = (),
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
    """Write pairs of lines and their translations; with `makes_sources`, the translations are the sources."""
    check_threshold(keep, at_least)
    text, folder, progress = plain_text(text), Path(folder), as_progress(progress)
    inputs = [text] if references is None else [text, plain_text(references)]
    facts = {"texts": [sha256(path) for path in inputs], "settings": settings, "overrides": list(overrides)}
    facts |= {"makes_sources": makes_sources, "device": device, "precision": precision}
    asked = identity([model, *ensemble], None, SearchOptions(), **facts)
    with judging(folder, asked, fresh, *inputs) as is_open:
        if is_open:
            translator = Translator.load(model, device, precision, progress, ensemble=ensemble, threads=threads)
            options = chosen(SearchOptions, "decode", overrides, translator.options.but(**settings))
            translator = _in_one_direction(translator, options)
            wanted, total = [[*read_lines(path)] for path in inputs[1:]], sum(1 for _ in read_lines(text))
            if wanted and len(wanted[0]) != total:
                raise DataError(f"{text} has {total:,} lines but {references} {len(wanted[0]):,}")
            read, written = translator.languages
            write = _judge(text.name, MadePairs(read, written), makes_sources, *wanted)
            lines, out = _lines(translator, text), folder / JUDGED
            translate_file(translator, text, lines, out, options, progress, write=write, fresh=fresh, total=total)
            finish(folder, asked, (written, read) if makes_sources else (read, written))
        return choose(folder, keep, at_least)


def _in_one_direction(translator: Translator, options: SearchOptions) -> Translator:
    translator = translator.bound(options)
    if SEVERAL in translator.languages or (len(translator.tags.ids) > 1 and not options.target_language):
        raise ConfigError("the model has several directions; give --source-language and --target-language")
    return translator


def _lines(translator: Translator, path: Path) -> Iterator[str]:
    """Yield the lines of a file, without tags if the model would take them for those of languages."""
    for line in read_lines(path):
        yield TAG.sub("", line).lstrip() if translator.tags.ids else line


def _judge(
    name: str, rules: MadePairs, makes_sources: bool, references: Sequence[str] | None = None
) -> Callable[[int, Translation], Iterator[str]]:
    """Return a function that judges a line and its translation, or the one nearest to its reference, by its number."""

    def judge(number: int, translation: Translation) -> Iterator[str]:
        line, best = translation.source.strip(), translation
        if references is not None:
            ranked, wanted = (translation, *translation.alternatives), [references[number - 1]]
            best = max(ranked, key=lambda option: _CHRF.sentence_score(option.text, wanted).score)
        made = best.text.strip()
        nats = -best.log_prob / len(best.tokens) if best.tokens else None
        yield Judgement(
            source=made if makes_sources else line,
            target=line if makes_sources else made,
            origin=f"{name}:{number}",
            forward=None if makes_sources else nats,
            backward=nats if makes_sources else None,
            reason=rules.broken(line, made, best.flags),
        ).model_dump_json()

    return judge
