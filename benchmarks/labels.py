"""Does `dragoman train` beat torch.nn.TransformerEncoder in a plain loop, at equal minutes and size?

    python benchmarks/labels.py --data ../shared/data [--minutes 1.5] [--threads 1 --jobs 2] [--out results.json]

Five tasks, several seeds each. Ours is the command with its defaults. The other side (`peers/torch_labels.py`) gets our
tokenizer, width, layers, heads and dropout, and about as many weights; the same dev set to choose the best of ten
validations, the same test set and scoring. Its tags of entities are the most probable ones, without Viterbi. Both
forecast how many steps fit in the minutes. If ours take longer, the other side gets the same time; its validations
aren't counted. The first seed tries several rates, and the best on the dev set is taken for the other seeds.

The difference has a 95 % interval over seeds and test sentences. Baselines are those of the first seed's `scores.json`.
What is finished is not done again.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from command_line import command_line, figures_file, markdown
from labelled import SETS, at_a_time, baseline_scores, read, spread, train

from dragoman.evaluating.labels_evaluation import LabelEvaluation, evaluate_labels
from dragoman.evaluating.significance import compare_systems
from dragoman.files import sha256
from dragoman.inference.predictor import Predictor
from dragoman.memory import keep_freed_memory
from dragoman.run_folder import RunFolder
from dragoman.serialization import write_json
from dragoman.system import describe, machine
from dragoman.tokenizing.labels import Labels

OURS, PEER = "Dragoman", "nn.TransformerEncoder"
RATES = [5e-4, 1e-3, 2e-3]
DEFAULT, MINUTES = "others", 1.5


def race(name: str, seed: int, data: Path, runs: Path, minutes: float, threads: int, rates: list[float]) -> str:
    """Trains both sides from one seed, and writes what they found. Runs in a process of its own."""
    from peers.torch_labels import Loop

    torch.set_num_threads(threads)
    keep_freed_memory()
    labelled, run = SETS[name], RunFolder(runs / f"{name}-{seed}")
    settings = [*labelled.settings, f"train.seed={seed}"]
    train(run, data / labelled.folder, labelled.task, settings, ["--minutes", str(minutes)], threads)
    ours = outcome(run, labelled.task, threads)
    loop, seconds = Loop(run, labelled, seed), max(60 * minutes, ours["seconds"])
    tried = [loop.train(rate, seconds) for rate in rates]
    best = max(tried, key=lambda each: each.dev_score)
    facts = {"minutes": minutes, "threads": threads, "metric": labelled.metric, "labels": loop.labels.names}
    write_json(
        record_of(runs, name, seed),
        {**facts, "ours": ours, "peer": best._asdict(), "tried": [[each.rate, each.dev_score] for each in tried]},
    )
    return f"{name}, seed {seed}: {best.steps:,} steps of the other side at {best.rate:g}, dev {best.dev_score:.1f}"


def outcome(run: RunFolder, task: str, threads: int) -> dict[str, Any]:
    """What our run found on its test set, and what training took."""
    predictor, examples = Predictor.load(run.best), read(run.data, task, "test")
    if task == "tag":
        found = [[choice.name for choice in each] for each in predictor.tag([words for words, _ in examples])]
    else:
        names = predictor.labels.names if predictor.labels else ()
        best = predictor.text_logits([parts[0] for parts, _ in examples]).argmax(axis=1)
        found = [[names[number]] for number in best]
    steps = [json.loads(line) for line in run.metrics.read_text(encoding="utf-8").splitlines()]
    seconds = [step["seconds"] for step in steps if "seconds" in step]
    weights = sum(weight.numel() for weight in predictor.stored.model.parameters())
    return {"found": found, "steps": len(seconds), "seconds": sum(seconds), "weights": weights}


def record_of(runs: Path, name: str, seed: int) -> Path:
    """The file that says what both sides found."""
    return runs / f"{name}-{seed}.json"


def summary(name: str, runs: Path, seeds: int) -> dict[str, Any]:
    """The figures of one task."""
    records = [read_record(record_of(runs, name, seed)) for seed in range(1, seeds + 1)]
    run = RunFolder(runs / f"{name}-1")
    sides = {side: [evaluated(record, side, run, name) for record in records] for side in ("ours", "peer")}
    metric = SETS[name].metric
    figures: dict[str, Any] = {
        side: {
            "scores": [each.scores[metric].value for each in evaluations],
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
    task, test = SETS[name].task, run.split("test")
    gold = [[*labels] for _, labels in read(run.data, task, "test")]
    labels = Labels(task=task, names=tuple(record["labels"]))
    system = {"ours": OURS, "peer": PEER}[side]
    return evaluate_labels(labels, gold, record[side]["found"], system=system, test=test.name, sha256=sha256(test))


def rate_of(runs: Path, name: str) -> float:
    """The rate that was best on the dev set from the first seed."""
    return read_record(record_of(runs, name, 1))["peer"]["rate"]


def read_record(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def row(found: dict[str, Any]) -> list[str]:
    ours, peer, difference = found["ours"], found["peer"], found["difference"]
    told = f"{difference['delta']:+.1f} [{difference['low']:+.1f}, {difference['high']:+.1f}]" if difference else ""
    return [
        f"{SETS[found['task']].title}, {found['metric']}",
        spread(ours["scores"]),
        spread(peer["scores"]),
        told,
        ", ".join(f"{name} {score:.1f}" for name, score in found["baselines"].items()),
        *(f"{mean(ours[fact]):,.0f}, {mean(peer[fact]):,.0f}" for fact in ("weights", "steps", "seconds")),
    ]


COLUMNS = ["task", OURS, PEER, "difference", "baselines", "weights", "steps", "seconds of steps"]


def main() -> None:
    options = parse()
    runs, data, threads = options.runs.absolute(), options.data.absolute(), options.threads
    minutes = {name: options.minutes.get(name, options.minutes[DEFAULT]) for name in options.only}
    for seeds in ([1], range(2, options.seeds + 1)):  # the first seed finds the rate of the others
        missing = [
            (name, seed)
            for seed in seeds
            for name in options.only
            if not is_finished(record_of(runs, name, seed), minutes[name])
        ]
        rates = {name: options.rates if seed == 1 else [rate_of(runs, name)] for name, seed in missing}
        calls = [(name, seed, data, runs, minutes[name], threads, rates[name]) for name, seed in missing]
        at_a_time(options.jobs, race, calls)
    results = [summary(name, runs, options.seeds) for name in options.only]
    print(markdown(COLUMNS, [row(each) for each in results]))
    print(f"\n{describe()}; {options.jobs} at a time with {threads} threads each")
    if options.out:
        facts = {"machine": machine(), "command": command_line(), "jobs": options.jobs, "threads": threads}
        write_json(options.out, {**facts, "results": results})


def is_finished(record: Path, minutes: float) -> bool:
    """Whether both sides of a race are done.

    Raises:
        SystemExit: they had other minutes.
    """
    if not record.is_file():
        return False
    if (before := read_record(record)["minutes"]) != minutes:
        raise SystemExit(
            f"error: {record} was made in {before:g} minutes, not {minutes:g}; name another folder, --runs"
        )
    return True


class PerTask(argparse.Action):
    """Reads `1.5 ud=3`: minutes for all tasks, and for some of them."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        given = {DEFAULT: MINUTES}
        for word in values:
            name, _, amount = word.rpartition("=")
            try:
                given[name or DEFAULT] = float(amount)
            except ValueError:
                parser.error(f"--minutes takes numbers, or TASK=NUMBER, not {word!r}")
            if (name or DEFAULT) not in {DEFAULT, *SETS}:
                parser.error(f"--minutes: there is no task {name!r}; there are {', '.join(SETS)}")
        namespace.minutes = given


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder that holds the sets")
    parser.add_argument("--runs", type=Path, default=Path("runs/labels"), help="where runs and what they found go")
    parser.add_argument("--only", nargs="+", default=list(SETS), choices=list(SETS), metavar="TASK")
    parser.add_argument(
        "--minutes", nargs="+", action=PerTask, default={DEFAULT: MINUTES}, metavar="[TASK=]MINUTES",
        help="minutes of training a side, for all tasks or for one",
    )  # fmt: skip
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rates", nargs="+", type=float, default=RATES, help="that the other side tries")
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--out", type=figures_file, help="write the figures as JSON")
    options = parser.parse_args()
    if missing := [SETS[name].folder for name in options.only if not (options.data / SETS[name].folder).is_dir()]:
        parser.error(f"{options.data / missing[0]} does not exist; name the folder that holds it with --data")
    return options


if __name__ == "__main__":
    main()
