"""What is a start worth to a classifier or tagger, with a tenth of the labels and with all of them?

    python benchmarks/starts.py --fill RUN --translation RUN [--data ../shared/data] [--minutes 1.5 | --steps 500]
        [--close all | CELL …] [--threads 1 --jobs 2] [--out results.json]

A cell is a set, a share of its training text, and a start: none, a model that fills in words, or the encoder of a
translation model. The tenth is drawn once, and dev and test sets are the same in all cells of a set. Every cell is
trained from one seed first. Those whose gain over no start is within two points, or which `--close` names, are trained
from the other seeds too, and so are theirs without a start. A start is a gain only where the 95 % interval of its seeds
(Student's) lies above that of no start. Without a start, size and tokenizer are the command's own choice; a start
brings its own. Baselines learn from the same share. What is finished is not done again.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any, NamedTuple

from command_line import command_line, figures_file, markdown
from labelled import SETS, Example, at_a_time, baseline_scores, model_score, read, seed_interval, spread, train

from dragoman.files import new_folder
from dragoman.run_folder import RunFolder, split_of
from dragoman.serialization import write_json
from dragoman.system import describe, machine
from dragoman.text.prepare import prepare_labelled
from dragoman.text.settings import DataSettings

CHOSEN = ["trec-coarse", "sst2", "ud", "wnut17"]
NONE, PERCENTS, CLOSE = "none", (10, 100), 2.0
COLUMNS_OF_TEXTS = ("data.text_column=text", "data.label_column=label")


class Cell(NamedTuple):
    """What is trained, from several seeds."""

    set: str
    percent: int
    """Of the training text."""
    start: str

    @property
    def name(self) -> str:
        """As `--close` names it."""
        return f"{self.set}-{self.percent}-{self.start}"

    @property
    def without(self) -> "Cell":
        """The same without a start."""
        return self._replace(start=NONE)

    def run(self, runs: Path, seed: int) -> RunFolder:
        """The run from one seed."""
        return RunFolder(runs / f"{self.name}-{seed}")

    def scores(self, runs: Path, seeds: int) -> list[float]:
        """Of the seeds that are finished."""
        finished = [run for seed in range(1, seeds + 1) if (run := self.run(runs, seed)).scores.is_file()]
        return [model_score(run, SETS[self.set].metric) for run in finished]


def part(examples: Sequence[Example], percent: int, seed: int = 1) -> list[Example]:
    """This share of the examples, drawn at random, in their order."""
    count = round(len(examples) * percent / 100)
    return [examples[place] for place in sorted(Random(seed).sample(range(len(examples)), count))]


def write_text(name: str, percent: int, data: Path, runs: Path) -> Path:
    """The folder with this share of a set's training text, and all of dev and test."""
    folder, labelled = runs / "text" / f"{name}-{percent}", SETS[name]
    if folder.is_dir():
        return folder
    asked = dict(setting.removeprefix("data.").split("=") for setting in labelled.settings)
    settings = DataSettings.model_validate(
        {"path": str(data / labelled.folder), **{key: int(value) for key, value in asked.items()}}
    )
    prepare_labelled(settings, labelled.task, runs / "text" / name)
    with new_folder(folder) as aside:
        for split in ("train", "dev", "test"):
            examples = read(runs / "text" / name, labelled.task, split)
            chosen = part(examples, percent) if split == "train" else examples
            lines = (json.dumps(as_record(example, labelled.task), ensure_ascii=False) for example in chosen)
            split_of(aside, split).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


def as_record(example: Example, task: str) -> dict[str, Any]:
    """An example as `dragoman train` reads it from JSON lines."""
    words, labels = example
    return {"words": words, "labels": labels} if task == "tag" else {"text": words[0], "label": labels[0]}


def train_cell(cell: Cell, seed: int, start: str | None, runs: Path, limit: Sequence[str], threads: int) -> str:
    """Trains and scores one cell from one seed."""
    labelled, run = SETS[cell.set], cell.run(runs, seed)
    columns = COLUMNS_OF_TEXTS if labelled.task == "classify" else ()
    begun = [f"start.model={start}"] if start else []
    text = runs / "text" / f"{cell.set}-{cell.percent}"
    train(run, text, labelled.task, [*columns, *begun, f"train.seed={seed}"], limit, threads)
    return f"{run.path.name}: {model_score(run, labelled.metric):.1f}"


def close_cells(cells: Sequence[Cell], asked: Sequence[str], runs: Path) -> list[Cell]:
    """The cells that take more seeds: those asked for, or those near to no start, each with its cell without."""
    with_start = [cell for cell in cells if cell.start != NONE]
    if asked:
        close = [cell for cell in with_start if asked == ["all"] or cell.name in asked]
    else:
        gains = {cell: cell.scores(runs, 1)[0] - cell.without.scores(runs, 1)[0] for cell in with_start}
        close = [cell for cell, gain in gains.items() if abs(gain) <= CLOSE]
    return list(dict.fromkeys(each for cell in close for each in (cell.without, cell)))


def verdict(scores: Sequence[float], without: Sequence[float]) -> str:
    """Whether a start is a gain.

    >>> verdict([85.0, 85.2, 85.1], [80.0, 80.3, 80.1]), verdict([85.0], [80.0])
    ('gain', 'screened')
    """
    if min(len(scores), len(without)) < 2:
        return "screened"
    (low, high), (low_without, high_without) = seed_interval(scores), seed_interval(without)
    if low > high_without:
        return "gain"
    return "loss" if high < low_without else "not shown"


def figures(cell: Cell, runs: Path, seeds: int) -> dict[str, Any]:
    """What a cell reached."""
    scores, without = cell.scores(runs, seeds), cell.without.scores(runs, seeds)
    found: dict[str, Any] = {**cell._asdict(), "metric": SETS[cell.set].metric, "scores": scores}
    found["interval"] = seed_interval(scores) if len(scores) > 1 else None
    if cell.start == NONE:
        return {**found, "baselines": baseline_scores(cell.run(runs, 1), SETS[cell.set].metric)}
    return {**found, "gain": mean(scores) - mean(without), "verdict": verdict(scores, without)}


def rows(results: Sequence[dict[str, Any]], starts: Sequence[str]) -> list[list[str]]:
    """A row for each set and share, with a column for each start."""
    by_cell = {(found["set"], found["percent"], found["start"]): found for found in results}
    made = []
    for name, percent in dict.fromkeys((found["set"], found["percent"]) for found in results):
        of_starts = [by_cell[name, percent, start] for start in starts]
        baselines = by_cell[name, percent, NONE]["baselines"]
        told = ", ".join(f"{system} {score:.1f}" for system, score in baselines.items())
        made.append([SETS[name].title, f"{percent} %", *map(tell, of_starts), told])
    return made


def tell(found: dict[str, Any]) -> str:
    gain = f"; {found['gain']:+.1f}, {found['verdict']}" if "verdict" in found else ""
    return spread(found["scores"]) + gain


def main() -> None:
    options = parse()
    runs, data = options.runs.absolute(), options.data.absolute()
    given = {"fill": options.fill, "translation": options.translation}
    starts = {NONE: None, **{name: str(run.absolute()) for name, run in given.items() if run is not None}}
    limit = ["--set", f"train.steps={options.steps}"] if options.steps else ["--minutes", str(options.minutes)]
    refuse_other_settings(runs, {"limit": limit, **{name: run for name, run in starts.items() if run}})
    cells = [Cell(name, percent, start) for name in options.only for percent in PERCENTS for start in starts]
    for name, percent in dict.fromkeys(cell[:2] for cell in cells):
        write_text(name, percent, data, runs)

    def train_all(chosen: Sequence[Cell], seeds: Sequence[int]) -> None:
        missing = [(cell, seed) for seed in seeds for cell in chosen if not cell.run(runs, seed).scores.is_file()]
        calls = [(cell, seed, starts[cell.start], runs, limit, options.threads) for cell, seed in missing]
        at_a_time(options.jobs, train_cell, calls)

    train_all(cells, [1])
    train_all(close_cells(cells, options.close, runs), range(2, options.seeds + 1))
    results = [figures(cell, runs, options.seeds) for cell in cells]
    print(markdown(["set", "labels", *starts, "baselines"], rows(results, list(starts))))
    print(f"\n{describe()}; {options.jobs} at a time with {options.threads} threads each")
    if options.out:
        write_json(options.out, {"machine": machine(), "command": command_line(), "results": results})


def refuse_other_settings(runs: Path, asked: dict[str, Any]) -> None:
    """Remembers what was asked for in this folder.

    Raises:
        SystemExit: it holds runs that were asked for otherwise.
    """
    runs.mkdir(parents=True, exist_ok=True)
    path = runs / "asked.json"
    if not path.is_file():
        write_json(path, asked)
    before = json.loads(path.read_text(encoding="utf-8"))
    for name in before.keys() & asked.keys():
        if before[name] != asked[name]:
            raise SystemExit(
                f"error: {runs} holds runs with {name} {before[name]}, not {asked[name]}; name another folder, --runs"
            )
    write_json(path, {**before, **asked})


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fill", type=Path, metavar="RUN", help="a run or model that fills in words")
    parser.add_argument("--translation", type=Path, metavar="RUN", help="a run or model that translates")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder that holds the sets")
    parser.add_argument("--runs", type=Path, default=Path("runs/starts"), help="where texts and runs go")
    parser.add_argument("--only", nargs="+", default=CHOSEN, choices=list(SETS), metavar="SET")
    parser.add_argument("--minutes", type=float, default=1.5, help="minutes of training a run")
    parser.add_argument("--steps", type=int, help="steps of a run, instead of minutes")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of a close cell")
    parser.add_argument(
        "--close", nargs="+", default=[], metavar="CELL",
        help="cells that take all seeds, as in sst2-10-fill, or all; left out, those near to no start",
    )  # fmt: skip
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--out", type=figures_file, help="write the figures as JSON")
    options = parser.parse_args()
    if options.fill is None and options.translation is None:
        parser.error("name a run to start from: --fill RUN, --translation RUN")
    folders = [
        *filter(None, (options.fill, options.translation)),
        *(options.data / SETS[x].folder for x in options.only),
    ]
    if missing := [folder for folder in folders if not folder.is_dir()]:
        parser.error(f"{missing[0]} does not exist")
    return options


if __name__ == "__main__":
    main()
