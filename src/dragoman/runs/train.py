"""`train`: data -> tokenizer -> trained and scored model, in one run folder, resumed by the same call.

Each stage is written completely or not at all, and found again, so a run that was interrupted anywhere goes on from
there. Every process of a run executes these lines; only the first writes files and prints.
"""

import logging
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman import machine
from dragoman.compiled import kernels
from dragoman.config import check
from dragoman.errors import Diverged, Error, Interrupted
from dragoman.evaluating.evaluation import Evaluation
from dragoman.evaluating.labels_evaluation import LabelEvaluation
from dragoman.files import lock, remove_partial
from dragoman.memory import memory_limit, peak_memory_bytes, usable_memory_bytes
from dragoman.progress import Progress, silent
from dragoman.run_folder import RunFolder
from dragoman.runs.changes import open_run
from dragoman.runs.curves import draw_curves
from dragoman.runs.facts import make_folder, note, remove_unmade
from dragoman.runs.judgement import Judgement, judge
from dragoman.runs.language_model import TextEvaluation
from dragoman.runs.lookup import What, find_run
from dragoman.runs.metrics import read_metrics
from dragoman.runs.more import More, is_finished, ready_for_more, split_overrides
from dragoman.runs.options import RunContext
from dragoman.runs.recipe import Recipe
from dragoman.runs.resolving import resolve_run
from dragoman.runs.session import Session
from dragoman.runs.signals import interrupted_by_signals
from dragoman.runs.task import Task
from dragoman.training import TrainState
from dragoman.training.distributed import World, join

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunResult:
    """A finished run."""

    folder: Path
    steps: int
    evaluations: tuple[Evaluation | LabelEvaluation | TextEvaluation, ...]
    """Scores of the best model on each test set of the run; empty if the run was finished before."""
    task: str = "translation"
    """The task that the recipe names."""
    judgement: Judgement | None = None
    """Whether the scores that the recipe expects were met; None if it expects none."""


def train(
    what: What = "phrasebook",
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
    """Trains a model from a recipe or from data, or continues a run; then scores it on its test sets.

    `what` is a recipe, a recipe file, the name of one in the library, data (a file, two aligned files, a folder,
    `hub:…`), or a run folder. `overrides` are `dotted.key=value`. The run lies in `runs/name`; an unfinished run of
    that name is continued, unless `fresh` asks for a new name. `more` trains a finished run further from its last
    state: the limit given with it counts from there, and the learning rate rises and falls again
    (`train.learning_rate` may be given too). `anyway` continues a run even on another machine, or after the text that
    its data was made from has changed.

    While it runs, it sets the number of torch threads, limits this process's memory, and handles signals, which stop it
    after a step; then it restores all three. `dragoman.keep_freed_memory()` before the first call makes steps faster.

    Raises:
        ConfigError, DataError, TokenizerError: what was given cannot be used; nothing was changed.
        Interrupted: stopped on request; the same call goes on.
        Diverged, OutOfMemory, DiskFull, FolderInUse, CheckpointError: as named.
    """
    with join(device) as world:
        device, why = machine.choose_device(device)
        if device == "cpu":
            kernels.prepare(progress if world.is_first else silent)
        with memory_limit(usable_memory_bytes() if device == "cpu" else None):

            def look_up() -> dict[str, Any]:
                machine.choose_threads(threads)
                own, new = split_overrides(what, overrides, name, fresh) if more else (overrides, None)
                run, asked, expectation = find_run(what, own, name, Path(runs), fresh)
                make_folder(run)
                log.info("device %s: %s", device, why)
                expected = expectation and expectation._asdict()
                return {"folder": str(run), "asked": asked, "expected": expected, "new": new}

            found = world.share("run folder", look_up)
            run = RunFolder(Path(found["folder"]))
            context = RunContext(run, device, anyway, progress if world.is_first else silent, world)
            with _owned(run, world):
                return _run(context, found["asked"], found["expected"], found["new"], threads)


@contextmanager
def _owned(run: RunFolder, world: World) -> Generator[None]:
    """Locks the run's folder on the first process. A single process can be interrupted anywhere. One of several must
    not stop alone, because the others would wait for it; torchrun ends them together.
    """
    with ExitStack() as stack:
        if world.is_first:
            stack.enter_context(lock(run.path))
        if world.size == 1:
            stack.enter_context(interrupted_by_signals(f"go on with: dragoman train {run}"))
        yield


def _run(
    context: RunContext,
    asked: dict[str, Any] | None,
    expected: dict[str, Any] | None,
    new: dict[str, Any] | None,
    threads: int | None,
) -> RunResult:
    """Everything that happens while the run's folder is locked. `new` are the settings for new steps (`--more`)."""
    run, world = context.run, context.world
    begun = world.share("facts", lambda: _begin(run, asked, expected, new, threads))
    if begun["finished"]:
        log.info(
            "%s is finished, its scores are in %s; --more trains it further, --fresh begins another run of the same",
            run,
            run.scores,
        )
        task = check(begun["asked"], str(run), Recipe).task
        return RunResult(run.path, begun["steps"], (), task, judge(run) if world.is_first else None)
    with machine.torch_threads(begun["threads"]):
        try:
            more = begun["more"] and More(**begun["more"])
            task = resolve_run(context, begun["asked"], more)
        except Error:
            if world.is_first:
                remove_unmade(run)
            raise
        session = Session.begin(context, task)
        with _status_noted(run, world):
            state = session.train()
        evaluations = _finish(task, state) if world.is_first else ()
        return RunResult(run.path, state.step, evaluations, task.recipe.task, judge(run) if world.is_first else None)


def _finish(task: Task, state: TrainState) -> tuple[Evaluation | LabelEvaluation | TextEvaluation, ...]:
    """Scores the best model, draws the curves, and warns of a model that has learnt next to nothing."""
    run, evaluations = task.run, tuple(task.score())
    _draw(run)
    if warning := task.warning(read_metrics(run), state.best_step):
        log.warning("%s", warning)
    note(run, "finished", steps=state.step, peak_memory_bytes=peak_memory_bytes())
    return evaluations


def _begin(
    run: RunFolder,
    asked: dict[str, Any] | None,
    expected: dict[str, Any] | None,
    new: dict[str, Any] | None,
    threads: int | None,
) -> dict[str, Any]:
    """The content of `run.json`, with two keys more: whether the run is finished, and what to add to it."""
    for part in (run.path, run.checkpoints, run.corpora):
        remove_partial(part)
    facts = open_run(run, asked, expected, threads)
    more = None if new is None else ready_for_more(run, facts, new)
    finished = more is None and is_finished(run, facts)
    return {**facts, "more": more and more._asdict(), "finished": finished}


@contextmanager
def _status_noted(run: RunFolder, world: World) -> Generator[None]:
    """Records that the run is being trained, and if it stops or diverges, that it did."""
    if not world.is_first:
        yield
        return
    note(run, "training")
    try:
        yield
    except (Interrupted, Diverged) as end:
        note(run, "diverged" if isinstance(end, Diverged) else "stopped")
        raise


def _draw(run: RunFolder) -> None:
    try:
        if path := draw_curves(run):
            log.info("curves: %s", path)
    except Exception as error:
        log.warning("the curves could not be drawn: %s", error)
