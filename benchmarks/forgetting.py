"""What does each way of fine-tuning gain on new text, and what does it lose on old?

    python benchmarks/forgetting.py BASE NEW … [--ways full lora-16 …] [--seeds 1 2 3] [--epochs 6] [--jobs 2]
        [--threads 1] [--old-lines 1500] [--beam 4] [--runs FOLDER] [--set KEY=VALUE] [--out results.json]

BASE is a run folder of `dragoman train`, with its data; NEW is parallel text of another domain, of which 300 pairs are
held out as the test set and 300 as the dev set. Each way trains from BASE's best model, each seed (data order, dropout,
adapters) in a process of its own, and its best model by dev chrF is scored on the new test set and on evenly spaced
lines of BASE's. `averaged` trains nothing: it averages BASE and the run that it is of, with the tenth as share that has
the largest sum of chrF (greedy) on both dev sets. Runs that are finished are not run again, so the command may be
stopped at any time.

It prints the table as Markdown, and draws gain (to the right) against loss (upwards) beside the JSON file. Minutes are
of training and validation; memory is the peak of the process, scoring included.
"""

import argparse
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from command_line import command_line, figures_file

from dragoman.config import check
from dragoman.evaluating.metrics import score
from dragoman.files import remove
from dragoman.inference.options import SearchOptions
from dragoman.inference.translator import Translator
from dragoman.memory import keep_freed_memory, peak_memory_bytes
from dragoman.run_folder import RunFolder
from dragoman.runs.metrics_log import read_metrics
from dragoman.runs.recipe import Recipe
from dragoman.runs.train import train
from dragoman.serialization import write_json
from dragoman.store.folder import load_model
from dragoman.store.merging import average
from dragoman.store.tensors import named_weights
from dragoman.system import describe, machine
from dragoman.text.prepared import evenly_spaced, read_split
from dragoman.training.freezing import count_trained, tune
from dragoman.training.settings import TuningSettings

HELD_OUT = 300
"""Pairs of the new text in its test set, and as many in its dev set."""
FROZEN = {"freeze": ["encoder", "embeddings"]}
WAYS: dict[str, dict[str, Any]] = {
    "full": {},
    "low-rate": {"train": {"learning_rate": 1.5e-4}},
    "high-rate": {"train": {"learning_rate": 1.2e-3}},
    "frozen-encoder": {"tuning": FROZEN},
    "lora-4": {"tuning": {"lora": {"rank": 4}}},
    "lora-16": {"tuning": {"lora": {"rank": 16}}},
    "lora-64": {"tuning": {"lora": {"rank": 64}}},
    "rehearsal": {"start": {"mix_rate": 0.5}},
    "lora-16-rehearsal": {"start": {"mix_rate": 0.5}, "tuning": {"lora": {"rank": 16}}},
}
"""The settings in which each way differs from full fine-tuning."""
AVERAGED = {
    "averaged": "full",
    "high-rate-averaged": "high-rate",
    "lora-16-averaged": "lora-16",
    "lora-64-averaged": "lora-64",
    "rehearsal-averaged": "rehearsal",
}
"""The way whose runs each of these averages with the model before."""
SHARES = tuple(tenth / 10 for tenth in range(11))
"""The shares of which the best is taken for an average."""
FINISHED = "forgetting.json"
"""What a finished run leaves in its folder."""


@dataclass(frozen=True)
class Job:
    """One way with one seed."""

    way: str
    seed: int
    base: Path
    new: tuple[str, ...]
    runs: Path
    epochs: float
    threads: int
    old_lines: int
    beam: int
    settings: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return self.runs / f"{self.way}-seed{self.seed}"

    @property
    def recipe(self) -> Recipe:
        """The recipe of the run."""
        tables: dict[str, Any] = {
            "start": {"model": str((self.base / "best").resolve())},
            "data": {"path": list(self.new), "test_size": HELD_OUT, "dev_size": HELD_OUT},
            "train": {"epochs": self.epochs, "seed": self.seed},
        }
        for group, settings in WAYS[self.way].items():
            tables[group] = tables.get(group, {}) | settings
        if "mix_rate" in tables["start"]:
            tables["start"]["mix_data"] = str((self.base / "data").resolve())
        return check(tables, self.way, Recipe)


def distances(before: Mapping[str, torch.Tensor], after: Mapping[str, torch.Tensor]) -> dict[str, float]:
    """For each part of a model, the L2 norm of what changed, relative to its norm before. A bias of the output is no
    part: in models of Marian one huge number in it outweighs all others.
    """
    parts: dict[str, list[str]] = {}
    for name in before:
        if name != "output_bias":
            parts.setdefault(name.partition(".")[0], []).append(name)
    return {
        part: _norm([after[name] - before[name] for name in names]) / norm
        for part, names in parts.items()
        if (norm := _norm([before[name] for name in names]))
    }


def _norm(weights: Sequence[torch.Tensor]) -> float:
    return float(torch.stack([weight.detach().norm() for weight in weights]).norm())


def run(job: Job) -> None:
    """Trains and scores one run, in a process of its own, unless it is finished."""
    if (job.folder / FINISHED).is_file():
        return
    torch.set_num_threads(job.threads)
    keep_freed_memory()
    started = time.monotonic()
    model = _averaged(job) if job.way in AVERAGED else _trained(job)
    seconds = time.monotonic() - started
    memory, facts = peak_memory_bytes(), _facts(job, seconds)
    before, after = load_model(job.base), load_model(model)
    moved = distances(named_weights(before.model), named_weights(after.model))
    new, old = tests(job)
    translator = Translator(after)
    write_json(
        job.folder / FINISHED,
        {
            "way": job.way,
            "seed": job.seed,
            "new": chrf(translator, new, job.beam),
            "old": chrf(translator, old, job.beam),
            "distance": moved,
            "peak_memory_bytes": memory,
            **facts,
        },
    )


def _trained(job: Job) -> Path:
    train(job.recipe, overrides=job.settings, name=job.folder.name, runs=job.runs, threads=job.threads, device="cpu")
    return job.folder / "best"


def _averaged(job: Job) -> Path:
    if not (job.folder / "dial.json").is_file():
        remove(job.folder / "model")
        after = job.runs / f"{AVERAGED[job.way]}-seed{job.seed}"
        devs = {"new": dev_pairs(after), "old": dev_pairs(job.base)}
        points = []
        for share in SHARES:
            with tempfile.TemporaryDirectory() as aside:
                translator = Translator.load(average(job.base, after, Path(aside) / "model", share), "cpu")
                found = {side: chrf(translator, pairs, 1)["chrf"]["value"] for side, pairs in devs.items()}
            points.append({"share": share, **found})
        best = max(points, key=lambda point: (point["new"] + point["old"], -point["share"]))
        average(job.base, after, job.folder / "model", best["share"])
        write_json(job.folder / "dial.json", {"share": best["share"], "points": points})
    return job.folder / "model"


def dev_pairs(run: Path) -> list[tuple[str, str]]:
    """Dev pairs of a run, evenly spread."""
    pairs = list(read_split(run / "data", "dev"))
    return list(evenly_spaced(iter(pairs), len(pairs), min(HELD_OUT, len(pairs))))


def _facts(job: Job, seconds: float) -> dict[str, Any]:
    """Weights that train, minutes of training, and for an average its dial."""
    if job.way in AVERAGED:
        dial = json.loads((job.folder / "dial.json").read_text())
        return {"trained": 0, "steps": 0, "minutes": seconds / 60, "dial": dial}
    recipe = job.recipe
    model = load_model(job.base).model
    tune(model, recipe.tuning or TuningSettings())
    lines = read_metrics(RunFolder(job.folder))
    return {
        "trained": count_trained(model).trained,
        "steps": max(line["step"] for line in lines),
        "minutes": sum(line.get("seconds") or 0.0 for line in lines) / 60,
        "dev": [line["dev_chrf"] for line in lines if "dev_chrf" in line],
    }


def tests(job: Job) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The new test set, which every run of one text has alike, and lines of the old one."""
    of_runs = sorted(job.runs.glob("*/data/test.jsonl"))
    new, old = list(read_split(of_runs[0].parent, "test")), list(read_split(job.base / "data", "test"))
    return new, list(evenly_spaced(iter(old), len(old), job.old_lines))


def chrf(translator: Translator, pairs: Sequence[tuple[str, str]], beam: int) -> dict[str, Any]:
    options = translator.options.but(beam_size=beam)
    assert isinstance(options, SearchOptions)
    found = [each.text for each in translator.translate([source for source, _ in pairs], options)]
    references = [[target] for _, target in pairs]
    scores = score(found, references, language=translator.languages.target, metrics=("bleu", "chrf"))
    return {name: asdict(each) for name, each in scores.items()}


def before(job: Job) -> dict[str, Any]:
    """The scores of the model before, made once."""
    kept = job.runs / "before.json"
    if not kept.is_file():
        torch.set_num_threads(job.threads)
        translator = Translator.load(job.base)
        new, old = tests(job)
        write_json(kept, {"new": chrf(translator, new, job.beam), "old": chrf(translator, old, job.beam)})
    return json.loads(kept.read_text())


@dataclass(frozen=True)
class Row:
    """One way over its seeds."""

    way: str
    gains: list[float]
    losses: list[float]
    new: list[float]
    old: list[float]
    runs: list[dict[str, Any]]

    @classmethod
    def of(cls, way: str, runs: list[dict[str, Any]], start: Mapping[str, Any]) -> "Row":
        new, old = ([run[side]["chrf"]["value"] for run in runs] for side in ("new", "old"))
        gains = [each - start["new"]["chrf"]["value"] for each in new]
        return cls(way, gains, [start["old"]["chrf"]["value"] - each for each in old], new, old, runs)

    def mean(self, key: str) -> float:
        return statistics.fmean(run[key] for run in self.runs)


def table(rows: Sequence[Row], start: Mapping[str, Any]) -> str:
    """Markdown; shares are of what full fine-tuning gains and forgets."""
    full = next((row for row in rows if row.way == "full"), None)
    new, old = (start[side]["chrf"]["value"] for side in ("new", "old"))
    lines = [
        "| way | new chrF | gain | of full | old chrF | loss | of full | weights trained | MiB | minutes |",
        "|---|---|---|---|---|---|---|---|---|---|",
        f"| before | {new:.1f} | | | {old:.1f} | | | | | |",
    ]
    for row in rows:
        cells = [
            row.way,
            _spread(row.new),
            f"{statistics.fmean(row.gains):+.1f}",
            _share(row.gains, full and full.gains),
        ]
        cells += [_spread(row.old), f"{statistics.fmean(row.losses):.1f}", _share(row.losses, full and full.losses)]
        memory = row.mean("peak_memory_bytes") / 2**20
        cells += [f"{row.mean('trained'):,.0f}", f"{memory:,.0f}", f"{row.mean('minutes'):.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _spread(values: Sequence[float]) -> str:
    deviation = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.1f}{deviation}"


def _share(values: Sequence[float], of: Sequence[float] | None) -> str:
    return f"{statistics.fmean(values) / statistics.fmean(of):.0%}" if of else ""


def draw(rows: Sequence[Row], path: Path) -> None:
    """Each way as a cross of its standard deviations, each run as a point."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 5), layout="constrained")
    for row in rows:
        spreads = [statistics.stdev(values) if len(values) > 1 else 0 for values in (row.gains, row.losses)]
        middle = statistics.fmean(row.gains), statistics.fmean(row.losses)
        cross = axes.errorbar(*middle, xerr=spreads[0], yerr=spreads[1], fmt="o", capsize=3)
        axes.scatter(row.gains, row.losses, s=8, alpha=0.5, color=cross.lines[0].get_color())
        axes.annotate(row.way, middle, textcoords="offset points", xytext=(6, 4))
    axes.axhline(0, color="grey", linewidth=0.5)
    axes.margins(x=0.15, y=0.08)  # room for the names
    axes.set(xlabel="gain on new text (chrF)", ylabel="loss on old text (chrF)")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("base", type=Path, help="a run folder")
    parser.add_argument("new", nargs="+", help="parallel text: a file, or two aligned ones")
    parser.add_argument("--ways", nargs="+", choices=[*WAYS, *AVERAGED], default=[*WAYS, *AVERAGED])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--epochs", type=float, default=6.0)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--threads", type=int, default=1, help="of each run")
    parser.add_argument("--old-lines", type=int, default=1_500)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--runs", type=Path, default=Path("runs/forgetting"))
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=figures_file, default=None)
    given = parser.parse_args()
    given.runs.mkdir(parents=True, exist_ok=True)
    sizes = (given.epochs, given.threads, given.old_lines, given.beam, tuple(given.settings))
    jobs = [
        Job(way, seed, given.base, tuple(given.new), given.runs, *sizes) for seed in given.seeds for way in given.ways
    ]
    for stage in (set(WAYS), set(AVERAGED)):  # an average needs the run that it is of
        with multiprocessing.get_context("spawn").Pool(given.jobs, maxtasksperchild=1) as pool:
            pool.map(run, [job for job in jobs if job.way in stage], chunksize=1)
    start = before(jobs[0])
    found = [json.loads((job.folder / FINISHED).read_text()) for job in jobs]
    rows = [Row.of(way, [run for run in found if run["way"] == way], start) for way in given.ways]
    print(table(rows, start))
    if given.out is not None:
        draw(rows, given.out.with_suffix(".png"))
        facts = {"command": command_line(), "machine": machine(), "on": describe(), "before": start, "runs": found}
        given.out.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
