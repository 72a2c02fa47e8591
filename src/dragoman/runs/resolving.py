"""Completion of a run's recipe: `resolve_run`.

On the way it prepares data, learns tokenizers and times a trial, because choices depend on them. Each choice is made
once, as soon as its inputs are known. All processes of a run execute these lines.
"""

import copy
import logging
from collections.abc import Collection
from typing import Any

from dragoman import system
from dragoman.config import check, reasons_in, render
from dragoman.errors import ConfigError, DataError
from dragoman.exporting.huggingface import obstacles
from dragoman.files import write_file
from dragoman.run_folder import RunFolder
from dragoman.runs.choices import (
    RecipeDraft,
    choose_before_text,
    choose_by_text,
    choose_by_vocabularies,
    refuse_idle_processes,
)
from dragoman.runs.fill import FillTask
from dragoman.runs.labelled import LabelledTask
from dragoman.runs.language_model import LanguageModelTask
from dragoman.runs.lookup import RunOptions
from dragoman.runs.opening import PATHS, NewSteps
from dragoman.runs.recipe import LIMITS, Recipe, read_recipe
from dragoman.runs.starting import look_at_start, refuse_too_large
from dragoman.runs.steps import choose_length, enlarge_steps, limit_of
from dragoman.runs.task import Task
from dragoman.runs.translation import TranslationTask
from dragoman.runs.trial import try_out
from dragoman.training.distributed import ALONE, World
from dragoman.training.objective import BatchSource
from dragoman.training.settings import CHANGEABLE_ON_RESUME, ENDLESS

TASKS: dict[str, type[Task]] = {
    "translation": TranslationTask,
    "language_model": LanguageModelTask,
    "fill": FillTask,
    "classify": LabelledTask,
    "tag": LabelledTask,
}
"""Class of each task that a recipe can name."""
TRIAL_STEPS = 1_000
"""`train.steps` of a trial, which takes only a few of them."""
COUNTED_EPOCHS = 100
"""Number of epochs whose batches are counted; later ones are estimated."""
SHOWN = {"model.size", "train.steps", "decode.split"}
"""Choices that are shown without `--verbose`."""

log = logging.getLogger(__name__)


def resolve_run(
    run: RunFolder,
    asked: dict[str, Any],
    options: RunOptions,
    world: World = ALONE,
    new_steps: NewSteps | None = None,
    builtin: Collection[str] = (),
    *,
    decide: bool = True,
) -> Task:
    """Return the task of a run with the complete recipe and the encoded text, found in its folder or made there.

    `new_steps` are added to a finished run. `builtin` settings may be changed for a GPU. Without `decide`, the recipe
    of a new run is not written, so that its settings may still change.
    """
    kept = world.share(lambda: read_recipe(run.recipe) if run.recipe.is_file() else None)
    if kept is None:
        return _resolve_new(run, asked, options, world, builtin, decide)
    recipe = _with_changes(kept, asked)
    if recipe.train.steps is None:
        raise ConfigError(f"{run.recipe} is damaged: train.steps is missing; put it back, or use --fresh for a new run")
    refuse_idle_processes(recipe, world.size)
    task = TASKS[recipe.task](run, recipe, options.device, options.progress)
    _prepare(task, options.anyway, world)
    task = world.after_first(task.encode)
    return task if new_steps is None else _add_steps(task, new_steps, asked, world)


def _resolve_new(
    run: RunFolder, asked: dict[str, Any], options: RunOptions, world: World, builtin: Collection[str], decide: bool
) -> Task:
    if asked.get("train", {}).get("continued_from") is not None:
        raise ConfigError(
            "train.continued_from belongs to a run that --more trained further; leave it out of a new run's recipe"
        )
    draft = RecipeDraft(asked)
    task = TASKS[draft.recipe.task](run, draft.recipe, options.device, options.progress)
    prepared = world.share(task.prepared_before)
    choose_before_text(draft, world.size, look_at_start(draft.recipe), prepared)
    task = task.with_recipe(draft.recipe)
    refuse_too_large(task.recipe.model, task.device, task.recipe.tuning is not None)  # reading the text may take hours
    is_new = (task.recipe.task, task.recipe.start) == ("translation", None)
    if world.is_first and is_new and (why := next(obstacles(task.recipe.model), "")):
        log.info("transformers cannot hold this model (%s), but CTranslate2 can; both hold model.preset=paper", why)
    _prepare(task, options.anyway, world)
    choose_by_text(draft, task.text_facts())
    if task.device == "cuda":
        enlarge_steps(draft, builtin)
    precision, reason = world.share(lambda: system.choose_precision(task.recipe.train.precision, task.device))
    task = world.after_first(task.with_recipe(draft.recipe).encode)
    choose_by_vocabularies(draft, task.vocabularies, precision, reason)
    _choose_length(draft, task, world)
    if decide and world.is_first:
        _write(run, draft)
    return task.with_recipe(draft.recipe)


def _add_steps(task: Task, new_steps: NewSteps, asked: dict[str, Any], world: World) -> Task:
    """Add new steps to a finished run, in which the learning rate rises and falls again."""
    tables = _tables(task.recipe)
    chosen_again = {"steps", "continued_from"} | ({"validate_every"} - asked.get("train", {}).keys())
    if task.recipe.train.schedule not in ENDLESS:
        chosen_again.add("warmup_steps")
    train = {name: value for name, value in tables["train"].items() if name not in chosen_again}
    draft = RecipeDraft({**tables, "train": train | new_steps.train})
    _choose_length(draft, task, world, new_steps.continued_from)
    if "learning_rate" in new_steps.train:
        draft.reasons["train.learning_rate"] = "as asked for"
    if world.is_first:
        _write(task.run, draft)
    return task.with_recipe(draft.recipe)


def _write(run: RunFolder, draft: RecipeDraft) -> None:
    recipe = draft.recipe
    earlier = reasons_in(run.recipe.read_text(encoding="utf-8")) if run.recipe.is_file() else {}
    write_file(run.recipe, render(recipe, earlier | draft.reasons))
    for key, reason in draft.reasons.items():
        group, name = key.split(".")
        log.log(
            logging.INFO if key in SHOWN else logging.DEBUG, "%s = %s (%s)", key, _tables(recipe)[group][name], reason
        )
    log.info("%s holds all settings; those that the run chose have their reasons (--verbose shows them)", run.recipe)


def _tables(recipe: Recipe) -> dict[str, Any]:
    return recipe.model_dump(mode="json", exclude_none=True)


def _with_changes(kept: Recipe, asked: dict[str, Any]) -> Recipe:
    """Return a run's recipe with the changeable settings of a new request: times of saving, place of the data."""
    now = check(asked, "the recipe", Recipe)
    saving = now.train.model_dump(mode="json", include=CHANGEABLE_ON_RESUME & asked.get("train", {}).keys())
    return kept.but(
        data={**kept.data.model_dump(mode="json"), **now.data.model_dump(mode="json", include=set(PATHS))},
        train={**kept.train.model_dump(mode="json"), **saving},
    )


def _prepare(task: Task, anyway: bool, world: World) -> None:
    """Read, check and split text into the run's folder on the first process, unless it is there already."""

    def prepare() -> None:
        is_new = not task.run.data.exists()
        try:
            task.prepare()
            for note in task.notes() if is_new else ():
                log.info("%s", note)
        except DataError as error:
            _keep_data(task, error, anyway)

    world.share(prepare)


def _keep_data(task: Task, error: DataError, anyway: bool) -> None:
    """Let a run continue with the data in its folder, although the text that it was made from gave this error."""
    if not task.run.data.exists():
        raise error
    try:
        _ = task.report
    except DataError as damage:
        raise DataError(f"{damage}; --fresh begins a new run") from None
    if not anyway:
        raise DataError(
            f"{error}; --anyway continues with the data that the run holds, --fresh begins a new run"
        ) from None
    log.warning("%s; continuing with the data that the run holds", error)


def _choose_length(draft: RecipeDraft, task: Task, world: World, continued_from: int | None = None) -> None:
    trial = copy.deepcopy(draft)
    for name in LIMITS:
        trial.set(f"train.{name}", None)
    trial.set("train.steps", TRIAL_STEPS)
    choose_length(trial)
    limit, trial_task = limit_of(draft.recipe), task.with_recipe(trial.recipe)
    batches = trial_task.batches  # refuses data without a usable batch before the recipe is written
    count = batches_in(batches, limit.amount) if limit.name == "epochs" else None
    seconds = try_out(trial_task, world) if limit.name == "minutes" else None
    choose_length(draft, count, seconds, continued_from)


def batches_in(batches: BatchSource, epochs: float) -> int:
    """Return the number of batches in this many epochs. Epochs differ, so the batches of the first `COUNTED_EPOCHS` are
    counted; later epochs are taken to have their mean.
    """
    whole, part = divmod(epochs, 1)
    counted = min(int(whole), COUNTED_EPOCHS)
    count = sum(len(batches.epoch(number)) for number in range(counted))
    if whole > counted:
        count = round(count / counted * whole)
    return count + (round(part * len(batches.epoch(counted))) if part else 0)
