"""One run: data -> tokenizer -> train -> scored model, in one folder, resumed by the same command.

    runs/NAME/
      recipe.toml     every setting, with the reason of those nobody gave
      run.json        what was asked for, and how far it is
      data/           train, dev and test, and data.json, the report on them
      tokenizer/  corpus/  checkpoints/step-…/
      metrics.jsonl   each step once
      best/  final/   model folders
      scores.json     on the test sets, with signatures

Each stage is written whole or not at all, and found again: a run that was cut off anywhere goes on from there.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dragoman import machine
from dragoman.config import check, override, parse, render
from dragoman.data.prepare import read_split
from dragoman.data.tokenizer_training import TokenizerSettings
from dragoman.errors import ConfigError, Diverged, Error, Interrupted
from dragoman.evaluating.evaluate import Evaluation, evaluate, write_scores
from dragoman.files import lock, remove_partial, write_file
from dragoman.model import EncoderDecoder, LanguageModel
from dragoman.progress import Progress, silent
from dragoman.recipe.curves import draw_curves
from dragoman.recipe.materials import DATA, Materials, gather, prepare, training_batches
from dragoman.recipe.place import PATHS, find_place, make_folder, note, open_run, remove_unmade
from dragoman.recipe.plan import (
    VALIDATIONS,
    Plan,
    choose_architecture,
    choose_languages,
    choose_precision,
    choose_search,
    choose_sizes,
    choose_steps,
    limits_given,
)
from dragoman.recipe.recipe import RECIPE, Recipe
from dragoman.recipe.session import BEST, CHECKPOINTS, OnDevice, Session, fresh_state
from dragoman.recipe.validation import Validation
from dragoman.store import StoredModel, load_model
from dragoman.training import TrainState
from dragoman.training.loop import train_step
from dragoman.training.settings import HARMLESS

SCORES = "scores.json"
SHARE_OF_STEPS, SHARE_OF_VALIDATION = 0.97, 0.2
"""Of the minutes asked for: training and validation together, and validation at most; the rest is for saving."""
TRIAL_SECONDS, TRIAL_WARMUP = 12.0, 3
KEPT = {"model": "architecture", "tokenizer": "tokenizer"}
CHANGEABLE = {"dropout", "attention_dropout", "activation_dropout"}
"""What fine-tuning keeps of a model, and what of it may change."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunResult:
    folder: Path
    steps: int
    evaluations: tuple[Evaluation, ...]
    """On each test set of the run, by its best model."""


def train(
    what: Recipe | str | Path | Sequence[str | Path] = "phrasebook",
    *,
    overrides: Sequence[str] = (),
    name: str | None = None,
    runs: Path | str = "runs",
    fresh: bool = False,
    device: str = "auto",
    threads: int | None = None,
    anyway: bool = False,
    progress: Progress = silent,
) -> RunResult:
    """Trains a model from a recipe, from data, or goes on with a run that was begun; then scores it on its test sets.

    `what` is a recipe, a recipe file, the name of one in the library, data (a file, two aligned files, a folder,
    `hub:…`), or a run folder. `overrides` are `dotted.key=value`. The run lies in `runs/name`; an unfinished one of
    that name is continued, unless `fresh` asks for a new name. `anyway` goes on although the machine is not the one it
    began on, or the text that its data was made from has changed.

    Raises:
        ConfigError, DataError, TokenizerError: what was given cannot be used; nothing was changed.
        Interrupted: stopped on request; the same command goes on.
        Diverged, OutOfMemory, DiskFull, FolderInUse, CheckpointError: as named.
    """
    device, why = machine.choose_device(device)
    folder, asked = find_place(what, overrides, name, Path(runs), fresh)
    make_folder(folder)
    with lock(folder):
        for part in (folder, folder / CHECKPOINTS, folder / "corpus"):
            remove_partial(part)
        facts = open_run(folder, asked, threads)
        if facts["status"] == "finished":
            log.info("%s is finished; nothing is done again. Use --fresh for another run of the same", folder)
            return RunResult(folder, facts["steps"], ())
        log.info("device %s: %s", device, why)
        torch.set_num_threads(facts["threads"])
        try:
            recipe, materials = _settle(folder, facts, device, anyway, progress)
        except Error:
            remove_unmade(folder)
            raise
        note(folder, facts, "training")
        try:
            state = Session(folder, recipe, materials, device, anyway, progress).run()
        except (Interrupted, Diverged) as end:
            note(folder, facts, "diverged" if isinstance(end, Diverged) else "stopped")
            raise
        evaluations = score_run(folder, device, progress)
        _picture(folder)
        note(folder, facts, "finished", steps=state.step)
        return RunResult(folder, state.step, evaluations)


def score_run(folder: Path, device: str = "auto", progress: Progress = silent) -> tuple[Evaluation, ...]:
    """Scores a run's best model on its test sets and writes `scores.json`."""
    report = folder / DATA
    names = [path.stem for path in sorted(report.glob("*.jsonl")) if path.stem not in ("train", "dev")]
    names = [name for name in names if (report / f"{name}.jsonl").stat().st_size]
    evaluations = tuple(
        evaluate(folder / BEST, report / f"{name}.jsonl", device=device, progress=progress) for name in names
    )
    write_scores(folder / SCORES, evaluations)
    return evaluations


# From what was asked to what is done


def _settle(
    folder: Path, facts: dict[str, Any], device: str, anyway: bool, progress: Progress
) -> tuple[Recipe, Materials]:
    """The resolved recipe and all that training needs; the recipe is written down, with reasons, once."""
    path = folder / RECIPE
    if path.is_file():
        recipe = _with_harmless(parse(path.read_text(encoding="utf-8"), str(path), Recipe), facts["asked"])
        return recipe, gather(folder, recipe, prepare(folder, recipe, anyway, progress), progress)
    plan = Plan(override(facts["asked"], ()), {})
    choose_languages(plan)
    report = prepare(folder, plan.recipe(), anyway, progress)
    choose_sizes(plan, report.splits["train"].pairs)
    if plan.tables.get("start"):
        _take_over(plan)
    choose_search(plan, (source for source, _ in read_split(folder / DATA, "train")))
    choose_precision(plan, device)
    materials = gather(folder, plan.recipe(), report, progress)
    choose_architecture(plan, materials.tokenizers)
    steps, reason = _steps(plan, materials, device, progress)
    choose_steps(plan, steps, reason)
    recipe = plan.recipe()
    write_file(path, render(recipe, plan.reasons))
    for key, reason in plan.reasons.items():
        group, name = key.split(".")
        log.info("%s = %s (%s)", key, plan.tables[group][name], reason)
    return recipe, materials


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


def _steps(plan: Plan, materials: Materials, device: str, progress: Progress) -> tuple[int, str]:
    """The limit that was asked for, in steps."""
    (limit, amount), *_ = limits_given(plan).items()
    amount = float(amount)  # pyright: ignore[reportArgumentType]
    asked = "as asked for" if plan.tables["train"].get(limit) else "nothing else was asked for"
    trial = Plan(override(plan.tables, ()), {})
    choose_steps(trial, 1_000, "a trial")
    recipe = trial.recipe()
    batches = training_batches(materials, recipe)  # what cannot be batched is refused before the recipe is settled
    if limit == "steps":
        return int(amount), asked
    if limit == "epochs":
        whole = sum(len(batches.epoch(number)) for number in range(int(amount)))
        part = round((amount - int(amount)) * len(batches.epoch(int(amount)))) if amount % 1 else 0
        return max(1, (whole + part) // recipe.train.accumulate), f"{amount:g} epochs, {asked}"
    step, validation = _trial(recipe, materials, device, progress)
    count = max(1, min(VALIDATIONS, int(SHARE_OF_VALIDATION * 60 * amount / validation))) if validation else 0
    steps = max(1, round((60 * amount * SHARE_OF_STEPS - count * validation) / step))
    if count:
        plan.choose("train", "validate_every", max(1, steps // count), f"{count} validations of {validation:.0f} s")
    return steps, f"{amount:g} minutes, {asked}, at {step:.3f} s a step in a trial"


def _trial(recipe: Recipe, materials: Materials, device: str, progress: Progress) -> tuple[float, float]:
    """Seconds of a step and of a validation, by a model that is thrown away."""
    model, state = fresh_state(recipe, device)
    step = _seconds_a_step(model, state, recipe, materials, device, progress)
    if materials.dev is None:
        return step, 0.0
    validation = Validation(recipe, materials, device)
    started = time.monotonic()
    validation.measure(state.weights)
    return step, time.monotonic() - started


def _seconds_a_step(
    model: EncoderDecoder | LanguageModel,
    state: TrainState,
    recipe: Recipe,
    materials: Materials,
    device: str,
    progress: Progress,
) -> float:
    batches = OnDevice(training_batches(materials, recipe), device)
    order = batches.epoch(0)
    counts: list[tuple[int, float]] = []
    model.train()
    with progress.track("trial", unit="steps") as advance:
        begin = time.monotonic()
        while time.monotonic() - begin < TRIAL_SECONDS or len(counts) <= TRIAL_WARMUP:
            taken = [batches.batch(order[(len(counts) + i) % len(order)]) for i in range(recipe.train.accumulate)]
            started = time.monotonic()
            report = train_step(model, taken, recipe.train, state)
            counts.append((report.tokens, time.monotonic() - started))
            advance(1)
    timed = counts[TRIAL_WARMUP:]
    tokens_a_second = sum(tokens for tokens, _ in timed) / sum(seconds for _, seconds in timed)
    mean_tokens = recipe.train.accumulate * _tokens_in_all(materials, recipe) / len(order)
    return mean_tokens / tokens_a_second


def _tokens_in_all(materials: Materials, recipe: Recipe) -> int:
    """Tokens of an epoch, special symbols included."""
    corpus = materials.train
    return int(corpus.source_lengths.sum() + corpus.target_lengths.sum()) + 3 * len(corpus)


def _picture(folder: Path) -> None:
    try:
        if path := draw_curves(folder):
            log.info("curves: %s", path)
    except Exception as error:
        log.warning("the curves could not be drawn: %s", error)
