"""Which defaults does a classifier without a start learn most with? Chosen on dev text, judged once on the tests.

    python benchmarks/classifiers.py [--data ../shared/data] [--jobs 2] [--out results.json]
    python benchmarks/classifiers.py --judge today CANDIDATE [--out results.json]

Each candidate changes one thing of today's defaults. It learns TREC as long as the command does by default, SST-2 half
as long. Dev text is what the command holds out of TREC, another tenth for each seed, and the dev set of SST-2; no test
is read. The first seed sorts out candidates a point behind today's in the mean over the sets, the second those behind
at all. One replaces today's if the 95 % interval (Student's) of its gains, one for each set and seed, lies above zero.

`--judge` scores the trained models of the candidates that it names on the tests, beside the baselines.
"""

import argparse
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

from command_line import command_line, figures_file, markdown
from labelled import SETS, Example, at_a_time, read, seed_interval, spread, train

from dragoman.evaluating.baselines import classify_baselines
from dragoman.inference.predictor import Predictor
from dragoman.run_folder import RunFolder, split_of
from dragoman.runs.labelled import evaluate_predictor
from dragoman.serialization import write_json
from dragoman.system import describe, machine
from dragoman.text.prepare import prepare_labelled
from dragoman.text.settings import DataSettings

TODAY = "today"
CANDIDATES = {
    TODAY: (),
    "bpe": ("tokenizer.kind=bpe",),
    "unigram": ("tokenizer.kind=unigram",),
    "whole rate": ("train.learning_rate=0.0079",),
    "quarter rate": ("train.learning_rate=0.002",),
    "adamw": ("train.optimiser=adamw",),
    "large vectors": ("model.embedding_scale=true",),
    "wsd": ("train.schedule=wsd",),
}
NAMES = {
    "trec-coarse": ("train.txt", ()),
    "sst2": ("stsa.binary.train", ("data.dev_path={folder}/stsa.binary.dev", "train.epochs=10")),
}
"""The training text of each set, and the settings that it takes."""
SEEDS, BEHIND = (1, 2, 3), (1.0, 0.0, 0.0)
"""Points behind today's with which a candidate does not go on after each seed."""


def run_of(runs: Path, candidate: str, name: str, seed: int) -> RunFolder:
    return RunFolder(runs / f"{name}-{candidate.replace(' ', '-')}-{seed}")


def train_one(candidate: str, name: str, seed: int, data: Path, runs: Path, threads: int) -> str:
    """Trains one candidate on one set from one seed."""
    labelled, run = SETS[name], run_of(runs, candidate, name, seed)
    folder, (file, settings) = data / labelled.folder, NAMES[name]
    asked = [*labelled.settings, *(setting.format(folder=folder) for setting in settings), *CANDIDATES[candidate]]
    seeds = [f"train.seed={seed}", f"data.seed={seed}", "data.test_size=0"]
    train(run, folder / file, labelled.task, [*asked, *seeds], [], threads)
    return f"{run.path.name}: {dev_score(run):.1f}"


def dev_score(run: RunFolder) -> float:
    """The accuracy of the best validation."""
    lines = [json.loads(line) for line in run.metrics.read_text(encoding="utf-8").splitlines()]
    return max(line["dev_accuracy"] for line in lines if "dev_accuracy" in line)


@cache
def tests(name: str, data: Path, runs: Path) -> tuple[Path, list[Example], dict[str, float]]:
    """The test set, its examples, and what the baselines reach on them."""
    labelled, folder = SETS[name], runs / "text" / name
    depth = {"label_depth": 1} if labelled.settings else {}
    prepare_labelled(DataSettings(path=str(data / labelled.folder)).but(**depth), labelled.task, folder)
    train, test = (read(folder, labelled.task, split) for split in ("train", "test"))
    found = classify_baselines(*([(text, label) for (text,), (label,) in split] for split in (train, test)))
    right = {
        each: [label == best for (_, (label,)), best in zip(test, labels, strict=True)]
        for each, labels in found.items()
    }
    return split_of(folder, "test"), test, {each: 100 * mean(marks) for each, marks in right.items()}


def scores(candidate: str, name: str, runs: Path, data: Path | None) -> list[float]:
    """Of the finished seeds: on the tests in `data`, or on dev text."""
    finished = [run for seed in SEEDS if (run := run_of(runs, candidate, name, seed)).scores.is_file()]
    if data is None:
        return [dev_score(run) for run in finished]
    path, test, _ = tests(name, data, runs)
    judged = [evaluate_predictor(Predictor.load(run.best), test, path, TODAY, samples=0) for run in finished]
    return [each.scores["accuracy"].value for each in judged]


def figures(candidates: Sequence[str], runs: Path, data: Path | None = None) -> list[dict[str, Any]]:
    """What candidates reached, and their gains over today's defaults, one for each set and seed."""
    results: list[dict[str, Any]] = []
    for candidate in candidates:
        reached = {name: scores(candidate, name, runs, data) for name in NAMES}
        today = results[0]["accuracy"] if results else reached
        gains = [ours - before for name in NAMES for ours, before in zip(reached[name], today[name], strict=False)]
        results.append(
            {"candidate": candidate, "settings": CANDIDATES[candidate], "accuracy": reached}
            | ({"gain": mean(gains), "interval": seed_interval(gains)} if results else {})
        )
    return results


def row(found: dict[str, Any]) -> list[str]:
    told = "{:+.1f} [{:+.1f}, {:+.1f}]".format(found["gain"], *found["interval"]) if "gain" in found else ""
    return [found["candidate"], *(spread(found["accuracy"][name]) for name in NAMES), told]


def main() -> None:
    options = parse()
    runs, data, threads = options.runs.absolute(), options.data.absolute(), options.threads
    left = [] if options.judge else list(CANDIDATES)
    for seed, behind in zip(SEEDS, BEHIND, strict=True):
        calls = [(each, name, seed, data, runs, threads) for each in left for name in NAMES]
        at_a_time(options.jobs, train_one, calls)
        near = [found["candidate"] for found in figures(left, runs)[1:] if found["gain"] > -behind]
        left = [TODAY, *near] if near else []
    results = figures(options.judge or list(CANDIDATES), runs, data if options.judge else None)
    print(markdown(["candidate", *(SETS[name].title for name in NAMES), "gain"], [row(each) for each in results]))
    facts: dict[str, Any] = {"machine": machine(), "command": command_line(), "results": results}
    if options.judge:
        facts["baselines"] = {name: tests(name, data, runs)[2] for name in NAMES}
        print(f"\nbaselines: {facts['baselines']}")
    print(f"\n{describe()}; {options.jobs} at a time with {threads} threads each")
    if options.out:
        write_json(options.out, facts)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder that holds the sets")
    parser.add_argument("--runs", type=Path, default=Path("runs/classifiers"), help="where the runs go")
    parser.add_argument("--judge", nargs="+", choices=list(CANDIDATES), metavar="CANDIDATE", help="score on the tests")
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--out", type=figures_file, help="write the figures as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    main()
