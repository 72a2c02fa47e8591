"""Accuracy of `dragoman train` and of torch.nn.TransformerEncoder in a plain loop, at equal minutes and size.

    python benchmarks/labels.py --data ../shared/data [--minutes 1.5] [--threads 1 --jobs 2] [--out results.json]

Five tasks, several seeds each. Ours is the command with its defaults. The peer (`peers/torch_labels.py`) gets our
tokenizer, width, layers, heads and dropout, and about as many weights; the same dev set to choose the best of ten
validations, the same test set and scoring. Its tags of entities are the most probable ones, without Viterbi. Both
forecast how many steps fit in the minutes. If ours take longer, the peer gets the same time; its validations aren't
counted. The first seed tries several rates, and the best on the dev set is taken for the other seeds.

The difference has a 95 % interval over seeds and test sentences. Baselines are those of the first seed's `scores.json`.
Finished races are not run again.
"""

import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from command_line import markdown, mean_and_deviation, new_parser, report, write_figures
from labelled import SETS, baseline_scores, read, train
from peers.processes import patient_threads

from dragoman.evaluating.labels_evaluation import LabelEvaluation, evaluate_labels
from dragoman.evaluating.significance import compare_systems
from dragoman.files import sha256
from dragoman.inference.predictor import Predictor
from dragoman.memory import keep_freed_memory
from dragoman.run_folder import RunFolder
from dragoman.serialization import write_json
from dragoman.system import describe
from dragoman.tokenizing.labels import Labels

OURS, PEER = "Dragoman", "nn.TransformerEncoder"
RATES = [5e-4, 1e-3, 2e-3]


def race(name: str, seed: int, data: Path, runs: Path, minutes: float, threads: int) -> None:
    """Train both sides from one seed, and write their results. Call it in a fresh process."""
    from peers.torch_labels import Loop

    record = record_path(runs, name, seed)
    if record.is_file():
        if (before := read_record(record)["minutes"]) != minutes:
            raise ValueError(f"{record} was made in {before:g} minutes, not {minutes:g}; name another folder, --runs")
        return
    torch.set_num_threads(threads)
    keep_freed_memory()
    labelled, run = SETS[name], RunFolder(runs / f"{name}-{seed}")
    settings = [*labelled.settings, f"train.seed={seed}"]
    train(run, data / labelled.folder, labelled.task, settings, minutes, threads)
    ours = outcome(run, labelled.task)
    loop, seconds = Loop(run, labelled, seed), max(60 * minutes, ours["seconds"])
    rates = RATES if seed == 1 else [read_record(record_path(runs, name, 1))["peer"]["rate"]]
    tried = [loop.train(rate, seconds) for rate in rates]
    best = max(tried, key=lambda trained: trained.dev_score)
    facts = {"minutes": minutes, "threads": threads, "metric": labelled.metric, "labels": loop.labels.names}
    rates_tried = [[trained.rate, trained.dev_score] for trained in tried]
    write_json(record, {**facts, "ours": ours, "peer": best._asdict(), "tried": rates_tried})
    report(f"{name}, seed {seed}: {best.steps:,} steps of the peer at {best.rate:g}, dev {best.dev_score:.1f}")


def outcome(run: RunFolder, task: str) -> dict[str, Any]:
    """Return the labels that our run predicted on its test set, and its steps, seconds and weights."""
    predictor, examples = Predictor.load(run.best), read(run.data, task, "test")
    if task == "tag":
        predicted = [[tag.name for tag in tags] for tags in predictor.tag([words for words, _ in examples])]
    else:
        names = predictor.labels.names if predictor.labels else ()
        best = predictor.text_logits([parts[0] for parts, _ in examples]).argmax(axis=1)
        predicted = [[names[number]] for number in best]
    steps = [json.loads(line) for line in run.metrics.read_text(encoding="utf-8").splitlines()]
    seconds = [step["seconds"] for step in steps if "seconds" in step]
    weights = sum(weight.numel() for weight in predictor.stored.model.parameters())
    return {"predicted": predicted, "steps": len(seconds), "seconds": sum(seconds), "weights": weights}


def record_path(runs: Path, name: str, seed: int) -> Path:
    """Return the file with the results of both sides."""
    return runs / f"{name}-{seed}.json"


def read_record(path: Path) -> dict[str, Any]:
    """Return the results of a finished race."""
    return json.loads(path.read_text(encoding="utf-8"))


def summary(name: str, runs: Path, seeds: int) -> dict[str, Any]:
    """Return the figures of one task."""
    records = [read_record(record_path(runs, name, seed)) for seed in range(1, seeds + 1)]
    run = RunFolder(runs / f"{name}-1")
    sides = {side: [evaluated(record, side, run, name) for record in records] for side in ("ours", "peer")}
    metric = SETS[name].metric
    figures: dict[str, Any] = {
        side: {
            "scores": [evaluation.scores[metric].value for evaluation in evaluations],
            **{fact: [record[side][fact] for record in records] for fact in ("steps", "seconds", "weights")},
        }
        for side, evaluations in sides.items()
    }
    figures["peer"] |= {fact: [record["peer"][fact] for record in records] for fact in ("rate", "way")}
    compared = compare_systems(sides["ours"], sides["peer"], names=(OURS, PEER)) if seeds > 1 else {}
    return {
        "task": name,
        "metric": sides["ours"][0].scores[metric].name,
        "signature": sides["ours"][0].scores[metric].signature,
        "minutes": [record["minutes"] for record in records],
        **figures,
        "difference": asdict(compared[metric]) if compared else None,
        "baselines": baseline_scores(run, metric),
        "rates_tried": records[0]["tried"],
    }


def evaluated(record: dict[str, Any], side: str, run: RunFolder, name: str) -> LabelEvaluation:
    """Return the scores of one side of a race."""
    task, test = SETS[name].task, run.split("test")
    gold = [[*labels] for _, labels in read(run.data, task, "test")]
    labels = Labels(task=task, names=tuple(record["labels"]))
    system = {"ours": OURS, "peer": PEER}[side]
    return evaluate_labels(labels, gold, record[side]["predicted"], system=system, test=test.name, sha256=sha256(test))


def cells(figures: dict[str, Any]) -> Sequence[str]:
    """Return a row of the table."""
    ours, peer, difference = figures["ours"], figures["peer"], figures["difference"]
    return [
        f"{SETS[figures['task']].title}, {figures['metric']}",
        mean_and_deviation(ours["scores"]),
        mean_and_deviation(peer["scores"]),
        f"{difference['delta']:+.1f} [{difference['low']:+.1f}, {difference['high']:+.1f}]" if difference else "",
        ", ".join(f"{name} {score:.1f}" for name, score in figures["baselines"].items()),
        *(f"{mean(ours[fact]):,.0f}, {mean(peer[fact]):,.0f}" for fact in ("weights", "steps", "seconds")),
    ]


COLUMNS = ["task", OURS, PEER, "difference", "baselines", "weights", "steps", "seconds of steps"]


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of the sets")
    parser.add_argument("--runs", type=Path, default=Path("runs/labels"), help="the folder for runs and their results")
    parser.add_argument("--only", nargs="+", default=list(SETS), choices=list(SETS), metavar="TASK")
    parser.add_argument("--minutes", type=float, default=1.5, help="minutes of training a side")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    options = parser.parse_args()
    runs, data = options.runs.absolute(), options.data.absolute()
    for seeds in ([1], range(2, options.seeds + 1)):  # the first seed finds the rate of the others
        calls = [(name, seed, data, runs, options.minutes, options.threads) for seed in seeds for name in options.only]
        with (
            patient_threads(),
            ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool,
        ):
            list(pool.map(race, *zip(*calls, strict=True)))
    results = [summary(name, runs, options.seeds) for name in options.only]
    print(markdown(COLUMNS, [cells(figures) for figures in results]))
    print(f"\n{describe()}; {options.jobs} at a time with {options.threads} threads each")
    write_figures(options.out, jobs=options.jobs, threads=options.threads, results=results)


if __name__ == "__main__":
    main()
