"""Fine-tuning: the same loop from a finished model, with old data mixed in so that the model does not forget."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.config import check
from dragoman.directions import SEVERAL
from dragoman.errors import ConfigError, DecodeError
from dragoman.evaluating.direction import (
    naming_for,
    prepared_languages,
    refuse_other_languages,
    warn_of_exchanged_sides,
)
from dragoman.evaluating.evaluation import Evaluation, evaluate
from dragoman.evaluating.scores import read_evaluations, write_scores
from dragoman.files import REPORT, nearest
from dragoman.formats.addresses import Address
from dragoman.inference.translator import Translator
from dragoman.languages import differing
from dragoman.progress import Progress, silent
from dragoman.run_folder import RunFolder, split_of
from dragoman.runs.directed import test_set
from dragoman.runs.forecast import Forecast, forecast
from dragoman.runs.lookup import RunOptions, apply_overrides, name_of
from dragoman.runs.recipe import Recipe, StartSettings
from dragoman.runs.starting import FAMILY_IN_WORDS
from dragoman.runs.train import train_run
from dragoman.store.description import read_config
from dragoman.store.folder import find_model
from dragoman.text.inputs import open_inputs
from dragoman.text.report import direction_folders
from dragoman.text.settings import DataSettings
from dragoman.training.distributed import join

log = logging.getLogger(__name__)

BEFORE, AFTER = "before", "after"
MIX_RATE = 0.5
"""Default share of old text, if there is any. It gains as much on new text as training on that alone, and loses a sixth
of what that loses on old (LOG.md, T39).
"""
LOOKED_AT = 1_000
"""Number of rows of a text in which the model looks for pairs with exchanged sides."""


@dataclass(frozen=True)
class FineTuneResult:
    """A fine-tuned model, and its scores before and after."""

    folder: Path
    """Folder of the run."""
    steps: int
    before: tuple[Evaluation, ...]
    """Scores before fine-tuning, on the new test set and its old one; empty if an earlier call scored the model."""
    after: tuple[Evaluation, ...]
    """Scores of the fine-tuned model on the same test sets."""


def fine_tune(
    model: Path | str,
    data: Path | Address,
    *,
    mix_rate: float | None = None,
    mix_data: Path | str | None = None,
    **arguments: Any,
) -> FineTuneResult:
    """Train a finished model on other text, and score it before and after on the new test set and the old one.

    `mix_rate` is the share of old text in an epoch, in characters; by default half, if there is any (mixed fine-tuning,
    Chu et al. 2017). The old text is `mix_data` (prepared data), or the data of the run that `model` is. Two
    `arguments` are settings: `freeze` names parts that do not train, and `lora` is the rank of adapters that train in
    place of the weights. The others are those of `train`.

    Raises:
        ConfigError: old data is asked for, but there is none; and the errors of `train`.
        DataError: the names of columns or files state other languages than the model's.
        CheckpointError: `model` is not a complete model folder.
    """
    options = RunOptions.from_keywords(**arguments)
    with join(options.device) as world:  # the first process reads model and text, and reports their errors
        plan = world.share(lambda: _look_up(model, data, mix_rate, mix_data, options))
    result = train_run(plan.recipe, replace(options, name=options.name or plan.name))
    run = RunFolder(result.folder)
    if not world.is_first or (not result.evaluations and _is_scored(run.scores)):
        return FineTuneResult(result.folder, result.steps, (), ())
    tests = [(side, *test) for side, data in (("new", run.data), ("old", plan.old)) if data for test in _tests(data)]
    starts = (plan.start, find_model(result.folder))
    place = {"device": options.device, "threads": options.threads, "progress": options.progress}
    translators = [Translator.load(folder, **place) for folder in starts]
    language = translators[1].options.target_language
    before, after = (
        _score(translator, tests, word, language, options.progress)
        for translator, word in zip(translators, (BEFORE, AFTER), strict=True)
    )
    write_scores(run.scores, [*before, *after])
    return FineTuneResult(result.folder, result.steps, before, after)


def forecast_fine_tune(
    model: Path | str,
    data: Path | Address,
    *,
    mix_rate: float | None = None,
    mix_data: Path | str | None = None,
    **arguments: Any,
) -> Forecast:
    """Forecast the cost of `fine_tune` with the same arguments, as `forecast` does for `train`."""
    options = RunOptions.from_keywords(**arguments)
    plan = _look_up(model, data, mix_rate, mix_data, options)
    return forecast(plan.recipe, **{**arguments, "name": options.name or plan.name})


class _FineTunePlan(NamedTuple):
    """Inputs of fine-tuning."""

    start: Path
    """Folder of the model to start from."""
    old: Path | None
    """Old data of the model."""
    recipe: Recipe
    name: str
    """Name for the run."""


def _look_up(
    model: Path | str,
    text: Path | Address,
    mix_rate: float | None,
    mix_data: Path | str | None,
    options: RunOptions,
) -> _FineTunePlan:
    data = str(text) if isinstance(text, Path) else text
    if any(override.partition("=")[0].strip() == "task" for override in options.overrides):
        raise ConfigError("fine-tune keeps the task, translation; other tasks: dragoman train DATA --task TASK")
    start, old = _translation_model(model), _old_data(Path(model), mix_data)
    recipe = Recipe(start=_start(start, old, mix_rate), data=_text(Path(model), data, options))
    return _FineTunePlan(start, old, recipe, f"{_name_of_model(Path(model).resolve())}-{name_of(data)}")


def _name_of_model(folder: Path) -> str:
    """Return the name of a model folder; for a folder that a run made, such as `best`, the name of the run."""
    return next((path.name for path in (folder, *folder.parents[:2]) if RunFolder(path).is_run), folder.name)


def _translation_model(model: Path | str) -> Path:
    folder = find_model(model).resolve()
    family = read_config(folder).model.family
    if family != "encoder_decoder":
        raise ConfigError(
            f"{model} holds {FAMILY_IN_WORDS[family]}; fine-tune takes a translation model, and others go on with: "
            f"dragoman train DATA --task TASK --set start.model={model}"
        )
    return folder


def _text(model: Path, data: Address, options: RunOptions) -> DataSettings:
    """Return the settings of the new text, with the model's columns and languages. Warn of exchanged sides."""
    data_overrides = [text for text in options.overrides if text.strip().startswith("data.")]
    settings = check(apply_overrides(data_overrides, {"data": {"path": data}}), "the command line", Recipe).data
    known = naming_for(model, settings.naming)
    if isinstance(settings.path, str) and (Path(settings.path) / REPORT).is_file():
        if len(direction_folders(settings.path)) > 1:
            return check({"path": data, "temperature": settings.temperature}, "fine-tuning", DataSettings)
        refuse_other_languages(settings.path, prepared_languages(settings.path), known)
    if SEVERAL in (known.expected or ()):
        known = known._replace(expected=None)  # the text itself names its languages
    with open_inputs(settings, known) as inputs:
        train = inputs["train"]
        log.info("%s: %s to %s: %s", train.name, *train.languages, train.reasons["languages"])
        loaded = Translator.load(model, options.device, progress=silent, threads=options.threads)
        if (translator := _toward(loaded, train.languages, loaded.options.target_language)) is None:
            log.info("%s learns to translate %s to %s too", model, *train.languages)
        for reading in inputs.values() if translator else ():
            pairs = [(pair.source, pair.target) for pair in islice(reading, LOOKED_AT)]
            warn_of_exchanged_sides(translator or loaded, pairs, reading.name)
        columns = train.columns[:2]
    chosen: dict[str, Any] = {"path": data, "temperature": settings.temperature}
    for side, language, column in zip(("source", "target"), known.wanted_languages, columns, strict=True):
        if language is not None:
            chosen[f"{side}_language"] = language
        if columns == known.trained_columns and not any(known.columns):
            chosen[f"{side}_column"] = column
    return check(chosen, "fine-tuning", DataSettings)


def _start(model: Path, old: Path | None, mix_rate: float | None) -> StartSettings:
    if mix_rate is None:
        mix_rate = MIX_RATE if old else 0.0
        if old:
            log.info(
                "half of an epoch is old text, from %s, so that little is forgotten (--mix-rate 0 turns it off)", old
            )
        else:
            log.info("%s has no old text to mix in, so some of what it knew is forgotten; --mix-data adds some", model)
    if mix_rate and old is None:
        raise ConfigError(f"{model} is not a run folder, so it has no data to mix in; name some with --mix-data")
    facts = {"model": str(model), "mix_rate": mix_rate, "mix_data": str(old.resolve()) if old and mix_rate else None}
    return check(facts, "fine-tuning", StartSettings)


def _tests(data: Path) -> list[tuple[tuple[str, str], Path]]:
    """Return the test set of each direction of prepared data, with its languages."""
    tests = [(languages, split_of(folder, "test")) for languages, folder in direction_folders(data).items()]
    return [(languages, test) for languages, test in tests if test.is_file() and test.stat().st_size]


def _score(
    translator: Translator,
    tests: Sequence[tuple[str, tuple[str, str], Path]],
    word: str,
    language: str | None,
    progress: Progress,
) -> tuple[Evaluation, ...]:
    """Score a model on the test sets of directions that it has; `language` is its target language, if it may choose."""
    toward = [(side, _toward(translator, languages, language), test) for side, languages, test in tests]
    return tuple(
        evaluate(directed, test_set(directed, test), name=f"{word}, {side} test", progress=progress)
        for side, directed, test in toward
        if directed is not None
    )


def _toward(translator: Translator, languages: tuple[str, str], language: str | None = None) -> Translator | None:
    """Return a translator in the direction of a text; None if the model lacks it."""
    if translator.directions is None:
        is_other = differing(languages, translator.languages)
        return None if is_other else translator.with_options(target_language=language)
    source, target = languages
    try:
        return translator.with_options(source_language=source, target_language=target).directed()
    except DecodeError:
        return None


def _is_scored(path: Path) -> bool:
    """Return True if a finished run has its scores. It may have been killed before they were made."""
    return any(evaluation.system.startswith(BEFORE) for evaluation in read_evaluations(path))


def _old_data(model: Path, mix_data: Path | str | None) -> Path | None:
    """Return the prepared data that the model was trained on: `mix_data`, else that of the run that `model` is."""
    if mix_data is not None:
        train_split = split_of(Path(mix_data), "train")
        if not train_split.is_file() and not (Path(mix_data) / REPORT).is_file():
            if not Path(mix_data).exists():
                raise ConfigError(f"{mix_data} does not exist{nearest(mix_data)}")
            raise ConfigError(
                f"{mix_data} is not prepared data: it has no {train_split.name}; make some with dragoman prepare-data"
            )
        return Path(mix_data)
    run = RunFolder(model)
    return run.data if run.report.is_file() else None
