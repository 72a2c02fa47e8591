"""From what was asked to what is done: every setting decided, and written down once, with the reasons."""

import logging
from typing import Any

from dragoman.config import check, override, reasons_in, render
from dragoman.errors import ConfigError, OutOfMemory
from dragoman.files import write_file
from dragoman.recipe.plan import (
    LONGEST_WARMUP,
    VALIDATIONS,
    Plan,
    check_share,
    choose_architecture,
    choose_languages,
    choose_optimiser,
    choose_precision,
    choose_search,
    choose_share,
    choose_sizes,
    choose_steps,
    limits_given,
)
from dragoman.recipe.recipe import Recipe, read_recipe
from dragoman.runs.data import gather, prepare, training_batches
from dragoman.runs.facts import PATHS
from dragoman.runs.more import More
from dragoman.runs.options import RunContext
from dragoman.runs.session import refuse_too_large
from dragoman.runs.trial import fits, try_out
from dragoman.store import StoredModel, load_model
from dragoman.tasks.run_data import RunData
from dragoman.text.prepared import read_split
from dragoman.tokenizing.training import TokenizerSettings
from dragoman.training.distributed import World
from dragoman.training.schedule import ENDLESS
from dragoman.training.settings import HARMLESS
from dragoman.training.task import BatchSource

SHARE_OF_STEPS, SHARE_OF_VALIDATION = 0.97, 0.2
"""Of the minutes asked for: training and validation together, and validation at most; the rest is for saving."""
COUNTED_EPOCHS = 100
PARTS = (1, 2, 4, 8, 16, 32)
"""In how many batches a step may be cut to fit in memory."""
KEPT = {"model": "architecture", "tokenizer": "tokenizer"}
CHANGEABLE = {"dropout", "attention_dropout", "activation_dropout"}
"""What fine-tuning keeps of a model, and what of it may change."""

log = logging.getLogger(__name__)


def settle(context: RunContext, asked: dict[str, Any], more: More | None = None) -> tuple[Recipe, RunData]:
    """The resolved recipe and all that training needs: found in the folder, or made there of what was asked.

    Where `more` is asked of a finished run, its recipe gets new steps.
    """
    path = context.run.recipe
    if path.is_file():
        recipe = _with_harmless(read_recipe(path), asked)
        if recipe.train.steps is None:
            raise ConfigError(f"{path} is damaged: train.steps is missing; put it back, or use --fresh for a new run")
        check_share(recipe, context.world.size)
        prepare(context, recipe)
        run_data = gather(context, recipe)
        return (recipe if more is None else _add_steps(recipe, more, asked, run_data, context)), run_data
    plan = Plan(override(asked, ()), {})
    if plan.tables.get("train", {}).get("continued_from") is not None:
        raise ConfigError(
            "train.continued_from belongs to a finished run that --more trained on; leave it out of a new run's recipe"
        )
    run_data = _decide(plan, context)
    recipe = plan.recipe()
    write_file(path, render(recipe, plan.reasons))
    _tell_choices(plan)
    return recipe, run_data


def _tell_choices(plan: Plan) -> None:
    for key, reason in plan.reasons.items():
        group, name = key.split(".")
        log.info("%s = %s (%s)", key, plan.tables[group][name], reason)


def _add_steps(kept: Recipe, more: More, asked: dict[str, Any], run_data: RunData, context: RunContext) -> Recipe:
    """The recipe of a finished run with new steps at its end, in which the rate rises and falls once more."""
    path = context.run.recipe
    plan = Plan(kept.model_dump(mode="json", exclude_none=True), {})
    chosen_anew = {"steps", "continued_from"} | ({"validate_every"} - asked.get("train", {}).keys())
    if kept.train.schedule not in ENDLESS:
        chosen_anew.add("warmup_steps")
    for key in chosen_anew:
        plan.tables["train"].pop(key, None)
    plan.tables["train"] |= more.train
    if "learning_rate" in more.train:
        plan.reasons["train.learning_rate"] = "as asked for"
    steps, reason = _steps(plan, run_data, context)
    choose_steps(plan, steps, f"{steps:,} new ones: {reason}")
    if "train.warmup_steps" in plan.reasons:
        plan.reasons["train.warmup_steps"] = f"a tenth of the new steps, at most {LONGEST_WARMUP:,}"
    plan.tables["train"] |= {"steps": more.continued_from + steps, "continued_from": more.continued_from}
    plan.reasons["train.continued_from"] = "the run was finished there, and is trained on"
    recipe = plan.recipe()
    write_file(path, render(recipe, reasons_in(path.read_text(encoding="utf-8")) | plan.reasons))
    _tell_choices(plan)
    return recipe


def _decide(plan: Plan, context: RunContext) -> RunData:
    """Fills in the plan, in the order in which one choice needs another, and makes what the choices need."""
    refuse_too_large(plan.recipe().model, context.device)  # the text may take hours
    choose_languages(plan)
    fitted = _wants_fitting(plan, context.world)
    choose_share(plan, context.world.size)
    report = prepare(context, plan.recipe())
    choose_sizes(plan, report.splits["train"].pairs)
    if plan.tables.get("start"):
        _take_over(plan)
    choose_search(plan, (source for source, _ in read_split(context.run.data, "train")))
    choose_precision(plan, context.device)
    run_data = gather(context, plan.recipe())
    choose_architecture(plan, run_data.tokenizers)
    choose_optimiser(plan)
    if fitted:
        fit_batches(plan, run_data, context.device)
    steps, reason = _steps(plan, run_data, context)
    choose_steps(plan, steps, reason)
    return run_data


def _with_harmless(kept: Recipe, asked: dict[str, Any]) -> Recipe:
    """The recipe of a run, with what may be asked differently: when to save, and where the same data lies."""
    now = check(asked, "the recipe", Recipe)
    saving = now.train.model_dump(mode="json", include=HARMLESS & asked.get("train", {}).keys())
    return kept.but(
        data={**kept.data.model_dump(mode="json"), **now.data.model_dump(mode="json", include=set(PATHS))},
        train={**kept.train.model_dump(mode="json"), **saving},
    )


def _take_over(plan: Plan) -> None:
    """The architecture and the kind of vocabulary of the model that fine-tuning starts from."""
    stored: StoredModel = load_model(plan.tables["start"]["model"])
    tokenizer = check({"joint": stored.tokenizers.joint}, "tokenizer", TokenizerSettings)
    for group, settings in (("model", stored.config), ("tokenizer", tokenizer)):
        kept, given = settings.model_dump(mode="json", exclude_none=True), plan.tables.get(group, {})
        changed = [name for name, value in given.items() if name not in CHANGEABLE and kept.get(name) != value]
        if changed:
            raise ConfigError(f"fine-tuning keeps the model's {KEPT[group]}; {group}.{changed[0]} cannot be set")
        plan.tables[group] = {**kept, **given}


def fit_batches(plan: Plan, run_data: RunData, device: str) -> None:
    """The step that suits the data, in as few batches as fit in this machine's memory.

    Raises:
        OutOfMemory: not even small batches fit.
    """
    tokens = wanted = plan.tables["batches"]["batch_tokens"]
    for parts in PARTS:
        plan.tables["batches"]["batch_tokens"] = tokens = -(-wanted // parts)
        plan.tables.setdefault("train", {})["accumulate"] = parts
        if fits(_trial_recipe(plan), run_data, device):
            plan.reasons["batches.batch_tokens"] = "auto: tried, and fits in memory"
            plan.reasons["train.accumulate"] = f"for {wanted:,} tokens a step"
            return
    raise OutOfMemory(f"not even batches of {tokens:,} tokens fit in memory; take a smaller model.size")


def _wants_fitting(plan: Plan, world: World) -> bool:
    """Whether batches are to be fitted to memory; what is fitted is then chosen as if nothing had been asked."""
    batches = plan.tables.get("batches", {})
    if batches.get("batch_tokens") != "auto":
        return False
    if world.size > 1:
        raise ConfigError("batches.batch_tokens = 'auto' tries what fits in one process; give several a number")
    del batches["batch_tokens"]
    return True


def _trial_recipe(plan: Plan) -> Recipe:
    """The recipe as far as it is decided, with some number of steps: enough to try out what a step costs."""
    trial = Plan(override(plan.tables, ()), {})
    choose_steps(trial, 1_000, "a trial")
    return trial.recipe()


def _batches_in(batches: BatchSource, epochs: float) -> int:
    """Batches in so many epochs. Every epoch cuts its own: the first are counted, later ones go by their mean."""
    whole, part = divmod(epochs, 1)
    counted = min(int(whole), COUNTED_EPOCHS)
    count = sum(len(batches.epoch(number)) for number in range(counted))
    if whole > counted:
        count = round(count / counted * whole)
    return count + (round(part * len(batches.epoch(counted))) if part else 0)


def _steps(plan: Plan, run_data: RunData, context: RunContext) -> tuple[int, str]:
    """The limit that was asked for, in steps."""
    (limit, amount), *_ = limits_given(plan).items()
    amount = float(amount)  # pyright: ignore[reportArgumentType]
    asked = "as asked for" if plan.tables["train"].get(limit) else "the default"
    recipe = _trial_recipe(plan)
    batches = training_batches(run_data, recipe)  # what cannot be batched is refused before the recipe is settled
    if limit == "steps":
        return int(amount), asked
    if limit == "epochs":
        return max(1, _batches_in(batches, amount) // recipe.train.accumulate), f"{amount:,.10g} epochs, {asked}"
    step, validation = try_out(recipe, run_data, context.device, context.progress, context.world)
    seconds, every = 60 * amount * SHARE_OF_STEPS, plan.tables["train"].get("validate_every")
    reason = f"{amount:,.10g} minutes, {asked}, at {step:.3f} s a step in a trial"
    if every:
        return max(1, round(seconds / (step + validation / every))), reason
    count = max(1, min(VALIDATIONS, int(SHARE_OF_VALIDATION * 60 * amount / validation))) if validation else 0
    steps = max(1, round((seconds - count * validation) / step))
    if count:
        plan.choose("train", "validate_every", -(-steps // count), f"{count} validations of {validation:.0f} s")
    return steps, reason
