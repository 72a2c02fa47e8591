"""What the benchmarks of classifiers and taggers share: the sets, runs of `dragoman train`, and several at a time."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Literal, NamedTuple

from peers.worker import patient_threads

from dragoman.evaluating.significance import Student
from dragoman.run_folder import RunFolder
from dragoman.text.prepared import read_examples, read_tagged

Example = tuple[Sequence[str], Sequence[str]]
"""A text and its label, or words and a label for each, as two sequences of one length."""


class LabelledSet(NamedTuple):
    """A task, and the folder in which its text lies."""

    title: str
    folder: str
    task: Literal["classify", "tag"]
    settings: tuple[str, ...] = ()
    metric: str = "accuracy"
    """By which it is judged, as `scores.json` names it."""


SETS = {
    "trec-coarse": LabelledSet("TREC, coarse", "trec", "classify", ("data.label_depth=1",)),
    "trec-fine": LabelledSet("TREC, fine", "trec", "classify"),
    "sst2": LabelledSet("SST-2", "sst2", "classify"),
    "ud": LabelledSet("UD English EWT, parts of speech", "ud-english-ewt", "tag"),
    "wnut17": LabelledSet("WNUT 2017, entities", "wnut17", "tag", metric="f1"),
}


def read(data: Path, task: str, split: str) -> list[Example]:
    """The examples of one split of prepared text."""
    if task == "tag":
        return [*read_tagged(data, split)]
    return [([text], [label]) for text, label in read_examples(data, split)]


def train(run: RunFolder, data: Path, task: str, settings: Iterable[str], limit: Sequence[str], threads: int) -> None:
    """Trains and scores a run as any user would. A finished one stays, one that was interrupted goes on.

    What the command says goes to a file beside the run.
    """
    if run.scores.is_file():
        return
    path = run.path
    named = ["--task", task, "--runs", str(path.parent), "--name", path.name, "--threads", str(threads)]
    sets = [word for setting in settings for word in ("--set", setting)]
    command = [sys.executable, "-m", "dragoman", "train", str(data), *named, *sets, *limit]
    path.parent.mkdir(parents=True, exist_ok=True)
    log = path.with_name(f"{path.name}.log")
    with log.open("a", encoding="utf-8") as file:
        if subprocess.run(command, stdout=file, stderr=subprocess.STDOUT).returncode:
            raise RuntimeError(f"training {path.name} failed; {log} says why")


def model_score(run: RunFolder, metric: str) -> float:
    """What the model of a finished run reached on its test set."""
    return evaluations(run)[0]["scores"][metric]["value"]


def baseline_scores(run: RunFolder, metric: str) -> dict[str, float]:
    """What each baseline reached on the test set of a finished run."""
    return {each["system"]: each["scores"][metric]["value"] for each in evaluations(run)[1:]}


def evaluations(run: RunFolder) -> list[dict[str, Any]]:
    """The model's evaluation, then those of the baselines, as `scores.json` keeps them."""
    kept = json.loads(run.scores.read_text(encoding="utf-8"))
    return [*kept["evaluations"], *kept["baselines"]]


def at_a_time(jobs: int, function: Callable[..., str], calls: Sequence[tuple[object, ...]]) -> None:
    """Calls a function with each of these arguments, in processes of their own, and prints what it returns."""
    if not calls:
        return
    with (
        patient_threads(),
        ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool,
    ):
        for number, done in enumerate(as_completed([pool.submit(function, *call) for call in calls]), 1):
            print(f"{number} of {len(calls)}: {done.result()}", file=sys.stderr, flush=True)


def spread(scores: Sequence[float]) -> str:
    """Mean and standard deviation, and each score.

    >>> spread([81.0, 82.0, 83.0])
    '82.0 ± 1.0 (81.0, 82.0, 83.0)'
    """
    if len(scores) < 2:
        return f"{scores[0]:.1f}"
    return f"{mean(scores):.1f} ± {stdev(scores):.1f} ({', '.join(f'{score:.1f}' for score in scores)})"


def seed_interval(scores: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the mean over at least two seeds, by Student's distribution.

    >>> [round(end, 2) for end in seed_interval([81.0, 82.0, 83.0])]
    [79.52, 84.48]
    """
    reach = Student(len(scores) - 1).within(0.95) * stdev(scores) / len(scores) ** 0.5
    return mean(scores) - reach, mean(scores) + reach
