"""Parts that the benchmarks of classifiers and taggers share: the sets, and runs of `dragoman train`."""

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from dragoman.run_folder import RunFolder
from dragoman.text.prepared import read_examples, read_tagged

Example = tuple[Sequence[str], Sequence[str]]
"""A text and its label, or words and a label for each, as two sequences of one length."""


class LabelledSet(NamedTuple):
    """A task, and the folder of its text."""

    title: str
    folder: str
    task: Literal["classify", "tag"]
    settings: tuple[str, ...] = ()
    metric: str = "accuracy"
    """The score that decides, as `scores.json` names it."""


SETS = {
    "trec-coarse": LabelledSet("TREC, coarse", "trec", "classify", ("data.label_depth=1",)),
    "trec-fine": LabelledSet("TREC, fine", "trec", "classify"),
    "sst2": LabelledSet("SST-2", "sst2", "classify"),
    "ud": LabelledSet("UD English EWT, parts of speech", "ud-english-ewt", "tag"),
    "wnut17": LabelledSet("WNUT 2017, entities", "wnut17", "tag", metric="f1"),
}


def read(data: Path, task: str, split: str) -> list[Example]:
    """Return the examples of one split of prepared text."""
    if task == "tag":
        return [*read_tagged(data, split)]
    return [([text], [label]) for text, label in read_examples(data, split)]


def train(run: RunFolder, data: Path, task: str, settings: Iterable[str], minutes: float, threads: int) -> None:
    """Train and score a run as any user would. A finished run is kept, an interrupted run is resumed.

    The output of the command goes to a file next to the run.
    """
    if run.scores.is_file():
        return
    path = run.path
    where = ["--task", task, "--runs", str(path.parent), "--name", path.name, "--threads", str(threads)]
    sets = [word for setting in settings for word in ("--set", setting)]
    command = [sys.executable, "-m", "dragoman", "train", str(data), *where, *sets, "--minutes", str(minutes)]
    path.parent.mkdir(parents=True, exist_ok=True)
    log = path.with_name(f"{path.name}.log")
    with log.open("a", encoding="utf-8") as file:
        if subprocess.run(command, stdout=file, stderr=subprocess.STDOUT).returncode:
            raise RuntimeError(f"training {path.name} failed; {log} says why")


def baseline_scores(run: RunFolder, metric: str) -> dict[str, float]:
    """Return the score of each baseline on the test set of a finished run."""
    scores = json.loads(run.scores.read_text(encoding="utf-8"))
    evaluations = [*scores["evaluations"], *scores["baselines"]][1:]  # the first is the model's
    return {evaluation["system"]: evaluation["scores"][metric]["value"] for evaluation in evaluations}
