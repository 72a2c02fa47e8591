"""Gathers, one after another, the facts that a run's recipe is resolved from: `resolve_run`.

On the way it prepares data, learns tokenizers and times a trial, because choices depend on them. All processes of a run
execute these lines.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from dragoman import machine
from dragoman.config import check, reasons_in, render
from dragoman.errors import ConfigError, DataError, OutOfMemory
from dragoman.files import write_file
from dragoman.model import ModelConfig, build_model
from dragoman.runs.changes import PATHS
from dragoman.runs.choices import (
    AUTO,
    Facts,
    Precision,
    Prepared,
    Start,
    refuse_idle_processes,
)
from dragoman.runs.lookup import apply
from dragoman.runs.more import More
from dragoman.runs.options import RunContext
from dragoman.runs.recipe import OF_LABELS, Recipe, read_recipe
from dragoman.runs.resolution import Resolved, resolve
from dragoman.runs.session import adapter_for, refuse_too_large
from dragoman.runs.starting import starting_config
from dragoman.runs.steps import limit_of
from dragoman.runs.task import Task
from dragoman.runs.tasks import task_of
from dragoman.runs.trial import fits, try_out
from dragoman.store import load_model
from dragoman.training.freezing import tune
from dragoman.training.objective import BatchSource
from dragoman.training.schedule import ENDLESS
from dragoman.training.settings import HARMLESS

TRIAL_STEPS = 1_000
"""`train.steps` of a trial, which takes only a few of them."""
COUNTED_EPOCHS = 100
"""Epochs whose batches are counted; later ones are estimated."""
PARTS = (1, 2, 4, 8, 16, 32)
"""Numbers of batches into which a step may be cut to fit in memory."""

log = logging.getLogger(__name__)


def resolve_run(context: RunContext, asked: dict[str, Any], more: More | None = None, *, decide: bool = True) -> Task:
    """The task of a run with the complete recipe and the encoded text, found in its folder or made there. With `more`,
    a finished run gets new steps. Unless it is to `decide`, a new recipe is not written, so that its settings may still
    change.

    Raises:
        ConfigError, DataError, TokenizerError: what was asked for cannot be used.
        OutOfMemory: the model or its batches do not fit.
    """
    path = context.run.recipe
    found = context.world.share("recipe", lambda: _tables(read_recipe(path)) if path.is_file() else None)
    if found is None:
        return _resolve_new(context, asked, decide)
    recipe = _with_harmless(check(found, str(path), Recipe), asked)
    if recipe.train.steps is None:
        raise ConfigError(f"{path} is damaged: train.steps is missing; put it back, or use --fresh for a new run")
    refuse_idle_processes(recipe, context.world.size)
    task = task_of(context.run, recipe, context.device, context.progress)
    _prepare(context, task)
    task = _encode(context, task)
    return task if more is None else _add_steps(task, more, asked, context)


def _resolve_new(context: RunContext, asked: dict[str, Any], decide: bool) -> Task:
    if asked.get("train", {}).get("continued_from") is not None:
        raise ConfigError(
            "train.continued_from belongs to a run that --more trained further; leave it out of a new run's recipe"
        )
    recipe = check(asked, "recipe", Recipe)
    facts = Facts(context.world.size, prepared=_prepared_before(context, recipe), start=_start(recipe))
    recipe = resolve(asked, facts).recipe
    refuse_too_large(recipe.model, context.device, recipe.tuning is not None)  # before the text, which may take hours
    task = task_of(context.run, recipe, context.device, context.progress)
    _prepare(context, task)
    facts = replace(facts, text=task.text_facts(), precision=_precision(context, recipe))
    task = _encode(context, task.of(resolve(asked, facts).recipe))
    facts = replace(facts, vocabularies=task.vocabularies)
    if asked.get("batches", {}).get("batch_tokens") == AUTO:
        facts = replace(facts, batch_parts=_parts_that_fit(asked, facts, task))
    resolved = resolve(asked, _with_length(asked, facts, task, context))
    if decide:
        _write(context, resolved)
    return task.of(resolved.recipe)


def _add_steps(task: Task, more: More, asked: dict[str, Any], context: RunContext) -> Task:
    """A finished run with new steps at its end, in which the learning rate rises and falls again."""
    kept = task.recipe
    tables = _tables(kept)
    chosen_anew = {"steps", "continued_from"} | ({"validate_every"} - asked.get("train", {}).keys())
    if kept.train.schedule not in ENDLESS:
        chosen_anew.add("warmup_steps")
    train = {name: value for name, value in tables["train"].items() if name not in chosen_anew}
    tables["train"] = train | more.train
    facts = _with_length(tables, Facts(context.world.size), task, context)
    resolved = resolve(tables, replace(facts, continued_from=more.continued_from))
    if "learning_rate" in more.train:
        resolved.reasons["train.learning_rate"] = "as asked for"
    _write(context, resolved)
    return task.of(resolved.recipe)


def _write(context: RunContext, resolved: Resolved) -> None:
    """Writes the recipe into the run's folder, with the reasons for all choices, old and new."""
    if not context.world.is_first:
        return
    path, recipe = context.run.recipe, resolved.recipe
    earlier = reasons_in(path.read_text(encoding="utf-8")) if path.is_file() else {}
    write_file(path, render(recipe, earlier | resolved.reasons))
    for key, reason in resolved.reasons.items():
        group, name = key.split(".")
        log.info("%s = %s (%s)", key, _tables(recipe)[group][name], reason)


def _tables(recipe: Recipe) -> dict[str, Any]:
    return recipe.model_dump(mode="json", exclude_none=True)


def _with_harmless(kept: Recipe, asked: dict[str, Any]) -> Recipe:
    """A run's recipe, with the settings of a new request that may change: when to save, and where the data lies."""
    now = check(asked, "the recipe", Recipe)
    saving = now.train.model_dump(mode="json", include=HARMLESS & asked.get("train", {}).keys())
    return kept.but(
        data={**kept.data.model_dump(mode="json"), **now.data.model_dump(mode="json", include=set(PATHS))},
        train={**kept.train.model_dump(mode="json"), **saving},
    )


# Facts of the data


def _prepared_before(context: RunContext, recipe: Recipe) -> Prepared | None:
    """What the report on the data says, if the data was prepared before the run."""
    found = context.world.share("prepared data", task_of(context.run, recipe).prepared_before)
    return found and Prepared(*found)


def _prepare(context: RunContext, task: Task) -> None:
    """Reads, checks and splits text into the run's folder on the first process, unless it is there already.

    Raises:
        DataError: the text cannot be used, or has changed. With `anyway` the run goes on with the data in its folder.
    """

    def prepare() -> None:
        if not context.world.is_first:
            return
        try:
            task.prepare()
        except DataError as error:
            _keep_data(task, error, context.anyway)

    context.world.after_first("data", prepare)


def _keep_data(task: Task, error: DataError, anyway: bool) -> None:
    """Lets a run go on with the data in its folder, although the text that it was made from gave this error.

    Raises:
        DataError: the folder holds no data, or nobody asked to go on `anyway`.
    """
    if not task.run.data.exists():
        raise error
    try:
        _ = task.report
    except DataError as damage:
        raise DataError(f"{damage}; --fresh begins a new run") from None
    if not anyway:
        raise DataError(
            f"{error}; --anyway goes on with the data that the run holds, --fresh begins a new run"
        ) from None
    log.warning("%s; going on with the data that the run holds", error)


def _encode(context: RunContext, task: Task) -> Task:
    """Trains tokenizers and encodes text on the first process, unless they are in the run's folder already."""
    return context.world.after_first("corpora", task.encode)


# Facts of model and machine


def _start(recipe: Recipe) -> Start | None:
    if recipe.start is None:
        return None
    stored = load_model(recipe.start.model)
    config = starting_config(stored.config, recipe)
    if recipe.tuning is not None:
        adapter_for(recipe)  # refuses now, before any text is read, what cannot be tuned
        with torch.device("meta"):
            tune(build_model(_with_some_labels(config, recipe), seed=None), recipe.tuning)
    decode = stored.files.generation if recipe.task == "translation" else {}
    return Start(config, stored.tokenizers.joint, decode)


def _with_some_labels(config: ModelConfig, recipe: Recipe) -> ModelConfig:
    """The architecture with a head of any size, because nobody knows yet how many labels the text has."""
    return config.model_copy(update={"labels": 2}) if recipe.task in OF_LABELS else config


def _precision(context: RunContext, recipe: Recipe) -> Precision:
    asked = recipe.train.precision
    return Precision(*context.world.share("precision", lambda: machine.choose_precision(asked, context.device)))


def _trial_recipe(asked: Mapping[str, Any], facts: Facts) -> Recipe:
    """The recipe as far as it is known, with some number of steps: enough to time a step."""
    return resolve(apply([f"train.steps={TRIAL_STEPS}"], asked), facts).recipe


def _parts_that_fit(asked: Mapping[str, Any], facts: Facts, task: Task) -> int:
    """The smallest number of batches into which a step of the usual size must be cut to fit in memory.

    Raises:
        OutOfMemory: not even small batches fit.
    """
    for parts in PARTS:
        if fits(task.of(_trial_recipe(asked, replace(facts, batch_parts=parts)))):
            return parts
    tokens = _trial_recipe(asked, replace(facts, batch_parts=PARTS[-1])).batches.batch_tokens
    raise OutOfMemory(f"not even batches of {tokens:,} tokens fit in memory; take a smaller model.size")


def _with_length(asked: Mapping[str, Any], facts: Facts, task: Task, context: RunContext) -> Facts:
    """Adds the facts that turn the limit of training into a number of steps."""
    limit, task = limit_of(check(asked, "recipe", Recipe)), task.of(_trial_recipe(asked, facts))
    batches = task.batches  # refuses data without a usable batch before the recipe is written
    if limit.name == "epochs":
        return replace(facts, batches=batches_in(batches, limit.amount))
    if limit.name == "minutes":
        seconds = try_out(task, context.world)
        return replace(facts, seconds=seconds)
    return facts


def batches_in(batches: BatchSource, epochs: float) -> int:
    """How many batches this many epochs have. Epochs differ, so the batches of the first `COUNTED_EPOCHS` are counted;
    later epochs are taken to have their mean.
    """
    whole, part = divmod(epochs, 1)
    counted = min(int(whole), COUNTED_EPOCHS)
    count = sum(len(batches.epoch(number)) for number in range(counted))
    if whole > counted:
        count = round(count / counted * whole)
    return count + (round(part * len(batches.epoch(counted))) if part else 0)
