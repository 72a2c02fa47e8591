"""Training of a run (`train`): data -> tokenizer -> trained and scored model, in one run folder, resumed by the same
call.

Each stage is written completely or not at all, and found again, so a run that was interrupted anywhere continues from
there. Every process of a run executes these lines; only the first writes files and prints. `train_seeds` trains one
recipe from several seeds, to measure its quality and the part of luck in it.
"""

import logging
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dragoman import system
from dragoman.compiled import kernels
from dragoman.config import check
from dragoman.errors import ConfigError, Diverged, Error, Interrupted
from dragoman.evaluating.evaluation import Evaluation
from dragoman.evaluating.labels_evaluation import LabelEvaluation
from dragoman.evaluating.scores import read_scores
from dragoman.evaluating.significance import SeedScores
from dragoman.files import lock
from dragoman.memory import keep_freed_memory, memory_limit, peak_memory_bytes, usable_memory_bytes
from dragoman.progress import Progress, silent
from dragoman.run_folder import RunFolder
from dragoman.runs.language_model import TextEvaluation
from dragoman.runs.lookup import (
    RunOptions,
    RunRequest,
    What,
    check_name,
    command_for,
    default_name,
    find_recipe,
    identify_run,
    only_one,
    run_named,
)
from dragoman.runs.metrics_log import draw_curves, read_metrics
from dragoman.runs.opening import open_run
from dragoman.runs.recipe import Recipe
from dragoman.runs.resolving import resolve_run
from dragoman.runs.session import Session
from dragoman.runs.signals import interrupted_by_signals
from dragoman.runs.status import make_folder, record_status, remove_unmade
from dragoman.runs.task import Task
from dragoman.training.checkpoint import TrainState
from dragoman.training.distributed import World, join, refuse_several

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunResult:
    """A finished run."""

    folder: Path
    steps: int
    evaluations: tuple[Evaluation | LabelEvaluation | TextEvaluation, ...]
    """Scores of the best model on each test set of the run; empty if the run was finished before."""
    task: str = "translation"
    """Task of the recipe."""


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
    task: str | None = None,
    minutes: float | None = None,
    progress: Progress | bool = True,
    **unknown: Any,
) -> RunResult:
    """Train a model from a recipe or from data, or continue a run; then score it on its test sets.

    `what` is a recipe, a recipe file, the name of one in the library, data (a file, two aligned files, a folder,
    `hub:…`), or a run folder. `task` and `minutes` are settings, and `overrides` are others, as `dotted.key=value`. The
    run is in `runs/name`; an unfinished run of that name is continued, unless `fresh` asks for a new name. `more`
    trains a finished run further from its last state: the limit given with it counts from there, and the learning rate
    rises and falls again (`train.learning_rate` may be given too). `anyway` continues a run even on another machine, or
    after the text that its data was made from has changed.

    While it runs, it sets the number of torch threads, limits this process's memory, and handles signals, which stop it
    after a step; then it restores all three. On a processor, the process keeps the memory that it frees from then on.

    Raises:
        ConfigError, DataError, TokenizerError: what was given cannot be used; nothing was changed.
        Interrupted: stopped on request; the same call continues.
        Diverged, OutOfMemory, DiskFull, FolderInUse, CheckpointError: as named.
    """
    keywords = {name: value for name, value in locals().items() if name not in ("what", "unknown")}
    return train_run(what, RunOptions.from_keywords(**keywords, **unknown))


def train_run(what: What, options: RunOptions) -> RunResult:
    """Train a run, as `train` does."""
    with join(options.device) as world:
        device, why = system.choose_device(options.device)
        options = replace(options, device=device, progress=options.progress if world.is_first else silent)
        if device == "cpu":
            system.warn_of_spinning()
            keep_freed_memory()
            kernels.prepare(options.progress)
        with memory_limit(usable_memory_bytes() if device == "cpu" else None):

            def look_up() -> RunRequest:
                system.choose_threads(options.threads)  # refuses a wrong number before a folder is made
                request = identify_run(what, options)
                make_folder(request.run)
                log.info("device %s: %s", device, why)
                return request

            request = world.share(look_up)
            with _lock_run(request.run, world, options.threads):
                return _train(request, options, world)


@contextmanager
def _lock_run(run: RunFolder, world: World, threads: int | None) -> Generator[None]:
    """Lock the run's folder on the first process. A single process can be interrupted anywhere. One of several must not
    stop alone, because the others would wait for it; torchrun ends them together.
    """
    with ExitStack() as stack:
        if world.is_first:
            stack.enter_context(lock(run.path))
        if world.size == 1:
            stack.enter_context(interrupted_by_signals(f"continue with: {command_for(run, threads)}"))
        yield


def _train(request: RunRequest, options: RunOptions, world: World) -> RunResult:
    """Do everything that happens while the run's folder is locked."""
    run = request.run
    opened = world.share(lambda: open_run(request, options.threads))
    if opened.finished_at is not None:
        log.info(
            "%s is finished, its scores are in %s; --more trains it further, --fresh begins another run of the same",
            run,
            run.scores,
        )
        recipe = check(opened.asked, str(run), Recipe)
        return RunResult(run.path, opened.finished_at, (), recipe.task)
    unusual = opened.threads if opened.threads != system.choose_threads(None) else None
    with system.torch_threads(opened.threads):
        try:
            task = resolve_run(run, opened.asked, options, world, opened.new_steps, request.builtin)
        except Error:
            if world.is_first:
                remove_unmade(run)
            raise
        session = Session.begin(task, world, options.anyway, command_for(run, unusual))
        with _record_end(run, world):
            state = session.train()
        evaluations = _finish(task, state) if world.is_first else ()
        return RunResult(run.path, state.step, evaluations, task.recipe.task)


def _finish(task: Task, state: TrainState) -> tuple[Evaluation | LabelEvaluation | TextEvaluation, ...]:
    run, evaluations = task.run, tuple(task.score())
    try:
        if path := draw_curves(run):
            log.info("curves: %s", path)
    except Exception as error:
        log.warning("the curves could not be drawn: %s", error)
    if warning := task.warning(read_metrics(run), state.best_step):
        log.warning("%s", warning)
    record_status(run, "finished", steps=state.step, peak_memory_bytes=peak_memory_bytes(task.device))
    return evaluations


@contextmanager
def _record_end(run: RunFolder, world: World) -> Generator[None]:
    """Record that the run is being trained, and if it stops or diverges, that it did."""
    if not world.is_first:
        yield
        return
    record_status(run, "training")
    try:
        yield
    except (Interrupted, Diverged) as end:
        record_status(run, "diverged" if isinstance(end, Diverged) else "stopped")
        raise


def train_seeds(what: What = "phrasebook", seeds: int = 3, **arguments: Any) -> tuple[RunResult, ...]:
    """Train the runs NAME-seed1, NAME-seed2 … one after another, with `train.seed` 1, 2 …

    Calling again continues an interrupted group. All runs use the same split of the data. The other `arguments` are
    those of `train`.

    Raises:
        ConfigError: `what` is a run, `seeds` is below one, or `overrides` set a seed; and the errors of `train`.
    """
    what, options = only_one(what), RunOptions.from_keywords(**arguments)
    refuse_several("a group of seeds (--seeds)")
    if seeds < 1:
        raise ConfigError(f"seeds must be at least 1, but is {seeds}")
    if run_named(what) is not None:
        raise ConfigError(f"{what} is a run, which has one seed; several seeds need a recipe or data")
    if any(text.partition("=")[0].strip() == "train.seed" for text in options.overrides):
        raise ConfigError("train.seed cannot be set when several seeds are trained: it is 1, 2 and so on")
    check_name(options.name)
    name = options.name or default_name(find_recipe(what, options.overrides), options.runs, "-seed1")
    group, number = Path(options.runs) / name, 2
    while options.fresh and seed_runs(group):
        group, number = group.with_name(f"{name}-{number}"), number + 1
    results: list[RunResult] = []
    for seed in range(1, seeds + 1):
        overrides, name = [*options.overrides, f"train.seed={seed}"], f"{group.name}-seed{seed}"
        results.append(train_run(what, replace(options, overrides=overrides, name=name, fresh=False)))
    return tuple(results)


def seed_runs(group: Path) -> list[Path]:
    """Return the runs that `train_seeds` made under this name, by seed."""
    numbered = {
        int(number): path
        for path in group.parent.glob(f"{group.name}-seed*")
        if (number := path.name.removeprefix(f"{group.name}-seed")).isdigit() and RunFolder(path).is_run
    }
    return [numbered[number] for number in sorted(numbered)]


def spreads(runs: Sequence[Path]) -> list[SeedScores]:
    """Return the scores of several runs, for each test set and metric that all of them have."""
    scores = [read_scores(RunFolder(run).scores) for run in runs]
    return [
        SeedScores(test, [of_run[test][metric] for of_run in scores])
        for test, metrics in (scores[0] if scores else {}).items()
        for metric in metrics
        if all(metric in of_run.get(test, {}) for of_run in scores)
    ]
