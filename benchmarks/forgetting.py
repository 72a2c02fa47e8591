"""Gain on new text and loss on old text of each way of fine-tuning.

    python benchmarks/forgetting.py BASE NEW … [--ways full lora-16 …] [--seeds 1 2 3] [--epochs 6] [--jobs 2]
        [--threads 1] [--old-lines 1500] [--beam 4] [--runs FOLDER] [--set KEY=VALUE] [--out results.json]

BASE is a run folder of `dragoman train`, with its data; NEW is parallel text of another domain, of which 300 pairs are
held out as the test set and 300 as the dev set. Each way trains from BASE's best model, each seed (data order, dropout,
adapters) in a process of its own, and its best model by dev chrF is scored on the new test set and on evenly spaced
lines of BASE's. `averaged` trains nothing: it averages BASE and the run of another way, with the tenth as share that
has the largest sum of chrF (greedy) on both dev sets. Finished runs are not run again, so the command may be stopped at
any time.

It prints the table as Markdown, and draws gain (to the right) against loss (upwards) next to the JSON file. Minutes are
of training and validation; memory is the peak of the process.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from command_line import markdown, mean_and_deviation, new_parser, write_figures

from dragoman.config import check
from dragoman.evaluating.metrics import bleu_and_chrf
from dragoman.files import remove
from dragoman.inference.translator import Translator
from dragoman.memory import keep_freed_memory, peak_memory_bytes
from dragoman.run_folder import RunFolder
from dragoman.runs.metrics_log import read_metrics
from dragoman.runs.recipe import Recipe
from dragoman.runs.train import train
from dragoman.serialization import write_json
from dragoman.store.folder import load_model
from dragoman.store.merging import average
from dragoman.text.prepared import evenly_spaced, read_split
from dragoman.training.freezing import count_trained, tune
from dragoman.training.settings import TuningSettings

HELD_OUT = 300
"""Pairs of the new text in its test set, and as many in its dev set."""
WAYS: dict[str, dict[str, Any]] = {
    "full": {},
    "high-rate": {"train": {"learning_rate": 1.2e-3}},
    "frozen-encoder": {"tuning": {"freeze": ["encoder", "embeddings"]}},
    "lora-4": {"tuning": {"lora": {"rank": 4}}},
    "lora-16": {"tuning": {"lora": {"rank": 16}}},
    "lora-64": {"tuning": {"lora": {"rank": 64}}},
    "rehearsal": {"start": {"mix_rate": 0.5}},
}
"""The settings in which each way differs from full fine-tuning."""
AVERAGED = {"averaged": "full", "lora-64-averaged": "lora-64"}
"""The way whose runs each of these averages with the model before."""
LABELS = {
    "full": "full",
    "high-rate": "full, twice the rate",
    "frozen-encoder": "encoder frozen",
    "lora-4": "LoRA, rank 4",
    "lora-16": "LoRA, rank 16",
    "lora-64": "LoRA, rank 64",
    "rehearsal": "full, half of the text old",
    "averaged": "full, averaged",
    "lora-64-averaged": "LoRA, rank 64, averaged",
}
"""The names of the ways in the picture."""
LEFTWARD = frozenset(["lora-16", "high-rate", "rehearsal"])
"""Ways whose name is to the left of the point, where it covers no other."""
SHARES = tuple(tenth / 10 for tenth in range(11))
"""The shares of which the best is taken for an average."""
FINISHED = "forgetting.json"
"""The file that a finished run leaves in its folder."""


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
        """Return the recipe of the run."""
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


def run(job: Job) -> None:
    """Train and score one run, in a process of its own, unless it is finished."""
    if (job.folder / FINISHED).is_file():
        return
    torch.set_num_threads(job.threads)
    keep_freed_memory()
    model, facts = average_run(job) if job.way in AVERAGED else train_run(job)
    memory = peak_memory_bytes()
    scores = score_both(job, model)
    figures = {"way": job.way, "seed": job.seed, **scores, "peak_memory_bytes": memory, **facts}
    write_json(job.folder / FINISHED, figures)


def train_run(job: Job) -> tuple[Path, dict[str, Any]]:
    """Train, and return the best model with the facts of its training."""
    train(job.recipe, overrides=job.settings, name=job.folder.name, runs=job.runs, threads=job.threads, device="cpu")
    model = load_model(job.base).model
    tune(model, job.recipe.tuning or TuningSettings())
    lines = read_metrics(RunFolder(job.folder))
    seconds = sum(line.get("seconds") or 0.0 for line in lines)
    return job.folder / "best", {"trained": count_trained(model).trained, "minutes": seconds / 60}


def average_run(job: Job) -> tuple[Path, dict[str, Any]]:
    """Average with the best share, and return the model with its share."""
    started = time.monotonic()
    after, model = job.runs / f"{AVERAGED[job.way]}-seed{job.seed}", job.folder / "model"
    devs = [dev_pairs(after), dev_pairs(job.base)]
    sums: dict[float, float] = {}
    for share in SHARES:
        with tempfile.TemporaryDirectory() as folder:
            translator = Translator.load(average(job.base, after, Path(folder) / "model", share), "cpu")
            sums[share] = sum(chrf(translator, pairs, beam=1) for pairs in devs)
    best = max(SHARES, key=lambda share: (sums[share], -share))
    remove(model)
    average(job.base, after, model, best)
    return model, {"trained": 0, "minutes": (time.monotonic() - started) / 60, "share": best}


def dev_pairs(run: Path) -> list[tuple[str, str]]:
    """Return dev pairs of a run, evenly spaced."""
    pairs = list(read_split(run / "data", "dev"))
    return list(evenly_spaced(iter(pairs), len(pairs), min(HELD_OUT, len(pairs))))


def score_both(job: Job, model: Path) -> dict[str, float]:
    """Return the chrF of a model on the new test set, which all runs share, and on lines of the old one."""
    first_run = min(job.runs.glob("*/data/test.jsonl")).parent
    new, old = list(read_split(first_run, "test")), list(read_split(job.base / "data", "test"))
    translator = Translator.load(model, "cpu")
    old_pairs = list(evenly_spaced(iter(old), len(old), job.old_lines))
    return {"new": chrf(translator, new, job.beam), "old": chrf(translator, old_pairs, job.beam)}


def chrf(translator: Translator, pairs: Sequence[tuple[str, str]], beam: int) -> float:
    """Return the chrF of these sources' translations."""
    options = translator.options.but(beam_size=beam)
    texts = [line.text for line in translator.translate([source for source, _ in pairs], options)]
    return bleu_and_chrf(texts, [[target] for _, target in pairs], translator.languages.target)["chrf"]


def score_before(job: Job) -> dict[str, float]:
    """Return the scores of the model before, measured once."""
    kept = job.runs / "before.json"
    if not kept.is_file():
        torch.set_num_threads(job.threads)
        write_json(kept, score_both(job, job.base))
    return json.loads(kept.read_text())


@dataclass(frozen=True)
class Row:
    """One way over its seeds."""

    way: str
    runs: list[dict[str, Any]]
    gains: list[float]
    losses: list[float]

    def cells(self) -> list[str]:
        """Return a row of the table."""
        new, old = ([run[side] for run in self.runs] for side in ("new", "old"))
        memory, trained, minutes = (
            statistics.fmean(run[key] for run in self.runs) for key in ("peak_memory_bytes", "trained", "minutes")
        )
        return [
            self.way,
            mean_and_deviation(new),
            f"{statistics.fmean(self.gains):+.1f}",
            mean_and_deviation(old),
            f"{statistics.fmean(self.losses):.1f}",
            f"{trained:,.0f}",
            f"{memory / 2**20:,.0f}",
            f"{minutes:.1f}",
        ]


COLUMNS = ["way", "new chrF", "gain", "old chrF", "loss", "weights trained", "MiB", "minutes"]


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw each way as a cross of its standard deviations, and each run as a point."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 5), layout="constrained")
    for row in rows:
        spreads = [statistics.stdev(values) if len(values) > 1 else 0 for values in (row.gains, row.losses)]
        middle = statistics.fmean(row.gains), statistics.fmean(row.losses)
        cross = axes.errorbar(*middle, xerr=spreads[0], yerr=spreads[1], fmt="o", capsize=3)
        axes.scatter(row.gains, row.losses, s=8, alpha=0.5, color=cross.lines[0].get_color())
        side, align = (-1, "right") if row.way in LEFTWARD else (1, "left")
        axes.annotate(LABELS[row.way], middle, textcoords="offset points", xytext=(6 * side, 4), ha=align)
    axes.axhline(0, color="grey", linewidth=0.5)
    axes.margins(x=0.15, y=0.08)  # space for the names
    axes.set(xlabel="gain on new text (chrF), more is better", ylabel="loss on old text (chrF), less is better")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("base", type=Path, help="a run folder")
    parser.add_argument("new", nargs="+", help="parallel text: a file, or two aligned files")
    parser.add_argument("--ways", nargs="+", choices=[*WAYS, *AVERAGED], default=[*WAYS, *AVERAGED])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--epochs", type=float, default=6.0)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--threads", type=int, default=1, help="of each run")
    parser.add_argument("--old-lines", type=int, default=1_500)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--runs", type=Path, default=Path("runs/forgetting"))
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    options.runs.mkdir(parents=True, exist_ok=True)
    sizes = (options.epochs, options.threads, options.old_lines, options.beam, tuple(options.settings))
    jobs = [
        Job(way, seed, options.base, tuple(options.new), options.runs, *sizes)
        for seed in options.seeds
        for way in options.ways
    ]
    for stage in (WAYS, AVERAGED):  # an average needs the run of its way
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
            list(pool.map(run, [job for job in jobs if job.way in stage]))
    before = score_before(jobs[0])
    results = [json.loads((job.folder / FINISHED).read_text()) for job in jobs]
    rows = []
    for way in options.ways:
        runs = [result for result in results if result["way"] == way]
        gains, losses = [run["new"] - before["new"] for run in runs], [before["old"] - run["old"] for run in runs]
        rows.append(Row(way, runs, gains, losses))
    start = ["before", f"{before['new']:.1f}", "", f"{before['old']:.1f}", *[""] * 4]
    print(markdown(COLUMNS, [start, *(row.cells() for row in rows)]))
    write_figures(options.out, before=before, runs=results)
    if options.out:
        draw(rows, options.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
