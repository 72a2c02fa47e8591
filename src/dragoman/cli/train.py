"""`dragoman train`: from a recipe or data to a scored model. The same command resumes a run."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import dragoman
from dragoman import system
from dragoman.cli.evaluate import show_scores
from dragoman.cli.terminal import console
from dragoman.cli.terminal.options import Quiet, Run, grouped
from dragoman.cli.terminal.screen import Screen, open_screen
from dragoman.errors import CheckpointError, ConfigError, GateFailed

if TYPE_CHECKING:
    from dragoman.evaluating.scores import KeptEvaluation
    from dragoman.runs.forecast import Forecast
    from dragoman.runs.train import RunResult

USES = {
    "translation": (
        'translate with it: dragoman translate {run} "..."',
        "score it on other text: dragoman evaluate {run} SOURCE REFERENCE",
    ),
    "language_model": ('let it write: dragoman generate {run} "..."',),
    "classify": (
        'label texts with it: dragoman predict {run} "..."',
        "score it, with its confusions: dragoman evaluate {run}",
    ),
    "tag": (
        'label words with it: dragoman predict {run} "..."',
        "score it, with its confusions: dragoman evaluate {run}",
    ),
    "fill": (
        'fill in words with it: dragoman predict {run} "... [MASK] ..."',
        "start a classifier or tagger from it: dragoman train LABELLED_TEXT --set start.model={run}",
    ),
}
"""What to do with a finished run, by its task."""

log = logging.getLogger(__name__)


@grouped
def train(
    run: Run,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            help="A recipe (a .toml file or a built-in one's name), text (a file, two aligned files, a folder, "
            "hub:NAME:CONFIG), or a run to resume.",
            show_default="phrasebook",
        ),
    ] = None,
    task: Annotated[
        Literal["translate", "language_model", "classify", "tag", "fill"] | None,
        typer.Option(help="What is learnt from the text.", show_default="by the form of the text"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only prepare the text, and estimate steps, memory and time.")
    ] = False,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="Train this many runs, each from its own seed, and show how much they differ."),
    ] = None,
    more: Annotated[
        bool,
        typer.Option(
            "--more",
            help="Go on training a finished run, from its last state; the limit (--minutes, or --set "
            "train.steps=N or train.epochs=N) counts from there.",
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Train a model, or resume a run, and score it on its test sets."""
    screen, what = open_screen(quiet), what or ["phrasebook"]
    options: dict[str, Any] = {**run.options(screen.progress), "more": more}
    if task is not None:
        options["overrides"] = [f"task={task}", *options.get("overrides", ())]
    if dry_run and seeds is not None:
        raise ConfigError("--dry-run estimates one run, whatever its seed; leave --seeds out")
    dragoman.keep_freed_memory()
    if dry_run:
        show_forecast(screen, dragoman.forecast(what, **options))
    elif seeds is not None:
        show_seeds(screen, dragoman.train_seeds(what, seeds, **options))
    else:
        show_run(screen, dragoman.train(what, **options))


def show_run(screen: Screen, result: "RunResult") -> None:
    """Shows the curves and scores of a run, and what to do with it."""
    show_result(screen, result)
    for note in USES[result.task]:
        screen.note(note.format(run=result.folder))
    screen.note(f"train it further: dragoman train {result.folder} --more --minutes 30")
    show_judgement(result)


def show_judgement(result: "RunResult") -> None:
    """Says whether a run met the score that its recipe expects, if it expects one.

    Raises:
        GateFailed: it did not.
    """
    if (found := result.judgement) is None:
        return
    if found.met is False:
        raise GateFailed(f"{result.folder}: {found}")
    console.write(f"{result.folder}: {found}")


def show_result(screen: Screen, result: "RunResult") -> None:
    """The curves of a run, and its scores: the new ones, or those in its folder if it was finished before."""
    show_curves(screen, result.folder)
    if result.evaluations:
        show_scores(result.evaluations)
    elif system.rank() == 0:
        show_kept_scores(result.folder)


def show_curves(screen: Screen, run: Path) -> None:
    from dragoman.runs.metrics import curve_lines

    for line in curve_lines(run):
        screen.note(line)


def show_kept_scores(run: Path) -> None:
    if kept := kept_scores(run):
        show_scores(kept)


def kept_scores(run: Path) -> "tuple[KeptEvaluation, ...]":
    """What a run's `scores.json` holds, if any. A damaged file is only a warning, because the run is whole."""
    from dragoman.evaluating.scores import read_baselines, read_evaluations
    from dragoman.run_folder import RunFolder

    try:
        scores = RunFolder(run).scores
        return (*read_baselines(scores), *read_evaluations(scores)) if scores.exists() else ()
    except CheckpointError as error:
        log.warning("%s; score the run again with: dragoman evaluate %s SOURCE REFERENCE", error, run)
        return ()


def show_seeds(screen: Screen, results: "Sequence[RunResult]") -> None:
    from dragoman.runs.train import spreads

    for found in spreads([result.folder for result in results]):
        console.write(f"{found.test}: {found}")
    group = str(results[0].folder).removesuffix("-seed1")
    if results[0].task not in ("language_model", "fill"):
        screen.note(f"compare it with another: dragoman evaluate {group} --against OTHER")
    for result in results:
        show_judgement(result)


def show_forecast(screen: Screen, found: "Forecast") -> None:
    from dragoman.cli.terminal.bars import duration

    batches, train = found.recipe.batches, found.recipe.train
    tuned = [] if found.recipe.tuning is None else [("tuning", "", found.trained)]
    sides, each = ("source and target", ", on each side") if found.recipe.task == "translation" else ("", "")
    rows = [
        ("parameters", f"{found.parameters:,}", f"{found.recipe.model.preset}, {found.recipe.model.size}"),
        *tuned,
        ("tokens an epoch", f"{found.tokens:,}", sides),
        ("steps", f"{train.steps:,}", f"{found.epochs:,.1f} epochs"),
        ("tokens of a batch", f"{batches.batch_tokens:,}", f"at most{each}; {train.accumulate} batches a step"),
        ("time", duration(found.seconds), "for training and validation; scoring the test sets comes on top"),
        ("memory", "unknown" if found.peak_bytes is None else f"{found.peak_bytes / 2**20:,.0f} MiB", "at the peak"),
    ]
    console.write_table(["", "expected", ""], rows)
    console.write(f"measured on {found.where}")
    if found.prepared is not None:
        screen.note(f"the text is prepared; go on from there with: dragoman train {found.prepared}")
