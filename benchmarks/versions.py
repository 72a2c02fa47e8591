"""Is this checkout as fast as another one? Both train and translate, in turns, in one run.

    git worktree add ../before COMMIT
    python benchmarks/versions.py ../before --model runs/my [--rounds 20] [--out results.json]

Each checkout trains the same model on the same text through `dragoman.train`, and translates the same sentences with
`--model`, in a process of its own that waits for its turn. A turn is some steps, or all sentences. Starting is measured
too: `--help`, `translate` of one sentence, and `train` until the first step is done, each in a new process every turn.
Only public functions and commands are used, so any two versions compare. A ratio above 1 means that this checkout is
faster. The interval is of the median over the rounds.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from command_line import command_line, figures_file

MULTI30K = "../shared/data/multi30k"
HERE = Path(__file__).parents[1]
WARM_UP = 2
"""Rounds that are not counted."""
SEARCHES = {"greedy": 1, "beam 4": 4}


class Version:
    """A process that runs one checkout, seen from this one."""

    def __init__(self, checkout: Path, work: str, options: argparse.Namespace) -> None:
        from peers.worker import patient_threads

        facts = {"work": work, **{name: str(value) for name, value in vars(options).items() if name != "data"}}
        command = [sys.executable, __file__, str(checkout), "--serve", json.dumps({**facts, "data": options.data})]
        with patient_threads():
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": str(checkout / "src")},
            )
        self._hear()  # "ready"

    def turn(self) -> float:
        """Seconds of one turn."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return float(self._hear())

    def leave(self) -> None:
        self._process.kill()
        self._process.wait()

    def _hear(self) -> str:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            raise SystemExit("error: one of the two processes ended; what it said stands above")
        return line


def serve(work: str, facts: dict[str, Any]) -> None:
    """What that process does: prints "ready", then the seconds of each turn, until it is killed."""
    import torch

    torch.set_num_threads(int(facts["threads"]))
    if work == "train":
        serve_training(facts)
    else:
        serve_translating(facts, SEARCHES[work])


def serve_training(facts: dict[str, Any]) -> None:
    import dragoman

    if hasattr(dragoman, "keep_freed_memory"):  # earlier versions did it themselves
        dragoman.keep_freed_memory()
    with tempfile.TemporaryDirectory() as runs:
        overrides = [f"model.size={facts['size']}", "train.steps=1000000", "train.validate_every=1000000"]
        dragoman.train(
            facts["data"],
            overrides=overrides,
            runs=runs,
            name="speed",
            threads=int(facts["threads"]),
            progress=Turns(int(facts["steps"])),
        )


class Turns:
    """A progress that makes training wait after the last step of every turn."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    @contextmanager
    def track(self, label: str, total: int | None = None, unit: str = "") -> Iterator[Any]:
        done, started = 0, 0.0

        def advance(count: int = 1, **_facts: str) -> None:
            nonlocal done, started
            if label != "train" or not count:
                return
            done += count
            if done % self.steps == 0:
                say("ready" if not started else f"{time.perf_counter() - started}")
                wait()
                started = time.perf_counter()

        yield advance


def serve_translating(facts: dict[str, Any], beam_size: int) -> None:
    import dragoman

    translator = dragoman.Translator.load(facts["model"])
    options = translator.options.but(beam_size=beam_size)
    with open(facts["texts"], encoding="utf-8") as file:
        texts = [line.rstrip("\n") for line in islice(file, int(facts["sentences"]))]
    say("ready")
    while True:
        wait()
        started = time.perf_counter()
        translator.translate(texts, options)
        say(f"{time.perf_counter() - started}")


def say(line: str) -> None:
    print(line, flush=True)


def wait() -> None:
    if not sys.stdin.readline():
        raise SystemExit


class Start:
    """The start of a command of one checkout, a new process every turn."""

    def __init__(self, checkout: Path, work: str, options: argparse.Namespace) -> None:
        self.work, self.options = work, options
        self.environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
        self.folder = tempfile.TemporaryDirectory()
        self.turns = 0
        if work == "start train":
            text = Path(self.folder.name, "pairs.tsv")
            sides = [Path(side).read_text(encoding="utf-8").splitlines()[:1_000] for side in options.data]
            pairs = (f"{source}\t{target}\n" for source, target in zip(*sides, strict=True))
            text.write_text("".join(pairs), encoding="utf-8")
            self._run("prepare-data", str(text), "--folder", f"{self.folder.name}/data", "--quiet").wait()

    def turn(self) -> float:
        """Seconds until the command has ended; of training, until its first step is done."""
        self.turns += 1
        started = time.perf_counter()
        if self.work == "start --help":
            self._run("--help").wait()
        elif self.work == "start translate":
            self._run("translate", str(self.options.model), "A man sleeps.", "--quiet").wait()
        else:
            run = Path(self.folder.name, f"turn-{self.turns}")
            settings = ["train.steps=1000000", "train.precision=float32", f"model.size={self.options.size}"]
            sets = [part for setting in settings for part in ("--set", setting)]
            named = ["--runs", self.folder.name, "--name", run.name, "--quiet"]
            process = self._run("train", f"{self.folder.name}/data", *named, *sets)
            metrics = run / "metrics.jsonl"
            while process.poll() is None and not (metrics.is_file() and metrics.stat().st_size):
                time.sleep(0.005)
            seconds = time.perf_counter() - started
            process.kill()
            process.wait()
            return seconds
        return time.perf_counter() - started

    def leave(self) -> None:
        self.folder.cleanup()

    def _run(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dragoman", *arguments]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, env=self.environment)


def compare(work: str, other: Path, options: argparse.Namespace) -> list[float]:
    """Seconds of the other checkout over seconds of this one, round by round."""
    kind = Start if work.startswith("start") else Version
    versions = {"other": kind(other, work, options), "this": kind(HERE, work, options)}
    ratios = []
    for number in range(WARM_UP + options.rounds):
        seconds = {name: versions[name].turn() for name in list(versions)[:: -1 if number % 2 else 1]}
        ratios.append(seconds["other"] / seconds["this"])
    for version in versions.values():
        version.leave()
    return ratios[WARM_UP:]


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("other", type=Path, help="the folder of the other checkout")
    parser.add_argument("--model", type=Path, help="a model folder to translate with; without it training alone")
    parser.add_argument("--texts", default=f"{MULTI30K}/test_2016_flickr.en", help="what is translated")
    parser.add_argument("--sentences", type=int, default=300)
    parser.add_argument("--data", nargs="+", default=[f"{MULTI30K}/train.en", f"{MULTI30K}/train.de"])
    parser.add_argument("--size", default="mini", choices=["tiny", "mini", "small", "base", "big"])
    parser.add_argument("--steps", type=int, default=20, help="steps of training in a turn")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--works", nargs="+", help="of train, greedy, 'beam 4', 'start train' …; without it, all")
    parser.add_argument("--out", type=figures_file, help="write the figures as JSON")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        facts = json.loads(options.serve)
        return serve(facts["work"], facts)
    from ideas import interval

    from dragoman.system import describe, machine

    results = {}
    starts = ("start --help", "start train", *(("start translate",) if options.model else ()))
    for work in options.works or ("train", *(SEARCHES if options.model else ()), *starts):
        ratios = compare(work, options.other, options)
        low, high = interval(ratios)
        results[work] = {"ratio": statistics.median(ratios), "interval": [low, high]}
        print(f"{work:<16}{statistics.median(ratios):>7.3f}  ({low:.3f} - {high:.3f})", flush=True)
    print(f"\n{describe()}; {options.threads} threads, {options.rounds} rounds")
    if options.out:
        facts = {"machine": machine(), "command": command_line(), "rounds": options.rounds, "results": results}
        options.out.write_text(json.dumps(facts, indent=2) + "\n")
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
