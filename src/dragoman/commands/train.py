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
import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dragoman import kernels, machine
from dragoman.errors import Diverged, Error, Interrupted
from dragoman.evaluating.evaluate import Evaluation, evaluate, write_scores
from dragoman.files import lock, remove_partial
from dragoman.memory import keep_freed_memory, memory_limit, peak_memory_bytes, usable_memory_bytes
from dragoman.progress import Progress, silent
from dragoman.recipe.plan import FEW_PAIRS
from dragoman.recipe.recipe import Recipe
from dragoman.runs.curves import draw_curves
from dragoman.runs.data import DATA, RunData
from dragoman.runs.follow import follow, tell
from dragoman.runs.listing import SCORES
from dragoman.runs.metrics import read_metrics
from dragoman.runs.more import is_finished, ready_for_more, split_overrides
from dragoman.runs.place import Workplace, find_place, make_folder, note, open_run, remove_unmade
from dragoman.runs.session import BEST, CHECKPOINTS, Session
from dragoman.runs.settle import settle
from dragoman.runs.signals import interrupted_by_signals
from dragoman.runs.validation import signs_of_nothing
from dragoman.training.distributed import join
from dragoman.translating import Translator

TEST = "test"
LEAST_MINUTES, MORE_TIMES = 20, 4
"""What a model that has learnt next to nothing is advised to be trained for: minutes, or times what it was."""

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
    more: bool = False,
    device: str = "auto",
    threads: int | None = None,
    anyway: bool = False,
    progress: Progress = silent,
) -> RunResult:
    """Trains a model from a recipe, from data, or goes on with a run that was begun; then scores it on its test sets.

    `what` is a recipe, a recipe file, the name of one in the library, data (a file, two aligned files, a folder,
    `hub:…`), or a run folder. `overrides` are `dotted.key=value`. The run lies in `runs/name`; an unfinished one of
    that name is continued, unless `fresh` asks for a new name. `more` trains a finished run on, from its last state:
    the limit given with it counts from there, and its rate rises and falls again (`train.learning_rate` may be given
    too). `anyway` goes on although the machine is not the one it began on, or the text that its data was made from has
    changed.

    Raises:
        ConfigError, DataError, TokenizerError: what was given cannot be used; nothing was changed.
        Interrupted: stopped on request; the same command goes on.
        Diverged, OutOfMemory, DiskFull, FolderInUse, CheckpointError: as named.
    """
    with join(device) as world:
        keep_freed_memory()
        device, why = machine.choose_device(device)
        if device == "cpu":
            kernels.prepare(progress if world.is_first else silent)
        with memory_limit(usable_memory_bytes() if device == "cpu" else None):
            if not world.is_first:
                return RunResult(*follow(world, device), ())
            own, new = split_overrides(what, overrides, name, fresh) if more else (overrides, None)
            folder, asked = find_place(what, own, name, Path(runs), fresh)
            make_folder(folder)
            log.info("device %s: %s", device, why)
            # One process that stops lets the others wait: several are ended together, by torchrun.
            advice = f"go on with: dragoman train {folder}"
            stoppable = interrupted_by_signals(advice) if world.size == 1 else nullcontext()
            with lock(folder), stoppable:
                return _run(Workplace(folder, device, anyway, progress, world), asked, new, threads)


def _run(place: Workplace, asked: dict[str, Any] | None, new: dict[str, Any] | None, threads: int | None) -> RunResult:
    """All that happens under the lock of the run's folder. `new` are settings for training a finished run on."""
    folder = place.folder
    for part in (folder, folder / CHECKPOINTS, folder / "corpus"):
        remove_partial(part)
    facts = open_run(folder, asked, threads)
    more = None if new is None else ready_for_more(folder, facts, new)
    finished = more is None and is_finished(folder, facts)
    place.world.share({"folder": str(folder), **facts, "finished": finished})
    if finished:
        log.info(
            "%s is finished, its scores are in %s; --more trains it on, --fresh begins another run of the same",
            folder,
            folder / SCORES,
        )
        return RunResult(folder, facts["steps"], ())
    torch.set_num_threads(facts["threads"])
    try:
        recipe, run_data = settle(place, facts["asked"], more)
    except Error:
        remove_unmade(folder)
        raise
    note(folder, facts, "training")
    tell(place.world, recipe, trial=False)
    try:
        state = Session(place, recipe, run_data).run()
    except (Interrupted, Diverged) as end:
        note(folder, facts, "diverged" if isinstance(end, Diverged) else "stopped")
        raise
    evaluations = score_run(folder, place.device, place.progress)
    _picture(folder)
    _warn_of_nothing_learnt(folder, recipe, run_data, state.best_step)
    note(folder, facts, "finished", steps=state.step, peak_memory_bytes=peak_memory_bytes())
    return RunResult(folder, state.step, evaluations)


def score_run(folder: Path, device: str = "auto", progress: Progress = silent) -> tuple[Evaluation, ...]:
    """Scores a run's best model on its test sets and writes `scores.json`."""
    report = folder / DATA
    names = [path.stem for path in sorted(report.glob("*.jsonl")) if path.stem not in ("train", "dev")]
    names = [name for name in names if (report / f"{name}.jsonl").stat().st_size]
    translator = Translator.load(folder / BEST, device)
    evaluations = tuple(
        evaluate(translator, report / f"{name}.jsonl", name=str(folder / BEST), progress=progress) for name in names
    )
    write_scores(folder / SCORES, evaluations)
    return evaluations


def _warn_of_nothing_learnt(folder: Path, recipe: Recipe, run_data: RunData, best_step: int) -> None:
    """Says so, and what to do, if the best model translates as one that has learnt next to nothing."""
    lines = read_metrics(folder)
    best = [signs for line in lines if line["step"] == best_step and (signs := signs_of_nothing(line))]
    if best:
        minutes = sum(line.get("seconds") or 0 for line in lines) / 60
        advice = _advice(folder, recipe, run_data.report.splits["train"].pairs, minutes)
        log.warning("the best model has learnt next to nothing (%s); %s", best[-1], advice)


def _advice(folder: Path, recipe: Recipe, pairs: int, minutes: float) -> str:
    """What may help a model that learnt next to nothing from so many pairs in so many minutes."""
    if recipe.start is not None:
        return "check that the text is of the model's languages, in its direction, or lower train.learning_rate"
    if pairs < FEW_PAIRS:
        return f"{pairs:,} pairs are too few for a model of its own: give it more text, or fine-tune a finished model"
    more = max(LEAST_MINUTES, math.ceil(MORE_TIMES * minutes))
    advice = f"it was trained too briefly; train it on: dragoman train {folder} --more --minutes {more}"
    if recipe.model.size != "tiny":
        advice += ", or a smaller model in a new run: --fresh --set model.size=tiny"
    return advice


def _picture(folder: Path) -> None:
    try:
        if path := draw_curves(folder):
            log.info("curves: %s", path)
    except Exception as error:
        log.warning("the curves could not be drawn: %s", error)
