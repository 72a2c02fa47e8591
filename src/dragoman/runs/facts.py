"""Finds out, one after another, the facts by which a run's recipe is resolved: `resolve_run`.

Data is prepared, tokenizers are learnt and a trial is timed on the way, because choices go by what they show. All
processes of a run run these lines.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from dragoman import machine
from dragoman.config import check, reasons_in, render
from dragoman.data.batching import Batches
from dragoman.errors import ConfigError, OutOfMemory
from dragoman.files import write_file
from dragoman.recipe.choices import (
    AUTO,
    Facts,
    Precision,
    Prepared,
    Seconds,
    Start,
    Vocabularies,
    refuse_idle_processes,
)
from dragoman.recipe.recipe import RECIPE, Recipe, read_recipe
from dragoman.recipe.resolution import Resolved, resolve
from dragoman.recipe.source import apply
from dragoman.recipe.steps import limit_of
from dragoman.recipe.translation_choices import FEW_PAIRS
from dragoman.runs.data import DATA, RunData, gather, prepare, training_batches
from dragoman.runs.more import More
from dragoman.runs.place import PATHS, Workplace
from dragoman.runs.session import refuse_too_large
from dragoman.runs.trial import fits, try_out
from dragoman.store import load_model
from dragoman.text.prepare import read_split
from dragoman.text.report import REPORT, DataReport, read_report
from dragoman.training.schedule import ENDLESS
from dragoman.training.settings import HARMLESS
from dragoman.translating.sentences import split_sentences

TRIAL_STEPS = 1_000
"""The steps in the recipe of a trial, which takes only a few of them."""
COUNTED_EPOCHS = 100
SAMPLED_LINES = 2_000
"""Training lines that are searched for several sentences."""
PARTS = (1, 2, 4, 8, 16, 32)
"""Numbers of batches into which a step may be cut to fit in memory."""

log = logging.getLogger(__name__)


def resolve_run(place: Workplace, asked: dict[str, Any], more: More | None = None) -> tuple[Recipe, RunData]:
    """The recipe of a run with every setting, and the data to train on: found in its folder, or made there. With
    `more`, a finished run gets new steps.
    """
    path = place.folder / RECIPE
    found = place.world.share("recipe", lambda: _tables(read_recipe(path)) if path.is_file() else None)
    if found is None:
        return _resolve_new(place, asked)
    recipe = _with_harmless(check(found, str(path), Recipe), asked)
    if recipe.train.steps is None:
        raise ConfigError(f"{path} is damaged: train.steps is missing; put it back, or use --fresh for a new run")
    refuse_idle_processes(recipe, place.world.size)
    run_data = _gathered(place, recipe, _prepared(place, recipe))
    return (recipe if more is None else _add_steps(recipe, more, asked, run_data, place)), run_data


def _resolve_new(place: Workplace, asked: dict[str, Any]) -> tuple[Recipe, RunData]:
    if asked.get("train", {}).get("continued_from") is not None:
        raise ConfigError(
            "train.continued_from belongs to a finished run that --more trained on; leave it out of a new run's recipe"
        )
    recipe = check(asked, "recipe", Recipe)
    facts = Facts(place.world.size, prepared=_prepared_before(place, recipe), start=_start(recipe))
    recipe = resolve(asked, facts).recipe
    refuse_too_large(recipe.model, place.device)  # before the text, which may take hours
    report = _prepared(place, recipe)
    _warn_of_few_pairs(recipe, report)
    facts = replace(
        facts,
        pairs=report.splits["train"].pairs,
        several_sentences=_share_of_several(place.folder / DATA),
        precision=_precision(place, recipe),
    )
    recipe = resolve(asked, facts).recipe
    run_data = _gathered(place, recipe, report)
    facts = replace(facts, vocabularies=_vocabularies(run_data))
    if asked.get("batches", {}).get("batch_tokens") == AUTO:
        facts = replace(facts, batch_parts=_parts_that_fit(asked, facts, run_data, place))
    resolved = resolve(asked, _with_length(asked, facts, run_data, place))
    _write(place, resolved)
    return resolved.recipe, run_data


def _add_steps(kept: Recipe, more: More, asked: dict[str, Any], run_data: RunData, place: Workplace) -> Recipe:
    """The recipe of a finished run with new steps at its end, in which the rate rises and falls once more."""
    tables = _tables(kept)
    chosen_anew = {"steps", "continued_from"} | ({"validate_every"} - asked.get("train", {}).keys())
    if kept.train.schedule not in ENDLESS:
        chosen_anew.add("warmup_steps")
    train = {name: value for name, value in tables["train"].items() if name not in chosen_anew}
    tables["train"] = train | more.train
    facts = _with_length(tables, Facts(place.world.size), run_data, place)
    resolved = resolve(tables, replace(facts, continued_from=more.continued_from))
    if "learning_rate" in more.train:
        resolved.reasons["train.learning_rate"] = "as asked for"
    _write(place, resolved)
    return resolved.recipe


def _write(place: Workplace, resolved: Resolved) -> None:
    """Writes the recipe into the run's folder, with the reasons of choices made now or before."""
    if not place.world.is_first:
        return
    path, recipe = place.folder / RECIPE, resolved.recipe
    earlier = reasons_in(path.read_text(encoding="utf-8")) if path.is_file() else {}
    write_file(path, render(recipe, earlier | resolved.reasons))
    for key, reason in resolved.reasons.items():
        group, name = key.split(".")
        log.info("%s = %s (%s)", key, _tables(recipe)[group][name], reason)


def _tables(recipe: Recipe) -> dict[str, Any]:
    return recipe.model_dump(mode="json", exclude_none=True)


def _with_harmless(kept: Recipe, asked: dict[str, Any]) -> Recipe:
    """The recipe of a run, with those settings of a new request that may differ: when to save, and where the same data
    lies.
    """
    now = check(asked, "the recipe", Recipe)
    saving = now.train.model_dump(mode="json", include=HARMLESS & asked.get("train", {}).keys())
    return kept.but(
        data={**kept.data.model_dump(mode="json"), **now.data.model_dump(mode="json", include=set(PATHS))},
        train={**kept.train.model_dump(mode="json"), **saving},
    )


# Facts of the data


def _prepared_before(place: Workplace, recipe: Recipe) -> Prepared | None:
    """What data says of itself, if it was prepared before the run."""
    found = place.world.share("prepared data", lambda: _of_prepared(recipe.data.path))
    return found and Prepared(*found)


def _of_prepared(path: Any) -> Prepared | None:
    if not isinstance(path, str) or not (Path(path) / REPORT).is_file():
        return None
    report = read_report(path)
    rules = {key.removeprefix("checks."): value for key, value in report.settings.items() if key.startswith("checks.")}
    return Prepared(report.source_language, report.target_language, rules)


def _prepared(place: Workplace, recipe: Recipe) -> DataReport:
    """The report on the run's data, which the first process prepares."""

    def find() -> DataReport:
        if place.world.is_first:
            return prepare(place.folder, recipe, place.anyway, place.progress)
        return read_report(place.folder / DATA)

    return place.world.after_first("data", find)


def _gathered(place: Workplace, recipe: Recipe, report: DataReport) -> RunData:
    return place.world.after_first("corpora", lambda: gather(place.folder, recipe, report, place.progress))


def _warn_of_few_pairs(recipe: Recipe, report: DataReport) -> None:
    pairs = report.splits["train"].pairs
    if 0 < pairs < FEW_PAIRS and recipe.start is None:
        log.warning("only %s pairs to train on: a model of its own needs some ten thousand at least", f"{pairs:,}")


def _share_of_several(data: Path) -> float:
    """The share of the first training lines that hold several sentences."""
    lines = [source for source, _ in islice(read_split(data, "train"), SAMPLED_LINES)]
    return sum(len(split_sentences(line)) > 1 for line in lines) / max(1, len(lines))


def _vocabularies(run_data: RunData) -> Vocabularies:
    tokenizers = run_data.tokenizers
    return Vocabularies(tokenizers.source.size, tokenizers.target.size, tokenizers.joint)


# Facts of model and machine


def _start(recipe: Recipe) -> Start | None:
    if recipe.start is None:
        return None
    stored = load_model(recipe.start.model)
    return Start(stored.config, stored.tokenizers.joint)


def _precision(place: Workplace, recipe: Recipe) -> Precision:
    asked = recipe.train.precision
    return Precision(*place.world.share("precision", lambda: machine.choose_precision(asked, place.device)))


def _trial_recipe(asked: Mapping[str, Any], facts: Facts) -> Recipe:
    """The recipe as far as it is known, with some number of steps, which is enough to time a step."""
    return resolve(apply([f"train.steps={TRIAL_STEPS}"], asked), facts).recipe


def _parts_that_fit(asked: Mapping[str, Any], facts: Facts, run_data: RunData, place: Workplace) -> int:
    """The smallest number of batches into which a step of the usual size must be cut to fit in memory.

    Raises:
        OutOfMemory: not even small batches fit.
    """
    for parts in PARTS:
        if fits(_trial_recipe(asked, replace(facts, batch_parts=parts)), run_data, place.device):
            return parts
    tokens = _trial_recipe(asked, replace(facts, batch_parts=PARTS[-1])).batches.batch_tokens
    raise OutOfMemory(f"not even batches of {tokens:,} tokens fit in memory; take a smaller model.size")


def _with_length(asked: Mapping[str, Any], facts: Facts, run_data: RunData, place: Workplace) -> Facts:
    """Adds the facts that turn the limit of training into a number of steps."""
    limit, recipe = limit_of(check(asked, "recipe", Recipe)), _trial_recipe(asked, facts)
    batches = training_batches(run_data, recipe)  # what cannot be batched is refused before the recipe is written
    if limit.name == "epochs":
        return replace(facts, batches=batches_in(batches, limit.amount))
    if limit.name == "minutes":
        found = try_out(recipe, run_data, place.device, place.progress, place.world)
        return replace(facts, seconds=Seconds(*place.world.share("trial", lambda: found)))
    return facts


def batches_in(batches: Batches, epochs: float) -> int:
    """How many batches so many epochs have. Each epoch cuts its own; the first are counted, later ones are estimated by
    the mean of these.
    """
    whole, part = divmod(epochs, 1)
    counted = min(int(whole), COUNTED_EPOCHS)
    count = sum(len(batches.epoch(number)) for number in range(counted))
    if whole > counted:
        count = round(count / counted * whole)
    return count + (round(part * len(batches.epoch(counted))) if part else 0)
