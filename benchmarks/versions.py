"""Speed of this checkout relative to another: both train and translate, interleaved, in one run.

    git worktree add ../before COMMIT
    python benchmarks/versions.py ../before --model runs/my [--rounds 20] [--out results.json]

Both checkouts train the same model on the same text through `dragoman.train`, and translate the same sentences with
`--model`, in a process of its own that waits for its turn. A turn is some steps, or all sentences. Starting is measured
too: `--help`, and `translate` of one sentence, in a new process every turn (`start_up.py` times the start of training).
Public functions and commands are used, so any two versions compare. A ratio above 1 means that this checkout is faster.
The interval is of the median over the rounds; then follows the least time of all rounds, before and now.

`lines` is what text costs around the model: processor time per line, for plain sentences of the texts, and for the same
with a name and a number, a tag, typographic quotes or capitals. `read` is `Translator.read`, `requests` builds the
requests of the search, and `write` assembles translations and flags from the results of one search, without links.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from command_line import MedianInterval, interleaved, new_parser, write_figures

MULTI30K = "../shared/data/multi30k"
HERE = Path(__file__).parents[1]
WARM_UP = 2
"""Rounds that are not counted."""
SEARCHES = {"greedy": 1, "beam 4": 4}
STARTS = ("start --help", "start translate")
LINES = "lines"
PLAIN = re.compile(r"[A-Z]?[a-z]+(,? [a-z]+)+[.?!]")
KINDS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "name, number": lambda line: re.sub(r" ", " Maria 25 ", line, count=1),
    "tag": lambda line: re.sub(r" (\w+)", r" <b>\1</b>", line, count=1),
    "quotes": "“{}”".format,
    "capitals": str.upper,
}
"""Lines made from plain ones."""


class Version:
    """A process that runs one checkout, seen from this process."""

    def __init__(self, checkout: Path, work: str, options: argparse.Namespace) -> None:
        from peers.processes import patient_threads

        settings = {name: value if name == "data" else str(value) for name, value in vars(options).items()}
        command = [sys.executable, __file__, str(checkout), "--serve", json.dumps({**settings, "work": work})]
        with patient_threads():
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": str(checkout / "src")},
            )
        self._receive()  # "ready"

    def turn(self) -> Any:
        """Return the seconds of one turn, or those of each stage by its name."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return json.loads(self._receive())

    def leave(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()

    def _receive(self) -> str:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            raise SystemExit("error: one of the two processes ended; its output is above")
        return line


def serve(settings: dict[str, Any]) -> None:
    """Print "ready", then the seconds of each turn, until this process is killed."""
    import torch

    torch.set_num_threads(int(settings["threads"]))
    if settings["work"] == "train":
        serve_training(settings)
    elif settings["work"] == LINES:
        serve_lines(settings)
    else:
        serve_translating(settings, SEARCHES[settings["work"]])


def serve_training(settings: dict[str, Any]) -> None:
    """Train, and wait after the steps of every turn."""
    import dragoman

    if hasattr(dragoman, "keep_freed_memory"):  # earlier versions did it themselves
        dragoman.keep_freed_memory()
    with tempfile.TemporaryDirectory() as runs:
        overrides = [f"model.size={settings['size']}", "train.steps=1000000", "train.validate_every=1000000"]
        dragoman.train(
            settings["data"],
            overrides=overrides,
            runs=runs,
            name="speed",
            threads=int(settings["threads"]),
            progress=Turns(int(settings["steps"])),
        )


class Turns:
    """A progress that makes training wait after the last step of every turn."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    @contextmanager
    def track(self, label: str, total: int | None = None, unit: str = "") -> Iterator[Any]:
        """Yield a function that counts steps."""
        done, started = 0, 0.0

        def advance(count: int = 1, **_facts: str) -> None:
            nonlocal done, started
            if label != "train" or not count:
                return
            done += count
            if done % self.steps == 0:
                answer("ready" if not started else f"{time.perf_counter() - started}")
                started = time.perf_counter()

        yield advance


def serve_translating(settings: dict[str, Any], beam_size: int) -> None:
    """Translate all sentences every turn."""
    import dragoman

    translator = dragoman.Translator.load(settings["model"])
    options = translator.options.but(beam_size=beam_size)
    with open(settings["texts"], encoding="utf-8") as file:
        texts = [line.rstrip("\n") for line in islice(file, int(settings["sentences"]))]
    answer("ready")
    while True:
        started = time.perf_counter()
        translator.translate(texts, options)
        answer(f"{time.perf_counter() - started}")


def serve_lines(settings: dict[str, Any]) -> None:
    """Read and write lines of all kinds every turn; search only in the first one."""
    import dragoman
    from dragoman.inference.translation import ChosenHypotheses

    translator = dragoman.Translator.load(settings["model"], threads=int(settings["threads"]))
    options = translator.options.but(beam_size=1)
    with open(settings["texts"], encoding="utf-8") as file:
        plain = list(islice(filter(PLAIN.fullmatch, map(str.strip, file)), int(settings["sentences"])))
    hypotheses: dict[str, dict[int, Any]] = {}
    seconds: dict[str, float] = {}
    while True:
        answer(json.dumps(seconds) if hypotheses else "ready")
        for kind, change in KINDS.items():
            texts = list(map(change, plain))
            clock = [time.process_time()]
            lines = translator.read(texts, options)
            clock.append(time.process_time())
            requests = translator.requests.of(lines, options)
            clock.append(time.process_time())
            if kind not in hypotheses:
                with translator.search.computing(options):
                    hypotheses[kind] = dict(translator.search.run(requests, options))
            clock.append(time.process_time())
            for number, line in enumerate(lines):
                chosen = ChosenHypotheses(line, translator.writer.choose(hypotheses[kind][number], options))
                translator.writer.needs_links(chosen, options)
                translator.writer.translation(*chosen, options)
            clock.append(time.process_time())
            for stage, first in (("read", 0), ("requests", 1), ("write", 3)):
                seconds[f"{kind}: {stage}"] = (clock[first + 1] - clock[first]) / len(plain)


def answer(line: str) -> None:
    """Print a line and wait for the next turn."""
    print(line, flush=True)
    if not sys.stdin.readline():
        raise SystemExit


class Start:
    """The start of a command of one checkout, a new process every turn."""

    def __init__(self, checkout: Path, work: str, options: argparse.Namespace) -> None:
        words = ["--help"] if work == "start --help" else ["translate", str(options.model), "A man sleeps.", "--quiet"]
        self.command = [sys.executable, "-m", "dragoman", *words]
        self.environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}

    def turn(self) -> float:
        """Return the seconds until the command has ended."""
        started = time.perf_counter()
        subprocess.run(self.command, stdout=subprocess.DEVNULL, env=self.environment, check=True)
        return time.perf_counter() - started

    def leave(self) -> None:
        """Do nothing: no process is waiting."""


def compare(work: str, other: Path, options: argparse.Namespace) -> Iterator[tuple[str, MedianInterval, str]]:
    """Yield the name of each measure, the seconds of the other checkout over the seconds of this one, and both."""
    kind = Start if work in STARTS else Version
    versions = [kind(HERE, work, options), kind(other, work, options)]
    turns: list[list[Any]] = [[], []]
    for _, number in interleaved([0, 1], WARM_UP + options.rounds):
        turns[number].append(versions[number].turn())
    for version in versions:
        version.leave()
    for name in turns[0][0] if work == LINES else [work]:
        ours, theirs = ([turn[name] if work == LINES else turn for turn in taken[WARM_UP:]] for taken in turns)
        ratio = MedianInterval.from_ratios([their / our for our, their in zip(ours, theirs, strict=True)])
        yield name, ratio, f"{min(theirs) * 1e6:,.1f} to {min(ours) * 1e6:,.1f} µs"


def main(arguments: Sequence[str]) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("other", type=Path, help="the folder of the other checkout")
    parser.add_argument("--model", type=Path, help="a model folder to translate with; without it training alone")
    parser.add_argument("--texts", default=f"{MULTI30K}/test_2016_flickr.en", help="sentences to translate")
    parser.add_argument("--sentences", type=int, default=300)
    parser.add_argument("--data", nargs="+", default=[f"{MULTI30K}/train.en", f"{MULTI30K}/train.de"])
    parser.add_argument("--size", default="mini", choices=["tiny", "mini", "small", "base", "big"])
    parser.add_argument("--steps", type=int, default=20, help="steps of training in a turn")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--works", nargs="+", choices=["train", *SEARCHES, LINES, *STARTS], help="by default all")
    parser.add_argument("--serve", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        return serve(options.serve)
    from dragoman.system import describe

    results: dict[str, MedianInterval] = {}
    for work in options.works or (["train", *SEARCHES, LINES, *STARTS] if options.model else ["train", STARTS[0]]):
        for name, results[name], both in compare(work, options.other, options):
            print(f"{name:<24}{results[name]}, {both}", flush=True)
    print(f"\n{describe()}; {options.threads} threads, {options.rounds} rounds")
    ratios = {work: result._asdict() for work, result in results.items()}
    return write_figures(options.out, rounds=options.rounds, results=ratios)


if __name__ == "__main__":
    main(sys.argv[1:])
